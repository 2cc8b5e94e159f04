//! The device without its threads and without AMD's runtime: packets by hand, turn by turn.

use super::hardware_queue::HardwareQueue;
use super::state::State;
use crate::abi::MemoryFlags;
use crate::events::Events;
use crate::isa::wave::POISON;
use crate::memory::{DEVICE_NODE, Memory};
use crate::queue::ring::Ring;
use crate::settings::{Outcome, Record, Settings};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU16, AtomicU64};

const END: u32 = 0xbf81_0000;
/// `s_branch` to itself.
const AGAIN: u32 = 0xbf82_ffff;
const SLEEP: u32 = 0xbf8e_0001;
/// `s_branch` to the instruction before.
const BACK: u32 = 0xbf82_fffe;
const BARRIER_BIT: u16 = 1 << 8;
const DISPATCH: u16 = 2;
const BARRIER_AND: u16 = 3;
const INVALID: u16 = 1;

/// A device with a page for code and signals.
struct Rig {
    state: State,
    memory: Memory,
    events: Events,
    page: u64,
    used: u64,
}

impl Rig {
    fn new(settings: Settings) -> Self {
        let memory = Memory::default();
        let page = memory.allocate(DEVICE_NODE, 1 << 20, MemoryFlags(0), 0).expect("a megabyte");
        assert!(memory.map(page));
        let state = State::new(settings);
        Self { state, memory, events: Events::default(), page, used: 0 }
    }

    fn small(units: u32) -> Self {
        Self::new(Settings { units, workers: 0, seed: 1, slice: 8, ..Settings::default() })
    }

