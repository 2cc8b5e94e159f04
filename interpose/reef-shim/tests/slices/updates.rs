//! Updates of executable graphs with slices.

use crate::common::{self, Driver, FAKE, call, library};
use crate::graphs::{is_stopped, learned};
use crate::nodes::{Call, capture, chain, destroy, destroy_exec, instantiate, launch};
use crate::program::{Held, Shape, expected, run_alone};

/// `CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE`.
const REFUSED: u32 = 910;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: u32 = 2;

/// Runs the graph once on cleared memory.
fn run(program: &Held, exec: usize, shape: &Shape) -> Vec<u32> {
    program.clear();
    program.inspect(shape);
    launch(program, exec);
    program.synchronize();
    program.memory()
}

fn update(program: &Held, exec: usize, graph: usize) -> (u32, usize) {
    let mut result = [7_usize; 3];
    let code = call!(program.driver, cuGraphExecUpdate_v2(exec, graph, result.as_mut_ptr()));
    (code, result[1])
}

fn enable(program: &Held, exec: usize, node: usize, is_enabled: bool) {
    let driver = program.driver;
    assert_eq!(call!(driver, cuGraphNodeSetEnabled(exec, node, is_enabled)), 0);
    let mut enabled = 7_u32;
    assert_eq!(call!(driver, cuGraphNodeGetEnabled(exec, node, &raw mut enabled)), 0);
    assert_eq!(enabled, u32::from(is_enabled));
}

#[test]
fn parameters_go_to_all_slices_or_to_the_whole() {
    let (program, tiles) = learned();
    let (graph, nodes) = chain(&program, &[tiles, tiles]);
    let (exec, _) = instantiate(&program, graph);
    let last = |value| assert_eq!(Call { value, ..tiles }.set(&program, exec, nodes[1]), 0);
    assert_eq!(Call { value: 8, ..tiles }.set(&program, exec, nodes[0]), 0);
    last(5);
    assert!(is_stopped(&program, exec, &tiles.shape, &[8, 5]));
    assert_eq!(Call { value: 6, ..tiles }.set_any(&program, exec, nodes[0]), 0);
    assert!(is_stopped(&program, exec, &tiles.shape, &[6, 5]));
    // Other grids, another kernel: whole.
    for (name, grid) in [("tiles", [290, 1, 1]), ("tiles", [302, 1, 1]), ("rounds", [301, 1, 1])] {
        let kernel = program.kernel(name);
        let call = Call { kernel, shape: Shape { grid, ..tiles.shape }, value: 2 };
        assert_eq!(call.set(&program, exec, nodes[0]), 0);
        let (words, larger) = (run(&program, exec, &call.shape), call.shape.blocks().min(301));
        let both = expected(&call.shape, &[2, 5]);
        assert!(words[..larger] == both[..larger], "{name} {grid:?}");
        assert!(words[larger..] == expected(&call.shape, &[2])[larger..], "{name} {grid:?}");
    }
    assert!(!is_stopped(&program, exec, &tiles.shape, &[2, 5]));
    // As before.
    assert_eq!(tiles.set(&program, exec, nodes[0]), 0);
    assert!(is_stopped(&program, exec, &tiles.shape, &[3, 5]));
    // An update that the driver refuses changes nothing.
    let none = Shape { grid: [0, 1, 1], ..tiles.shape };
    assert_ne!(Call { shape: none, ..tiles }.set(&program, exec, nodes[0]), 0);
    let other = chain(&program, &[tiles]).1;
    assert_ne!(Call { value: 1, ..tiles }.set(&program, exec, other[0]), 0);
    assert!(is_stopped(&program, exec, &tiles.shape, &[3, 5]));
    destroy_exec(&program, exec);
}

