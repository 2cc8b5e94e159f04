//! Graphs that are stopped, and how many there may be.

use super::{hurried, launch_of, preempt, sorted};
use crate::gpu::Gpu;
use crate::hal::fake::Fake;
use crate::hal::options::Options;
use proptest::collection::vec;
use proptest::prelude::*;
use reef_core::{
    Blocks, Checkpoint as _, Command, Device, Error, PreemptLevel, Preemptor as _, Priority,
    Queue as _, Seq,
};

/// Prepared graphs keep a stop list each, and as many are prepared as have runs on their way.
#[test]
fn many_graphs_of_many_launches_run_on_one_queue() {
    let gpu = Gpu::new(Fake::with_graphs(), Options::default()).unwrap();
    let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
    let mut queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    gpu.vendor().slow_down();
    let launch = Command::Launch(launch_of(&gpu, 1));
    let graph = || crate::Graph::new(&gpu, &vec![launch.clone(); 300]).unwrap();
    let graphs: Vec<_> = (0..14).map(|_| graph()).collect();
    let mut seq = 0;
    for graph in &graphs {
        for _ in 0..5 {
            queue.launch_graph(Seq(seq), graph, None).unwrap();
            seq += 1;
        }
        while queue.completed().unwrap() < Seq(seq) {
            gpu.vendor().proceed(usize::MAX);
        }
    }
}

/// Neither a graph that is longer than all counters, nor a window that is wider, ends a queue; and
/// both resume.
#[test]
fn more_launches_in_flight_than_counters_are_stopped_and_resume() {
    let (gpu, preemptor, mut queue) = hurried(PreemptLevel::DeviceQueue);
    let launch = launch_of(&gpu, 1);
    let graph = crate::Graph::new(&gpu, &vec![Command::Launch(launch.clone()); 6000]).unwrap();
    preemptor.evict().unwrap(); // so that nothing runs
    for seq in 0..3 {
        queue.launch_graph(Seq(seq), &graph, Some(&graph.all())).unwrap();
    }
    for seq in 3..2500 {
        queue.launch(Seq(seq), &launch, None).unwrap();
    }
    assert_eq!(preempt(&preemptor, &mut queue).resume_at, Seq(0));
    assert_eq!(sorted(&gpu), []);
    queue.launch_graph(Seq(0), &graph, Some(&graph.all())).unwrap();
    assert_eq!(preempt(&preemptor, &mut queue).resume_at, Seq(1));
    assert_eq!(sorted(&gpu), [0; 6000]);
}

/// The checkpoint that another device would continue with.
fn stored(
    gpu: &Gpu<Fake>,
    graph: &crate::Graph<Fake>,
    left: &crate::Checkpoint<Fake>,
) -> crate::Checkpoint<Fake> {
    let blocks = gpu.blocks(left).expect("nothing of it runs");
    let command = Command::Graph(graph.clone());
    let other = gpu.checkpoint_of(&command, &blocks).expect("they are this graph's");
    assert_eq!((other.remaining(), gpu.blocks(&other)), (left.remaining(), Ok(blocks)));
    other
}

#[test]
fn blocks_of_a_checkpoint_that_was_resumed_are_not_told() {
    let (gpu, preemptor, mut queue) = hurried(PreemptLevel::All);
    let launch = launch_of(&gpu, 4);
    preemptor.evict().unwrap(); // so that nothing runs
    queue.launch(Seq(0), &launch, None).unwrap();
    let partial = preempt(&preemptor, &mut queue).partial.expect("running blocks stop");
    let blocks = gpu.blocks(&partial).expect("nothing of it runs");
    assert_eq!(blocks.ranges().iter().cloned().flatten().collect::<Vec<_>>(), [0, 1, 2, 3]);
    queue.launch(Seq(0), &launch, Some(&partial)).unwrap();
    preempt(&preemptor, &mut queue);
    assert!(matches!(gpu.blocks(&partial), Err(Error::State { .. })), "the newer one has them");
    let wrong = [(5, 0, 4), (4, 1, 4), (3, 0, 3)];
    for (total, node, end) in wrong {
        let blocks = Blocks::new(total, node, std::iter::once(0..end).collect()).expect("in order");
        let error = gpu.checkpoint_of(&Command::Launch(launch.clone()), &blocks).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn graph_that_is_stopped_anywhere_runs_each_block_once(
        blocks in vec(1u32..6, 1..8), cap in proptest::option::of(1u32..4), voids in vec(any::<bool>(), 40),
    ) {
        let (gpu, preemptor, mut queue) = hurried(PreemptLevel::All);
        queue.cap_blocks(cap);
        let commands: Vec<_> =
            blocks.iter().map(|&blocks| Command::Launch(launch_of(&gpu, blocks))).collect();
        let graph = crate::Graph::new(&gpu, &commands).unwrap();
        let mut left = graph.all();
        for (turn, void) in voids.into_iter().chain([false; 400]).enumerate() {
            if void {
                preemptor.evict().unwrap();
            }
            queue.launch_graph(Seq(0), &graph, Some(&left)).unwrap();
            let drained = preempt(&preemptor, &mut queue);
            let Some(partial) = drained.partial else { break };
            prop_assert_eq!(left.remaining(), 0, "what has been launched is in the newer one");
            // As numbers, and back, now and then. That forgets how often a block was stopped, so
            // not at the end, where each block must have had its turn.
            let is_stored = turn < 40 && turn % 4 == 0;
            left = if is_stored { stored(&gpu, &graph, &partial) } else { partial };
        }
        let mut want: Vec<u32> = blocks.iter().flat_map(|&blocks| 0..blocks).collect();
        want.sort_unstable();
        prop_assert_eq!(sorted(&gpu), want);
    }
}
