//! Bytes of host memory that several threads, a device or another process touch at the same time.
//!
//! Such memory is a slice of 32-bit atomics, and every access of ours is one of them, relaxed. So
//! racing accesses give torn bytes, some old and some new, and nothing worse. A thread that needs a
//! whole tensor waits for an event first. All accesses have the same size because those of
//! different sizes may not race.
//!
//! Offsets and lengths are bytes. The functions panic if a range is not inside: their callers have
//! checked.
//!
//! ```
//! use reef_core::words;
//! use std::sync::atomic::AtomicU32;
//!
//! let memory = [AtomicU32::new(0), AtomicU32::new(0)];
//! words::write(&memory, 3, &[1, 2]);
//! let mut bytes = [0; 8];
//! words::read(&memory, 0, &mut bytes);
//! assert_eq!(bytes, [0, 0, 0, 1, 2, 0, 0, 0]);
//! ```

use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a word.
const WORD: usize = size_of::<u32>();
/// Bytes that are moved at a time where words can't be.
const CHUNK: usize = 256;

/// Words that hold `bytes` bytes.
pub const fn words_of(bytes: usize) -> usize {
    bytes.div_ceil(WORD)
}

/// Copies `to.len()` bytes from byte `offset` on.
///
/// # Panics
///
/// If they are not inside of the words.
pub fn read(from: &[AtomicU32], offset: usize, to: &mut [u8]) {
    let (head, whole) = split(offset, to.len());
    let (first, rest) = to.split_at_mut(head);
    let (middle, last) = rest.as_chunks_mut::<WORD>();
    read_part(from, offset, first);
    for (to, word) in middle.iter_mut().zip(&from[whole.clone()]) {
        *to = word.load(Relaxed).to_ne_bytes();
    }
    read_part(from, whole.end * WORD, last);
}

/// Copies `from` to byte `offset` and the bytes after it.
///
/// # Panics
///
/// If they are not inside of the words.
pub fn write(to: &[AtomicU32], offset: usize, from: &[u8]) {
    let (head, whole) = split(offset, from.len());
    let (first, rest) = from.split_at(head);
    let (middle, last) = rest.as_chunks::<WORD>();
    write_part(to, offset, first);
    for (word, from) in to[whole.clone()].iter().zip(middle) {
        word.store(u32::from_ne_bytes(*from), Relaxed);
    }
    write_part(to, whole.end * WORD, last);
}

/// Copies `bytes` bytes from byte `from_offset` of `from` to byte `to_offset` of `to`, as if they
/// were all read before the first is written: the ranges may overlap.
///
/// # Panics
///
/// If they are not inside of the words.
pub fn copy(
    from: &[AtomicU32],
    from_offset: usize,
    to: &[AtomicU32],
    to_offset: usize,
    bytes: usize,
) {
    // Upwards in memory from the last piece on, so that nothing is overwritten that is still to be
    // read.
    let upwards =
        from.as_ptr().wrapping_byte_add(from_offset) < to.as_ptr().wrapping_byte_add(to_offset);
    if [from_offset, to_offset, bytes].iter().all(|n| n.is_multiple_of(WORD)) {
        let range = |offset: usize| offset / WORD..(offset + bytes) / WORD;
        let pairs = from[range(from_offset)].iter().zip(&to[range(to_offset)]);
        let one = |(from, to): (&AtomicU32, &AtomicU32)| to.store(from.load(Relaxed), Relaxed);
        return if upwards { pairs.rev().for_each(one) } else { pairs.for_each(one) };
    }
    let mut chunk = [0; CHUNK];
    let mut piece = |at: usize| {
        let chunk = &mut chunk[..CHUNK.min(bytes - at)];
        read(from, from_offset + at, chunk);
        write(to, to_offset + at, chunk);
    };
    let pieces = (0..bytes).step_by(CHUNK);
    if upwards { pieces.rev().for_each(&mut piece) } else { pieces.for_each(&mut piece) }
}

/// Repeats `word` from byte `offset` on for `bytes` bytes, a multiple of 4.
///
/// # Panics
///
/// If they are not inside of the words.
pub fn fill(to: &[AtomicU32], offset: usize, bytes: usize, word: u32) {
    if offset.is_multiple_of(WORD) {
        to[offset / WORD..][..bytes / WORD].iter().for_each(|to| to.store(word, Relaxed));
    } else {
        (0..bytes / WORD).for_each(|n| write(to, offset + n * WORD, &word.to_ne_bytes()));
    }
}

