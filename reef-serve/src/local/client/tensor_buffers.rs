//! Which requests of a client are open, and where their tensors lie.

/// By its number, what is known of each request that is open, and which places for tensors are
/// free.
///
/// The lowest free place goes first: a client with one request at a time always has the same one,
/// whose memory stays in caches, and the device one list of commands.
#[derive(Debug)]
pub(super) struct Places {
    /// A bit for each place.
    free: u64,
    /// By number, modulo the slots.
    open: Box<[Open]>,
}

/// A request that is open.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Open {
    pub(super) place: u32,
    /// When it was asked for, by [`clock`](crate::local::clock).
    pub(super) asked: u64,
}

impl Places {
    /// All free; `slots` is a power of two of at most 64.
    pub(super) fn new(slots: u32) -> Self {
        let open = vec![Open::default(); slots as usize].into();
        Self { free: u64::MAX >> (64 - slots.clamp(1, 64)), open }
    }

    /// Where the next request's tensors go: the first place if none is free.
    pub(super) fn next(&self) -> u32 {
        if self.free == 0 { 0 } else { self.free.trailing_zeros() }
    }

    /// Takes that place for request number `n`, asked for at `asked`.
    pub(super) fn take(&mut self, n: u32, asked: u64) -> u32 {
        let place = self.next();
        self.free &= !(1 << place);
        *self.slot(n) = Open { place, asked };
        place
    }

    /// Gives the place of request number `n` back. What is there stays until it is taken again.
    pub(super) fn give(&mut self, n: u32) -> Open {
        let open = *self.slot(n);
        self.free |= 1 << open.place;
        open
    }

    /// Of request number `n`, which is open.
    pub(super) fn of(&self, n: u32) -> Open {
        self.open[n as usize % self.open.len()]
    }

    fn slot(&mut self, n: u32) -> &mut Open {
        let slots = self.open.len();
        &mut self.open[n as usize % slots]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::segment::FIRST;

    #[test]
    fn one_request_at_a_time_always_has_the_same_place() {
        let mut places = Places::new(4);
        for n in (0..10).map(|n| FIRST.wrapping_add(n)) {
            assert_eq!((places.take(n, n.into()), places.of(n).asked), (0, n.into()));
            assert_eq!(places.give(n).place, 0);
        }
    }

    #[test]
    fn requests_that_are_open_have_places_of_their_own() {
        for slots in [1, 4, 64] {
            let mut places = Places::new(slots);
            let number = |n| FIRST.wrapping_add(n);
            for n in 0..slots {
                assert_eq!(places.take(number(n), 0), n);
            }
            for n in slots..5 * slots {
                let freed = places.give(number(n - slots)).place;
                assert_eq!(places.take(number(n), 0), freed, "the only one that is free");
            }
        }
    }
}
