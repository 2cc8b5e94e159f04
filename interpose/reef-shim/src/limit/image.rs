//! Image in the program's memory, which gives the driver its address alone.

use reef_ptx::image::{Extent, extent};
use std::ffi::{CStr, c_char};

/// First bytes of a fatbin, and of its wrapper: four, a version, and the address of the fatbin.
const FATBIN: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
const WRAPPER: [u8; 4] = 0x4662_43b1_u32.to_le_bytes();

/// Bytes of a page.
const PAGE: usize = 4096;

/// Returns an image as far as its headers say that it goes. Each of their lengths is compared with
/// the memory that the program has there before anything reads on.
///
/// # Errors
///
/// The reason for which the image can't be read.
///
/// # Safety
///
/// The pointer is null, or the address of an image as the driver requires: a text that ends with a
/// zero, machine code, a fatbin or its wrapper. Nothing writes to it.
pub(crate) unsafe fn whole<'a>(image: *const u8) -> Result<&'a [u8], String> {
    if image.is_null() {
        return Err("its address is null".to_owned());
    }
    // SAFETY: not null, and `# Safety` demands an image: its first four bytes, or a zero among
    // them. Every slice has bytes that `is_mapped` has found, and nothing writes to them. A text
    // ends with a zero.
    unsafe {
        let image = if first(image) == Some(WRAPPER) { wrapped(image)? } else { image };
        let Some(first) = first(image) else { return Ok(text(image)) };
        let mut known = first.len();
        loop {
            let bytes = std::slice::from_raw_parts(image, known);
            known = match extent(bytes).map_err(|error| error.to_string())? {
                Extent::Text => return Ok(text(image)),
                Extent::Whole(bytes) if bytes <= known => {
                    return Ok(std::slice::from_raw_parts(image, bytes));
                }
                Extent::AtLeast(bytes) | Extent::Whole(bytes) => bytes,
            };
            if !is_mapped(image, known) {
                return Err("its headers name more than is there".to_owned());
            }
        }
    }
}

/// Returns the fatbin of a wrapper.
///
/// # Safety
///
/// This is a wrapper.
unsafe fn wrapped(wrapper: *const u8) -> Result<*const u8, String> {
    // SAFETY: `# Safety` demands a wrapper, whose address of a fatbin is at byte 8.
    let fatbin = unsafe { wrapper.add(8).cast::<*const u8>().read_unaligned() };
    // SAFETY: bytes that are there.
    let is_fatbin = is_mapped(fatbin, 4) && unsafe { first(fatbin) } == Some(FATBIN);
    is_fatbin.then_some(fatbin).ok_or_else(|| "its wrapper has no fatbin".to_owned())
}

/// Returns the first bytes of an image, without reading past a zero among them. `None`: there is
/// one, so the image is a text.
///
/// # Safety
///
/// As [`whole`].
unsafe fn first(image: *const u8) -> Option<[u8; 4]> {
    let mut first = [0; 4];
    for (at, byte) in first.iter_mut().enumerate() {
        // SAFETY: `# Safety` demands an image: either it has four bytes, or a text ends with a zero
        // before. None of the bytes before this one was a zero.
        *byte = unsafe { *image.add(at) };
        if *byte == 0 {
            return None;
        }
    }
    Some(first)
}

/// # Safety
///
/// A zero ends the text.
unsafe fn text<'a>(image: *const u8) -> &'a [u8] {
    // SAFETY: `# Safety` demands a zero at the text's end, and that nothing writes to it.
    unsafe { CStr::from_ptr(image.cast::<c_char>()).to_bytes() }
}

/// Returns whether the program has memory at all pages of these bytes.
fn is_mapped(begin: *const u8, bytes: usize) -> bool {
    let Some(end) = begin.addr().checked_add(bytes) else { return false };
    let mut is_resident = [0_u8; PAGE];
    let mut page = begin.addr() / PAGE * PAGE;
    while page < end {
        let bytes = (end - page).min(PAGE * is_resident.len());
        // SAFETY: the kernel looks at the address, and writes a byte for each page.
        let code = unsafe { libc::mincore(page as *mut _, bytes, is_resident.as_mut_ptr()) };
        if code != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOMEM) {
            return false;
        }
        page += PAGE * is_resident.len();
    }
    true
}
