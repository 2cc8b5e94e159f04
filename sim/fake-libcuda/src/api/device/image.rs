//! Images as the driver reads them: by their headers, whatever was allocated for them.

use std::borrow::Cow;
use std::ffi::{CStr, c_char};
use std::hint::black_box;

const FATBIN: u32 = 0xBA55_ED50;
const WRAPPER: u32 = 0x4662_43b1;
const ELF: u32 = 0x464C_457F;

/// The text of an image. Machine code has none, and of a fat binary it is that of the first entry
/// which is PTX.
///
/// # Safety
///
/// All that its headers name is there.
pub(super) unsafe fn text<'a>(at: *const c_char) -> Cow<'a, str> {
    // SAFETY: `# Safety` demands a whole image: a text that ends with a zero, or headers, which
    // have a zero byte.
    let first = unsafe { CStr::from_ptr(at) }.to_bytes();
    if first.len() < 4 {
        return String::from_utf8_lossy(first);
    }
    let at = at.cast::<u8>();
    // SAFETY: four bytes without a zero among them have just been read there.
    match unsafe { at.cast::<u32>().read_unaligned() } {
        // SAFETY: the driver's wrapper has the address of a fat binary in its second word, and `#
        // Safety` demands that binary too.
        WRAPPER => unsafe { text(at.cast::<usize>().add(1).read_unaligned() as *const c_char) },
        // SAFETY: `# Safety` demands all that the fat binary's headers name.
        FATBIN => unsafe { of_fatbin(at) },
        ELF => {
            // SAFETY: `# Safety` demands all sections that the ELF header names.
            unsafe { touch_sections(at) };
            "".into()
        }
        _ => String::from_utf8_lossy(first),
    }
}

unsafe fn number<const LEN: usize>(at: *const u8, offset: usize) -> usize {
    let mut bytes = [0; 8];
    for (place, byte) in bytes.iter_mut().enumerate().take(LEN) {
        // SAFETY: each use names a field of a header, and `text` demands headers that are there.
        *byte = unsafe { at.add(offset + place).read() };
    }
    u64::from_le_bytes(bytes) as usize
}

/// Reads a byte of each page, as a copy would.
unsafe fn touch(at: *const u8, len: usize) {
    for offset in (0..len).step_by(4096).chain(len.checked_sub(1)) {
        // SAFETY: each use has a length out of a header, and `text` demands what headers name.
        black_box(unsafe { at.add(offset).read_volatile() });
    }
}

unsafe fn of_fatbin<'a>(at: *const u8) -> Cow<'a, str> {
    // SAFETY: `text` demands the header, its entries and what they name, and calls this for a fat
    // binary alone. `offset` stays in the length that the header has.
    unsafe {
        let (header, len) = (number::<2>(at, 6), number::<8>(at, 8));
        touch(at, header + len);
        let mut offset = header;
        while offset < header + len {
            let entry = at.add(offset);
            let (head, size) = (number::<4>(entry, 4), number::<8>(entry, 8));
            let (kind, packed) = (number::<2>(entry, 0), number::<4>(entry, 16));
            if kind == 1 && packed == 0 {
                let text = std::slice::from_raw_parts(entry.add(head), size);
                return String::from_utf8_lossy(
                    text.split(|byte| *byte == 0).next().unwrap_or(text),
                );
            }
            offset += (head + size).max(1);
        }
    }
    "".into()
}

unsafe fn touch_sections(at: *const u8) {
    const EMPTY: usize = 8; // SHT_NOBITS
    // SAFETY: `text` demands the header, its table of sections and what they name, and calls this
    // for ELF alone.
    unsafe {
        let (table, entry, count) = (number::<8>(at, 40), number::<2>(at, 58), number::<2>(at, 60));
        for section in 0..count {
            let header = at.add(table + section * entry);
            if number::<4>(header, 4) != EMPTY {
                touch(at.add(number::<8>(header, 24)), number::<8>(header, 32));
            }
        }
    }
}
