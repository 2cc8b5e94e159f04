//! Joins the current context's device, and gives the device the page's address.

use super::device::Device;
use super::entries::Context;
use super::member::Member;
use super::streams::{MARKS, MOST_STREAMS};
use super::{keeper, link};
use crate::bind::state::pass_all;
use crate::limit::device::{self as limit, Standing};
use crate::own::calls::{self, relaxed};
use crate::own::explain;
use crate::settings::settings;
use reef_guest::join::{Uuid, Wish};
use reef_guest::page::{BYTES, Page};
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard};

/// `CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP`.
const PORTABLE_MAPPED: u32 = 3;
/// `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED`: by another context of this process.
const ALREADY: u32 = 712;
/// `CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT`: a display's watchdog ends what waits for long.
const WATCHDOG: u32 = 17;

/// Devices that were asked for.
static MEMBERS: Mutex<Vec<&'static Member>> = Mutex::new(Vec::new());

fn members() -> MutexGuard<'static, Vec<&'static Member>> {
    MEMBERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Some device that was joined.
pub(crate) fn any() -> Option<&'static Device> {
    members().iter().find_map(|member| member.device())
}

/// Attaches the current context. `None`: its calls are passed on, until a daemon that is late has answered; the report
/// says why.
pub(crate) fn attach() -> Option<Context> {
    relaxed(|| {
        let device = device()?;
        let gate =
            register(device.page.address().cast(), BYTES)?.checked_add(Page::HOLDERS_AT as u64)?;
        let marks = register(MARKS.address().cast_mut().cast(), MOST_STREAMS * 4)?;
        Some(Context { device, gate, marks })
    })
}

fn device() -> Option<&'static Device> {
    let mut ordinal = 0;
    let is_known = calls::context_device(&mut ordinal) == Some(0);
    let Some(uuid) = is_known.then(|| calls::uuid(ordinal)).flatten() else {
        return explain::refuse("the driver doesn't say which device a context has");
    };
    let mut members = members();
    if let Some(known) = members.iter().find(|known| known.wish.device == uuid) {
        return known.device(); // waited for once is enough
    }
    let member = start(uuid, ordinal, members.len() as u32 + 1)?;
    members.push(member);
    drop(members);
    member.wait()
}

/// Asks the daemon for a device, unless nothing can come of it.
fn start(device: Uuid, ordinal: i32, number: u32) -> Option<&'static Member> {
    let settings = settings();
    let limited = match limit::of(ordinal) {
        Standing::Limited(limited) if limited.account().has_time_limit() => Some(limited),
        _ => None,
    };
    if settings.socket.is_none() && limited.is_none() {
        return None;
    }
    let mut watchdog = 0;
    let _ = calls::device_attribute(&mut watchdog, WATCHDOG, ordinal);
    if watchdog != 0 && limited.is_none() {
        return explain::refuse("the device has a display whose watchdog ends work that waits");
    }
    if let (Err(why), None) = (&settings.shown, limited) {
        return explain::refuse(why);
    }
    // SAFETY: a function that touches an atomic alone. In a child process the device isn't ours.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    // SAFETY: whole pages of ours, which a child never touches: what the device writes must not become its copy.
    unsafe {
        let marks = MARKS.address().cast_mut().cast();
        libc::madvise(marks, MOST_STREAMS * 4, libc::MADV_DONTFORK);
    }
    let member = Member::new(Wish { class: settings.class, device }, number, limited);
    let started = keeper::start(member).and_then(|keeper| {
        member.has_keeper(keeper);
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

/// The device's address of memory of ours. Registered for all contexts of the process by the first.
fn register(at: *mut c_void, bytes: usize) -> Option<u64> {
    let code = calls::host_register(at, bytes, PORTABLE_MAPPED)?;
    let mut address = 0;
    if (code == 0 || code == ALREADY) && calls::device_pointer(&mut address, at, 0) == Some(0) {
        return Some(address);
    }
    explain::refuse(&format!("cuMemHostRegister of the page: code {code}"))
}