#[test]
fn parameters_from_another_context_are_of_the_function_own() {
    let (program, tiles) = learned();
    let driver = program.driver;
    let (graph, nodes) = chain(&program, &[tiles]);
    let (exec, _) = instantiate(&program, graph);
    let [other, ..] = program.other_context();
    assert_eq!(Call { value: 8, ..tiles }.set(&program, exec, nodes[0]), 0);
    assert_eq!(call!(driver, cuCtxDestroy_v2(other)), 0);
    assert_eq!(call!(driver, cuCtxSetCurrent(1)), 0);
    assert!(is_stopped(&program, exec, &tiles.shape, &[8]));
    destroy_exec(&program, exec);
}

#[test]
fn panic_of_the_library_leaves_its_graphs_usable() {
    run_alone("updates::program_after_a_panic", &[]);
}

#[test]
#[ignore = "a part of another test"]
fn program_after_a_panic() {
    let (program, tiles) = learned();
    let (nine, shape) = (Call { value: 9, ..tiles }, tiles.shape);
    let (graph, nodes) = chain(&program, &[tiles, nine]);
    let (exec, _) = instantiate(&program, graph);
    let other = chain(&program, &[tiles]).0;
    assert_eq!(call!(Driver::open(&library(FAKE)), reef_fake_endless_graph(other)), 0);
    instantiate(&program, other);
    let gates = program.gates();
    let plain = instantiate(&program, chain(&program, &[tiles]).0).0;
    assert_eq!(program.gates(), gates, "nothing is cut after a panic");
    destroy_exec(&program, plain);
    assert_eq!(Call { value: 8, ..tiles }.set(&program, exec, nodes[0]), 0);
    assert!(run(&program, exec, &shape) == expected(&shape, &[8, 9]));
    enable(&program, exec, nodes[0], false);
    assert!(run(&program, exec, &shape) == expected(&shape, &[9]));
    enable(&program, exec, nodes[0], true);
    let five = chain(&program, &[Call { value: 5, ..tiles }, nine]).0;
    assert_eq!(update(&program, exec, five).0, 0);
    assert!(run(&program, exec, &shape) == expected(&shape, &[5, 9]));
    destroy_exec(&program, exec);
}

#[test]
fn change_that_a_slice_refuses_is_undone() {
    let (program, tiles) = learned();
    let (graph, nodes) = chain(&program, &[tiles]);
    let (exec, _) = instantiate(&program, graph);
    let small = Call { shape: Shape { grid: [290, 1, 1], ..tiles.shape }, value: 6, ..tiles };
    let four = Call { value: 4, ..tiles };
    for (first, other) in [(1, small), (3, small), (2, four)] {
        program.refuse_sets(first, 1);
        assert_eq!(other.set(&program, exec, nodes[0]), OUT_OF_MEMORY);
        assert!(is_stopped(&program, exec, &tiles.shape, &[3]), "{first}");
    }
    assert_eq!(small.set(&program, exec, nodes[0]), 0);
    for (first, other) in [(1, tiles), (3, tiles), (5, Call { value: 2, ..small })] {
        program.refuse_sets(first, 1);
        assert_eq!(other.set(&program, exec, nodes[0]), OUT_OF_MEMORY);
        assert!(run(&program, exec, &small.shape) == expected(&small.shape, &[6]), "{first}");
    }
    assert_eq!(four.set(&program, exec, nodes[0]), 0);
    assert!(is_stopped(&program, exec, &tiles.shape, &[4]));
    destroy_exec(&program, exec);
}

#[test]
fn change_that_cannot_be_undone_is_never_launched() {
    let (program, tiles) = learned();
    let four = Call { value: 4, ..tiles };
    for (is_updated, refused) in [(false, 2), (true, 1)] {
        let (graph, nodes) = chain(&program, &[tiles]);
        let (exec, _) = instantiate(&program, graph);
        if is_updated {
            assert_eq!(update(&program, exec, graph).0, 0);
        }
        program.refuse_sets(3, refused);
        assert_eq!(four.set(&program, exec, nodes[0]), OUT_OF_MEMORY);
        program.clear();
        let code = call!(program.driver, cuGraphLaunch(exec, program.stream));
        assert_eq!(code, OUT_OF_MEMORY, "it is neither the former graph nor the new one");
        program.synchronize();
        assert!(program.memory().iter().all(|word| *word == 0));
        destroy_exec(&program, exec);
    }
}

