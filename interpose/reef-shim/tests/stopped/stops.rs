//! A best-effort program with long kernels on the fake driver, whose blocks leave while it is held.
//! The fake runs the PTX that it is given block by block, with operations of other streams between
//! some of them, and with one lock for all calls, which waits keep.

use crate::common::{self, SOON, call, until, until_at_rest};
use crate::program::{Held, Shape, expected, program, report_of, run_alone};
use std::time::{Duration, Instant};

/// Number of blocks of the last launch that have run, if its memory was cleared before.
fn done(program: &Held) -> usize {
    program.memory().iter().filter(|word| **word != 0).count()
}

/// Launches the kernel on cleared memory, and holds the program when some blocks have run. Returns
/// how many have run once no more do.
fn stop(program: &Held, tiles: usize, shape: &Shape, value: u32) -> usize {
    program.clear();
    assert_eq!(program.launch(tiles, shape, value), 0);
    until("some blocks ran", || done(program) > 10);
    program.hold(true);
    until_at_rest();
    done(program)
}

/// Launches and holds as [`stop`] does. A thread that is late finds that all blocks have run: it
/// tries again.
fn stop_in_the_middle(program: &Held, tiles: usize, shape: &Shape, value: u32) -> usize {
    let stopped = (0..20).find_map(|_| {
        let at = stop(program, tiles, shape, value);
        if at == shape.blocks() {
            program.hold(false);
            return None;
        }
        Some(at)
    });
    stopped.expect("one of twenty stops in its middle")
}

#[test]
fn held_kernel_stops_in_the_middle_of_a_slice() {
    let program = program();
    let (shape, tiles) = (Shape::line(), program.kernel("tiles"));
    program.learn_slices(tiles, &shape);
    let gates = program.gates();
    for _ in 0..8 {
        // Slices have about 40 waves of 16 blocks, so one of them is all of this kernel.
        stop_in_the_middle(&program, tiles, &shape, 3);
        program.hold(false);
        program.synchronize();
        assert!(program.memory() == expected(&shape, &[3]), "after a stop");
    }
    assert!(program.gates() - gates >= 8, "each slice has a gate");
}

#[test]
fn work_behind_a_stopped_kernel_waits_for_all_of_it() {
    let program = program();
    let (shape, tiles, driver) = (Shape::line(), program.kernel("tiles"), program.driver);
    program.learn_slices(tiles, &shape);
    let mut event = 0_usize;
    assert_eq!(call!(driver, cuEventCreate(&raw mut event, 0)), 0);
    let reliefs = program.reliefs();
    let at = stop_in_the_middle(&program, tiles, &shape, 5);
    assert_eq!(call!(driver, cuEventRecord(event, program.stream)), 0);
    assert_eq!(program.launch_cooperative(tiles, &shape, 8), 0);
    until_at_rest();
    let codes = [call!(driver, cuEventQuery(event)), call!(driver, cuStreamQuery(program.stream))];
    let is_held = (codes, done(&program)) == ([600; 2], at);
    assert!(is_held || program.reliefs() > reliefs, "{codes:?}, {} blocks", done(&program));
    program.hold(false);
    program.synchronize();
    assert_eq!(call!(driver, cuEventQuery(event)), 0);
    assert!(program.memory() == expected(&shape, &[5, 8]), "in order");
}

/// The driver's lock is with a thread of the program that waits for the stopped kernel. Nothing of
/// ours may need it then.
#[test]
fn thread_inside_the_driver_delays_no_resume() {
    let program = program();
    let (shape, tiles, driver) = (Shape::line(), program.kernel("tiles"), program.driver);
    program.learn_slices(tiles, &shape);
    let calls: [(&str, &(dyn Fn() + Sync)); 4] = [
        ("cuCtxSynchronize", &|| assert_eq!(call!(driver, cuCtxSynchronize()), 0)),
        ("cuMemFree", &|| {
            let mut at = 0_usize;
            assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut at, 64)), 0);
            assert_eq!(call!(driver, cuMemFree_v2(at)), 0);
        }),
        ("cuStreamSynchronize", &|| program.synchronize()),
        ("cuMemcpyDtoH", &|| {
            let mut word = 0_u32;
            let at = program.at;
            assert_eq!(call!(driver, cuMemcpyDtoH_v2(&raw mut word, at, 4_usize)), 0);
        }),
    ];
    for (name, call) in calls {
        stop_in_the_middle(&program, tiles, &shape, 3);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                call!(driver, cuCtxSetCurrent(1));
                call();
            });
            // sleep: so that it waits in the driver; one that does not yet ends as well
            std::thread::sleep(Duration::from_millis(20));
            let begin = Instant::now();
            program.hold(false);
            waits.join().unwrap();
            let took = begin.elapsed();
            assert!(took < SOON / 2, "{name} took {took:?}");
        });
        program.synchronize();
        assert!(program.memory() == expected(&shape, &[3]), "{name}");
    }
}

