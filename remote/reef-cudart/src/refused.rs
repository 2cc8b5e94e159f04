//! Functions that are not there: each says its name once, and does nothing.

use crate::codes::NOT_SUPPORTED;
use crate::thread::end;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, PoisonError};

/// Says, once, that a function or a use of one is not there.
pub(crate) fn refuse(what: &CStr) -> u32 {
    static SAID: Mutex<BTreeSet<Vec<u8>>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(what.to_bytes().to_vec()) {
        eprintln!("reef: {} is not there in REEF's CUDA runtime", what.to_string_lossy());
    }
    NOT_SUPPORTED
}

/// Function that all names jump to which are not written.
///
/// # Safety
///
/// `name` is a text.
#[unsafe(export_name = "reef_cudart_refuse")]
unsafe extern "C" fn refuse_name(name: *const c_char) -> u32 {
    // SAFETY: `# Safety` demands a text that ends with a zero. The code that jumps here passes a
    // static name.
    end(Err(refuse(unsafe { CStr::from_ptr(name) })))
}
