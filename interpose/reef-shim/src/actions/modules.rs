//! Modules and libraries, whose global variables take memory as long as they are loaded.

use super::context_memory::contexts;
use super::reserve::{make_room, refuse_on_panic, with_reservation};
use crate::driver::calls;
use crate::driver::primary;
use crate::driver::state::Inside;
use crate::explain;
use crate::limit::charges::{self, Charge, Kind};
use crate::limit::device::{self, LimitState, Limited};
use crate::limit::image::whole;
use crate::limit::libraries::{self, Library};
use crate::limit::sizes::granted;
use reef_cuda_abi::codes::OUT_OF_MEMORY;
use reef_files::MAX_INPUT_BYTES;
use reef_ptx::image::Footprint;
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// `CU_MODULE_EAGER_LOADING`: machine code takes memory at once, and not when it is used first.
const EAGER: u32 = 1;

/// Variables by which the driver compiles PTX although an image has machine code.
const IGNORE_MACHINE_CODE: [&str; 2] = ["CUDA_FORCE_PTX_JIT", "CUDA_FORCE_JIT"];
/// True once one of them was set: the driver may have read it then.
static MAY_IGNORE_MACHINE_CODE: AtomicBool = AtomicBool::new(false);

/// Reads the variables that choose among the code of an image.
pub(crate) fn read_variables() {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| value != "0");
    if IGNORE_MACHINE_CODE.into_iter().any(is_set) {
        MAY_IGNORE_MACHINE_CODE.store(true, Relaxed);
    }
}

/// Returns whether the driver may compile PTX although an image has machine code.
pub(crate) fn may_ignore_machine_code() -> bool {
    read_variables();
    MAY_IGNORE_MACHINE_CODE.load(Relaxed)
}

/// Returns the memory of an image on a device of this compute capability.
fn footprint(image: &[u8], capability: u32) -> Footprint {
    if may_ignore_machine_code() {
        Footprint::of_any(image)
    } else {
        Footprint::of(image, capability)
    }
}

/// Loads code from memory.
pub(crate) fn load(
    kind: Kind,
    to: *const usize,
    image: *const u8,
    real: impl FnOnce() -> u32,
) -> u32 {
    let read = |capability| {
        // SAFETY: the driver demands that `image` is null or the address of a complete image, which
        // is what `whole` demands. The program does not change it during the call.
        let image = unsafe { whole(image) };
        image.map_or(Footprint::UNKNOWN, |image| footprint(image, capability))
    };
    charged(kind, to, read, real)
}

/// Loads code from a file.
pub(crate) fn load_file(
    kind: Kind,
    to: *const usize,
    path: *const c_char,
    real: impl FnOnce() -> u32,
) -> u32 {
    let read = |capability| {
        // SAFETY: not null, and the driver demands a path that ends with a zero, which stays until
        // the call returns.
        let path = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) }.to_bytes());
        let read = |path| reef_files::read(OsStr::from_bytes(path), MAX_INPUT_BYTES).ok();
        path.and_then(read).map_or(Footprint::UNKNOWN, |bytes| footprint(&bytes, capability))
    };
    charged(kind, to, read, real)
}

fn charged(
    kind: Kind,
    to: *const usize,
    footprint: impl FnOnce(u32) -> Footprint,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    refuse_on_panic(|| {
        // Libraries need no context. Without one they belong to the first device.
        let ordinal = calls::device().unwrap_or(0);
        let device = match device::of(ordinal) {
            LimitState::Unlimited => None,
            LimitState::Broken => return OUT_OF_MEMORY,
            LimitState::Limited(device) => Some(device),
        };
        let bytes = || {
            let footprint = footprint(calls::capability(ordinal).unwrap_or(0));
            if footprint.is_unknown {
                explain::refuse::<()>(
                    "code in a form that isn't read: its variables aren't charged",
                );
            }
            granted(footprint.data).saturating_add(if is_eager() { footprint.code } else { 0 })
        };
        if kind == Kind::Library {
            // Its contexts may be of other devices.
            return library(&contexts_or_next(device), bytes(), to, real);
        }
        let Some(device) = device else { return real() };
        let bytes = bytes();
        let context = primary::owner();
        with_reservation(device, bytes, real, || {
            // SAFETY: null, or where the driver has just written.
            match unsafe { to.as_ref() } {
                Some(handle) if bytes > 0 => {
                    charges::note(kind, *handle, Charge::new(device, bytes, context));
                }
                _ => device.give_back(bytes),
            }
        })
    })
}

/// Returns whether machine code takes memory when it is loaded.
fn is_eager() -> bool {
    let mut mode = 0;
    calls::loading_mode(&mut mode) == Some(0) && mode == EAGER
}

/// Returns the contexts of limited devices. If there are none, what is loaded is charged to the
/// next one of this device.
fn contexts_or_next(device: Option<&'static Limited>) -> Vec<(&'static Limited, usize)> {
    let mut all = contexts();
    if all.is_empty() {
        all.extend(device.map(|device| (device, 0)));
    }
    all
}

/// Loads a library by `real`, which has its variables in each context.
fn library(
    contexts: &[(&'static Limited, usize)],
    bytes: u64,
    to: *const usize,
    real: impl FnOnce() -> u32,
) -> u32 {
    let mut reserved = 0;
    while reserved < contexts.len() && make_room(contexts[reserved].0, bytes) {
        reserved += 1;
    }
    let is_reserved = reserved == contexts.len();
    let code = if is_reserved { real() } else { OUT_OF_MEMORY };
    // SAFETY: null, or where the driver has just written.
    match unsafe { to.as_ref() }.filter(|_| code == 0 && bytes > 0) {
        Some(handle) => libraries::note(*handle, Library::new(bytes, contexts)),
        None => contexts[..reserved].iter().for_each(|(device, _)| device.give_back(bytes)),
    }
    code
}

pub(crate) fn unload_library(handle: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let library = libraries::take(handle);
    let code = real();
    match library {
        Some(library) if code == 0 => library.end(),
        Some(library) => libraries::note(handle, library),
        None => {}
    }
    code
}
