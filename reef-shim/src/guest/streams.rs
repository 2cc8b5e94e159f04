//! The streams of this process, whatever their devices: their names, and how far they have come.

use crate::own::calls::Stream;
use reef_guest::pace::{Key, Streams};
use std::sync::atomic::{AtomicU32, Ordering};

/// Most streams that are paced; others are passed on.
pub(crate) const MOST_STREAMS: usize = 4096;

/// All streams of this process.
pub(crate) static STREAMS: Streams<MOST_STREAMS> = Streams::new();

/// How far each stream has come. Written by devices.
#[repr(C, align(4096))]
#[derive(Debug)]
pub(crate) struct Marks([AtomicU32; MOST_STREAMS]);

pub(crate) static MARKS: Marks = Marks([const { AtomicU32::new(0) }; MOST_STREAMS]);

impl Marks {
    pub(crate) fn read(&self, slot: usize) -> u32 {
        self.0.get(slot).map_or(0, |mark| mark.load(Ordering::Acquire))
    }

    pub(crate) fn address(&self) -> *const Self {
        self
    }
}

/// On which device each stream runs, by its number in this process. Written before a launch is counted.
pub(super) static OWNERS: [AtomicU32; MOST_STREAMS] = [const { AtomicU32::new(0) }; MOST_STREAMS];

/// The key of a stream in a context.
pub(crate) fn key(context: usize, stream: Stream) -> Key {
    match stream.0 {
        1 => Key(context, 1),
        2 => Key(context, thread() << 2 | 2),
        handle => Key(handle, 0),
    }
}

/// A number of this thread: where a word of its own stands.
fn thread() -> usize {
    thread_local!(static WORD: u8 = const { 0 });
    WORD.with(|word| std::ptr::from_ref(word) as usize)
}
