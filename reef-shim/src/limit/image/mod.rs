//! What the global variables of code take, read from the code: the driver doesn't say it.
//!
//! *In*: an image as programs give it to the driver. *Out*: bytes, at most. *Invariant*: nothing is read beyond what
//! the image itself says that it has; what can't be read counts as nothing and is [said](Size::is_unknown).

mod elf;
mod fatbin;
mod lz4;
mod ptx;

use std::ffi::{CStr, c_char};

/// What an image takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Global variables.
    pub(crate) data: u64,
    /// Machine code, which is loaded at once or when it is first used.
    pub(crate) code: u64,
    /// There was something that can't be read.
    pub(crate) is_unknown: bool,
}

impl Size {
    /// The larger of each: an image has the same code for several kinds of devices, of which one is loaded.
    fn or(self, other: Self) -> Self {
        Self {
            data: self.data.max(other.data),
            code: self.code.max(other.code),
            is_unknown: self.is_unknown || other.is_unknown,
        }
    }

    const UNKNOWN: Self = Self { data: 0, code: 0, is_unknown: true };
}

/// What an image takes whose end it says itself, on devices with this first digit of their version; zero: any.
///
/// # Safety
///
/// The program's promise to the driver: null, or a text that ends with a zero, machine code, or a list of these.
pub(crate) unsafe fn size(image: *const u8, major: u32) -> Size {
    if image.is_null() {
        return Size::default();
    }
    // SAFETY: the caller's promise: each of the readers reads what the image says that it has.
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

/// What an image takes that was read from a file.
pub(crate) fn size_of(bytes: &[u8], major: u32) -> Size {
    match bytes {
        [0x50, 0xed, 0x55, 0xba, ..] => fatbin::size(bytes, major),
        [0x7f, b'E', b'L', b'F', ..] => elf::size(bytes),
        text => ptx::size(text.split(|byte| *byte == 0).next().unwrap_or_default()),
    }
}

/// A number at a place.
fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    word(bytes, at).map(|word| u16::from_le_bytes(word).into())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    word(bytes, at).map(|word| u32::from_le_bytes(word) as usize)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<usize> {
    word(bytes, at).map(|word| u64::from_le_bytes(word) as usize)
}