/// Bytes before the first whole word, and the whole words of a range.
fn split(offset: usize, bytes: usize) -> (usize, Range<usize>) {
    let head = (offset.next_multiple_of(WORD) - offset).min(bytes);
    let first = offset.div_ceil(WORD);
    (head, first..first + (bytes - head) / WORD)
}

/// Reads fewer than four bytes of one word.
fn read_part(from: &[AtomicU32], offset: usize, to: &mut [u8]) {
    if !to.is_empty() {
        let word = from[offset / WORD].load(Relaxed).to_ne_bytes();
        to.copy_from_slice(&word[offset % WORD..][..to.len()]);
    }
}

/// Writes fewer than four bytes of one word; what others write to its other bytes stays.
fn write_part(to: &[AtomicU32], offset: usize, from: &[u8]) {
    if from.is_empty() {
        return;
    }
    let changed = |word: u32| {
        let mut bytes = word.to_ne_bytes();
        bytes[offset % WORD..][..from.len()].copy_from_slice(from);
        Some(u32::from_ne_bytes(bytes))
    };
    let _ = to[offset / WORD].fetch_update(Relaxed, Relaxed, changed); // always `Some`
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shared(bytes: &[u8]) -> Vec<AtomicU32> {
        let words = vec![(); words_of(bytes.len())];
        let words: Vec<_> = words.iter().map(|()| AtomicU32::new(0)).collect();
        write(&words, 0, bytes);
        words
    }

    fn all(words: &[AtomicU32], bytes: usize) -> Vec<u8> {
        let mut to = vec![0; bytes];
        read(words, 0, &mut to);
        to
    }

    /// Memory, two offsets in it, and how many bytes are inside from both on.
    fn scene() -> impl Strategy<Value = (Vec<u8>, usize, usize, usize)> {
        let most = if cfg!(miri) { 24 } else { 3 * CHUNK };
        prop::collection::vec(any::<u8>(), 1..most).prop_flat_map(|bytes| {
            let len = bytes.len();
            (Just(bytes), 0..len, 0..len).prop_flat_map(move |(bytes, from, to)| {
                (Just(bytes), Just(from), Just(to), 0..=len - from.max(to))
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 20 } else { 2000 }) })]

        #[test]
        fn ranges_are_copied_as_slices_do((mut bytes, from, to, len) in scene()) {
            let words = shared(&bytes);
            let mut part = vec![0; len];
            read(&words, from, &mut part);
            prop_assert_eq!(&part, &bytes[from..from + len]);

            copy(&words, from, &words, to, len);
            bytes.copy_within(from..from + len, to);
            prop_assert_eq!(all(&words, bytes.len()), &bytes[..], "overlapping");

            let other = shared(&vec![0xa5; bytes.len()]);
            copy(&words, from, &other, to, len);
            let mut want = vec![0xa5; bytes.len()];
            want[to..to + len].copy_from_slice(&bytes[from..from + len]);
            prop_assert_eq!(all(&other, bytes.len()), &want[..]);

            write(&words, to, &part);
            bytes[to..to + len].copy_from_slice(&part);
            prop_assert_eq!(all(&words, bytes.len()), &bytes[..]);

            let len = len / WORD * WORD;
            fill(&words, from, len, 0x0403_0201);
            bytes[from..from + len].copy_from_slice(&0x0403_0201_u32.to_ne_bytes().repeat(len / WORD));
            prop_assert_eq!(all(&words, bytes.len()), &bytes[..]);
        }
    }

    /// Miri and ThreadSanitizer say so if an access races; without them the neighbours' bytes are
    /// the proof.
    #[test]
    fn writers_of_the_same_word_leave_each_others_bytes() {
        let words = shared(&[0; 7]);
        let rounds = if cfg!(miri) { 200 } else { 400_000 };
        std::thread::scope(|scope| {
            for at in [0, 2, 5] {
                let words = &words;
                scope.spawn(move || {
                    for round in 0..rounds {
                        write(words, at, &[round as u8, at as u8]);
                        let mut bytes = [0; 2];
                        read(words, at, &mut bytes);
                        assert_eq!(bytes, [round as u8, at as u8]);
                    }
                });
            }
            scope.spawn(|| (0..rounds).for_each(|_| drop(all(&words, 7))));
        });
    }
}
