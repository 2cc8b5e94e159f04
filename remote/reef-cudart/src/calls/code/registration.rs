//! Functions that nvcc's objects call: they register their code before `main`, and launch it. They
//! are declared in `crt/host_runtime.h`.

use super::launches::launch_function;
use crate::calls::export::{give, plain, ptsz};
use crate::codes::*;
use crate::driver::found;
use crate::refused::refuse;
use crate::state::context::enter;
use crate::state::loaded;
use crate::state::registered;
use crate::thread::{Configuration, in_thread};
use crate::types::{Dim3, Stream};
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::Arc;

plain! {
    __cudaPushCallConfiguration(grid: Dim3, block: Dim3, shared: usize, stream: Stream) = push;
    __cudaPopCallConfiguration(grid: *mut Dim3, block: *mut Dim3, shared: *mut usize, stream: *mut Stream) = pop;
    __cudaGetKernel(kernel: *mut usize, host: usize) = kernel;
}

ptsz! {
    __cudaLaunchKernel / __cudaLaunchKernel_ptsz(
        kernel: usize, grid: Dim3, block: Dim3, params: *const *const c_void, shared: usize, stream: Stream
    ) = launch_function;
}

fn push(grid: Dim3, block: Dim3, shared: usize, stream: Stream) -> Result<(), u32> {
    let configuration = Configuration { grid, block, shared, stream };
    in_thread(|thread| thread.configurations.borrow_mut().push(configuration))
}

unsafe fn pop(
    grid: *mut Dim3,
    block: *mut Dim3,
    shared: *mut usize,
    stream: *mut Stream,
) -> Result<(), u32> {
    let last = in_thread(|thread| thread.configurations.borrow_mut().pop())?;
    let last = last.ok_or(MISSING_CONFIGURATION)?;
    // SAFETY: nvcc's code around a launch has the addresses of its own locals here; `give` refuses
    // null.
    unsafe {
        give(grid, last.grid)?;
        give(block, last.block)?;
        give(shared, last.shared)?;
        give(stream, last.stream)
    }
}

/// The handle is this library's own: a process may fork after a launch was written, and before the
/// first one.
unsafe fn kernel(kernel: *mut usize, host: usize) -> Result<(), u32> {
    let function = registered::function(host).ok_or(INVALID_FUNCTION)?;
    let handle = Arc::as_ptr(&function) as usize;
    registered::name_function(handle, &function);
    // SAFETY: nvcc's code has the address of a static handle here; `give` refuses null.
    unsafe { give(kernel, handle) }
}

#[allow(non_snake_case)]
#[unsafe(export_name = "reef___cudaRegisterFatBinary")]
extern "C" fn __cudaRegisterFatBinary(image: usize) -> usize {
    registered::add_module(image)
}

#[allow(non_snake_case)]
#[unsafe(export_name = "reef___cudaRegisterFatBinaryEnd")]
extern "C" fn __cudaRegisterFatBinaryEnd(_module: usize) {}

/// Called when a library is unloaded, and at the end of the process. Then the driver may be gone.
#[allow(non_snake_case)]
#[unsafe(export_name = "reef___cudaUnregisterFatBinary")]
extern "C" fn __cudaUnregisterFatBinary(module: usize) {
    let Some(module) = registered::remove_module(module) else { return };
    let is_ending = in_thread(|_| ()).is_err();
    if let (false, Ok(driver)) = (is_ending, found_if_used(&module)) {
        loaded::unload(driver, &module);
    }
}

fn found_if_used(module: &registered::Module) -> Result<&'static crate::driver::Driver, u32> {
    let library = module.library.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if library.is_some() { found() } else { Err(INVALID_VALUE) }
}

/// Returns a name that the program's objects have.
///
/// # Safety
///
/// `name` is null or a text.
unsafe fn name_of(name: *const c_char) -> CString {
    if name.is_null() {
        return CString::default();
    }
    // SAFETY: not null, so `# Safety` demands a text that ends with a zero.
    unsafe { CStr::from_ptr(name) }.to_owned()
}

#[allow(non_snake_case, clippy::too_many_arguments)] // the runtime's
#[unsafe(export_name = "reef___cudaRegisterFunction")]
unsafe extern "C" fn __cudaRegisterFunction(
    module: usize,
    host: usize,
    _device: *const c_char,
    name: *const c_char,
    _thread_limit: i32,
    _thread: usize,
    _block: usize,
    _block_size: usize,
    _grid_size: usize,
    _warp_size: usize,
) {
    // SAFETY: nvcc's code registers a kernel by a string literal; null is allowed.
    registered::add_function(module, host, unsafe { name_of(name) });
}

#[allow(non_snake_case, clippy::too_many_arguments)] // the runtime's
#[unsafe(export_name = "reef___cudaRegisterVar")]
unsafe extern "C" fn __cudaRegisterVar(
    module: usize,
    host: usize,
    _device: *const c_char,
    name: *const c_char,
    _is_external: i32,
    bytes: usize,
    _is_constant: i32,
    _is_global: i32,
) {
    // SAFETY: nvcc's code registers a variable by a string literal; null is allowed.
    registered::add_variable(module, host, unsafe { name_of(name) }, bytes, false);
}

#[allow(non_snake_case, clippy::too_many_arguments)] // the runtime's
#[unsafe(export_name = "reef___cudaRegisterManagedVar")]
unsafe extern "C" fn __cudaRegisterManagedVar(
    module: usize,
    host: usize,
    _device: *const c_char,
    name: *const c_char,
    _is_external: i32,
    bytes: usize,
    _is_constant: i32,
    _is_global: i32,
) {
    // SAFETY: nvcc's code registers a variable by a string literal; null is allowed.
    registered::add_variable(module, host, unsafe { name_of(name) }, bytes, true);
}

/// Loads an image now: objects with managed variables call this before they use one.
#[allow(non_snake_case)]
#[unsafe(export_name = "reef___cudaInitModule")]
extern "C" fn __cudaInitModule(module: usize) -> u8 {
    refuse(c"a __managed__ variable");
    let load = |module: Arc<registered::Module>| {
        let driver = enter()?;
        loaded::library(driver, &module).map(|_| ())
    };
    registered::module(module).map_or(0, |module| load(module).is_ok().into())
}
