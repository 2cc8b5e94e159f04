//! Graphs, on runtimes where they do what they say.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "all calls alike: handles are open, and what was taken is given back once, after its last use"
)]

use crate::bench::Bench;
use reef_core::Priority;
use reef_gpu::{Graphs, Memory, Streams, Vendor};

#[test]
fn a_graph_runs_as_often_as_it_is_launched() {
    let Some(bench) = Bench::open() else { return };
    if !bench.context.facts().graphs {
        let facts = bench.context.facts();
        return reef_conformance::skip(&format!("this runtime runs a graph once: {facts:?}"));
    }
    let (stream, word) = (bench.stream(Priority::BestEffort), bench.context.alloc(4).unwrap());
    unsafe { bench.context.begin_capture(stream) }.unwrap();
    (0..10).for_each(|_| bench.launch(stream, "bump", vec![word, 1]));
    let exec = unsafe { bench.context.end_capture(stream) }.unwrap();
    assert_eq!(bench.read(word), 0, "nothing has run");
    for _ in 0..5 {
        // SAFETY: the word is there.
        unsafe { bench.context.launch_exec(exec, stream) }.unwrap();
    }
    unsafe { bench.context.free_exec(exec) };
    unsafe { bench.context.wait(stream) }.unwrap();
    assert_eq!(bench.read(word), 50);
}

/// The runtime of HIP 5.2 has all the calls, and answers "success".
#[test]
fn a_runtime_that_runs_a_graph_once_is_found_out() {
    let Some(bench) = Bench::open() else { return };
    let facts = bench.context.facts();
    let old = facts.features.iter().any(|feature| feature.starts_with("HIP 5.2."));
    assert!(!(old && facts.graphs), "{facts:?}");
    let graphs: &[_] = if old { &[] } else { &["graphs"] };
    let want = [&["stream memory operations"], graphs, &["CU masks"]].concat();
    assert_eq!(facts.features[2..], want, "behind the target and the runtime");
}