    /// 64-byte aligned memory of the device, zeroed.
    fn room(&mut self, bytes: u64) -> u64 {
        let at = self.page + self.used;
        self.used += bytes.next_multiple_of(64);
        assert!(self.used <= 1 << 20, "{} bytes", self.used);
        at
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        assert!((self.page..self.page + (1 << 20)).contains(&at), "{at:#x}");
        // SAFETY: within the rig's page, which is its alone.
        unsafe { (at as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        // SAFETY: within the rig's page, aligned as `room` aligns, for as long as the rig lives.
        unsafe { AtomicU64::from_ptr(at as *mut u64) }
    }

    /// A kernel with `lds` bytes of shared memory: its descriptor.
    fn kernel(&mut self, code: &[u32], lds: u32) -> u64 {
        let (descriptor, entry) = (self.room(64), self.room(4 * code.len() as u64 + 8));
        self.write(descriptor, &lds.to_le_bytes());
        self.write(descriptor + 16, &(entry - descriptor).to_le_bytes());
        let words: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(entry, &words);
        descriptor
    }

    /// A signal that is 1.
    fn signal(&mut self) -> u64 {
        let signal = self.room(64);
        self.word(signal + 8).store(1, SeqCst);
        signal
    }

    fn value(&self, signal: u64) -> i64 {
        self.word(signal + 8).load(SeqCst) as i64
    }

    fn queue(&mut self, id: u32, priority: i32, mask: u64) {
        let (base, words) = (self.room(64 * 64), self.room(64));
        for slot in 0..64 {
            self.write(base + 64 * slot, &INVALID.to_le_bytes());
        }
        let ring = Ring::new(base, 64 * 64, words, words + 8).expect("aligned");
        let mut queue = HardwareQueue::new(ring, false, priority, true);
        queue.mask = mask;
        self.state.queues.insert(id, queue);
    }

    fn push(&self, queue: u32, header: u16, fields: &[(u64, &[u8])], signal: u64) {
        let ring = self.state.queues[&queue].ring;
        let index = ring.write.load(SeqCst);
        let at = ring.base + index * 64 % ring.bytes;
        self.write(at + 2, &[0; 62]);
        for (offset, bytes) in fields {
            self.write(at + offset, bytes);
        }
        self.write(at + 56, &signal.to_le_bytes());
        // SAFETY: the slot's first bytes, aligned.
        unsafe { AtomicU16::from_ptr(at as *mut u16) }.store(header, SeqCst);
        ring.write.store(index + 1, SeqCst);
    }

    /// A launch of `groups` workgroups of 64; its signal.
    fn launch(&mut self, queue: u32, kernel: u64, groups: u32, header: u16) -> u64 {
        let signal = self.signal();
        let (block, one) = (64u16.to_le_bytes(), 1u16.to_le_bytes());
        let (grid, ones) = ((64 * groups).to_le_bytes(), 1u32.to_le_bytes());
        let fields: [(u64, &[u8]); 7] = [
            (4, &block),
            (6, &one),
            (8, &one),
            (12, &grid),
            (16, &ones),
            (20, &ones),
            (32, &kernel.to_le_bytes()),
        ];
        self.push(queue, DISPATCH | header, &fields, signal);
        signal
    }

    fn advance(&mut self) {
        self.state.advance(&self.memory, &self.events);
    }

    /// One turn; false if there is nothing to run.
    fn turn(&mut self) -> bool {
        self.advance();
        let Some((mut group, turn)) = self.state.pick() else { return false };
        let ran = group.run(turn, &self.memory.view(self.state.clock()));
        self.state.put_back(group, ran);
        true
    }

    /// Until there is nothing to run.
    fn run(&mut self) {
        while self.turn() {}
        self.advance();
    }

    fn trace(&self) -> Vec<Record> {
        self.state.trace.records()
    }
}

#[test]
fn a_launch_runs_each_workgroup_once_and_sets_its_signal() {
    let mut rig = Rig::small(3);
    rig.queue(1, 0, u64::MAX);
    let kernel = rig.kernel(&[END], 0);
    let signal = rig.launch(1, kernel, 1000, 0);
    rig.run();
    assert_eq!(rig.value(signal), 0);
    let mut groups: Vec<u32> = rig.trace().iter().map(|record| record.group[0]).collect();
    groups.sort_unstable();
    assert_eq!(groups, (0..1000).collect::<Vec<_>>());
    assert!(rig.trace().iter().all(|record| record.outcome == Outcome::Ended));
    assert_eq!(rig.state.queues[&1].ring.read.load(SeqCst), 1);
    assert_eq!(rig.state.resident(), 0);
}

/// On a chip they hold what others left there: a kernel that takes it for zero must not pass.
#[test]
fn registers_and_shared_memory_begin_with_poison() {
    let mut rig = Rig::small(1);
    rig.queue(1, 0, u64::MAX);
    let out = rig.room(12);
    let code = [
        [0xbe80_00ff, out as u32],         // s_mov_b32 s0, low
        [0xbe81_00ff, (out >> 32) as u32], // s_mov_b32 s1, high
        [0xc042_0140, 0],                  // s_store_dword s5, s[0:1], 0
        [0x7e0c_0501, 0x7e06_0280],        // v_readfirstlane_b32 s6, v1; v_mov_b32 v3, 0
        [0xc042_0180, 4],                  // s_store_dword s6, s[0:1], 4
        [0xd86c_0000, 0x0200_0003],        // ds_read_b32 v2, v3
        [0xbf8c_0000, 0x7e0e_0502],        // s_waitcnt 0; v_readfirstlane_b32 s7, v2
        [0xc042_01c0, 8],                  // s_store_dword s7, s[0:1], 8
        [END, END],
    ];
    let kernel = rig.kernel(code.as_flattened(), 512);
    rig.launch(1, kernel, 1, 0);
    rig.run();
    assert_eq!(rig.state.last_fault, "");
    let [first, second] = [out, out + 8].map(|at| rig.word(at).load(SeqCst));
    let found = [first as u32, (first >> 32) as u32, second as u32];
    assert_eq!(found, [POISON; 3], "a scalar register, a vector register, shared memory");
}

#[test]
fn workgroups_run_only_on_units_of_their_queues_mask() {
    let mut rig = Rig::small(8);
    rig.queue(1, 0, 0b0101_0000);
    rig.queue(2, 0, u64::MAX);
    let kernel = rig.kernel(&[END], 0);
    rig.launch(1, kernel, 500, 0);
    rig.launch(2, kernel, 500, 0);
    rig.run();
    let units = |queue| {
        let mut units: Vec<u32> =
            rig.trace().iter().filter(|r| r.queue == queue).map(|r| r.unit).collect();
        units.sort_unstable();
        units.dedup();
        units
    };
    assert_eq!(units(1), [4, 6]);
    assert!(units(2).len() > 4, "{:?}", units(2));
}

#[test]
fn higher_priority_is_placed_first() {
    let mut rig = Rig::small(1);
    let kernel = rig.kernel(&[END], 32 << 10);
    for (queue, priority) in [(1, -3), (2, 0), (3, 3)] {
        rig.queue(queue, priority, u64::MAX);
        rig.launch(queue, kernel, 10, 0);
    }
    rig.run();
    let queues: Vec<u32> = rig.trace().iter().map(|record| record.queue).collect();
    assert_eq!(queues, [[3; 10], [2; 10], [1; 10]].concat());
}

#[test]
fn equal_priorities_share_the_device() {
    let mut rig = Rig::small(1);
    let kernel = rig.kernel(&[END], 16 << 10);
    for queue in [1, 2] {
        rig.queue(queue, 0, u64::MAX);
        rig.launch(queue, kernel, 2, 0);
    }
    rig.advance();
    let queues: Vec<u32> = rig.trace().iter().map(|record| record.queue).collect();
    assert_eq!(queues, [1, 2, 1, 2]);
}

#[test]
fn waiting_workgroup_blocks_lower_priorities_on_its_units_only() {
    let mut rig = Rig::small(2);
    let (large, small) = (rig.kernel(&[AGAIN], 64 << 10), rig.kernel(&[END], 512));
    rig.queue(1, 3, 0b01);
    rig.queue(2, 0, u64::MAX);
    rig.launch(1, large, 2, 0);
    rig.launch(2, small, 4, 0);
    rig.advance();
    let units: Vec<u32> = rig.trace().iter().filter(|r| r.queue == 2).map(|r| r.unit).collect();
    assert_eq!(units, [1; 4]);
}

#[test]
fn packets_with_the_barrier_bit_wait_for_those_before() {
    let mut rig = Rig::small(4);
    rig.queue(1, 0, u64::MAX);
    let (sleeper, short) = (rig.kernel(&[SLEEP, BACK], 0), rig.kernel(&[END], 0));
    rig.launch(1, sleeper, 1, 0);
    let other = rig.launch(1, short, 1, 0);
    let after = rig.launch(1, short, 1, BARRIER_BIT);
    (0..200).for_each(|_| assert!(rig.turn()));
    assert_eq!(rig.value(other), 0);
    assert_eq!(rig.value(after), 1);
    assert_eq!(rig.state.queues[&1].ring.read.load(SeqCst), 0);
}

#[test]
fn a_barrier_packet_waits_for_its_signals() {
    let mut rig = Rig::small(1);
    rig.queue(1, 0, u64::MAX);
    let kernel = rig.kernel(&[END], 0);
    let awaited = [rig.signal(), rig.signal()];
    let done = rig.signal();
    let names = awaited.map(u64::to_le_bytes);
    rig.push(1, BARRIER_AND, &[(8, &names[0]), (24, &names[1])], done);
    let after = rig.launch(1, kernel, 1, 0);
    rig.run();
    rig.word(awaited[0] + 8).store(0, SeqCst);
    rig.run();
    assert_eq!((rig.value(done), rig.value(after)), (1, 1));
    rig.word(awaited[1] + 8).store(0, SeqCst);
    rig.run();
    assert_eq!((rig.value(done), rig.value(after)), (0, 0));
}

#[test]
fn workgroups_wait_for_each_other_as_long_as_they_fit() {
    let mut rig = Rig::small(2);
    rig.queue(1, 0, u64::MAX);
    let kernel = rig.kernel(&[SLEEP, BACK], 0);
    rig.launch(1, kernel, 100, 0);
    (0..1000).for_each(|_| assert!(rig.turn()));
    assert_eq!(rig.state.resident(), 80, "2 units with 40 slots for waves");
    assert!(rig.trace().iter().all(|record| record.steps > 0), "all have run");
}

#[test]
fn endless_launch_spends_its_budget_and_fails_with_its_queue() {
    for code in [&[AGAIN][..], &[SLEEP, BACK]] {
        let settings = Settings { step_budget: 5000, workers: 0, ..Settings::default() };
        let mut rig = Rig::new(settings);
        rig.queue(1, 0, u64::MAX);
        rig.queue(2, 0, u64::MAX);
        let (endless, short) = (rig.kernel(code, 0), rig.kernel(&[END], 0));
        let failed = rig.launch(1, endless, 3, 0);
        let after = rig.launch(1, short, 1, BARRIER_BIT);
        let other = rig.launch(2, short, 1, 0);
        rig.run();
        assert_eq!([failed, after, other].map(|signal| rig.value(signal)), [-1, -1, 0]);
        assert!(rig.state.last_fault.contains("more than 5000 steps"), "{}", rig.state.last_fault);
        let ours = |record: &&Record| record.launch == 1;
        assert!(rig.trace().iter().filter(ours).all(|r| r.outcome == Outcome::Faulted));
        assert_eq!(rig.state.counters.faults, 1);
        assert_eq!(rig.state.resident(), 0);
    }
}

#[test]
fn unknown_code_is_a_fault_with_its_address() {
    let mut rig = Rig::small(1);
    rig.queue(1, 0, u64::MAX);
    let kernel = rig.kernel(&[0xffff_ffff, 0xffff_ffff], 0);
    let signal = rig.launch(1, kernel, 1, 0);
    rig.run();
    assert_eq!(rig.value(signal), -1);
    let entry = format!("{:#x}", kernel + 64);
    assert!(rig.state.last_fault.contains(&entry), "{}", rig.state.last_fault);
}

#[test]
fn bad_packets_are_faults_and_end_only_their_queue() {
    let mut rig = Rig::small(1);
    let kernel = rig.kernel(&[END], 65 << 10);
    for queue in 1..=4 {
        rig.queue(queue, 0, u64::MAX);
    }
    let signals = [rig.launch(1, 0x1000, 1, 0), rig.launch(2, kernel, 1, 0), rig.signal()];
    rig.push(3, 4, &[], signals[2]);
    rig.run();
    assert_eq!(signals.map(|signal| rig.value(signal)), [-1; 3]);
    assert_eq!(rig.state.counters.faults, 3);
    let kernel = rig.kernel(&[END], 0);
    let signal = rig.launch(4, kernel, 1, 0);
    rig.run();
    assert_eq!(rig.value(signal), 0);
}

#[test]
fn a_stopped_queue_rests_until_it_may_go_on() {
    let mut rig = Rig::small(1);
    rig.queue(1, 0, u64::MAX);
    let kernel = rig.kernel(&[SLEEP, SLEEP, SLEEP, END], 0);
    let signal = rig.launch(1, kernel, 50, 0);
    (0..20).for_each(|_| assert!(rig.turn()));
    rig.state.set_active(1, false);
    assert!(!rig.turn());
    rig.state.set_active(1, true);
    rig.run();
    assert_eq!(rig.value(signal), 0);
    assert!(rig.trace().iter().all(|record| record.outcome == Outcome::Ended));
}

#[test]
fn the_seed_decides_the_order() {
    let order = |seed| {
        let settings = Settings { units: 4, workers: 0, seed, slice: 3, ..Settings::default() };
        let mut rig = Rig::new(settings);
        let kernel = rig.kernel(&[SLEEP, 0xbf80_0000, 0xbf80_0000, SLEEP, END], 8 << 10);
        for queue in [1, 2] {
            rig.queue(queue, queue as i32, u64::MAX);
            rig.launch(queue, kernel, 40, 0);
        }
        rig.run();
        rig.trace().iter().map(|r| (r.launch, r.group, r.unit, r.start, r.end)).collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

/// A device with its threads, and a queue on it that runs `code` in `groups` workgroups; the
/// signal.
fn running(code: &[u32], groups: u32) -> (&'static super::machine::Device, u32, u64, Rig) {
    let settings = Settings { units: 2, ..Settings::default() };
    let device: &'static super::machine::Device =
        Box::leak(Box::new(super::machine::Device::new(settings)));
    let mut rig = Rig::new(settings);
    device.memory.register(rig.page, 1 << 20, MemoryFlags(0));
    assert!(device.memory.map(rig.page));
    rig.queue(1, 0, u64::MAX);
    let kernel = rig.kernel(code, 0);
    let signal = rig.launch(1, kernel, groups, 0);
    let id =
        device.create_queue(rig.state.queues[&1].ring, false, 0, true).expect("it is the first");
    (device, id, signal, rig)
}

#[test]
fn threads_run_what_is_launched() {
    let (device, id, signal, rig) = running(&[SLEEP, END], 500);
    while rig.value(signal) == 1 {
        std::thread::yield_now();
    }
    assert_eq!(rig.value(signal), 0);
    assert_eq!(device.counters().groups, 500);
    assert!(device.destroy_queue(id));
    assert!(!device.destroy_queue(id));
}

#[test]
fn a_queue_can_be_destroyed_under_an_endless_kernel() {
    for code in [&[AGAIN][..], &[SLEEP, BACK]] {
        let (device, id, signal, rig) = running(code, 50);
        while device.counters().steps < 1000 {
            std::thread::yield_now();
        }
        assert!(device.destroy_queue(id));
        assert_eq!((device.counters().resident, device.counters().queues), (0, 0));
        assert_eq!(rig.value(signal), 1, "it is never completed");
        assert!(device.trace().iter().all(|record| record.outcome == Outcome::Killed));
    }
}