#[test]
fn disabled_node_disables_all_slices() {
    let (program, tiles) = learned();
    let (graph, nodes) = chain(&program, &[tiles, Call { value: 9, ..tiles }]);
    let (exec, _) = instantiate(&program, graph);
    let shape = tiles.shape;
    enable(&program, exec, nodes[0], false);
    assert!(run(&program, exec, &shape) == expected(&shape, &[9]));
    // It stays so through updates of all kinds, to the whole too.
    let small = Shape { grid: [290, 1, 1], ..shape };
    for call in [Call { value: 5, ..tiles }, Call { shape: small, ..tiles }, tiles] {
        assert_eq!(call.set(&program, exec, nodes[0]), 0);
        assert!(run(&program, exec, &shape) == expected(&shape, &[9]), "{call:?}");
    }
    enable(&program, exec, nodes[0], true);
    assert!(is_stopped(&program, exec, &shape, &[3, 9]));
    // A whole one that is disabled and enabled.
    assert_eq!(Call { shape: small, value: 4, ..tiles }.set(&program, exec, nodes[0]), 0);
    enable(&program, exec, nodes[0], false);
    enable(&program, exec, nodes[0], true);
    enable(&program, exec, nodes[1], false);
    assert!(run(&program, exec, &small) == expected(&small, &[4]));
    assert!(run(&program, exec, &shape)[290..].iter().all(|word| *word == 0));
    destroy_exec(&program, exec);
}

#[test]
fn executable_graph_takes_values_and_sizes_of_another() {
    let (program, tiles) = learned();
    let (graph, nodes) = chain(&program, &[tiles, Call { value: 9, ..tiles }]);
    let (exec, _) = instantiate(&program, graph);
    destroy(&program, graph);
    let with = |first: Call, second: Call| chain(&program, &[first, second]).0;
    let shape = tiles.shape;
    let (four, five) = (Call { value: 4, ..tiles }, Call { value: 5, ..tiles });
    assert_eq!(update(&program, exec, with(four, five)).0, 0);
    assert!(is_stopped(&program, exec, &shape, &[4, 5]));
    // Another size of the first one, and back by the older call.
    let small = Shape { grid: [290, 1, 1], ..shape };
    let sized = Call { shape: small, value: 6, ..tiles };
    assert_eq!(update(&program, exec, with(sized, Call { value: 7, ..sized })).0, 0);
    assert!(!is_stopped(&program, exec, &small, &[6, 7]));
    assert!(run(&program, exec, &shape)[290..].iter().all(|word| *word == 0));
    let (driver, back, mut error, mut result) = (program.driver, with(five, four), 7_usize, 7_u32);
    let code = call!(driver, cuGraphExecUpdate(exec, back, &raw mut error, &raw mut result));
    assert_eq!((code, result), (0, 0));
    assert!(is_stopped(&program, exec, &shape, &[5, 4]));
    // Disabled, it stays disabled; its node is the program's.
    enable(&program, exec, nodes[0], false);
    assert_eq!(update(&program, exec, with(four, five)).0, 0);
    assert!(run(&program, exec, &shape) == expected(&shape, &[5]));
    enable(&program, exec, nodes[0], true);
    assert!(is_stopped(&program, exec, &shape, &[4, 5]));
    destroy_exec(&program, exec);
}

