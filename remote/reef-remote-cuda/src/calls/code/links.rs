//! Links of several images to one: gathered here, and sent when they are complete.

use super::jit_options::Options;
use crate::calls::export::{check, give, plain};
use crate::refused::refuse;
use crate::session::session;
use crate::state::lock::{lock, mint};
use reef_cuda_abi::codes::*;
use reef_remote_calls::{Link as Message, split_padded};
use reef_wire::little_endian::U32;
use reef_wire::{Hot, hot_bytes};
use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex};

plain! {
    cuLinkCreate_v2(count: u32, names: *const u32, values: *mut usize, link: *mut u64) = create;
    cuLinkAddData_v2(
        link: u64, kind: u32, data: *const u8, bytes: usize, name: *const c_char, count: u32, names: *const u32,
        values: *mut usize
    ) = add;
    cuLinkAddFile_v2(
        link: u64, kind: u32, path: *const c_char, count: u32, names: *const u32, values: *mut usize
    ) = add_file;
    cuLinkComplete(link: u64, image: *mut *const u8, bytes: *mut usize) = complete;
    cuLinkDestroy(link: u64) = destroy;
}

/// A link that has not ended.
struct Link {
    /// Options of cuLinkCreate, which keeps no list of names.
    options: Arc<Options>,
    /// Images in the form of the message.
    images: Vec<u8>,
    count: u32,
    /// Image that the program has the address of.
    linked: Vec<u8>,
}

static LINKS: Mutex<Option<HashMap<u64, Link>>> = Mutex::new(None);

fn with<T>(link: u64, call: impl FnOnce(&mut Link) -> Result<T, u32>) -> Result<T, u32> {
    let mut links = lock(&LINKS);
    call(links.get_or_insert_with(HashMap::new).get_mut(&link).ok_or(INVALID_HANDLE)?)
}

unsafe fn create(
    count: u32,
    names: *const u32,
    values: *mut usize,
    link: *mut u64,
) -> Result<(), u32> {
    session()?;
    // SAFETY: cuLinkCreate demands `count` entries in both lists; `new` refuses null.
    let options = Arc::new(unsafe { Options::new(names, values, count) }?);
    let new = Link { options, images: Vec::new(), count: 0, linked: Vec::new() };
    let id = mint();
    lock(&LINKS).get_or_insert_with(HashMap::new).insert(id, new);
    // SAFETY: cuLinkCreate demands that `link` is null or may be written; `give` refuses null.
    unsafe { give(link, id) }
}

/// Adds an image. The server's driver sees it at the end of the link.
fn gather(link: u64, kind: u32, image: &[u8], name: &[u8]) -> Result<(), u32> {
    with(link, |link| {
        link.images.extend(u64::from(kind).to_le_bytes());
        for bytes in [image, name] {
            link.images.extend((bytes.len() as u64).to_le_bytes());
            link.images.extend(bytes);
            link.images.resize(link.images.len().next_multiple_of(8), 0);
        }
        link.count += 1;
        Ok(())
    })
}

/// Refuses options of one image: a message has those of the link alone.
fn check_options(count: u32) -> Result<(), u32> {
    if count == 0 { Ok(()) } else { Err(refuse(c"an option of one image of a link")) }
}

#[allow(clippy::too_many_arguments)] // the driver's
unsafe fn add(
    link: u64,
    kind: u32,
    data: *const u8,
    bytes: usize,
    name: *const c_char,
    count: u32,
    _names: *const u32,
    _values: *mut usize,
) -> Result<(), u32> {
    if data.is_null() {
        return Err(INVALID_VALUE);
    }
    check_options(count)?;
    // SAFETY: not null, and cuLinkAddData demands `bytes` bytes at `data`.
    let image = unsafe { std::slice::from_raw_parts(data, bytes) };
    let name = if name.is_null() {
        &[][..]
    } else {
        // SAFETY: not null, and cuLinkAddData demands a name that ends with a zero.
        unsafe { CStr::from_ptr(name) }.to_bytes()
    };
    gather(link, kind, image, name)
}

unsafe fn add_file(
    link: u64,
    kind: u32,
    path: *const c_char,
    count: u32,
    _names: *const u32,
    _values: *mut usize,
) -> Result<(), u32> {
    if path.is_null() {
        return Err(INVALID_VALUE);
    }
    check_options(count)?;
    // SAFETY: not null, and cuLinkAddFile demands a path that ends with a zero.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let image = std::fs::read(OsStr::from_bytes(path)).map_err(|_| FILE_NOT_FOUND)?;
    gather(link, kind, &image, path)
}

unsafe fn complete(link: u64, image: *mut *const u8, bytes: *mut usize) -> Result<(), u32> {
    let session = session()?;
    let (options, images, count) = with(link, |link| {
        Ok((
            link.options.clone(),
            std::mem::take(&mut link.images),
            std::mem::take(&mut link.count),
        ))
    })?;
    let (options_count, body) = options.body()?;
    let head = Message { options: U32::new(options_count), images: U32::new(count) };
    let (code, reply) = session.call(Message::OP, &[hot_bytes(&head), &body, &images])?;
    let (len, rest) = reply.split_at_checked(8).ok_or(DEVICE_UNAVAILABLE)?;
    let len = u64::from_le_bytes(len.try_into().expect("8 bytes"));
    let (linked, logs) = split_padded(rest, len).ok_or(DEVICE_UNAVAILABLE)?;
    // SAFETY: where options are outputs, cuLinkCreate demands that the list of values and the
    // buffers of logs live until the link's end.
    unsafe { options.take_logs(logs) };
    check(code)?;
    with(link, |link| {
        link.linked = linked.to_vec();
        // SAFETY: cuLinkComplete demands that `image` and `bytes` are null or may be written.
        // `give` refuses null for the image.
        unsafe {
            give(image, link.linked.as_ptr())?;
            if bytes.is_null() { Ok(()) } else { give(bytes, linked.len()) }
        }
    })
}

fn destroy(link: u64) -> Result<(), u32> {
    let gone = lock(&LINKS).as_mut().and_then(|links| links.remove(&link));
    gone.map(|_| ()).ok_or(INVALID_HANDLE)
}
