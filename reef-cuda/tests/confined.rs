//! Capped queues of a device with `beside_on=N` keep to its few multiprocessors, launch by launch
//! and by graphs. A graph is captured on another stream than the one that runs it, so where its
//! blocks are is asked of them.

use reef_core::{
    Args, Command, Device, Error, Launch, PreemptLevel, Preemptor as _, Priority, Queue as _, Seq,
};
use reef_cuda::{Buffer, Cuda, Queue};
use std::collections::BTreeSet;

/// Says which multiprocessor each block runs on, and lasts so long that blocks are on as many as
/// they may.
const SOURCE: &str = r#"
#include "reef.h"
extern "C" __global__ void locate(reef::Guard guard, unsigned *units) {
    REEF_CLAIM(block, guard);
    unsigned unit;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(unit));
    long long start = clock64();
    while (clock64() - start < 200000) {
    }
    if (reef::is_first_thread()) units[block.index] = unit;
}
"#;
/// Few multiprocessors of any device that has green contexts.
const OPTIONS: &str = "beside=100000&beside_on=8";
const BLOCKS: u32 = 528;

/// A queue that can be stopped, and what its launches say.
struct Bench {
    device: Cuda,
    queue: Queue,
    units: Buffer,
    next: u64,
}

impl Bench {
    /// Multiprocessors that blocks of the next command run on.
    fn run(&mut self, start: impl FnOnce(&mut Queue, Seq)) -> BTreeSet<u32> {
        self.device.write(&self.units, 0, &[0xff; 4 * BLOCKS as usize]).unwrap();
        start(&mut self.queue, Seq(self.next));
        self.next += 1;
        while self.queue.completed().unwrap() < Seq(self.next) {
            std::thread::yield_now();
        }
        let mut bytes = vec![0; 4 * BLOCKS as usize];
        self.device.read(&self.units, 0, &mut bytes).unwrap();
        let units: BTreeSet<_> =
            bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect();
        assert!(!units.contains(&u32::MAX), "a block has not run");
        units
    }
}

#[test]
fn capped_graphs_keep_to_few_multiprocessors() {
    let Some(device) = reef_conformance::open::<Cuda>(0, OPTIONS) else { return };
    let module = match device.compile(SOURCE) {
        Ok(module) => module,
        Err(Error::NotFound(why)) => return reef_conformance::skip(&why),
        Err(error) => panic!("{error}"),
    };
    let units: Buffer = device.alloc(4 * BLOCKS as usize).unwrap();
    let kernel = module.kernel("locate").unwrap();
    let args = Args::new(&[device.address(&units)]);
    // SAFETY: what the source takes.
    let launch = unsafe { Launch::new(kernel, [BLOCKS, 1, 1], [128, 1, 1], args) };
    let graph = device.graph(&[Command::Launch(launch.clone())]).unwrap();
    let preemptor = device.preemptor(PreemptLevel::All).unwrap();
    assert_eq!(preemptor.level(), PreemptLevel::All);
    let queue = device.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    let all = device.info().units;
    let mut bench = Bench { device, queue, units, next: 0 };
    let mut count = |what: &str, cap: Option<u32>, with_graph: bool| {
        bench.queue.cap_blocks(cap);
        let seen = bench.run(|queue, seq| {
            if with_graph {
                queue.launch_graph(seq, &graph, None).unwrap()
            } else {
                queue.launch(seq, &launch, None).unwrap()
            }
        });
        println!("{what}: on {} of {all} multiprocessors: {seen:?}", seen.len());
        seen.len() as u32
    };
    let whole = count("a launch", None, false);
    let capped = count("a capped launch", Some(BLOCKS), false);
    count("a graph's first run, launch by launch", None, true);
    let whole_graph = count("a graph", None, true);
    let capped_graph = count("a capped graph", Some(BLOCKS), true);
    assert!(whole.min(whole_graph) > all / 2, "the test can't tell");
    assert!(capped <= all / 4, "capped launches are on {capped} of {all} multiprocessors");
    assert!(
        capped_graph <= all / 4,
        "capped graphs are on {capped_graph} of {all} multiprocessors"
    );
}
