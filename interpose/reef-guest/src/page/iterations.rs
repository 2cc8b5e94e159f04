//! Iterations of a real-time guest: from a thread's first launch to the end of its wait for the
//! device.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Number of iterations that are kept.
pub const MAX_ITERATIONS: usize = 60;

/// Bit of a kind in a page: the length is in units of 1,024 ns. No iteration has 2^30 launches.
const IS_LONG: u32 = 1 << 30;
const LONG_SHIFT: u32 = 10;

/// One iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iteration {
    /// Time of its end, as of [`Time`](super::Time).
    pub end: u64,
    /// Its length in nanoseconds.
    pub length: u64,
    /// Kind: iterations of one kind have the same work, as far as is known.
    pub kind: u32,
}

impl Iteration {
    /// Returns the time of its begin.
    pub fn begin(&self) -> u64 {
        self.end.saturating_sub(self.length)
    }
}

/// Last iterations of a guest. Written by the guest's threads, read by its daemon. Wrong values
/// affect what the guest itself lets through. All zero: none, or a guest of an older build.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Iterations {
    /// Number of iterations.
    count: AtomicU64,
    /// Each with its end, and its length of 32 bits below its kind, which says in which unit.
    last: [[AtomicU64; 2]; MAX_ITERATIONS],
}

impl Default for Iterations {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self { count: zero(), last: std::array::from_fn(|_| [zero(), zero()]) }
    }
}

impl Iterations {
    /// Adds an iteration. A length of more than 4.2 s is exact to a microsecond, and one of more
    /// than 73 minutes is cut.
    pub fn add(&self, iteration: Iteration) {
        let at = self.count.load(Relaxed);
        if let Some([end, rest]) = self.last.get(at as usize % MAX_ITERATIONS) {
            end.store(iteration.end, Relaxed);
            rest.store(pack(&iteration), Relaxed);
        }
        // Two threads at the same moment may lose an iteration.
        self.count.store(at.wrapping_add(1), Release);
    }

    /// Returns the number of iterations so far.
    pub fn count(&self) -> u64 {
        self.count.load(Acquire)
    }

    /// Appends the iterations after the first `seen`, as far as they are kept, and returns the
    /// number of iterations so far.
    pub fn read(&self, seen: u64, to: &mut Vec<Iteration>) -> u64 {
        let count = self.count();
        // Any other difference is a guest's mistake: nothing is read then.
        let fresh = count.wrapping_sub(seen);
        let fresh = if fresh > u64::MAX / 2 { 0 } else { fresh.min(MAX_ITERATIONS as u64) };
        for back in (1..=fresh).rev() {
            let place = self.last.get(count.wrapping_sub(back) as usize % MAX_ITERATIONS);
            to.extend(place.map(|[end, rest]| {
                let (end, rest) = (end.load(Relaxed), rest.load(Relaxed));
                unpack(end, rest)
            }));
        }
        count
    }
}

/// Returns the length and the kind of an iteration as a word.
fn pack(iteration: &Iteration) -> u64 {
    let kind = iteration.kind & !IS_LONG;
    match u32::try_from(iteration.length) {
        Ok(length) => u64::from(length) | u64::from(kind) << 32,
        Err(_) => {
            let length = (iteration.length >> LONG_SHIFT).min(u32::MAX.into());
            length | u64::from(kind | IS_LONG) << 32
        }
    }
}

/// Returns the iteration with this end and this word.
fn unpack(end: u64, word: u64) -> Iteration {
    let (length, kind) = (word & u64::from(u32::MAX), (word >> 32) as u32);
    let length = if kind & IS_LONG == 0 { length } else { length << LONG_SHIFT };
    Iteration { end, length, kind: kind & !IS_LONG }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_iterations_are_read_once() {
        let iterations = Iterations::default();
        let iteration = |at: u64| Iteration { end: 1000 * at, length: at, kind: at as u32 % 3 };
        let mut read = Vec::new();
        assert_eq!(iterations.read(0, &mut read), 0);
        (0..5).for_each(|at| iterations.add(iteration(at)));
        assert_eq!(iterations.read(2, &mut read), 5);
        assert_eq!(read, [iteration(2), iteration(3), iteration(4)]);
        (5..200).for_each(|at| iterations.add(iteration(at)));
        read.clear();
        assert_eq!(iterations.read(5, &mut read), 200);
        assert_eq!(read, (140..200).map(iteration).collect::<Vec<_>>());
        read.clear();
        assert_eq!(iterations.read(200, &mut read), 200);
        assert!(read.is_empty());
    }

    #[test]
    fn long_iterations_have_their_length_and_kind() {
        let iterations = Iterations::default();
        let lengths = [1 << 31, (1 << 32) - 1, 1 << 32, 5_000_000_000, 600_000_000_000, u64::MAX];
        for (length, kind) in lengths.into_iter().zip([3, 3, 3, 3, 3, 3 | 1 << 31]) {
            let (end, mut read) = (u64::MAX, Vec::new());
            let seen = iterations.count();
            iterations.add(Iteration { end, length, kind });
            iterations.read(seen, &mut read);
            let most = length.min(4_398_000_000_000);
            assert!(read[0].length <= length && read[0].length + 1024 > most, "{read:?}: {length}");
            assert_eq!((read.len(), read[0].kind), (1, kind));
        }
    }

    #[test]
    fn any_words_of_a_guest_are_read_without_harm() {
        let iterations = Iterations::default();
        iterations.last.iter().flatten().for_each(|word| word.store(u64::MAX, Relaxed));
        iterations.count.store(u64::MAX, Relaxed);
        let mut read = Vec::new();
        assert_eq!(iterations.read(7, &mut read), u64::MAX);
        assert!(
            read.len() <= MAX_ITERATIONS
                && read.iter().all(|iteration| iteration.begin() <= iteration.end)
        );
        iterations.add(Iteration { end: 1, length: u64::MAX, kind: 1 });
    }
}
