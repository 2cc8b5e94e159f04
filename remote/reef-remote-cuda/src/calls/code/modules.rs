//! Modules, libraries and their functions.

use super::jit_options::Options;
use crate::calls::export::{check, give, plain};
use crate::calls::table::table;
use crate::session::session;
use crate::state::functions::Function;
use crate::state::functions::Functions;
use crate::state::lock::mint;
use reef_cuda_abi::codes::*;
use reef_remote_calls::{Call, FindFunction, Layout, Load, image_len};
use reef_wire::little_endian::{U32, U64};
use reef_wire::{Hot, hot_bytes};
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;

plain! {
    cuModuleLoadData(module: *mut u64, image: *const u8) = load;
    cuModuleLoadDataEx(module: *mut u64, image: *const u8, count: u32, names: *const u32, values: *mut usize) = load_with;
    cuModuleLoadFatBinary(module: *mut u64, image: *const u8) = load;
    cuModuleLoad(module: *mut u64, path: *const c_char) = load_file;
    cuModuleGetFunction(function: *mut u64, module: u64, name: *const c_char) = function;
    cuLibraryLoadData(
        library: *mut u64, image: *const u8, names: *const u32, values: *mut usize, count: u32, own: usize,
        own_values: usize, own_count: u32
    ) = load_library;
    cuLibraryLoadFromFile(
        library: *mut u64, path: *const c_char, names: *const u32, values: *mut usize, count: u32, own: usize,
        own_values: usize, own_count: u32
    ) = load_library_file;
    cuLibraryGetKernel(kernel: *mut u64, library: u64, name: *const c_char) = kernel;
    cuKernelGetFunction(function: *mut u64, kernel: u64) = kernel_function;
}

/// Magic number of a wrapper around a fat binary: the address of it is the second word.
const WRAPPER: u32 = 0x4662_43b1;

/// The image at an address, or the fat binary in it.
unsafe fn image<'a>(at: *const u8) -> Result<&'a [u8], u32> {
    if at.is_null() {
        return Ok(&[]); // the server's driver says what it thinks of it
    }
    // SAFETY: not null, and the driver demands an image: a text that ends with a zero, or one with
    // a magic number. Both have a first byte.
    let first = unsafe { std::slice::from_raw_parts(at, 1)[0] };
    let mut at = at;
    // SAFETY: an image with the first byte of a wrapper has the other three: machine code and fat
    // binaries begin with a magic number, and texts with a printable character.
    if first == WRAPPER.to_le_bytes()[0] && unsafe { at.cast::<u32>().read_unaligned() } == WRAPPER
    {
        // SAFETY: the wrapper's second word.
        at = unsafe { at.cast::<u64>().add(1).read_unaligned() } as *const u8;
    }
    let read = |offset: usize, len: usize| {
        // SAFETY: the header says that these bytes are part of the image. A text is read byte by
        // byte, after its first four, up to its end.
        let byte = |at_| unsafe { at.add(offset + at_).read() };
        let mut bytes = Vec::with_capacity(len);
        for index in 0..len {
            bytes.push(byte(index));
            if bytes[index] == 0 && offset == 0 && len == 4 {
                bytes.resize(len, 0); // a text of fewer than four bytes
                break;
            }
        }
        bytes
    };
    let len = image_len(read).map_err(|_| INVALID_IMAGE)?;
    // SAFETY: the header says so.
    Ok(unsafe { std::slice::from_raw_parts(at, len) })
}

unsafe fn send(
    place: *mut u64,
    image: &[u8],
    options: &Options,
    is_library: bool,
) -> Result<(), u32> {
    let session = session()?;
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    let (count, body) = options.body()?;
    let id = mint();
    let head = Load {
        id: U64::new(id),
        is_library: U32::new(is_library.into()),
        options: U32::new(count),
    };
    let (code, bytes) = session.call(Load::OP, &[hot_bytes(&head), &body, image])?;
    // SAFETY: the driver demands buffers for logs of the lengths in `options`. The program keeps
    // them during the call.
    unsafe { options.take_logs(&bytes) };
    check(code)?;
    // SAFETY: not null, and the driver demands that the place of the handle may be written.
    unsafe { give(place, id) }
}

