//! Attachment: joins the current context's device.

use super::device::Device;
use super::membership::Membership;
use super::{link, watchdog};
use crate::driver::calls;
use crate::driver::state::pass_all;
use crate::explain;
use crate::limit::device::{self as limit, LimitState};
use crate::settings::settings;
use reef_guest::join::{JoinRequest, Uuid};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard};

/// `CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT`: a display's watchdog ends work that waits for long.
const DISPLAY_WATCHDOG: u32 = 17;

/// Devices for which the daemon was asked.
static MEMBERSHIPS: Mutex<Vec<&'static Membership>> = Mutex::new(Vec::new());

fn memberships() -> MutexGuard<'static, Vec<&'static Membership>> {
    MEMBERSHIPS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns one of the joined devices.
pub(crate) fn any() -> Option<&'static Device> {
    memberships().iter().find_map(|member| member.device())
}

/// Returns all devices that were ever joined, also those that no daemon has now.
pub(crate) fn devices() -> Vec<&'static Device> {
    memberships().iter().filter_map(|member| member.device()).collect()
}

/// Returns whether no real-time work has used this process's devices of late. False if no daemon
/// says so.
pub(crate) fn is_undisturbed() -> bool {
    let devices = devices();
    !devices.is_empty() && devices.iter().all(|device| device.is_undisturbed())
}

/// Returns the devices that a daemon has joined, with their UUIDs.
pub(crate) fn joined() -> Vec<(&'static Device, Uuid)> {
    let joined = |member: &&'static Membership| {
        let device = member.device().filter(|device| device.has_daemon())?;
        (!device.is_orphaned.load(Relaxed)).then_some((device, member.request.device))
    };
    memberships().iter().filter_map(joined).collect()
}

/// Returns the current context's device and its ordinal. `None`: calls are passed on until a late
/// daemon has answered; the report says why.
pub(crate) fn device() -> Option<(&'static Device, i32)> {
    let mut ordinal = 0;
    let is_known = calls::context_device(&mut ordinal) == Some(0);
    let Some(uuid) = is_known.then(|| calls::uuid(ordinal)).flatten() else {
        return explain::refuse("the driver doesn't say which device a context has");
    };
    join(uuid, ordinal).map(|device| (device, ordinal))
}

fn join(uuid: Uuid, ordinal: i32) -> Option<&'static Device> {
    let mut memberships = memberships();
    let known = memberships.iter().copied().find(|known| known.request.device == uuid);
    if let Some(known) = known {
        drop(memberships);
        // Waited for once is enough, unless a launch would be refused meanwhile.
        return if known.limited.is_some() { known.wait() } else { known.device() };
    }
    let member = start(uuid, ordinal)?;
    memberships.push(member);
    drop(memberships);
    member.wait()
}

/// Asks the daemon for a device, unless that is pointless.
fn start(device: Uuid, ordinal: i32) -> Option<&'static Membership> {
    let settings = settings();
    let limited = match limit::of(ordinal) {
        LimitState::Limited(limited) if limited.account().has_time_limit() => Some(limited),
        _ => None,
    };
    if settings.socket.is_none() && limited.is_none() {
        return None;
    }
    let mut display_watchdog = 0;
    let _ = calls::device_attribute(&mut display_watchdog, DISPLAY_WATCHDOG, ordinal);
    if display_watchdog != 0 && limited.is_none() {
        return explain::refuse("the device has a display whose watchdog ends work that waits");
    }
    if let (Err(why), None) = (&settings.guest_info, limited) {
        return explain::refuse(why);
    }
    // SAFETY: a function that touches an atomic alone. A child process can't use the device.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    let member = Membership::new(JoinRequest { class: settings.class, device }, limited);
    let started = watchdog::start(member).and_then(|watchdog| {
        member.set_watchdog(watchdog);
        link::start(member)
    });
    if let Err(error) = started {
        member.refuse(&format!("no thread: {error}"));
    }
    Some(member)
}

unsafe extern "C" fn in_child() {
    pass_all();
}
