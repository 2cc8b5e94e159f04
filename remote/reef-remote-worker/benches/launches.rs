//! Time of a launch that is not waited for, at the caller and as a rate, and of a call that waits.
//!
//! The way is the client's library, a socket, and a worker on the fake driver, whose calls cost
//! next to nothing.
//!
//! `cargo bench -p reef-remote-worker`

#[path = "../../../interpose/reef-shim/tests/common/mod.rs"]
mod common;
#[path = "../tests/support/mod.rs"]
mod support;

use common::{Driver, call};
use std::time::Instant;

/// Launches of a burst, which the client sends without a wait.
const BURST: u32 = 4000;
/// Launches of the rate.
const LAUNCHES: u32 = 400_000;
/// Calls that wait.
const CALLS: u32 = 20_000;

fn main() {
    // SAFETY: no other thread reads the environment yet.
    unsafe { std::env::set_var("REEF_FAKE_INSTANT", "1") };
    for (way, address) in [("unix", support::socket("bench")), ("tcp", "127.0.0.1:0".into())] {
        let address = support::serve(&address);
        // SAFETY: the server's thread accepts, and reads no variable before a client connects.
        unsafe { std::env::set_var("REEF_REMOTE", &address) };
        measure(way, support::client(way));
    }
}

fn measure(way: &str, driver: Driver) {
    let mut context = 0_usize;
    assert_eq!(call!(driver, cuInit(0)), 0);
    assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0)), 0);
    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
    let work = driver.work(8);
    let launcher = driver.launcher("cuLaunchKernel");
    let launches = |count: u32| {
        for value in 0..count {
            assert_eq!(launcher.launch(work.mix, work.stream, work.memory, value.into()), 0);
        }
    };
    let wait = || assert_eq!(call!(driver, cuStreamSynchronize(work.stream)), 0);
    launches(BURST);
    wait();
    let mut quiet = Vec::new();
    for _ in 0..50 {
        let begin = Instant::now();
        launches(BURST);
        quiet.push(begin.elapsed().as_nanos() / u128::from(BURST));
        wait();
    }
    quiet.sort_unstable();
    let begin = Instant::now();
    launches(LAUNCHES);
    wait();
    let rate = f64::from(LAUNCHES) / begin.elapsed().as_secs_f64();
    let mut waits = Vec::new();
    for _ in 0..CALLS {
        let begin = Instant::now();
        assert_eq!(call!(driver, cuStreamQuery(work.stream)), 0);
        waits.push(begin.elapsed().as_nanos());
    }
    waits.sort_unstable();
    println!(
        "{way}: launch {} ns at the caller (median of bursts of {BURST}), {:.0} k launches/s, a call that waits {:.1} us p50, {:.1} p99",
        quiet[quiet.len() / 2],
        rate / 1000.0,
        waits[waits.len() / 2] as f64 / 1000.0,
        waits[waits.len() * 99 / 100] as f64 / 1000.0,
    );
}
