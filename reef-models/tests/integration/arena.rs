//! Sharing memory never costs a step its inputs.

use proptest::prelude::*;
use reef_models::arena::{self, ALIGNMENT};
use reef_models::{KernelCall, Model, NAMES, ScheduleGraph, Step, Storage, Work};

/// Runs the steps over an arena that only remembers whose bytes are where.
///
/// Whatever a step reads from the arena must still be there, also after the step has written.
fn check(graph: &ScheduleGraph) {
    let plan = arena::plan(graph);
    assert_eq!(plan.bytes % ALIGNMENT, 0);
    let mut owners = vec![usize::MAX; plan.bytes / ALIGNMENT];
    let span = |storage: usize| {
        let begin = plan.offsets[storage]?;
        assert_eq!(begin % ALIGNMENT, 0);
        Some(begin / ALIGNMENT..(begin + graph.storages[storage].bytes()).div_ceil(ALIGNMENT))
    };
    for (k, step) in graph.steps.iter().enumerate() {
        if let Some(span) = span(step.writes) {
            owners[span].fill(step.writes);
        }
        for &read in &step.reads {
            let own = span(read).is_none_or(|span| owners[span].iter().all(|&o| o == read));
            assert!(own, "step {k}: something else lies in storage {read}");
        }
    }
}

/// Steps that each write the next storage and read any earlier ones; the last is the output.
fn graphs() -> impl Strategy<Value = ScheduleGraph> {
    let step = (1usize..500, prop::collection::vec(any::<prop::sample::Index>(), 1..4));
    prop::collection::vec(step, 1..40).prop_map(|steps| graph(&steps))
}

fn graph(steps: &[(usize, Vec<prop::sample::Index>)]) -> ScheduleGraph {
    let mut storages = vec![Storage::floats("data", 7)];
    let mut list = Vec::new();
    for (writes, (elements, reads)) in (1..).zip(steps) {
        let name = if writes == steps.len() { "output" } else { "null" };
        storages.push(Storage::floats(name, *elements));
        let call = KernelCall { grid: [1; 3], block: [1; 3], args: Vec::new() };
        let reads = reads.iter().map(|read| read.index(writes)).collect();
        list.push(Step { name: "k".into(), work: Work::Kernel(call), reads, writes });
    }
    ScheduleGraph { name: "random".into(), storages, steps: list, given: vec![0] }
}

proptest! {
    #[test]
    fn inputs_outlast_the_step_that_reads_them_in_any_graph(graph in graphs()) {
        check(&graph);
        prop_assert!(arena::plan(&graph).bytes <= arena::private_bytes(&graph));
    }
}

#[test]
fn inputs_outlast_the_step_that_reads_them_in_every_network() {
    for name in NAMES {
        check(Model::open(name).read().unwrap().graph().unwrap());
    }
}

#[test]
fn sharing_costs_what_the_table_says() {
    let table = [
        ("resnet18", 4_014_080, 10_739_712),
        ("resnet50", 7_225_344, 45_266_944),
        ("resnet152", 7_225_344, 91_027_456),
        ("densenet121", 8_028_160, 71_304_192),
        ("densenet201", 8_028_160, 108_538_368),
        ("inception_v3", 8_297_856, 46_722_304),
        ("vgg19", 25_690_112, 65_562_624),
        ("alexnet", 961_024, 2_326_016),
        ("mobilenet_v1", 4_816_896, 20_174_848),
        ("mobilenet_v2", 6_021_120, 26_717_568),
        ("mobilenet_v3_small", 1_128_960, 6_819_904),
        ("mobilenet_v3_large", 4_014_080, 20_034_688),
    ];
    let have: Vec<_> = NAMES
        .iter()
        .map(|name| {
            let model = Model::open(name).read().unwrap();
            let graph = model.graph().unwrap();
            (*name, arena::plan(graph).bytes, arena::private_bytes(graph))
        })
        .collect();
    assert_eq!(have, table);
}
