//! One request and its answer, in memory that the other process may write at any time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Maximum length of an error's text, in bytes.
pub(super) const MAX_TEXT_LEN: usize = 160;

/// One request and its answer.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Slot {
    /// 0: answer at once; 1: an inference. Written by the client.
    pub(super) kind: AtomicU32,
    /// Index of the tensor buffer. Written by the client.
    pub(super) buffer: AtomicU32,
    /// 0, or the number of an error. Written by the daemon.
    pub(super) code: AtomicU32,
    /// Timeout in microseconds; 0 is none. Written by the client.
    pub(super) timeout: AtomicU64,
    /// Duration of the inference in nanoseconds. Written by the daemon.
    pub(super) infer: AtomicU64,
    /// Nanoseconds until real-time work could start. Written by the daemon.
    pub(super) delay: AtomicU64,
    /// Times at which the daemon began with it and answered it, by [`clock`](super::clock). Written
    /// by the daemon.
    pub(super) began: AtomicU64,
    pub(super) answered: AtomicU64,
    /// Length of the text. Written by the daemon.
    pub(super) length: AtomicU32,
    /// An error's text, eight bytes a word. Written by the daemon.
    pub(super) text: [AtomicU64; MAX_TEXT_LEN / 8],
}

impl Slot {
    /// Stores an error's text, truncated to its maximum length.
    pub(super) fn set_text(&self, text: &str) {
        let length = text.floor_char_boundary(MAX_TEXT_LEN);
        Tensor(&self.text).write(0, &text.as_bytes()[..length]);
        self.length.store(length as u32, Relaxed);
    }

    /// Reads an error's text; any bytes of the other side are accepted.
    pub(super) fn text(&self) -> String {
        let mut bytes = vec![0; (self.length.load(Relaxed) as usize).min(MAX_TEXT_LEN)];
        Tensor(&self.text).read(0, &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Bytes that the other side may write concurrently; any value is valid.
pub(super) struct Tensor<'a>(&'a [AtomicU64]);

impl<'a> Tensor<'a> {
    pub(super) fn new(words: &'a [AtomicU64]) -> Self {
        Self(words)
    }

    /// Copies from byte `offset`, a multiple of 8.
    pub(super) fn read(&self, offset: usize, bytes: &mut [u8]) {
        let (chunks, rest) = bytes.as_chunks_mut::<8>();
        let mut words = self.0[offset / 8..].iter().map(|word| word.load(Relaxed).to_ne_bytes());
        chunks.iter_mut().zip(&mut words).for_each(|(chunk, word)| *chunk = word);
        if let Some(last) = words.next().filter(|_| !rest.is_empty()) {
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }

    /// Copies all of it.
    pub(super) fn read_floats(&self, values: &mut [f32]) {
        for (pair, word) in values.chunks_mut(2).zip(self.0) {
            let word = word.load(Relaxed).to_ne_bytes();
            let (halves, _) = word.as_chunks::<4>();
            pair.iter_mut()
                .zip(halves)
                .for_each(|(value, &half)| *value = f32::from_ne_bytes(half));
        }
    }

    /// Copies these values to value `first`, an even number; an odd last one is followed by a zero.
    ///
    /// The loop is one that the compiler unrolls, unlike one over an iterator of single values:
    /// 150,528 values take 101 instead of 134 µs in cold memory, and 16 instead of 71 in warm
    /// memory (2-core VM, 2026-11-23).
    pub(super) fn copy_floats(&self, first: usize, values: &[f32]) {
        let (pairs, rest) = values.as_chunks::<2>();
        let words = &self.0[first / 2..];
        for (word, pair) in words.iter().zip(pairs) {
            word.store(word_of(*pair), Relaxed);
        }
        if let (Some(word), &[last]) = (words.get(pairs.len()), rest) {
            word.store(word_of([last, 0.0]), Relaxed);
        }
    }

    /// Writes values from the first byte on, as many as fit. Returns their number.
    pub(super) fn write_floats(&self, mut values: impl Iterator<Item = f32>) -> usize {
        let mut written = 0;
        for word in self.0 {
            let Some(first) = values.next() else { break };
            let second = values.next();
            word.store(word_of([first, second.unwrap_or(0.0)]), Relaxed);
            written += 1 + usize::from(second.is_some());
        }
        written
    }

    /// Copies to byte `offset`, a multiple of 8; zeros fill the last eight bytes.
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let mut words = self.0[offset / 8..].iter();
        for (chunk, word) in chunks.iter().zip(&mut words) {
            word.store(u64::from_ne_bytes(*chunk), Relaxed);
        }
        if let Some(last) = words.next().filter(|_| !rest.is_empty()) {
            let mut chunk = [0; 8];
            chunk[..rest.len()].copy_from_slice(rest);
            last.store(u64::from_ne_bytes(chunk), Relaxed);
        }
    }
}

/// Returns eight bytes that hold these two values, the first one first.
fn word_of([first, second]: [f32; 2]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}
