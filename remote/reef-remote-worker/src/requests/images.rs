//! Modules, libraries, and their functions.

use super::caller::{Caller, CallingThread};
use super::jit_options::{AskedOptions, JitOptions, read_options};
use crate::driver::Function;
use crate::reader::{Reader, words};
use crate::state::handles::Layout;
use crate::state::lock::lock;
use crate::state::shared::Request;
use crate::state::shared::Shared;
use reef_cuda_abi::codes::{INVALID_IMAGE, INVALID_VALUE, NOT_SUPPORTED};
use reef_ptx::image::load_form;
use reef_remote_calls::{Call, FindFunction, Kind, Load};
use reef_wire::{Hot, Result};

/// Loads an image. Compiling may take seconds, so a waiter does it.
///
/// # Errors
///
/// `Protocol` for a body that cannot be.
pub(crate) fn load(
    caller: &Caller,
    lane: CallingThread,
    request: Request,
    body: &[u8],
) -> Result<()> {
    let (load, rest) = Load::split(body)?;
    let mut rest = Reader(rest);
    let options = read_options(&mut rest, load.options.get())?;
    let (id, is_library) = (load.id.get(), load.is_library.get() != 0);
    let held = caller.shared.hold(rest.0.len());
    let image = if held.is_ok() { rest.0.to_vec() } else { Vec::new() };
    caller.shared.wait_for(lane.handle, move |shared| {
        let options = held.as_ref().map_err(|code| *code).and(options);
        let checked = options.and_then(|options| Ok((options, checked(&image)?)));
        let made = checked.map(|(options, image)| {
            let image = image.as_ref().map_or(0, |image| image.as_ptr() as usize);
            make(shared, lane, id, is_library, image, &options)
        });
        let (code, bytes) = made.unwrap_or_else(|code| (code, Vec::new()));
        shared.answer(request, code, &bytes);
    });
    Ok(())
}

/// An image that is all there, in words; `None` for none.
///
/// # Errors
///
/// The driver's code for an image that names what lies outside of it, or is none that is known.
fn checked(image: &[u8]) -> Result<Option<Box<[u64]>>, u32> {
    if image.is_empty() {
        return Ok(None); // the driver says what it thinks of it
    }
    let form = load_form(image).map_err(|_| INVALID_IMAGE)?;
    Ok(Some(words(&form)))
}

fn make(
    shared: &Shared,
    lane: CallingThread,
    id: u64,
    is_library: bool,
    image: usize,
    options: &AskedOptions,
) -> (u32, Vec<u8>) {
    let mut options = JitOptions::new(options);
    let (count, names, values) = options.arguments();
    let mut handle = 0_usize;
    let place = &raw mut handle as usize;
    let functions = &shared.driver.functions;
    // SAFETY: a place for a handle; an image that is all there, and ends with a zero; options whose
    // values are numbers, or logs of the sizes that are named.
    let code = unsafe {
        if is_library {
            functions.load_library.call([place, image, names, values, count, 0, 0, 0])
        } else {
            functions.load_module.call([place, image, count, names, values])
        }
    };
    let bytes = options.logs();
    let (kind, parent) = if is_library { (Kind::Library, 0) } else { (Kind::Module, lane.context) };
    match code {
        0 => match lock(&shared.handles).insert(kind, id, handle, parent) {
            Ok(()) => (0, bytes),
            Err(code) => (code, bytes),
        },
        code => (code, bytes),
    }
}

/// Finds a function by its name. The result is its layout.
///
/// # Errors
///
/// `Protocol` for a body that cannot be.
pub(crate) fn find_function(caller: &Caller, body: &[u8]) -> Result<(u32, Vec<u8>)> {
    let (find, name) = FindFunction::split(body)?;
    let is_kernel = find.is_kernel.get() != 0;
    let kind = if is_kernel { Kind::Library } else { Kind::Module };
    let shared = caller.shared.clone();
    let of = match lock(&shared.handles).get(kind, find.of.get()) {
        Ok(of) => of,
        Err(code) => return Ok((code, Vec::new())),
    };
    let functions = &shared.driver.functions;
    let function = if is_kernel { functions.library_kernel } else { functions.module_function };
    let (name, mut handle) = (words(name), 0_usize);
    // SAFETY: a place for a handle, a handle of the driver's, and a text that ends with a zero.
    let code = unsafe { function.call([&raw mut handle as usize, of, name.as_ptr() as usize]) };
    if code != 0 {
        return Ok((code, Vec::new()));
    }
    let kind = if is_kernel { Kind::Kernel } else { Kind::Function };
    // A function that is found again keeps its first number.
    let id = {
        let mut handles = lock(&shared.handles);
        let known = handles.name_or(kind, handle, find.id.get(), find.of.get());
        match known {
            Ok(id) => id,
            Err(code) => return Ok((code, Vec::new())),
        }
    };
    let mut bytes = id.to_le_bytes().to_vec();
    bytes.extend(note_layout(caller, id, kind, handle));
    Ok((0, bytes))
}

/// Returns where the parameters of a function lie.
///
/// # Errors
///
/// `Protocol` for a body that cannot be.
pub(crate) fn layout(caller: &Caller, function: u64) -> (u32, Vec<u8>) {
    let found = lock(&caller.shared.handles).get(Kind::Function, function);
    match found {
        Ok(handle) => (0, note_layout(caller, function, Kind::Function, handle)),
        Err(code) => (code, Vec::new()),
    }
}

fn note_layout(caller: &Caller, id: u64, kind: Kind, handle: usize) -> Vec<u8> {
    let driver = &caller.shared.driver;
    let ask = driver.of(if kind == Kind::Kernel {
        Call::cuKernelGetParamInfo
    } else {
        Call::cuFuncGetParamInfo
    });
    let layout = ask_layout(ask, handle);
    let code = if layout.is_some() { 0 } else { NOT_SUPPORTED };
    let mut bytes = code.to_le_bytes().to_vec();
    for (offset, size) in layout.iter().flatten() {
        bytes.extend(offset.to_le_bytes());
        bytes.extend(size.to_le_bytes());
    }
    lock(&caller.shared.handles).set_layout(id, layout);
    bytes
}

/// `None`: the driver doesn't tell.
fn ask_layout(ask: Function, handle: usize) -> Option<Layout> {
    let mut layout = Vec::new();
    for index in 0.. {
        let (mut offset, mut size) = (0_usize, 0_usize);
        let places = [&raw mut offset as usize, &raw mut size as usize];
        // SAFETY: a kernel of the driver's, and places for numbers.
        match unsafe { ask.call([handle, index, places[0], places[1]]) } {
            0 => layout.push((offset as u32, size as u32)),
            INVALID_VALUE => break, // there is no such parameter
            _ => return None,
        }
    }
    Some(layout)
}
