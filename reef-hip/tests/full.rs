//! Best-effort blocks fill the device and don't end: the word that stops what has not started
//! arrives all the same. Alone in its file because the device is small.

use reef_core::{
    Args, Device, Error, Launch, PreemptLevel, Preemptor as _, Priority, Queue as _, Seq,
};
use reef_gfx906::{Outcome, Record, Settings, Software};
use reef_hip::{Buffer, Hip};
use std::time::{Duration, Instant};

const SOURCE: &str = r#"
#include "reef.h"

// Each block says that it has begun, and counts in its cell, once the host says that it may end.
extern "C" __global__ void hold(reef::Guard guard, unsigned *release, volatile unsigned *begun,
                                unsigned *cells) {
    REEF_CLAIM(block, guard);
    if (threadIdx.x == 0) begun[block.index] = 1;
    while (!__hip_atomic_load(release, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM))
        __builtin_amdgcn_s_sleep(1);
    if (threadIdx.x == 0) cells[block.index] += 1;
}
"#;
const UNITS: u32 = 2;
/// Threads of four waves: a unit has places for ten blocks.
const THREADS: u32 = 256;
/// More than the device has places for.
const BLOCKS: u32 = 10 * UNITS + 10;

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
    }
}

/// Lets the blocks end, also if the test fails: its queue waits for them.
struct Release<'a>(&'a Hip, &'a Buffer);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.write(self.1, 0, &1u32.to_ne_bytes()).unwrap();
    }
}

/// Blocks of kernels of one block, which write words, that have ended.
fn words_written(trace: &[Record]) -> usize {
    let small = trace.iter().filter(|record| record.groups == [1; 3]);
    small.filter(|record| record.outcome == Outcome::Ended).count()
}

#[test]
fn an_eviction_arrives_while_every_place_is_taken() {
    let software = Software::load().expect("cargo builds the library before its tests");
    assert!(software.configure(&Settings { units: UNITS, ..Settings::default() }));
    let device = match Hip::open(0, "") {
        Ok(device) => device,
        Err(Error::NotFound(why)) => return reef_conformance::skip(&why),
        Err(other) => panic!("{other}"),
    };
    let kernel = device.compile(SOURCE).unwrap().kernel("hold").unwrap();
    let words = 4 * BLOCKS as usize;
    let [release, begun] = [4, words].map(|bytes| device.alloc_host(bytes).unwrap());
    let cells = device.alloc(words).unwrap();
    let args = Args::new(&[release.address(), begun.address(), cells.address()]);
    // SAFETY: the kernel's parameters; each block has a cell and a word, and all outlive the queue.
    let launch = unsafe { Launch::new(kernel, [BLOCKS, 1, 1], [THREADS, 1, 1], args) };
    let preemptor = device.preemptor(PreemptLevel::DeviceQueue).unwrap();
    let mut queue = device.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    let checkpoint = device.checkpoint(&launch).unwrap();
    queue.launch(Seq(0), &launch, Some(&checkpoint)).unwrap();
    let ones = |buffer: &Buffer| {
        let mut bytes = vec![0; words];
        device.read(buffer, 0, &mut bytes).unwrap();
        bytes.chunks_exact(4).filter(|word| word[0] == 1).count()
    };
    let resident = || software.counters().resident;
    let release_them = Release(&device, &release);
    // All that fit are placed at once. A block that has not claimed itself is evicted later.
    let mut before = 0;
    wait_until("the device is full", || {
        before = resident();
        before >= 10 && ones(&begun) as u64 == before
    });
    assert!(resident() < u64::from(BLOCKS), "some blocks wait for a place");
    software.forget_trace();

    preemptor.evict().unwrap();
    wait_until("the eviction", || words_written(&software.trace()) == 1);
    assert_eq!(resident(), before, "no block has ended to make room for it");

    let held = before as usize;
    drop(release_them);
    wait_until("the blocks", || queue.try_drain().unwrap().is_some());
    assert_eq!(ones(&cells), held, "blocks that had started end, those that waited never ran");
    assert_eq!(software.last_fault(), "");
}