/// Several launches, each of which is stopped more often than it may be.
#[test]
fn kernels_stopped_at_random_leave_the_memory_of_whole_ones() {
    let seed =
        std::env::var("REEF_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7_u64);
    let mut random = seed;
    let mut below = move |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % bound
    };
    let program = program();
    let tiles = program.kernel("tiles");
    let several = [[1920, 1, 1], [40, 48, 1]].map(|grid| Shape { grid, ..Shape::line() });
    for shape in Shape::all().into_iter().chain(several) {
        program.learn_slices(tiles, &shape);
        for round in 0..2 {
            program.clear();
            let values: Vec<u32> = (0..3).map(|_| 1 + below(9) as u32).collect();
            values.iter().for_each(|value| assert_eq!(program.launch(tiles, &shape, *value), 0));
            for _ in 0..8 {
                // sleep: any length is right
                std::thread::sleep(Duration::from_micros(300 * below(10)));
                program.hold(true);
                // sleep: any length is right
                std::thread::sleep(Duration::from_micros(300 * below(10)));
                program.hold(false);
            }
            program.synchronize();
            let is_right = program.memory() == expected(&shape, &values);
            assert!(is_right, "seed {seed}, {shape:?}, round {round}, {values:?}");
        }
    }
}

#[test]
fn context_that_ends_with_a_stopped_kernel_ends() {
    let program = program();
    let (shape, driver) = (Shape::line(), program.driver);
    let before = program.misuses();
    for round in 0..4 {
        let [context, stream, at, tiles] = program.other_context();
        for _ in 0..10 {
            program.hold(true);
            assert_eq!(program.launch_on(stream, at, tiles, &shape, 1), 0);
            program.hold(false);
            assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
            std::thread::sleep(Duration::from_millis(3)); // sleep: any length is right
        }
        assert_eq!(program.launch_on(stream, at, tiles, &shape, 1), 0);
        std::thread::sleep(Duration::from_millis(1)); // sleep: any length is right
        program.hold(true);
        std::thread::sleep(Duration::from_millis(5 + round)); // sleep: any length is right
        assert_eq!(call!(driver, cuCtxDestroy_v2(context)), 0);
        program.hold(false);
    }
    assert_eq!(program.misuses(), before, "calls with what has ended");
    assert_eq!(call!(driver, cuCtxSetCurrent(1)), 0);
}

/// Number of times that the thread that stops slices has slept.
fn sleeps() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let status = threads.filter_map(|thread| {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).ok()?;
        status.lines().next()?.ends_with("reef-stops").then_some(status)
    });
    let status = status.last().expect("a thread that stops slices");
    let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"));
    line.and_then(|line| line.split_whitespace().nth(1)).unwrap().parse().unwrap()
}

/// Waits until that thread has no work: it sleeps twice at most in a time in which it would
/// otherwise sleep a thousand times.
fn until_thread_rests() {
    until("the thread rests", || {
        let before = sleeps();
        std::thread::sleep(Duration::from_millis(100)); // sleep: time in which it would sleep
        sleeps() <= before + 2
    });
}

#[test]
fn thread_rests_while_nothing_is_on_the_device() {
    let program = program();
    let (shape, tiles) = (Shape::line(), program.kernel("tiles"));
    program.learn_slices(tiles, &shape);
    program.synchronize();
    until_thread_rests();
}

