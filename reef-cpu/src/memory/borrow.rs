//! Who works on an allocation now: any number of readers, or one that writes.
//!
//! Kernels of networks load and store plainly, on several units at once, and safe code may queue the same launch
//! twice, or copy into its operands meanwhile. So a unit borrows what a block works on before the block begins and
//! returns it when the block has ended; a queue whose next block finds an operand taken waits, as for hardware that
//! is busy. The host's copies borrow in the same way. All of one writer's blocks share its borrow: they write
//! disjoint parts. What is borrowed is never waited for while something else is held, so nothing can deadlock.

use parking_lot::Mutex;
use std::thread;
use std::time::Duration;

/// What a block does with a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Names one launched command among all that live: the address of its work. The host's accesses have no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct User(pub(crate) usize);

/// Who has an allocation.
#[derive(Debug, Default)]
pub(crate) struct Borrows(Mutex<State>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// So many blocks and copies read it; none writes.
    Read(u32),
    /// Only `by` touches it, in `blocks` blocks at once; `None` is an access of the host.
    Written { by: Option<User>, blocks: u32 },
}

impl Default for State {
    fn default() -> Self {
        Self::Read(0)
    }
}

impl Borrows {
    /// Borrows it for one block of `user`, unless another's access forbids that. Doesn't wait.
    fn try_borrow(&self, user: Option<User>, access: Access) -> bool {
        let mut state = self.0.lock();
        let next = match (*state, access) {
            (State::Read(readers), Access::Read) => State::Read(readers + 1),
            (State::Read(0), Access::Write) => State::Written { by: user, blocks: 1 },
            (State::Written { by, blocks }, _) if by.is_some() && by == user => {
                State::Written { by, blocks: blocks + 1 }
            }
            _ => return false,
        };
        *state = next;
        true
    }

    /// Ends one borrow.
    fn give_back(&self) {
        let mut state = self.0.lock();
        *state = match *state {
            State::Written { by, blocks } if blocks > 1 => {
                State::Written { by, blocks: blocks - 1 }
            }
            State::Written { .. } => State::Read(0),
            State::Read(readers) => State::Read(readers - 1),
        };
    }
}

/// Borrows all of `uses` for one block of `user`, or none. Who both writes and reads a buffer names the writing
/// first.
pub(crate) fn try_borrow<'a>(
    user: User,
    uses: impl Iterator<Item = (&'a Borrows, Access)> + Clone,
) -> bool {
    let take = |(borrows, access): &(&Borrows, Access)| borrows.try_borrow(Some(user), *access);
    let taken = uses.clone().take_while(take).count();
    if taken == uses.clone().count() {
        return true;
    }
    give_back(uses.take(taken));
    false
}

/// Ends one block's borrow of all `uses`.
pub(crate) fn give_back<'a>(uses: impl Iterator<Item = (&'a Borrows, Access)>) {
    uses.for_each(|(borrows, _)| borrows.give_back());
}

/// What a host access has borrowed, until it is dropped.
#[derive(Debug)]
pub(crate) struct HostBorrow<'a>(&'a Borrows);

impl<'a> HostBorrow<'a> {
    /// Borrows it once no block that runs forbids that.
    pub(crate) fn wait(borrows: &'a Borrows, access: Access) -> Self {
        let mut tries = 0_u32;
        while !borrows.try_borrow(None, access) {
            tries += 1;
            match tries {
                ..64 => thread::yield_now(),
                _ => thread::sleep(Duration::from_micros(20)),
            }
        }
        Self(borrows)
    }
}

impl Drop for HostBorrow<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter;

    #[test]
    fn a_writer_shares_with_its_own_blocks_only() {
        let operand = Borrows::default();
        let [one, other] = [User(1), User(2)];
        let write = iter::once((&operand, Access::Write));
        assert!(try_borrow(one, write.clone()) && try_borrow(one, write.clone()));
        assert!(!try_borrow(other, write.clone()));
        assert!(!try_borrow(other, iter::once((&operand, Access::Read))));
        assert!(!operand.try_borrow(None, Access::Read), "the host waits as well");
        give_back(write.clone());
        assert!(!try_borrow(other, write.clone()), "a block still runs");
        give_back(write.clone());
        assert!(try_borrow(other, write));
    }

    #[test]
    fn readers_share_and_keep_writers_out() {
        let operand = Borrows::default();
        let [first, second] = [(); 2].map(|()| HostBorrow::wait(&operand, Access::Read));
        let write = iter::once((&operand, Access::Write));
        drop(first);
        assert!(!try_borrow(User(1), write.clone()));
        drop(second);
        assert!(try_borrow(User(1), write));
        assert!(!operand.try_borrow(None, Access::Write), "no name is no launch's name");
    }

    #[test]
    fn what_is_not_had_whole_is_not_had_at_all() {
        let [a, b] = [(); 2].map(|()| Borrows::default());
        let held = HostBorrow::wait(&b, Access::Write);
        let both = [(&a, Access::Write), (&b, Access::Read)];
        assert!(!try_borrow(User(1), both.into_iter()));
        drop(HostBorrow::wait(&a, Access::Write)); // would never return if `a` were still borrowed
        drop(held);
        assert!(try_borrow(User(1), both.into_iter()));
    }
}
