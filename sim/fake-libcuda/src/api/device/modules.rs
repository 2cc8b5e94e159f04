//! Modules: text whose global arrays take memory of the device, for as long as the module is
//! loaded.

use super::image;
use super::jit::Options;
use crate::api::current;
use crate::api::export::{give, plain};
use crate::api::memory::granted;
use crate::engine::blocks::is_readable;
use crate::engine::device_memory::{give_back, take};
use crate::engine::settings::setting;
use crate::engine::world::world;
use reef_cuda_abi::codes::*;
use std::ffi::{CStr, c_char};
use std::time::Duration;

plain! {
    cuModuleLoadData(module: *mut usize, image: *const c_char) = load;
    cuModuleLoadDataEx(module: *mut usize, image: *const c_char, count: u32, names: *const u32, values: *mut usize) = load_with;
    cuModuleLoad(module: *mut usize, path: *const c_char) = load_file;
    cuModuleUnload(module: usize) = unload;
    cuModuleGetLoadingMode(mode: *mut u32) = mode;
    cuModuleGetGlobal_v2(at: *mut usize, bytes: *mut usize, module: usize, name: *const c_char) = global;
    cuLibraryLoadData(
        library: *mut usize, image: *const c_char, names: *const u32, values: *mut usize, count: u32, own: usize,
        own_values: usize, own_count: u32
    ) = load_library;
    cuLibraryUnload(library: usize) = unload;
}

/// Names and bytes of the arrays `.global … .b8 name[bytes];` and `.const …` of a text.
fn globals(text: &str) -> Vec<(String, u64)> {
    let array = |rest: &str| {
        let (name, rest) = rest.split_once('[')?;
        let bytes = rest.split_once(']')?.0.trim().parse::<u64>().ok()?;
        Some((name.split_whitespace().last()?.to_owned(), bytes))
    };
    [".global", ".const"]
        .into_iter()
        .flat_map(|space| text.split(space).skip(1))
        .filter_map(array)
        .collect()
}

fn make(module: *mut usize, text: &str) -> u32 {
    if text.contains(".entry") && !is_readable(text) {
        return INVALID_PTX;
    }
    std::thread::sleep(Duration::from_nanos(setting("REEF_FAKE_LOAD_NS", 0)));
    let arrays = globals(text);
    // The driver takes the same units for variables as for allocations.
    let bytes = granted(arrays.iter().map(|(_, bytes)| *bytes as usize).sum());
    if !take(bytes) {
        return OUT_OF_MEMORY;
    }
    let mut world = world();
    if current::handle() != 0 {
        let _ = current::current(&mut world); // a context that has ended meanwhile is counted
    }
    let handle = world.handle();
    world.taken.insert(handle, bytes);
    world.texts.insert(handle, text.into());
    // At the addresses of every process that has loaded the same modules in the same order, which a
    // real driver does not promise.
    let mut made = Vec::new();
    for (name, bytes) in arrays {
        let mut places = (0..1 << 20).map(|place| GLOBALS + GLOBALS_STEP * place);
        let at = places.find_map(|at| map_global(at, bytes as usize));
        let Some(at) = at else { return OUT_OF_MEMORY };
        made.push((name, at, bytes as usize));
    }
    world.globals.insert(handle, made);
    // SAFETY: functions that load modules demand that `module` may be written, and call this with
    // it unread; null is left out.
    unsafe { give(module, handle) };
    SUCCESS
}

/// First address of the arrays of modules, each of which has a place of its own.
const GLOBALS: usize = 0x6000_0000_0000;
const GLOBALS_STEP: usize = 1 << 20;

fn map_global(at: usize, bytes: usize) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let len = bytes.max(1);
    // SAFETY: new memory, which takes the place of no other.
    let got = unsafe { libc::mmap(at as *mut _, len, access, flags, -1, 0) };
    (got != libc::MAP_FAILED).then_some(got as usize)
}

/// Address and bytes of an array of a module.
pub(super) fn array(module: usize, name: &CStr) -> Option<(usize, usize)> {
    let (name, world) = (name.to_string_lossy(), world());
    let found = world.globals.get(&module)?.iter().find(|(known, ..)| *known == name);
    found.map(|(_, at, bytes)| (*at, *bytes))
}

