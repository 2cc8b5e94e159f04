//! Check of one launch.

use super::findings::{Entry, Found, findings};
use super::memory::{Contents, Memory, wait};
use super::report;
use crate::catch_panics::catch_panics;
use crate::driver::calls;
use crate::driver::state::Inside;
use crate::kernel_variants::kernels::{self, Kernel};
use crate::kernel_variants::launch::KernelLaunch;
use crate::kernel_variants::part::{self, Part};
use std::sync::{Arc, Mutex, PoisonError};

/// One launch at a time is checked.
static ONE: Mutex<u32> = Mutex::new(0);

/// Reason for which a check ends.
enum Stop {
    /// It is not made.
    LeftOut(String),
    /// The driver refused a call.
    Failed(&'static str, u32),
}

/// Launches a kernel, and runs it again if it is to be checked.
pub(crate) fn launch_and_compare(of: &KernelLaunch, real: impl FnOnce() -> u32) -> u32 {
    if Inside::is_here() {
        return real();
    }
    let _inside = Inside::always();
    let mut turn = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    report::begin();
    let kernel = catch_panics(|| chosen(of));
    let Some(kernel) = kernel else { return real() };
    let prepared = catch_panics(|| Some(prepare(of, &kernel)));
    let code = real();
    *turn = turn.wrapping_mul(1_103_515_245).wrapping_add(12_345);
    let (Some(prepared), 0) = (prepared, code) else { return code };
    let checked = prepared.and_then(|(memory, first)| {
        let compare = || Some(compare(of, &kernel, &memory, &first, *turn >> 8));
        catch_panics(compare).unwrap_or_else(|| Err(Stop::LeftOut("the check failed".into())))
    });
    let mut code = 0;
    let mut findings = findings();
    let entry = findings.entry(&kernel.name);
    match checked {
        Ok(found) => entry.note(found),
        Err(Stop::LeftOut(why)) => entry.left_out = Some(why),
        Err(Stop::Failed(what, refused)) => {
            entry.left_out = Some(format!("{what} ended with code {refused}"));
            code = refused;
        }
    }
    code
}

/// Returns the kernel of a launch that is to be checked.
fn chosen(of: &KernelLaunch) -> Option<Arc<Kernel>> {
    let kernel = kernels::find_or_unknown(of.function);
    let mut findings = findings();
    let entry = findings.entry(&kernel.name);
    if entry.verdict.is_empty() {
        entry.verdict = part::verdict(&kernel);
    }
    entry.begin(of.grid, of.block).then_some(kernel)
}

/// Finds the memory of a launch, and copies it.
fn prepare(of: &KernelLaunch, kernel: &Kernel) -> Result<(Memory, Contents), Stop> {
    let left_out = |why: &str| Err(Stop::LeftOut(why.into()));
    if calls::is_capturing(of.stream) {
        return left_out("it is launched in captures, whose graphs are not checked");
    }
    if !of.is_simple {
        return left_out("it is launched with attributes or packed parameters");
    }
    let parameters = part::parameters(kernel, of.function).map_err(Stop::LeftOut)?;
    calls::with_relaxed_capture(|| {
        // The program's own errors are its own.
        let busy = |_| Stop::LeftOut("the device did not become idle".into());
        wait().map_err(busy)?;
        let memory = Memory::of(of, &parameters).map_err(Stop::LeftOut)?;
        let first = memory.read().map_err(busy)?;
        Ok((memory, first))
    })
}

/// Runs the kernel again, which has been launched. Afterwards the memory is as it left it the first
/// time.
fn compare(
    of: &KernelLaunch,
    kernel: &Kernel,
    memory: &Memory,
    first: &Contents,
    random: u32,
) -> Result<Option<Found>, Stop> {
    let failed = |what: &'static str| move |code: u32| Stop::Failed(what, code);
    let copied = failed("a copy of its memory");
    let run = |from: Option<&Contents>, what: &'static str| {
        from.map_or(Ok(()), |from| memory.write(from)).map_err(copied)?;
        checked(part::launch_whole(of)).and_then(|()| wait()).map_err(failed(what))?;
        memory.read().map_err(copied)
    };
    wait().map_err(failed("the kernel"))?;
    let once = memory.read().map_err(copied)?;
    let again = run(Some(first), "the kernel on the same memory")?;
    let mut found = memory.difference(&once, &again).map(Found::Noise);
    if found.is_none() {
        let twice = run(None, "the kernel on its own result")?;
        found = memory.difference(&once, &twice).map(Found::Twice);
    }
    if found.is_none() {
        found = match Part::of(kernel, of) {
            Ok(part) => {
                let count = 1 + random as usize % (part.count() - 1);
                memory.write(first).map_err(copied)?;
                let some = checked(part.launch_slices(of, count)).and_then(|()| wait());
                some.map_err(failed("a part of the kernel"))?;
                let then = run(None, "the kernel after a part of it")?;
                let difference = memory.difference(&once, &then);
                note(kernel, |entry| entry.by_parts += 1);
                difference.map(|at| Found::AfterPart(at, count, part.count()))
            }
            Err(why) => {
                note(kernel, |entry| entry.no_parts = Some(why));
                None
            }
        };
    }
    memory.write(&once).map_err(copied)?;
    Ok(found)
}

fn note(kernel: &Kernel, change: impl FnOnce(&mut Entry)) {
    change(findings().entry(&kernel.name));
}

fn checked(code: u32) -> Result<(), u32> {
    if code == 0 { Ok(()) } else { Err(code) }
}
