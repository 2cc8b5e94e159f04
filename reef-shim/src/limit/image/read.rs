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

/// Returns the size of an image that was read from a file.
pub(crate) fn size_of(bytes: &[u8], major: u32) -> Size {
    match bytes {
        [0x50, 0xed, 0x55, 0xba, ..] => fatbin::size(bytes, major),
        [0x7f, b'E', b'L', b'F', ..] => elf::size(bytes),
        text => ptx::size(text.split(|byte| *byte == 0).next().unwrap_or_default()),
    }
}
