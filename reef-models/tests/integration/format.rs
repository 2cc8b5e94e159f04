//! Files in REEF's format, made up for these tests: `format/pingpong.json` and its profile.
//!
//! Two of its launches write the same storage, so it can't be replayed from everywhere.

use reef_models::param::Params;
use reef_models::profile::Latencies;
use reef_models::{ScheduleGraph, Work, hazards};

fn file(name: &str) -> String {
    format!("{}/tests/format/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn graph() -> ScheduleGraph {
    ScheduleGraph::load(file("pingpong.json")).unwrap()
}

#[test]
fn launches_are_read_with_what_they_read_and_write() {
    let graph = graph();
    assert_eq!(
        (graph.name.as_str(), graph.given.as_slice()),
        ("pingpong", [0, 1, 2, 3].as_slice())
    );
    assert_eq!((graph.storages.len(), graph.bytes()), (8, 4 * 5028 + 8 * 10));
    assert_eq!(graph.kernels().len(), 4, "one is launched twice");
    let flow: Vec<_> = graph.steps.iter().map(|step| (&*step.reads, step.writes)).collect();
    let want: [(&[usize], usize); 5] =
        [(&[0, 1], 4), (&[4], 5), (&[5, 1], 4), (&[3], 6), (&[4, 2, 6], 7)];
    assert_eq!(flow, want);
    let Work::Kernel(call) = &graph.steps[2].work else { panic!("{:?}", graph.steps[2].work) };
    assert_eq!((call.grid, call.block), ([8, 2, 1], [64, 1, 1]));
}

#[test]
fn storages_written_twice_can_not_be_replayed() {
    let graph = graph();
    assert_eq!([0, 1, 2].map(|d| hazards(&graph, d)), [vec![], vec![2], vec![3]]);
}

#[test]
fn a_profile_covers_its_graph() {
    let graph = graph();
    let latencies = Latencies::load(file("pingpong.profile.json")).unwrap();
    assert!(latencies.kernels.keys().eq(graph.kernels()));
    let profiles = latencies.profiles_of(&graph);
    let convolution = &profiles["fused_nn_conv2d_kernel0"];
    assert_eq!((convolution.blocks, convolution.resources.threads), (16, 64));
    assert_eq!((convolution.micros, &*convolution.round_micros), (18, [18, 20, 26].as_slice()));
    let text = latencies.to_json().unwrap();
    assert_eq!(Latencies::from_json(&text, "again").unwrap(), latencies);
}

#[test]
fn parameters_are_checked_against_their_storages() {
    let graph = graph();
    let check = |name: &str, values: usize| {
        let params = Params { tensors: [(name.to_owned(), vec![0.0; values])].into() };
        params.check(&graph).map_err(|problem| problem.to_string())
    };
    assert_eq!(check("p0", 144), Ok(()));
    assert!(check("p0", 7).unwrap_err().starts_with("\"p0\" has 7 values, its storage "));
    assert_eq!(check("output", 7).unwrap_err(), "\"output\" is no parameter of the graph");
    assert_eq!(check("p2", 10).unwrap_err(), "\"p2\" is a float, its storage Int64");
}
