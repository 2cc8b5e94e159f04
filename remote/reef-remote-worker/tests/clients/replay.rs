//! Programs that repeat themselves, on the fake driver directly and elsewhere with record and
//! replay: they leave the same memory and the same codes, and few bytes travel.

use crate::alone::wait_for_turn;
use crate::common::{self, Driver, call, fake_copy, until};
use crate::support::{
    self,
    relay::{Counts, relay},
};
use reef_remote_calls::{Advance, Barrier, Define, Launch, TableCall};
use reef_wire::Hot;

/// Passes of each thread.
const PASSES: u64 = 40;
/// Launches of a pass.
const LAUNCHES: u64 = 60;

/// Opens a copy of the client's library on an address, with variables of the program.
fn remote(name: &str, address: &str, variables: &[(&str, &str)]) -> Driver {
    let driver = support::client(name);
    // SAFETY: the test holds the lock of `wait_for_turn`, and other tests read variables only while
    // they hold it.
    unsafe {
        std::env::set_var("REEF_REMOTE", address);
        std::env::set_var("REEF_REMOTE_REPLAY", "1");
        variables.iter().for_each(|(name, value)| std::env::set_var(name, value));
    }
    assert_eq!(call!(driver, cuInit(0)), 0);
    driver
}

/// Driver on a relay, and what the relay counts.
fn counted(name: &str, variables: &[(&str, &str)]) -> (Driver, Counts) {
    let server = support::serve(&support::socket(&format!("{name}-server")));
    let (address, counts) = relay(name, &server);
    (remote(name, &address, variables), counts)
}

/// Outcome of a thread: each code that was not zero with its place, and the words that it read.
type Outcome = (Vec<(u64, u32)>, Vec<u64>);

/// A thread that runs a network again and again: a content, launches on two streams, and a result.
fn thread(driver: Driver, context: usize, number: u64) -> Outcome {
    let (mut codes, mut read) = (Vec::new(), Vec::new());
    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
    let [mut memory, mut mix, mut event] = [0_usize; 3];
    let mut streams = [0_usize; 2];
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut memory, 1024)), 0);
    assert_eq!(call!(driver, cuModuleGetFunction(&raw mut mix, 0, c"mix".as_ptr())), 0);
    assert_eq!(call!(driver, cuEventCreate(&raw mut event, 0)), 0);
    for stream in &mut streams {
        assert_eq!(call!(driver, cuStreamCreate(&raw mut *stream, 1)), 0);
    }
    let launcher = driver.launcher("cuLaunchKernel");
    for pass in 0..PASSES {
        let mut check = |code: u32| {
            if code != 0 {
                codes.push((pass, code));
            }
        };
        let content: Vec<u64> = (0..16).map(|at| at * 31 + pass * 7 + number).collect();
        check(call!(driver, cuMemcpyHtoDAsync_v2(memory, content.as_ptr(), 128, streams[0])));
        for at in 0..LAUNCHES {
            // Some parameters count the passes, others alternate, most stay.
            let value = match at % 10 {
                3 => pass,
                7 => (pass + at) % 2,
                _ => at * 0x0101_0101_0101,
            };
            check(launcher.launch(mix, streams[0], memory + 8 * (at % 16) as usize, value));
            match (pass, at) {
                (30, 20) => break,                                                // an early exit
                (31, 20) => check(launcher.launch(mix, streams[0], memory, 999)), // one more
                (p, 25) if p % 4 == 3 => {
                    // Another network from here on.
                    check(call!(driver, cuMemsetD8Async(memory + 64, at, 8, streams[0])));
                }
                _ => {}
            }
        }
        if pass == 33 {
            check(call!(driver, cuEventDestroy_v2(event))); // the next two calls fail, unseen
        }
        check(call!(driver, cuEventRecord(event, streams[0])));
        check(call!(driver, cuStreamWaitEvent(streams[1], event, 0)));
        check(call!(driver, cuStreamSynchronize(streams[0])));
        if pass == 33 {
            codes.retain(|(of, _)| *of != 33); // told later than by the driver itself
            let _ = call!(driver, cuCtxSynchronize());
            assert_eq!(call!(driver, cuEventCreate(&raw mut event, 0)), 0);
        }
        let mut check = |code: u32| {
            if code != 0 {
                codes.push((pass, code));
            }
        };
        check(call!(driver, cuMemcpyDtoDAsync_v2(memory + 256, memory, 128, streams[1])));
        check(launcher.launch(mix, streams[1], memory + 256, pass));
        let mut words = [0_u64; 16];
        let to = words.as_mut_ptr();
        check(call!(driver, cuMemcpyDtoHAsync_v2(to, memory + 256, 128, streams[1])));
        check(call!(driver, cuStreamSynchronize(streams[1])));
        read.extend(words);
    }
    (codes, read)
}