#[test]
fn lanes_of_destroyed_streams_serve_others() {
    let program = program();
    let (shape, tiles, driver) = (Shape::line(), program.kernel("tiles"), program.driver);
    program.learn_slices(tiles, &shape);
    let new = || {
        let mut stream = 0_usize;
        assert_eq!(call!(driver, cuStreamCreate(&raw mut stream, 1)), 0);
        stream
    };
    let launch = |stream| {
        assert_eq!(program.launch_on(stream, program.at, tiles, &shape, 1), 0);
    };
    // More than there are sliced streams at a time.
    let streams = [(); 20].map(|()| new());
    for stream in streams {
        launch(stream);
        assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
    }
    let stream = streams[19];
    for stream in &streams[..16] {
        assert_eq!(call!(driver, cuStreamDestroy_v2(*stream)), 0);
    }
    program.clear();
    launch(stream);
    until("some blocks ran", || done(&program) > 10);
    program.hold(true);
    until_at_rest();
    let at = done(&program);
    program.hold(false);
    assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
    assert!(at < shape.blocks(), "stopped after {at}");
    assert!(program.memory() == expected(&shape, &[1]));
}

#[test]
fn thread_rests_after_a_fault_of_the_device() {
    run_alone("stops::program_whose_device_faults", &[]);
}

#[test]
#[ignore = "a part of another test"]
fn program_whose_device_faults() {
    let program = program();
    let (shape, tiles, driver) = (Shape::line(), program.kernel("tiles"), program.driver);
    program.learn_slices(tiles, &shape);
    let (mut other, mut word) = (0_usize, Box::new([0_u64; 512]));
    assert_eq!(call!(driver, cuStreamCreate(&raw mut other, 1)), 0);
    let at = word.as_mut_ptr() as usize;
    assert_eq!(call!(driver, cuMemHostRegister_v2(at, 4096, 0)), 0);
    assert_eq!(call!(driver, cuStreamWaitValue32_v2(other, at, 1, 0)), 0);
    program.hold(true);
    assert_eq!(program.launch(tiles, &shape, 3), 0);
    // The word that a stream waits for is gone.
    assert_eq!(call!(driver, cuMemHostUnregister(at)), 0);
    until("the device has faulted", || call!(driver, cuStreamQuery(other)) == 700);
    program.hold(false);
    until_thread_rests();
}

/// The line of a kernel in the report of a test of this file.
fn line_of(test: &str, kernel: &str, block_nanos: &str) -> String {
    let text = report_of(&format!("stops::{test}"), &[("REEF_FAKE_BLOCK_NS", block_nanos)]);
    let begin = format!("  long kernel {kernel}, ");
    let line = text.lines().find(|line| line.starts_with(&begin));
    line.unwrap_or_else(|| panic!("no line in {text}")).to_owned()
}

#[test]
fn report_says_how_often_a_kernel_was_stopped() {
    let line = line_of("held_kernel_stops_in_the_middle_of_a_slice", "tiles", "20000");
    // Words were written; that blocks have left in time isn't seen.
    let stops = line.split(", told to stop ").nth(1).and_then(|rest| rest.split(' ').next());
    assert!(stops.is_some_and(|stops| stops.parse::<u64>().unwrap() >= 8), "{line}");
    assert!(!line.contains("inside of blocks"), "{line}");
}

/// The fake runs a block without a break, so that it is thrown away while it runs is tested in
/// reef-ptx.
#[test]
fn blocks_of_a_millisecond_may_leave_while_they_run() {
    let line = line_of("program_of_long_blocks", "rounds", "100000");
    assert!(line.contains(" times, inside of blocks too"), "{line}");
}

#[test]
#[ignore = "a part of another test"]
fn program_of_long_blocks() {
    let program = program();
    let (shape, rounds) = (Shape { grid: [200, 1, 1], ..Shape::line() }, program.kernel("rounds"));
    program.learn_slices(rounds, &shape);
    for _ in 0..4 {
        stop_in_the_middle(&program, rounds, &shape, 3);
        program.hold(false);
        program.synchronize();
        assert!(program.memory() == expected(&shape, &[3]), "after a stop");
    }
}
