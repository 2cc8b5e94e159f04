//! Joins the current context's device, and gives the device the page's address.

use super::calls::{self, relaxed};
use super::device::{Device, MARKS, MOST_STREAMS};
use super::entries::Context;
use super::explain;
use super::keeper;
use crate::bind::state::pass_all;
use crate::settings::settings;
use reef_guest::join::{Uuid, Wish, join_as};
use reef_guest::page::{BYTES, Page};
use std::ffi::c_void;
use std::sync::Mutex;
use std::time::Duration;

/// How long a daemon may take.
const PATIENCE: Duration = Duration::from_millis(200);
/// `CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP`.
const PORTABLE_MAPPED: u32 = 3;
/// `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED`: by another context of this process.
const ALREADY: u32 = 712;
/// `CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT`: a display's watchdog ends what waits for long.
const WATCHDOG: u32 = 17;

/// Devices by UUID. `None`: joining failed, and is not tried again.
static JOINED: Mutex<Vec<(Uuid, Option<&'static Device>)>> = Mutex::new(Vec::new());

/// Attaches the current context. `None`: its calls are passed on; the report says why.
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
    let (mut ordinal, mut uuid) = (0, [0; 16]);
    let is_known = calls::context_device(&mut ordinal) == Some(0)
        && (calls::device_uuid_v2(&mut uuid, ordinal) == Some(0)
            || calls::device_uuid(&mut uuid, ordinal) == Some(0));
    if !is_known {
        return explain::refuse("the driver doesn't say which device a context has");
    }
    let mut joined = JOINED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some((_, known)) = joined.iter().find(|(known, _)| *known == uuid) {
        return *known;
    }
    let device = join_device(uuid, ordinal);
    joined.push((uuid, device));
    device
}

fn join_device(device: Uuid, ordinal: i32) -> Option<&'static Device> {
    let settings = settings();
    let socket = settings.socket.as_ref()?;
    let mut watchdog = 0;
    let _ = calls::device_attribute(&mut watchdog, WATCHDOG, ordinal);
    if watchdog != 0 {
        return explain::refuse("the device has a display whose watchdog ends work that waits");
    }
    let shown = match &settings.shown {
        Ok(shown) => shown,
        Err(why) => return explain::refuse(why),
    };
    let wish = Wish { class: settings.class, device };
    let joined = match join_as(socket, &wish, shown, PATIENCE) {
        Ok(joined) => joined,
        Err(why) => return explain::refuse(&why.to_string()),
    };
    let (woken, wake) = std::io::pipe().ok()?;
    let (device, link) = Device::new(joined, Some(wake));
    let device: &'static Device = Box::leak(Box::new(device));
    // SAFETY: a function that touches an atomic alone. In a child process the device isn't ours.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    // SAFETY: whole pages of ours, which a child never touches: what the device writes must not become its copy.
    unsafe {
        let marks = MARKS.address().cast_mut().cast();
        libc::madvise(marks, MOST_STREAMS * 4, libc::MADV_DONTFORK);
    }
    explain::joined(device);
    keeper::start(device, link, woken);
    Some(device)
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