#[test]
fn refused_update_names_the_program_node_and_changes_nothing() {
    let (program, tiles) = learned();
    let driver = program.driver;
    let (graph, _) = chain(&program, &[tiles, Call { value: 9, ..tiles }]);
    let (exec, _) = instantiate(&program, graph);
    let other = Call { value: 1, ..tiles };
    // More nodes, fewer, another order, and a cooperative one.
    let (long, _) = chain(&program, &[other, other, other]);
    assert_eq!(update(&program, exec, long).0, REFUSED);
    let (short, _) = chain(&program, &[other]);
    assert_eq!(update(&program, exec, short).0, REFUSED);
    let (colocate, first) = chain(&program, &[other]);
    let second = other.add(&program, colocate, &[]);
    let (code, node) = update(&program, exec, colocate);
    assert_eq!(code, REFUSED);
    assert!(node == second || node == first[0], "a node of the program's: {node:#x}");
    let (whole, nodes) = chain(&program, &[other, other]);
    let words = [1_u64; 8];
    assert_eq!(call!(driver, cuGraphKernelNodeSetAttribute(nodes[1], 2, words.as_ptr())), 0);
    assert_eq!(update(&program, exec, whole), (REFUSED, nodes[1]));
    assert!(is_stopped(&program, exec, &tiles.shape, &[3, 9]));
    destroy_exec(&program, exec);
}

#[test]
fn captured_graph_is_updated_from_another_capture() {
    let (program, tiles) = learned();
    let graph = capture(&program, &[tiles, Call { value: 9, ..tiles }]);
    let (exec, _) = instantiate(&program, graph);
    destroy(&program, graph);
    for values in [[1, 2], [3, 4]] {
        let other = capture(&program, &values.map(|value| Call { value, ..tiles }));
        assert_eq!(update(&program, exec, other).0, 0);
        destroy(&program, other);
        assert!(is_stopped(&program, exec, &tiles.shape, &values));
    }
    destroy_exec(&program, exec);
}

/// Updates, switches, launches and holds at random.
#[test]
fn random_updates_leave_the_memory_of_whole_kernels() {
    let (program, tiles) = learned();
    let (mut calls, mut is_on) = ([tiles; 3], [true; 3]);
    let (graph, nodes) = chain(&program, &calls);
    let (exec, gates) = instantiate(&program, graph);
    assert!(gates >= 30, "{gates} gates");
    let mut seed = 7_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for round in 0..120 {
        let at = random(3) as usize;
        let grid = [301, 301, 301, 290, 17][random(5) as usize];
        let shape = Shape { grid: [grid, 1, 1], ..tiles.shape };
        let call = Call { shape, value: random(1000) as u32, ..tiles };
        match random(5) {
            0 => {
                is_on[at] = !is_on[at];
                enable(&program, exec, nodes[at], is_on[at]);
            }
            1 => {
                calls[at] = call;
                let other = chain(&program, &calls).0;
                assert_eq!(update(&program, exec, other).0, 0);
                destroy(&program, other);
            }
            2 => {
                calls[at] = call;
                assert_eq!(call.set_any(&program, exec, nodes[at]), 0);
            }
            _ => {
                calls[at] = call;
                assert_eq!(call.set(&program, exec, nodes[at]), 0);
            }
        }
        program.clear();
        program.inspect(&tiles.shape);
        program.hold(round % 3 == 0);
        launch(&program, exec);
        // sleep: any length is right
        std::thread::sleep(std::time::Duration::from_millis(random(8)));
        program.hold(round % 3 == 1);
        std::thread::sleep(std::time::Duration::from_millis(2)); // sleep: any length is right
        program.hold(false);
        program.synchronize();
        let runs: Vec<_> = (0..3).filter(|at| is_on[*at]).map(|at| calls[at]).collect();
        let word = |at: u32| {
            let calls = runs.iter().filter(|call| at < call.shape.grid[0]);
            calls.fold(0_u32, |word, call| {
                word.wrapping_mul(31).wrapping_add(call.value).wrapping_add(at)
            })
        };
        let whole: Vec<_> = (0..301).map(word).collect();
        assert!(program.memory() == whole, "round {round}: {runs:?}");
    }
    destroy_exec(&program, exec);
}
