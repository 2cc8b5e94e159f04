//! Machine code (`cubin`): sections with names by their contents.

use super::size::{Size, u16_at, u32_at, u64_at};

/// Bytes of the header, and of a section's.
const HEADER: usize = 64;
const SECTION: usize = 64;
/// Maximum bytes of an image: a header with a larger number is invalid.
const MAX_BYTES: usize = 1 << 34;

/// Returns the whole image, as far as its header says.
///
/// # Safety
///
/// The memory that the header describes is readable.
pub(super) unsafe fn whole<'a>(image: *const u8, first: [u8; 4]) -> Option<&'a [u8]> {
    if first != [0x7f, b'E', b'L', b'F'] {
        return None;
    }
    // SAFETY: the caller's promise.
    let header = unsafe { std::slice::from_raw_parts(image, HEADER) };
    let (at, count) = (u64_at(header, 40)?, u16_at(header, 60)?);
    let end = at.checked_add(count.checked_mul(SECTION)?)?.max(HEADER);
    if end > MAX_BYTES {
        return None;
    }
    // SAFETY: as above.
    let upto = unsafe { std::slice::from_raw_parts(image, end) };
    // The sections' names may come after their headers.
    let names = sections(upto)?.nth(u16_at(header, 62)?)?;
    let end = names.at.checked_add(names.bytes)?.max(end);
    // SAFETY: as above.
    (end <= MAX_BYTES).then(|| unsafe { std::slice::from_raw_parts(image, end) })
}

/// Section: the offset of its name among the names, its offset, and its length.
struct Section {
    name: usize,
    at: usize,
    bytes: usize,
}

fn sections(image: &[u8]) -> Option<impl Iterator<Item = Section>> {
    let (at, count) = (u64_at(image, 40)?, u16_at(image, 60)?);
    let section = move |number: usize| {
        let begin = at.checked_add(number.checked_mul(SECTION)?)?;
        let name = u32_at(image, begin)?;
        Some(Section { name, at: u64_at(image, begin + 24)?, bytes: u64_at(image, begin + 32)? })
    };
    Some((0..count).map_while(section))
}

/// Returns the size of an image, by its sections.
pub(super) fn size(image: &[u8]) -> Size {
    read(image).unwrap_or(Size::UNKNOWN)
}

fn read(image: &[u8]) -> Option<Size> {
    let names = sections(image)?.nth(u16_at(image, 62)?)?;
    let names = image.get(names.at..names.at.checked_add(names.bytes)?)?;
    let mut size = Size::default();
    for Section { name, bytes, .. } in sections(image)? {
        let name = names.get(name..)?.split(|byte| *byte == 0).next()?;
        let bytes = bytes as u64;
        if name.starts_with(b".nv.global") {
            size.data = size.data.saturating_add(bytes);
        } else if name.starts_with(b".text.") {
            size.code = size.code.saturating_add(bytes);
        }
    }
    Some(size)
}