unsafe fn load(module: *mut u64, at: *const u8) -> Result<(), u32> {
    // SAFETY: cuModuleLoadData demands that `module` may be written, and that `at` is null or the
    // address of a whole image.
    unsafe { send(module, image(at)?, &Options::NONE, false) }
}

unsafe fn load_with(
    module: *mut u64,
    at: *const u8,
    count: u32,
    names: *const u32,
    values: *mut usize,
) -> Result<(), u32> {
    // SAFETY: cuModuleLoadDataEx demands that `module` may be written, an image at `at`, and
    // `count` names and values.
    unsafe { send(module, image(at)?, &Options::new(names, values, count)?, false) }
}

unsafe fn file(path: *const c_char) -> Result<Vec<u8>, u32> {
    if path.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and the driver demands a path that ends with a zero.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
    let mut bytes = std::fs::read(path).map_err(|_| FILE_NOT_FOUND)?;
    bytes.push(0); // a text's end
    Ok(bytes)
}

unsafe fn load_file(module: *mut u64, path: *const c_char) -> Result<(), u32> {
    // SAFETY: cuModuleLoad demands that `module` may be written, and that `path` is null or ends
    // with a zero.
    unsafe { send(module, &file(path)?, &Options::NONE, false) }
}

#[allow(clippy::too_many_arguments)] // the driver's
unsafe fn load_library(
    library: *mut u64,
    at: *const u8,
    names: *const u32,
    values: *mut usize,
    count: u32,
    _own: usize,
    _own_values: usize,
    _own_count: u32,
) -> Result<(), u32> {
    // SAFETY: cuLibraryLoadData demands that `library` may be written, an image at `at`, and
    // `count` names and values. The library's own options are not read.
    unsafe { send(library, image(at)?, &Options::new(names, values, count)?, true) }
}

#[allow(clippy::too_many_arguments)] // the driver's
unsafe fn load_library_file(
    library: *mut u64,
    path: *const c_char,
    names: *const u32,
    values: *mut usize,
    count: u32,
    _own: usize,
    _own_values: usize,
    _own_count: u32,
) -> Result<(), u32> {
    // SAFETY: cuLibraryLoadFromFile demands that `library` may be written, a path, and `count`
    // names and values. The library's own options are not read.
    unsafe { send(library, &file(path)?, &Options::new(names, values, count)?, true) }
}

unsafe fn find(place: *mut u64, of: u64, name: *const c_char, is_kernel: bool) -> Result<(), u32> {
    let session = session()?;
    if place.is_null() || name.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and the driver demands a name that ends with a zero.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let head = FindFunction {
        id: U64::new(mint()),
        of: U64::new(of),
        is_kernel: U32::new(is_kernel.into()),
        reserved: U32::new(0),
    };
    let (code, bytes) = session.call(FindFunction::OP, &[hot_bytes(&head), name])?;
    check(code)?;
    let (id, layout) = bytes.split_at_checked(8).ok_or(DEVICE_UNAVAILABLE)?;
    let id = u64::from_le_bytes(id.try_into().expect("8 bytes"));
    Functions::all().insert(id, Function::of(layout)?);
    // SAFETY: not null, and the driver demands that the place of the handle may be written.
    unsafe { give(place, id) }
}

unsafe fn function(place: *mut u64, module: u64, name: *const c_char) -> Result<(), u32> {
    // SAFETY: cuModuleGetFunction demands that `place` is null or may be written, and that `name`
    // is null or ends with a zero.
    unsafe { find(place, module, name, false) }
}

unsafe fn kernel(place: *mut u64, library: u64, name: *const c_char) -> Result<(), u32> {
    // SAFETY: cuLibraryGetKernel demands that `place` is null or may be written, and that `name` is
    // null or ends with a zero.
    unsafe { find(place, library, name, true) }
}

unsafe fn kernel_function(place: *mut u64, kernel: u64) -> Result<(), u32> {
    let args = [place as usize, kernel as usize];
    // SAFETY: cuKernelGetFunction demands that `place` is null or may be written. The kernel is a
    // number, which the server checks.
    unsafe { table(Call::cuKernelGetFunction, false, &args) }?;
    // SAFETY: the call has written there.
    let id = unsafe { place.read() };
    let head = Layout { function: U64::new(id) };
    let (code, layout) = session()?.call(Layout::OP, &[hot_bytes(&head)])?;
    check(code)?;
    Functions::all().insert(id, Function::of(&layout)?);
    Ok(())
}