fn program(driver: Driver, threads: u64) -> Vec<Outcome> {
    let mut context = 0_usize;
    assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0)), 0);
    std::thread::scope(|scope| {
        let run = |number| scope.spawn(move || thread(driver, context, number));
        let threads: Vec<_> = (0..threads).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn plainly(name: &str, threads: u64) -> Vec<Outcome> {
    let copy = fake_copy(name);
    let plain = Driver::open(&copy);
    assert_eq!(call!(plain, cuInit(0)), 0);
    let seen = program(plain, threads);
    std::fs::remove_file(copy).unwrap();
    seen
}

#[test]
fn repeated_passes_are_replayed_with_equal_results() {
    let _one = wait_for_turn();
    for threads in [1, 3] {
        let expected = plainly("reef-b0-replay", threads);
        let (eager, plain) = counted(&format!("eager-{threads}"), &[("REEF_REMOTE_REPLAY", "0")]);
        assert_eq!(program(eager, threads), expected, "{threads} threads, as they are");
        let (replaying, counts) = counted(&format!("replay-{threads}"), &[]);
        assert_eq!(program(replaying, threads), expected, "{threads} threads, replayed");
        assert_eq!((plain.of(Define::OP).0, plain.of(Advance::OP).0), (0, 0));
        let (launches, all) = (counts.of(Launch::OP).0, plain.of(Launch::OP).0);
        assert!(launches * 3 < all, "{launches} of {all} launches were sent as they are");
        let defined = counts.of(Define::OP).0 as u64;
        assert!((threads..=8 * threads).contains(&defined), "{defined} templates");
        let (bytes, frames) = (counts.of(Advance::OP).1, plain.of(Launch::OP).1);
        assert!(bytes * 3 < frames, "{bytes} bytes of records, {frames} of launches");
    }
}

#[test]
fn failure_of_a_replayed_call_reaches_its_thread() {
    let _one = wait_for_turn();
    let (driver, counts) = counted("replay-failure", &[]);
    let mut context = 0_usize;
    assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0)), 0);
    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
    let work = driver.work(64);
    let launcher = driver.launcher("cuLaunchKernel");
    let mut event = 0_usize;
    assert_eq!(call!(driver, cuEventCreate(&raw mut event, 0)), 0);
    let pass = |event: usize| {
        for at in 0..8 {
            assert_eq!(launcher.launch(work.mix, work.stream, work.memory, at), 0);
        }
        // The next call tells of it, which may be the synchronization.
        let record = call!(driver, cuEventRecord(event, work.stream));
        let last = launcher.launch(work.mix, work.stream, work.memory + 8, 8);
        [record, last, call!(driver, cuStreamSynchronize(work.stream))].into_iter().max().unwrap()
    };
    assert_eq!([0; 5].map(|_| pass(event)), [0; 5]);
    let sent = counts.of(Launch::OP).0;
    assert_eq!(pass(event + 0x1000), 400, "there is no such event");
    assert_eq!(pass(event), 0);
    assert_eq!((counts.of(Launch::OP).0, counts.of(Define::OP).0), (sent, 1), "all were replayed");
}

#[test]
fn replay_begins_by_itself_on_a_long_line_wait_for_turn() {
    let _one = wait_for_turn();
    let far = [("REEF_REMOTE_REPLAY", ""), ("REEF_REMOTE_EMULATE", "rtt:2ms")];
    let (driver, counts) = counted("far", &far);
    let mut context = 0_usize;
    assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0)), 0);
    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
    let work = driver.work(64);
    let launcher = driver.launcher("cuLaunchKernel");
    for _ in 0..6 {
        for at in 0..8 {
            assert_eq!(launcher.launch(work.mix, work.stream, work.memory, at), 0);
        }
        assert_eq!(call!(driver, cuStreamSynchronize(work.stream)), 0);
    }
    assert_eq!((counts.of(Launch::OP).0, counts.of(Define::OP).0), (24, 1));
    assert!(counts.of(Barrier::OP).0 >= 3, "round trips are measured");
}

#[test]
fn emulated_line_delays_a_call_and_no_launch() {
    let _one = wait_for_turn();
    let server = support::serve(&support::socket("emulated"));
    let driver = remote("emulated", &server, &[("REEF_REMOTE_EMULATE", "rtt:30ms+bw:100mbit")]);
    let mut context = 0_usize;
    assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0)), 0);
    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
    let work = driver.work(64);
    let launcher = driver.launcher("cuLaunchKernel");
    // Where others have the processor while it launches, it is tried again.
    until("500 launches that take less time than the line", || {
        let begin = std::time::Instant::now();
        for at in 0..500 {
            assert_eq!(launcher.launch(work.mix, work.stream, work.memory, at), 0);
        }
        let launched = begin.elapsed();
        assert_eq!(call!(driver, cuStreamSynchronize(work.stream)), 0);
        let waited = begin.elapsed();
        println!("500 launches took {launched:?}, the wait ended at {waited:?}");
        assert!(waited.as_millis() >= 30, "{waited:?}");
        launched * 2 < waited
    });
}

#[test]
fn synchronization_after_a_copy_to_the_host_is_free() {
    let _one = wait_for_turn();
    let (driver, counts) = counted("free-wait", &[]);
    let mut context = 0_usize;
    assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0)), 0);
    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
    let work = driver.work(64);
    let launcher = driver.launcher("cuLaunchKernel");
    let waits = || counts.of(TableCall::OP).0;
    let read = |stream: usize| {
        let (mut word, memory) = (0_u64, work.memory);
        assert_eq!(call!(driver, cuMemcpyDtoHAsync_v2(&raw mut word, memory, 8, stream)), 0);
    };
    let wait = || assert_eq!(call!(driver, cuStreamSynchronize(work.stream)), 0);
    read(work.stream);
    let before = waits();
    wait();
    wait();
    assert_eq!(waits(), before, "nothing was sent since");
    read(0);
    wait();
    assert_eq!(waits(), before + 1, "the copy was in another stream");
    read(work.stream);
    let launch = || assert_eq!(launcher.launch(work.mix, work.stream, work.memory, 1), 0);
    std::thread::scope(|scope| scope.spawn(launch).join().unwrap());
    wait();
    assert_eq!(waits(), before + 2, "another thread has launched");
    read(work.stream);
    std::thread::scope(|scope| scope.spawn(wait).join().unwrap());
    assert_eq!(waits(), before + 3, "another thread knows nothing of the copy");
}
