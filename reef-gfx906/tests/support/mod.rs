//! AMD's runtime over the software device: as much of HIP as these tests need.
#![allow(dead_code, reason = "no test file needs all of it")]

mod hip;
mod memory;

pub(crate) use hip::{Argument, Function, Hip, Module, NOT_READY, Stream};
pub(crate) use memory::{Buffer, Pinned};

use parking_lot::{Mutex, MutexGuard};
use reef_gfx906::{Settings, Software};
use std::sync::OnceLock;

/// The software device with AMD's runtime on it.
pub(crate) struct Bench {
    pub(crate) software: Software,
    pub(crate) hip: Hip,
}

static BENCH: OnceLock<Option<Bench>> = OnceLock::new();
static TURN: Mutex<()> = Mutex::new(());

/// Loads both once in a process; `None`, and says so, where AMD's runtime is not installed.
pub(crate) fn bench(settings: Settings) -> Option<&'static Bench> {
    let load = || {
        let software = Software::load().expect("cargo builds the library before its tests");
        assert!(software.configure(&settings), "{settings:?} is refused");
        let hip = Hip::load().inspect_err(|why| println!("skipped: {why}")).ok()?;
        Some(Bench { software, hip })
    };
    let bench = BENCH.get_or_init(load).as_ref();
    if bench.is_none() {
        println!("skipped: no libamdhip64");
    }
    bench
}

/// As [`bench`], for tests that look at the whole device: one at a time, with an empty trace.
pub(crate) fn alone(settings: Settings) -> Option<(MutexGuard<'static, ()>, &'static Bench)> {
    let turn = TURN.lock();
    let bench = bench(settings)?;
    bench.software.forget_trace();
    Some((turn, bench))
}
