//! Version of the library, and its last error.

use crate::guard;
use crate::handles;
use crate::status::{NAMES, reef_status};
use std::ffi::{CString, c_char};
use std::sync::LazyLock;

/// Version of the interface that a program was compiled for: compare it with `reef_version()`.
///
/// The first number changes when programs must be changed; the second one when something is added.
pub const REEF_VERSION: u32 = 0x00_02_00;

/// Version of the library: `0xAABBCC` for AA.BB.CC. It fits a program if it is at least
/// `REEF_VERSION` and has the same AA.
///
/// Any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn reef_version() -> u32 {
    REEF_VERSION
}

/// The name of a status, such as "REEF_BUSY"; "REEF_?" for one that this version doesn't have. It
/// stays.
///
/// Any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn reef_status_name(status: reef_status) -> *const c_char {
    let name = usize::try_from(status).ok().and_then(|at| NAMES.get(at));
    name.copied().unwrap_or(c"REEF_?").as_ptr()
}

/// Text of the last call of this thread that failed, in one line of UTF-8; "" if none did.
///
/// It stays until the next call of this thread that fails. Any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn reef_error_message() -> *const c_char {
    guard::message()
}

/// Names of the schedulers, joined by commas. The text stays.
///
/// Any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn reef_schedulers() -> *const c_char {
    static TEXT: LazyLock<CString> = LazyLock::new(|| list(&reef::scheduler::NAMES));
    TEXT.as_ptr()
}

/// Names of the networks that are built by name, joined by commas. The text stays.
///
/// Any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn reef_networks() -> *const c_char {
    static TEXT: LazyLock<CString> = LazyLock::new(|| list(reef::models::NAMES));
    TEXT.as_ptr()
}

/// Names of the backends that the library was built with, joined by commas. The text stays.
///
/// Any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn reef_backends() -> *const c_char {
    static TEXT: LazyLock<CString> = LazyLock::new(|| list(reef::BACKENDS));
    TEXT.as_ptr()
}

/// Number of open handles, so that tests find handles that were not freed.
///
/// Any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn reef_live_handles() -> usize {
    handles::count()
}

/// Without zero bytes, because these are names in sources.
fn list(names: &[&str]) -> CString {
    CString::new(names.join(",")).unwrap_or_default()
}
