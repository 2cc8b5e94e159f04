//! Links of several images to one.

use super::caller::{Caller, CallingThread};
use super::jit_options::{AskedOptions, JitOptions, read_options};
use crate::reader::{Reader, words};
use crate::state::shared::{Request, Shared};
use reef_cuda_abi::codes::{INVALID_IMAGE, INVALID_VALUE};
use reef_ptx::image::link_form;
use reef_remote_calls::Link;
use reef_wire::{Error, Hot, Result};

/// Upper bound of a link's images.
const MAX_IMAGES: u32 = 1024;

/// Kinds of images, `CUjitInputType`: machine code, PTX, a fat binary, objects and libraries of the
/// host's.
const KINDS: u64 = 5;

/// An image, as the driver gets it.
struct Image {
    kind: u64,
    bytes: Box<[u64]>,
    len: usize,
    name: Box<[u64]>,
}

impl Image {
    /// # Errors
    ///
    /// The driver's code for another kind, or an image that names what lies outside of it.
    fn new(kind: u64, bytes: &[u8], name: &[u8]) -> Result<Self, u32> {
        if kind >= KINDS {
            return Err(INVALID_VALUE);
        }
        let form = link_form(bytes).map_err(|_| INVALID_IMAGE)?;
        Ok(Self { kind, bytes: words(&form), len: form.len(), name: words(name) })
    }
}

/// Links images, on a waiter: it may take seconds.
///
/// # Errors
///
/// `Protocol` for a body that cannot be.
pub(crate) fn link(
    caller: &Caller,
    lane: CallingThread,
    request: Request,
    body: &[u8],
) -> Result<()> {
    let (link, rest) = Link::split(body)?;
    let mut rest = Reader(rest);
    let options = read_options(&mut rest, link.options.get())?;
    if link.images.get() > MAX_IMAGES {
        return Err(Error::Protocol(format!("link: {} images", link.images.get())));
    }
    let mut images: std::result::Result<Vec<Image>, u32> = Ok(Vec::new());
    for _ in 0..link.images.get() {
        let (kind, bytes, name) = (rest.word()?, rest.bytes()?, rest.bytes()?);
        images = images.and_then(|mut images| {
            images.push(Image::new(kind, bytes, name)?);
            Ok(images)
        });
    }
    let held = caller.shared.hold(body.len());
    let options = held.as_ref().map_err(|code| *code).and(options);
    let checked = options.and_then(|options| Ok((options, images?)));
    caller.shared.wait_for(lane.handle, move |shared| {
        let _held = held;
        let made = checked.map(|(options, images)| make(shared, &options, &images));
        // As a link answers: no image, and no log.
        let (code, bytes) = made.unwrap_or_else(|code| (code, vec![0; 8]));
        shared.answer(request, code, &bytes);
    });
    Ok(())
}

fn make(shared: &Shared, options: &AskedOptions, images: &[Image]) -> (u32, Vec<u8>) {
    let functions = &shared.driver.functions;
    let mut options = JitOptions::new(options);
    let (count, names, values) = options.arguments();
    let (mut state, mut at, mut len) = (0_usize, 0_usize, 0_usize);
    // SAFETY: options whose values are numbers, or logs of the sizes that are named, which live
    // until the link's end; a place for a handle.
    let mut code = unsafe { functions.link.call([count, names, values, &raw mut state as usize]) };
    for Image { kind, bytes, len, name } in images {
        if code == 0 {
            let (kind, at, name) = (*kind as usize, bytes.as_ptr(), name.as_ptr());
            let args = [state, kind, at as usize, *len, name as usize, 0, 0, 0];
            // SAFETY: the link of above, bytes of this length, and a text that ends with a zero.
            code = unsafe { functions.link_add.call(args) };
        }
    }
    if code == 0 {
        let places = [&raw mut at as usize, &raw mut len as usize];
        // SAFETY: the link of above, and places for an address and a size.
        code = unsafe { functions.link_complete.call([state, places[0], places[1]]) };
    }
    let mut bytes = (len as u64).to_le_bytes().to_vec();
    if at != 0 {
        // SAFETY: the driver's image of this length, which lives until the link's end.
        bytes.extend(unsafe { std::slice::from_raw_parts(at as *const u8, len) });
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    if state != 0 {
        // SAFETY: the link of above, which nothing uses any more.
        unsafe { functions.link_end.call([state]) };
    }
    bytes.extend(options.logs());
    (code, bytes)
}
