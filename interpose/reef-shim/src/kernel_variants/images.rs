//! PTX of the modules and libraries that the program has loaded.

use crate::actions::modules::may_ignore_machine_code;
use crate::catch_panics::catch_panics;
use crate::limit::charges::Kind;
use crate::limit::image::whole;
use crate::settings::keeps_code;
use reef_files::MAX_INPUT_BYTES;
use reef_ptx::image::DeviceCode;
use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

/// Code of a module, or the reason for which none of its kernels gets a variant.
pub(super) type Code = Arc<Result<DeviceCode, String>>;

/// Module or library by its handle.
pub(super) type Owner = (Kind, usize);

static IMAGES: LazyLock<Mutex<HashMap<Owner, Code>>> = LazyLock::new(Mutex::default);

/// Options of the driver's compiler that change no code: times, logs, the target of the context,
/// lines, the cache.
const HARMLESS: [u32; 9] = [2, 3, 4, 5, 6, 8, 12, 13, 14];

fn images() -> MutexGuard<'static, HashMap<Owner, Code>> {
    IMAGES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Loads code from memory by `call`, which writes the handle.
///
/// # Safety
///
/// The image and `count` options are as the driver requires.
pub(crate) unsafe fn load(
    kind: Kind,
    to: *const usize,
    image: *const u8,
    options: (*const u32, u32),
    call: impl FnOnce() -> u32,
) -> u32 {
    let code = call();
    if code == 0 && keeps_code() {
        // SAFETY: `# Safety` demands an image and `count` options as the driver does. The driver
        // has just read both without an error.
        let read = || unsafe {
            check_options(options.0, options.1)?;
            device_code(whole(image)?)
        };
        note(kind, to, read);
    }
    code
}

/// Loads code from a file by `call`.
///
/// # Safety
///
/// The path and `count` options are as the driver requires.
pub(crate) unsafe fn load_file(
    kind: Kind,
    to: *const usize,
    path: *const c_char,
    options: (*const u32, u32),
    call: impl FnOnce() -> u32,
) -> u32 {
    let code = call();
    if code == 0 && keeps_code() && !path.is_null() {
        // SAFETY: `path` is not null, and `# Safety` demands a path and `count` options as the
        // driver does, which has just read both.
        let read = || unsafe {
            check_options(options.0, options.1)?;
            let path = OsStr::from_bytes(CStr::from_ptr(path).to_bytes());
            let bytes = reef_files::read(path, MAX_INPUT_BYTES);
            device_code(&bytes.map_err(|error| format!("its file: {error}"))?)
        };
        note(kind, to, read);
    }
    code
}

/// Reads the code that the driver takes of an image.
fn device_code(image: &[u8]) -> Result<DeviceCode, String> {
    let code = DeviceCode::read(image).map_err(|error| error.to_string())?;
    Ok(if may_ignore_machine_code() { code.without_machine_code() } else { code })
}

/// # Safety
///
/// There are `count` options.
unsafe fn check_options(options: *const u32, count: u32) -> Result<(), String> {
    for at in 0..if options.is_null() { 0 } else { count as usize } {
        // SAFETY: `options` is not null if there are any, `# Safety` demands `count` of them, and
        // `at` is lower.
        let option = unsafe { options.add(at).read() };
        if !HARMLESS.contains(&option) {
            return Err(format!("it was loaded with option {option} of the compiler"));
        }
    }
    Ok(())
}

fn note(kind: Kind, to: *const usize, read: impl FnOnce() -> Result<DeviceCode, String>) {
    catch_panics(|| {
        // SAFETY: null, or where the driver has just written.
        if let Some(handle) = unsafe { to.as_ref() } {
            images().insert((kind, *handle), Arc::new(read()));
        }
    });
}

/// Forgets the code of a module or library.
pub(super) fn forget(owner: Owner) {
    images().remove(&owner);
}

/// Returns the code of a module or library.
pub(super) fn find(owner: Owner) -> Option<Code> {
    images().get(&owner).cloned()
}
