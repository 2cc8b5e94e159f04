//! Registered code in the driver: an image is loaded when something of it is used first.

use super::registered::{Function, Module, Variable, function, name_function, variable};
use crate::codes::{INVALID_FUNCTION, INVALID_SYMBOL, NOT_FOUND};
use crate::driver::Driver;
use crate::refused::refuse;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Returns the driver's library of an image.
///
/// # Errors
///
/// The driver's code, the same one each time.
pub(crate) fn library(driver: &Driver, module: &Module) -> Result<usize, u32> {
    let mut library = module.library.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = *library {
        return known;
    }
    let (names, values) = (std::ptr::null(), std::ptr::null());
    let mut handle = 0;
    // SAFETY: the program's image, which lasts as long as the module; no options.
    let loaded = unsafe {
        driver.cuLibraryLoadData(&raw mut handle, module.image, names, values, 0, names, values, 0)
    };
    *library.insert(loaded.map(|()| handle))
}

/// Ends the driver's library of an image, if there is one.
pub(crate) fn unload(driver: &Driver, module: &Module) {
    let mut library = module.library.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(Ok(handle)) = library.take() {
        // SAFETY: a library of the driver's, which nothing else names.
        let _ = unsafe { driver.cuLibraryUnload(handle) };
    }
}

/// Returns a kernel, by the host's function or by a handle.
///
/// # Errors
///
/// `INVALID_FUNCTION` if it isn't registered or the image does not have it; the driver's code for
/// an image that can't be loaded.
pub(crate) fn kernel(driver: &Driver, at: usize) -> Result<usize, u32> {
    let function = function(at).ok_or(INVALID_FUNCTION)?;
    kernel_of(driver, &function)
}

/// Returns the driver's kernel of a function.
///
/// # Errors
///
/// As [`kernel`].
pub(crate) fn kernel_of(driver: &Driver, function: &Arc<Function>) -> Result<usize, u32> {
    let known = function.kernel.load(Ordering::Acquire);
    if known != 0 {
        return Ok(known);
    }
    let library = library(driver, &function.module)?;
    let mut kernel = 0;
    // SAFETY: a place for a handle, a library of the driver's, a text.
    let found =
        unsafe { driver.cuLibraryGetKernel(&raw mut kernel, library, function.name.as_ptr()) };
    found.map_err(|code| if code == NOT_FOUND { INVALID_FUNCTION } else { code })?;
    function.kernel.store(kernel, Ordering::Release);
    name_function(kernel, function);
    Ok(kernel)
}

/// Returns where a variable lies in the current context, and its bytes.
///
/// # Errors
///
/// `INVALID_SYMBOL` if it isn't registered or the image does not have it, `NOT_SUPPORTED` for
/// managed ones, the driver's code for an image that can't be loaded.
pub(crate) fn symbol(driver: &Driver, host: usize) -> Result<(u64, usize), u32> {
    let found = variable(host).ok_or(INVALID_SYMBOL)?;
    let Variable { module, name, bytes, is_managed } = &*found;
    if *is_managed {
        return Err(refuse(c"a __managed__ variable"));
    }
    let library = library(driver, module)?;
    let (mut at, mut len) = (0, 0);
    // SAFETY: places for numbers, a library of the driver's, a text.
    unsafe { driver.cuLibraryGetGlobal(&raw mut at, &raw mut len, library, name.as_ptr()) }
        .map_err(|code| if code == NOT_FOUND { INVALID_SYMBOL } else { code })?;
    Ok((at, *bytes))
}
