//! Copy queues: packets by hand.

use super::ring::Ring;
use super::sdma::Sdma;
use crate::abi::{EventDescriptor, MemoryFlags, SyncVariable};
use crate::clock::Clock;
use crate::events::Events;
use crate::memory::{DEVICE_NODE, Memory};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

const RING_BYTES: u64 = 256;
const COPY: u32 = 1;
const WRITE: u32 = 2;
const FENCE: u32 = 5;
const TRAP: u32 = 6;
/// Polls memory until it is equal.
const POLL: u32 = 8 | 3 << 28 | 1 << 31;
const ADD: u32 = 10 | 47 << 25;
const FILL_WORDS: u32 = 11 | 2 << 30;
const FILL_BYTES: u32 = 11;

struct Rig {
    memory: Memory,
    events: Events,
    sdma: Sdma,
    ring: Ring,
    /// A page that packets may touch.
    page: u64,
}

impl Rig {
    fn new() -> Self {
        let memory = Memory::default();
        let page = memory.allocate(DEVICE_NODE, 1 << 16, MemoryFlags(0), 0).expect("64 KiB");
        assert!(memory.map(page));
        let base = page + 0x8000;
        let ring = Ring::new(base, RING_BYTES, base + 0x1000, base + 0x1008).expect("aligned");
        Self { memory, events: Events::default(), sdma: Sdma::default(), ring, page }
    }

    fn push(&self, words: &[u32]) {
        let at = self.ring.write.load(SeqCst);
        for (index, &word) in words.iter().enumerate() {
            let offset = (at + 4 * index as u64) % RING_BYTES;
            // SAFETY: within the ring, which is part of the rig's page.
            unsafe { ((self.ring.base + offset) as *mut u32).write_volatile(word) };
        }
        self.ring.write.store(at + 4 * words.len() as u64, SeqCst);
    }

    fn advance(&mut self) -> Result<usize, String> {
        let view = self.memory.view(Clock::Host);
        self.sdma.advance(&self.ring, &view, &self.events)
    }

    fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset < 0x8000 && offset.is_multiple_of(8), "{offset:#x}");
        // SAFETY: within the rig's page, aligned, for as long as the rig lives.
        unsafe { AtomicU64::from_ptr((self.page + offset) as *mut u64) }
    }

    fn is_empty(&self) -> bool {
        self.ring.read.load(SeqCst) == self.ring.write.load(SeqCst)
    }
}

fn split(address: u64) -> [u32; 2] {
    [address as u32, (address >> 32) as u32]
}

#[test]
fn copies_fills_writes_and_sums_reach_memory() {
    let mut rig = Rig::new();
    let at = |offset| split(rig.page + offset);
    let ([a, b], [c, d], [e, f]) = (at(0), at(64), at(128));
    rig.word(0).store(0x1122_3344_5566_7788, SeqCst);
    rig.push(&[COPY, 7, 0, a, b, c, d]);
    rig.push(&[FILL_WORDS, e, f, 0xabcd_0123, 7]);
    rig.push(&[ADD, c, d, 1, 0, 0, 0, 0]);
    assert_eq!(rig.advance(), Ok(3));
    assert_eq!(rig.word(64).load(SeqCst), 0x1122_3344_5566_7789);
    assert_eq!(rig.word(128).load(SeqCst), 0xabcd_0123_abcd_0123);
    rig.push(&[WRITE, e, f, 1, 5, 6]);
    rig.push(&[FILL_BYTES, c, d, 0x77, 2]);
    rig.push(&[FENCE, a, b, 9]);
    assert_eq!(rig.advance(), Ok(3));
    assert_eq!(rig.word(128).load(SeqCst), 6 << 32 | 5);
    assert_eq!(rig.word(64).load(SeqCst), 0x1122_3344_5577_7777);
    assert_eq!(rig.word(0).load(SeqCst), 0x1122_3344_0000_0009);
}

#[test]
fn packets_go_around_the_end_of_the_ring() {
    let mut rig = Rig::new();
    let [to, high] = split(rig.page);
    for round in 0..100u32 {
        rig.push(&[WRITE, to, high, 2, round, round + 1, round + 2]);
        assert_eq!(rig.advance(), Ok(1));
        assert_eq!(rig.word(0).load(SeqCst), u64::from(round + 1) << 32 | u64::from(round));
        assert_eq!(rig.word(8).load(SeqCst) as u32, round + 2);
    }
    assert!(rig.is_empty());
}

#[test]
fn a_poll_holds_what_comes_after_it() {
    let mut rig = Rig::new();
    let ([a, b], [c, d]) = (split(rig.page), split(rig.page + 8));
    rig.word(0).store(1, SeqCst);
    rig.push(&[POLL, a, b, 0, u32::MAX, 0]);
    rig.push(&[FENCE, c, d, 3]);
    assert_eq!(rig.advance(), Ok(0));
    assert_eq!(rig.word(8).load(SeqCst), 0);
    rig.word(0).store(0, SeqCst);
    assert_eq!(rig.advance(), Ok(2));
    assert_eq!(rig.word(8).load(SeqCst), 3);
}

#[test]
fn a_poll_does_not_wait_for_a_signal_that_has_failed() {
    let mut rig = Rig::new();
    rig.word(0).store(u64::MAX, SeqCst);
    for half in [0, 4] {
        let [at, high] = split(rig.page + half);
        rig.push(&[POLL, at, high, 0, u32::MAX, 0]);
    }
    assert_eq!(rig.advance(), Ok(2));
}

#[test]
fn a_trap_raises_its_event() {
    let mut rig = Rig::new();
    let variable = SyncVariable { user_data: 0, bytes: 0 };
    let descriptor = EventDescriptor { kind: 0, node: 1, variable };
    let event = rig.events.create(descriptor, false, false).expect("the first").id;
    rig.push(&[TRAP, event]);
    assert_eq!(rig.advance(), Ok(1));
    assert!(rig.events.wait(&[event], true, 0, &mut []));
}

#[test]
fn unknown_packet_or_unmapped_memory_stops_the_queue() {
    let [a, b] = split(0x1000);
    let unmapped = [COPY, 7, 0, a, b, a, b];
    for (packet, why) in [(&[0xffu32][..], "0x000000ff: unknown"), (&unmapped, "not mapped")] {
        let mut rig = Rig::new();
        rig.push(packet);
        let error = rig.advance().expect_err("it can't be carried out");
        assert!(error.contains(why), "{error}");
        assert_eq!(rig.advance(), Ok(0), "it has stopped");
        assert!(!rig.is_empty());
    }
}