unsafe fn global(at: *mut usize, bytes: *mut usize, module: usize, name: *const c_char) -> u32 {
    // SAFETY: cuModuleGetGlobal demands a name that ends with a zero.
    let Some((from, len)) = array(module, unsafe { CStr::from_ptr(name) }) else {
        return NOT_FOUND;
    };
    // SAFETY: cuModuleGetGlobal demands that `at` and `bytes` may be written; null is left out.
    unsafe {
        give(at, from);
        give(bytes, len);
    }
    SUCCESS
}

unsafe fn load(module: *mut usize, image: *const c_char) -> u32 {
    if image.is_null() {
        return make(module, ""); // as tests do that have none
    }
    // SAFETY: not null, and cuModuleLoadData demands an image with all that its headers name.
    make(module, &unsafe { image::text(image) })
}

unsafe fn load_with(
    module: *mut usize,
    image: *const c_char,
    count: u32,
    names: *const u32,
    values: *mut usize,
) -> u32 {
    // SAFETY: cuModuleLoadDataEx demands `count` names and values, logs of the lengths among them,
    // and an image with all that its headers name.
    unsafe {
        let options = match Options::read(count, names, values) {
            Ok(options) => options,
            Err(code) => return code,
        };
        let code = load(module, image);
        options.write(code);
        code
    }
}

unsafe fn load_file(module: *mut usize, path: *const c_char) -> u32 {
    // SAFETY: cuModuleLoad demands a path that ends with a zero.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy().into_owned();
    std::fs::read_to_string(path).map_or(NOT_FOUND, |text| make(module, &text))
}

#[allow(clippy::too_many_arguments)] // the driver's
unsafe fn load_library(
    library: *mut usize,
    image: *const c_char,
    names: *const u32,
    values: *mut usize,
    count: u32,
    _own: usize,
    _own_values: usize,
    _own_count: u32,
) -> u32 {
    // SAFETY: cuLibraryLoadData demands `count` names and values, an image, and that `library` may
    // be written. The library's own options are not read.
    let code = unsafe { load_with(library, image, count, names, values) };
    // SAFETY: null, or written by the call.
    if let (SUCCESS, Some(library)) = (code, unsafe { library.as_ref() }) {
        let mut world = world();
        let bytes = world.taken.insert(*library, 0).unwrap_or(0);
        let context = current::owner(&world);
        world.library_copies.insert((*library, context), bytes);
    }
    code
}

/// Has a library's variables come to be in the current context. False: there is no memory left.
pub(super) fn enter(library: usize) -> bool {
    let mut world = world();
    let context = current::owner(&world);
    let its = world.library_copies.iter().find(|((of, _), _)| *of == library);
    let Some(bytes) = its.map(|(_, bytes)| *bytes).filter(|_| context != 0) else { return true };
    let has = world.library_copies.contains_key(&(library, context));
    if !has && world.library_copies.remove(&(library, 0)).is_none() && !take(bytes) {
        return false;
    }
    world.library_copies.insert((library, context), bytes);
    true
}

unsafe fn unload(module: usize) -> u32 {
    if module == 0 {
        return SUCCESS; // as tests do that have none
    }
    world().texts.remove(&module);
    world().end_functions(module);
    let bytes = world().taken.remove(&module);
    let copies: Vec<_> =
        world().library_copies.extract_if(|(library, _), _| *library == module).collect();
    copies.into_iter().for_each(|(_, bytes)| give_back(bytes));
    for (_, at, len) in world().globals.remove(&module).into_iter().flatten() {
        // SAFETY: a mapping of ours, which the program doesn't use any more.
        unsafe { libc::munmap(at as *mut _, len.max(1)) };
    }
    bytes.map(give_back).map_or(INVALID_HANDLE, |()| SUCCESS)
}

/// Everything at once.
unsafe fn mode(mode: *mut u32) -> u32 {
    // SAFETY: cuModuleGetLoadingMode demands that `mode` may be written; null is left out.
    unsafe { give(mode, 1) };
    SUCCESS
}
