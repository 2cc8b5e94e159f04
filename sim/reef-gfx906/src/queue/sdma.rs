//! The packet processor of a copy queue. Indices count bytes; packets have no fixed length.

use super::ring::Ring;
use crate::access::Unmapped;
use crate::clock::Clock;
use crate::events::Events;
use crate::memory::View;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// Words of the longest packet that is looked at as a whole.
const WORDS: usize = 14;
/// Packets of one queue before others have their turn.
const BURST: usize = 4;

mod operation {
    pub(super) const NOP: u32 = 0;
    pub(super) const COPY: u32 = 1;
    pub(super) const WRITE: u32 = 2;
    pub(super) const FENCE: u32 = 5;
    pub(super) const TRAP: u32 = 6;
    pub(super) const POLL: u32 = 8;
    pub(super) const ATOMIC: u32 = 10;
    pub(super) const FILL: u32 = 11;
    pub(super) const TIMESTAMP: u32 = 13;
}

/// The one atomic operation that the runtime uses: add to a 64-bit word.
const ADD_64: u32 = 47;

/// Result of a packet.
enum Done {
    /// It has this number of words and is carried out.
    Words(u64),
    /// It waits.
    NotYet,
}

/// A copy queue.
#[derive(Debug, Default)]
pub(crate) struct Sdma {
    at: u64,
    /// An unknown packet: where the next one starts can't be told.
    pub(crate) failed: bool,
}

impl Sdma {
    /// Carries out what is there, or some of it; how many packets.
    ///
    /// # Errors
    ///
    /// Says what is wrong with a packet; the queue has stopped there.
    pub(crate) fn advance(
        &mut self,
        ring: &Ring,
        view: &View<'_>,
        events: &Events,
    ) -> Result<usize, String> {
        for count in 0..BURST {
            if self.failed || self.at >= ring.write.load(Acquire) {
                return Ok(count);
            }
            let words = words(ring, self.at, view).map_err(|bad| format!("copy ring: {bad}"));
            match words.and_then(|words| Packet { words, ring, at: self.at }.run(view, events)) {
                Ok(Done::Words(words)) => self.at += 4 * words,
                Ok(Done::NotYet) => return Ok(count),
                Err(why) => {
                    self.failed = true;
                    return Err(why);
                }
            }
            ring.read.store(self.at, Release);
        }
        Ok(BURST)
    }
}

fn words(ring: &Ring, at: u64, view: &View<'_>) -> Result<[u32; WORDS], Unmapped> {
    let mut words = [0; WORDS];
    for (index, word) in words.iter_mut().enumerate() {
        *word = view.word32(ring.base + (at + 4 * index as u64) % ring.bytes)?.load(Relaxed);
    }
    Ok(words)
}

struct Packet<'a> {
    words: [u32; WORDS],
    ring: &'a Ring,
    at: u64,
}

impl Packet<'_> {
    fn address(&self, word: usize) -> u64 {
        u64::from(self.words[word]) | u64::from(self.words[word + 1]) << 32
    }

    fn run(&self, view: &View<'_>, events: &Events) -> Result<Done, String> {
        let [header, ..] = self.words;
        let operation = header & 0xff;
        let done = match operation {
            operation::NOP => Ok(Done::Words(1 + u64::from(header >> 16 & 0x3fff))),
            operation::COPY if header >> 8 & 0xff == 0 => self.copy(view),
            operation::WRITE => self.write(view),
            operation::FENCE => self.fence(view),
            operation::TRAP => {
                events.set(self.words[1] & 0x0fff_ffff);
                Ok(Done::Words(2))
            }
            operation::POLL => self.poll(view),
            operation::ATOMIC if header >> 25 == ADD_64 => self.add(view),
            operation::FILL => self.fill(view),
            operation::TIMESTAMP => self.timestamp(view),
            _ => return Err(format!("copy packet {header:#010x}: unknown")),
        };
        done.map_err(|bad| format!("copy packet {header:#010x}: {bad}"))
    }

    fn copy(&self, view: &View<'_>) -> Result<Done, Unmapped> {
        let bytes = (self.words[1] & 0x3f_ffff) as usize + 1;
        view.copy(self.address(5), self.address(3), bytes)?;
        Ok(Done::Words(7))
    }

    fn write(&self, view: &View<'_>) -> Result<Done, Unmapped> {
        let count = u64::from(self.words[3] & 0xf_ffff) + 1;
        let to = self.address(1);
        view.forget_code(to, 4 * count as usize);
        for index in 0..count {
            let from = self.ring.base + (self.at + 4 * (4 + index)) % self.ring.bytes;
            let word = view.word32(from)?.load(Relaxed);
            view.word32(to.wrapping_add(4 * index))?.store(word, Relaxed);
        }
        Ok(Done::Words(4 + count))
    }

    fn fence(&self, view: &View<'_>) -> Result<Done, Unmapped> {
        view.word32(self.address(1))?.store(self.words[3], Release);
        Ok(Done::Words(4))
    }

    fn poll(&self, view: &View<'_>) -> Result<Done, Unmapped> {
        let [header, .., reference, mask] = self.words.first_chunk::<5>().expect("there are 14");
        let polls_memory = header >> 31 != 0;
        if polls_memory {
            let seen = view.word32(self.address(1))?.load(Acquire) & mask;
            let holds = match header >> 28 & 7 {
                0 => true,
                1 => seen < *reference,
                2 => seen <= *reference,
                3 => seen == *reference || self.awaits_failed(view)?,
                4 => seen != *reference,
                5 => seen >= *reference,
                _ => seen > *reference,
            };
            if !holds {
                return Ok(Done::NotYet);
            }
        }
        Ok(Done::Words(6))
    }

    /// Returns whether a poll waits for half of a signal that will never be 0, because its packet
    /// has failed.
    fn awaits_failed(&self, view: &View<'_>) -> Result<bool, Unmapped> {
        let whole = view.word64(self.address(1) & !7)?.load(Acquire) as i64;
        Ok(self.words[3] == 0 && whole < 0)
    }

    fn add(&self, view: &View<'_>) -> Result<Done, Unmapped> {
        view.word64(self.address(1))?.fetch_add(self.address(3), SeqCst);
        Ok(Done::Words(8))
    }

    fn fill(&self, view: &View<'_>) -> Result<Done, Unmapped> {
        let bytes = (self.words[4] & 0x3f_ffff) as usize + 1;
        let pattern = self.words[3].to_le_bytes();
        let (bytes, size) = match self.words[0] >> 30 {
            2 => (bytes.next_multiple_of(4), 4),
            1 => (bytes, 2),
            _ => (bytes, 1),
        };
        view.fill(self.address(1), bytes, &pattern[..size])?;
        Ok(Done::Words(5))
    }

    fn timestamp(&self, view: &View<'_>) -> Result<Done, Unmapped> {
        view.word64(self.address(1))?.store(Clock::Host.now(), Relaxed);
        Ok(Done::Words(3))
    }
}
