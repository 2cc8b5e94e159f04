//! Libraries that the program loads itself (CUDA 12.9 and later).

use crate::calls::export::{forward, plain};
use crate::state::context::enter;
use crate::state::registered::{add_function, add_module, function};
use std::ffi::{CStr, c_char};

forward! {
    cudaLibraryLoadData(
        library: *mut usize, image: usize, names: *const u32, values: *const usize, count: u32, own: *const u32,
        own_values: *const usize, own_count: u32
    ) => cuLibraryLoadData(library, image, names, values, count, own, own_values, own_count);
    cudaLibraryLoadFromFile(
        library: *mut usize, path: *const c_char, names: *const u32, values: *const usize, count: u32,
        own: *const u32, own_values: *const usize, own_count: u32
    ) => cuLibraryLoadFromFile(library, path, names, values, count, own, own_values, own_count);
    cudaLibraryUnload(library: usize) => cuLibraryUnload(library);
    cudaLibraryGetGlobal(at: *mut u64, bytes: *mut usize, library: usize, name: *const c_char)
        => cuLibraryGetGlobal(at, bytes, library, name);
    cudaLibraryGetKernelCount(count: *mut u32, library: usize) => cuLibraryGetKernelCount(count, library);
}

plain! {
    cudaLibraryGetKernel(kernel: *mut usize, library: usize, name: *const c_char) = kernel;
}

/// A kernel that launches take as well as a host's function.
unsafe fn kernel(kernel: *mut usize, library: usize, name: *const c_char) -> Result<(), u32> {
    let driver = enter()?;
    // SAFETY: cudaLibraryGetKernel demands that `kernel` may be written and a name that ends with a
    // zero. The driver refuses null, and has written there when it succeeds.
    let handle = unsafe {
        driver.cuLibraryGetKernel(kernel, library, name)?;
        *kernel
    };
    if function(handle).is_none() {
        let module = add_module(0);
        // SAFETY: the driver has just found a kernel of this name, which the program keeps during
        // the call and which ends with a zero.
        add_function(module, handle, unsafe { CStr::from_ptr(name) }.to_owned());
        if let Some(function) = function(handle) {
            function.kernel.store(handle, std::sync::atomic::Ordering::Release);
        }
    }
    Ok(())
}
