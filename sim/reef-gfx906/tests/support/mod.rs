//! AMD's runtime over the software device: as much of HIP as these tests need.
#![allow(dead_code, unused_imports, reason = "no test file needs all of it")]

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

static BENCH: OnceLock<Result<Bench, String>> = OnceLock::new();
static TURN: Mutex<()> = Mutex::new(());

/// Loads both once in a process, with an empty trace; `None`, said aloud each time, where AMD's
/// runtime is not installed. One caller at a time has them.
pub(crate) fn lock_bench(settings: Settings) -> Option<(MutexGuard<'static, ()>, &'static Bench)> {
    let turn = TURN.lock();
    let bench = BENCH.get_or_init(|| load(settings)).as_ref();
    let bench = bench.inspect_err(|why| reef_conformance::skip(why)).ok()?;
    assert!(bench.software.configure(&settings), "one device in a process; {settings:?}");
    bench.software.forget_trace();
    Some((turn, bench))
}

fn load(settings: Settings) -> Result<Bench, String> {
    let software = Software::load().expect("cargo builds the library before its tests");
    assert!(software.configure(&settings), "{settings:?} is refused");
    let hip = Hip::load()?;
    Ok(Bench { software, hip })
}
