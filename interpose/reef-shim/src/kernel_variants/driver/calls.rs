//! Calls of the driver for variants.

use crate::driver::calls::{calls, device_attribute};
use crate::driver::names;
use crate::driver::slots::real;
use std::ffi::{CStr, c_char};
use std::ptr::null;

calls! {
    /// Returns the function of a library's kernel in the current context.
    function_of = cuKernelGetFunction(function: &mut usize, kernel: usize);
    attribute = cuFuncGetAttribute(value: &mut i32, attribute: u32, function: usize);
    set_attribute = cuFuncSetAttribute(function: usize, attribute: u32, value: i32);
    parameter = cuFuncGetParamInfo(function: usize, index: usize, offset: &mut usize, bytes: &mut usize);
    /// Loads a function's code now, and not at its first launch.
    load_function = cuFuncLoad(function: usize);
    occupancy = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: &mut i32, function: usize, threads: i32, shared: usize, flags: u32
    );
    elapsed = cuEventElapsedTime(millis: &mut f32, from: usize, to: usize);
}

calls! {
    unsafe:
    /// # Safety
    ///
    /// The image is a text that ends with a zero.
    load_text = cuModuleLoadData(module: &mut usize, image: *const c_char);
    /// # Safety
    ///
    /// Nothing uses the module, and its launches have ended.
    unload = cuModuleUnload(module: usize);
    /// # Safety
    ///
    /// The name is a text that ends with a zero.
    get_function = cuModuleGetFunction(function: &mut usize, module: usize, name: *const c_char);
    /// # Safety
    ///
    /// There are no options.
    link_begin = cuLinkCreate_v2(count: u32, options: *const u32, values: *const usize, state: &mut usize);
    /// # Safety
    ///
    /// The data has this many bytes, and there are no options.
    link_add = cuLinkAddData_v2(
        state: usize, kind: u32, data: *const c_char, bytes: usize, name: *const c_char, count: u32, options: *const u32,
        values: *const usize
    );
    /// # Safety
    ///
    /// The state lives.
    link_complete = cuLinkComplete(state: usize, image: &mut *const u8, bytes: &mut usize);
    /// # Safety
    ///
    /// The state lives, and what it has made isn't used any more.
    link_end = cuLinkDestroy(state: usize);
}

/// `CU_JIT_INPUT_PTX`.
const PTX: u32 = 1;

/// Compiles a text, and returns what `read` says of the CUBIN.
pub(in crate::kernel_variants) fn compile<T>(
    text: &CStr,
    read: impl FnOnce(&[u8]) -> T,
) -> Option<T> {
    let mut state = 0;
    // SAFETY: no options; a state that lives until it is ended; a text with the zero at its end; a
    // CUBIN that is there until then.
    unsafe {
        if link_begin(0, null(), null(), &mut state) != Some(0) {
            return None;
        }
        let bytes = text.to_bytes_with_nul().len();
        let added =
            link_add(state, PTX, text.as_ptr(), bytes, c"kernel".as_ptr(), 0, null(), null());
        let (mut image, mut bytes) = (null(), 0);
        let is_made = added == Some(0) && link_complete(state, &mut image, &mut bytes) == Some(0);
        let seen =
            (is_made && !image.is_null()).then(|| read(std::slice::from_raw_parts(image, bytes)));
        let _ = link_end(state);
        seen
    }
}

/// `CU_DEVICE_ATTRIBUTE_…`.
pub(in crate::kernel_variants) const MULTIPROCESSORS: u32 = 16;

/// Returns an attribute of a device.
pub(in crate::kernel_variants) fn of_device(attribute: u32, ordinal: i32) -> Option<u32> {
    let mut value = 0;
    let code = device_attribute(&mut value, attribute, ordinal);
    u32::try_from(value).ok().filter(|_| code == Some(0))
}
