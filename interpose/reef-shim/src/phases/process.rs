//! Count of the phases of all threads.

use crate::driver::calls;
use crate::driver::state::{Inside, is_on};
use crate::guest::attach;
use crate::guest::device::Device;
use crate::guest::phase::member::Refusal;
use crate::guest::phase::state::set_in_phase;
use crate::settings::settings;
use reef_guest::page::Class;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Phases that have begun and not ended, of all threads.
static PHASES: Mutex<u32> = Mutex::new(0);

/// Interval between polls of a closed gate, and the maximum wait: a gate opens by itself before.
const POLL_INTERVAL: Duration = Duration::from_micros(50);
const MAX_WAIT: Duration = Duration::from_secs(2);

fn phases() -> MutexGuard<'static, u32> {
    PHASES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Effect of a phase's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It has begun: end it.
    Begun,
    /// There is nothing to do, because this process isn't scheduled. It needs no end.
    None,
}

/// Returns whether this process may be scheduled. A child process isn't, nor one after a panic.
fn is_scheduled() -> bool {
    is_on() && settings().socket.is_some()
}

pub(super) fn begin() -> Result<Effect, Refusal> {
    if !is_scheduled() {
        return Ok(Effect::None);
    }
    let _inside = Inside::always();
    let mut phases = phases();
    if *phases == 0 {
        join_current();
        let joined = attach::joined();
        if joined.is_empty() {
            return Ok(Effect::None);
        }
        let be: Vec<_> = joined.iter().filter(|(device, _)| !device.is_real_time()).collect();
        for (index, (device, uuid)) in be.iter().enumerate() {
            if let Err(why) = device.phase.ask(*uuid) {
                be[..index].iter().for_each(|(device, _)| device.phase.take_back());
                return Err(why);
            }
        }
        be.iter().for_each(|(device, _)| device.phase.begin(&device.page));
        set_in_phase(true);
    }
    *phases += 1;
    Ok(Effect::Begun)
}

/// Joins the current context's device, if a context is current: the program may not have launched
/// anything yet.
fn join_current() {
    let mut ordinal = 0;
    if calls::context_device(&mut ordinal) == Some(0) {
        let _ = attach::device();
    }
}

/// Ends a phase. Returns false if none has begun.
pub(super) fn end() -> bool {
    if !is_scheduled() {
        return true;
    }
    let mut phases = phases();
    match *phases {
        0 => false,
        1 => {
            set_in_phase(false);
            // A daemon may have ended since the phase began: the phase ends all the same.
            attach::devices().iter().for_each(|device| device.phase.end(&device.page));
            *phases = 0;
            true
        }
        more => {
            *phases = more - 1;
            true
        }
    }
}

/// Number of phases that last.
pub(super) fn count() -> u32 {
    if is_scheduled() { *phases() } else { 0 }
}

/// Class of this process on the devices that it has joined. `None`: it has joined none.
pub(super) fn class() -> Option<Class> {
    let joined = if is_scheduled() { attach::joined() } else { Vec::new() };
    let is_real_time = joined.iter().any(|(device, _)| device.is_real_time());
    let class = if is_real_time { Class::RealTime } else { Class::BestEffort };
    (!joined.is_empty()).then_some(class)
}

/// Returns whether this process's gates are closed on a device.
pub(super) fn is_held() -> bool {
    is_scheduled() && attach::joined().iter().any(|(device, _)| is_closed(device))
}

fn is_closed(device: &Device) -> bool {
    !device.is_real_time() && device.page.holders.is_closed()
}

/// Lets other programs have the devices: those that this one holds are released until its next
/// launch, and a thread of a best-effort program waits until its gates are open.
pub(super) fn yield_now() {
    if !is_scheduled() {
        return;
    }
    let joined = attach::joined();
    for (device, _) in &joined {
        if device.is_real_time() {
            device.release_peers(device.page.activity.pulse());
        } else {
            device.phase.pause();
        }
    }
    let begin = Instant::now();
    while joined.iter().any(|(device, _)| is_closed(device)) && begin.elapsed() < MAX_WAIT {
        std::thread::sleep(POLL_INTERVAL);
    }
}
