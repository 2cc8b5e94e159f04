//! Size of an image by its first bytes.

use super::size::Size;
use super::{elf, fatbin, ptx};
use std::ffi::{CStr, c_char};

/// Returns the size of an image that states its own end, for devices with this first digit of their
/// compute capability; zero: any.
///
/// # Safety
///
/// The pointer is null, or points to a text that ends with a zero, machine code, or a fat binary,
/// as the driver requires.
pub(crate) unsafe fn size(image: *const u8, major: u32) -> Size {
    if image.is_null() {
        return Size::default();
    }
    // SAFETY: the caller's promise: each of the readers reads only the memory that the image
    // describes.
    unsafe {
        let mut first = [0; 4];
        for (at, byte) in first.iter_mut().enumerate() {
            *byte = *image.add(at);
            if *byte == 0 {
                break; // a text that ends here
            }
        }
        if let Some(whole) = fatbin::whole(image, first) {
            return fatbin::size(whole, major);
        }
        match elf::whole(image, first) {
            Some(whole) => elf::size(whole),
            None => ptx::size(CStr::from_ptr(image.cast::<c_char>()).to_bytes()),
        }
    }
}

/// Returns an image as far as it says itself that it goes; a text without its end.
///
/// # Safety
///
/// As [`size`].
pub(crate) unsafe fn whole<'a>(image: *const u8) -> Option<&'a [u8]> {
    if image.is_null() {
        return None;
    }
    // SAFETY: the caller's promise, as in `size`.
    unsafe {
        let text = || CStr::from_ptr(image.cast::<c_char>()).to_bytes();
        let mut first = [0; 4];
        for (at, byte) in first.iter_mut().enumerate() {
            *byte = *image.add(at);
            if *byte == 0 {
                return Some(text());
            }
        }
        if is_container(first) {
            fatbin::whole(image, first).or_else(|| elf::whole(image, first))
        } else {
            Some(text())
        }
    }
}

/// Returns whether an image with these first bytes is machine code, a fat binary or its wrapper.
fn is_container(first: [u8; 4]) -> bool {
    [fatbin::MAGIC, fatbin::WRAPPER, *b"\x7fELF"].contains(&first)
}

/// Returns the size of an image that was read from a file.
pub(crate) fn size_of(bytes: &[u8], major: u32) -> Size {
    match bytes {
        [0x50, 0xed, 0x55, 0xba, ..] => fatbin::size(bytes, major),
        [0x7f, b'E', b'L', b'F', ..] => elf::size(bytes),
        text => ptx::size(text.split(|byte| *byte == 0).next().unwrap_or_default()),
    }
}
