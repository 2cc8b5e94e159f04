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
    // Sections may come after their headers, and the headers of segments after all.
    let (segments, count) = (u64_at(header, 32)?, u16_at(header, 56)?);
    let mut end = end.max(segments.checked_add(count.checked_mul(u16_at(header, 54)?)?)?);
    for section in sections(upto)?.filter(|section| section.kind != NO_BITS) {
        end = end.max(section.at.checked_add(section.bytes)?);
    }
    // SAFETY: as above.
    (end <= MAX_BYTES).then(|| unsafe { std::slice::from_raw_parts(image, end) })
}

/// Kind of a section that has no bytes in the file.
const NO_BITS: usize = 8;

/// Section: the offset of its name among the names, its kind, its offset, and its length.
struct Section {
    name: usize,
    kind: usize,
    at: usize,
    bytes: usize,
}

fn sections(image: &[u8]) -> Option<impl Iterator<Item = Section>> {
    let (at, count) = (u64_at(image, 40)?, u16_at(image, 60)?);
    let section = move |number: usize| {
        let begin = at.checked_add(number.checked_mul(SECTION)?)?;
        let name = u32_at(image, begin)?;
        let (kind, at) = (u32_at(image, begin + 4)?, u64_at(image, begin + 24)?);
        Some(Section { name, kind, at, bytes: u64_at(image, begin + 32)? })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_segments_at_the_end_belong_to_the_image() {
        let file = include_bytes!("../../../../reef-ptx/tests/corpus/scale_in_place.cubin");
        let sections = u64_at(file, 40).unwrap() + SECTION * u16_at(file, 60).unwrap();
        assert!(sections < file.len(), "something follows the headers of sections");
        // SAFETY: the bytes of a whole file.
        let image = unsafe { whole(file.as_ptr(), [0x7f, b'E', b'L', b'F']) };
        assert_eq!(image.map(<[u8]>::len), Some(file.len()));
    }
}
