//! Borrows of an allocation: any number of readers, or one writer.
//!
//! Kernels of networks load and store plainly, on several units at once, and safe code may queue
//! the same launch twice, or copy into its operands meanwhile. So a unit borrows what a block works
//! on before the block begins and returns it when the block has ended; a queue whose next block
//! finds an operand taken waits, as for hardware that is busy. The host's copies borrow in the same
//! way. All of one writer's blocks share its borrow: they write disjoint parts. What is borrowed is
//! never waited for while something else is held, so nothing can deadlock.
//!
//! Blocks of several launches may overlap for ever, so a copy of the host that has waited for long
//! takes a ticket: from then on only the oldest ticket borrows, and the current borrowers are the
//! last before it.

use parking_lot::Mutex;
use std::thread;
use std::time::Duration;

/// Access of a block to a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Names one launched command among all that live: the address of its work. The host's accesses
/// have no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct User(pub(crate) usize);

/// Times that the host tries before it takes a ticket: blocks get their turns between two accesses
/// of the host.
const TRIES: u32 = 64;
/// Time between two polls of whether a ticket's turn has come.
const POLL_INTERVAL: Duration = Duration::from_micros(20);

/// Borrows of an allocation.
#[derive(Debug, Default)]
pub(crate) struct Borrows(Mutex<Door>);

/// Current borrowers, and tickets that wait.
#[derive(Debug, Default)]
struct Door {
    state: State,
    /// Tickets that were taken, and that have had their turn.
    tickets: u64,
    served: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// This number of blocks and copies read it; none writes.
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
    /// Borrows it for one block of `user`, unless another's access or a ticket forbids that.
    /// Doesn't wait.
    fn try_borrow(&self, user: Option<User>, access: Access) -> bool {
        let mut door = self.0.lock();
        door.tickets == door.served && door.state.borrow(user, access)
    }

    /// A ticket of the host, which is to be [used](Self::try_use).
    fn take_ticket(&self) -> u64 {
        let mut door = self.0.lock();
        door.tickets += 1;
        door.tickets - 1
    }

    /// Borrows it for the host if the ticket's turn has come. Doesn't wait.
    fn try_use(&self, ticket: u64, access: Access) -> bool {
        let mut door = self.0.lock();
        let is_used = door.served == ticket && door.state.borrow(None, access);
        door.served += u64::from(is_used);
        is_used
    }

    /// Ends one borrow.
    fn give_back(&self) {
        self.0.lock().state.give_back();
    }
}

impl State {
    fn borrow(&mut self, user: Option<User>, access: Access) -> bool {
        *self = match (*self, access) {
            (Self::Read(readers), Access::Read) => Self::Read(readers + 1),
            (Self::Read(0), Access::Write) => Self::Written { by: user, blocks: 1 },
            (Self::Written { by, blocks }, _) if by.is_some() && by == user => {
                Self::Written { by, blocks: blocks + 1 }
            }
            _ => return false,
        };
        true
    }

    fn give_back(&mut self) {
        *self = match *self {
            Self::Written { by, blocks } if blocks > 1 => Self::Written { by, blocks: blocks - 1 },
            Self::Written { .. } => Self::Read(0),
            Self::Read(readers) => Self::Read(readers - 1),
        };
    }
}

/// Borrows all of `uses` for one block of `user`, or none. If a block both writes and reads a
/// buffer, the write comes first.
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

/// Borrow of a host access, until it is dropped.
#[derive(Debug)]
pub(crate) struct HostBorrow<'a>(&'a Borrows);

impl<'a> HostBorrow<'a> {
    /// Borrows it once no block that runs forbids that.
    pub(crate) fn wait(borrows: &'a Borrows, access: Access) -> Self {
        let try_once = |_| {
            let is_borrowed = borrows.try_borrow(None, access);
            if !is_borrowed {
                thread::yield_now();
            }
            is_borrowed
        };
        if !(0..TRIES).any(try_once) {
            let ticket = borrows.take_ticket();
            while !borrows.try_use(ticket, access) {
                thread::sleep(POLL_INTERVAL);
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
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::sync::mpsc;

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
        assert!(
            !operand.try_borrow(None, Access::Write),
            "a missing name is not the name of a launch"
        );
    }

    /// Blocks and copies that read overlap, so that there is always one.
    #[test]
    fn writer_is_not_starved_by_readers() {
        let (operand, is_over) = (Borrows::default(), AtomicBool::new(false));
        let readers = AtomicU32::new(0);
        let waited = thread::scope(|scope| {
            for n in 0..8 {
                let (operand, is_over, readers) = (&operand, &is_over, &readers);
                scope.spawn(move || {
                    // sleep: readers begin one after the other
                    thread::sleep(Duration::from_micros(250 * n));
                    let mut is_new = true;
                    while !is_over.load(Ordering::Relaxed) {
                        let _read = HostBorrow::wait(operand, Access::Read);
                        readers.fetch_add(u32::from(is_new), Ordering::Relaxed);
                        is_new = false;
                        thread::sleep(Duration::from_millis(2)); // sleep: length of a read
                    }
                });
            }
            while readers.load(Ordering::Relaxed) < 8 {
                thread::yield_now();
            }
            let (done, is_done) = mpsc::channel();
            let operand = &operand;
            scope.spawn(move || {
                drop(HostBorrow::wait(operand, Access::Write));
                done.send(()).unwrap();
            });
            let waited = is_done.recv_timeout(Duration::from_secs(60));
            is_over.store(true, Ordering::Relaxed);
            waited
        });
        assert_eq!(waited, Ok(()));
    }

    #[test]
    fn ticket_admits_no_caller_before_it() {
        let operand = Borrows::default();
        let write = iter::once((&operand, Access::Write));
        assert!(try_borrow(User(1), write.clone()));
        let [first, second] = [(); 2].map(|()| operand.take_ticket());
        assert!(!try_borrow(User(1), write.clone()), "not even its own blocks");
        give_back(write.clone());
        assert!(!operand.try_borrow(None, Access::Read) && !operand.try_use(second, Access::Read));
        assert!(operand.try_use(first, Access::Write));
        assert!(!operand.try_use(second, Access::Read));
        operand.give_back();
        assert!(operand.try_use(second, Access::Read) && operand.try_borrow(None, Access::Read));
        (0..2).for_each(|_| operand.give_back());
        assert!(try_borrow(User(1), write));
    }

    #[test]
    fn borrow_of_all_or_none() {
        let [a, b] = [(); 2].map(|()| Borrows::default());
        let held = HostBorrow::wait(&b, Access::Write);
        let both = [(&a, Access::Write), (&b, Access::Read)];
        assert!(!try_borrow(User(1), both.into_iter()));
        drop(HostBorrow::wait(&a, Access::Write)); // would never return if `a` were still borrowed
        drop(held);
        assert!(try_borrow(User(1), both.into_iter()));
    }
}
