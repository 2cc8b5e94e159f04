//! Fat binaries: the same code for several kinds of devices, as machine code and text, perhaps compressed.

use super::{Size, elf, lz4, ptx, u16_at, u32_at, u64_at};

/// How a fat binary begins, and what programs have in its place: four bytes, a version, and its address.
const MAGIC: [u8; 4] = [0x50, 0xed, 0x55, 0xba];
const WRAPPER: [u8; 4] = [0xb1, 0x43, 0x62, 0x46];
/// Bytes of the header, and least bytes of an entry's.
const HEADER: usize = 16;
const ENTRY: usize = 64;
/// Kinds of entries.
const TEXT: usize = 1;
const MACHINE: usize = 2;
/// Of an entry's flags: compressed as LZ4, and as Zstandard, which isn't read here.
const LZ4: usize = 0x2000;
const ZSTD: usize = 0x8000;
/// Most bytes of a fat binary, and of what comes out of an entry.
const MAX_BYTES: usize = 1 << 34;
const MAX_UNPACKED: usize = 1 << 30;

/// The whole image, as far as its header says.
///
/// # Safety
///
/// All that the header speaks of is there.
pub(super) unsafe fn whole<'a>(image: *const u8, first: [u8; 4]) -> Option<&'a [u8]> {
    let image = match first {
        MAGIC => image,
        // SAFETY: the caller's promise: an address stands there.
        WRAPPER => unsafe { image.add(8).cast::<*const u8>().read_unaligned() },
        _ => return None,
    };
    if image.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let header = unsafe { std::slice::from_raw_parts(image, HEADER) };
    if !header.starts_with(&MAGIC) {
        return None;
    }
    let bytes = u16_at(header, 6)?.checked_add(u64_at(header, 8)?)?;
    // SAFETY: as above.
    (bytes <= MAX_BYTES).then(|| unsafe { std::slice::from_raw_parts(image, bytes.max(HEADER)) })
}

/// What the largest of its entries takes. Text counts if there is no machine code, which a device would rather have.
pub(super) fn size(image: &[u8]) -> Size {
    let (mut machine, mut text): (Option<Size>, Option<Size>) = (None, None);
    let mut at = u16_at(image, 6).unwrap_or(HEADER);
    while let Some((kind, size, next)) = entry(image, at) {
        let of = if kind == MACHINE { &mut machine } else { &mut text };
        *of = Some(of.unwrap_or_default().or(size));
        at = next;
    }
    let readable = machine.filter(|size| !size.is_unknown);
    match (readable, text) {
        (Some(machine), _) => machine,
        (None, Some(text)) => machine.unwrap_or_default().or(text),
        (None, None) => machine.unwrap_or_default(),
    }
}

/// An entry's kind, what it takes, and where the next one is.
fn entry(image: &[u8], at: usize) -> Option<(usize, Size, usize)> {
    let header = image.get(at..)?;
    let (kind, length) = (u16_at(header, 0)?, u32_at(header, 4)?);
    let (bytes, packed) = (u64_at(header, 8)?, u32_at(header, 16)?);
    let begin = at.checked_add(length.max(ENTRY))?;
    let next = begin.checked_add(bytes)?;
    let payload = image.get(begin..next)?;
    let (flags, unpacked) = (u64_at(header, 40)?, u64_at(header, 56)?);
    let plain = |payload: &[u8]| match kind {
        MACHINE => elf::size(payload),
        TEXT => ptx::size(payload.split(|byte| *byte == 0).next().unwrap_or_default()),
        _ => Size::UNKNOWN,
    };
    let size = if flags & ZSTD != 0 || unpacked > MAX_UNPACKED {
        Size::UNKNOWN
    } else if flags & LZ4 != 0 {
        let block = payload.get(..packed).and_then(|packed| lz4::block(packed, unpacked));
        block.map_or(Size::UNKNOWN, |block| plain(&block))
    } else {
        plain(payload)
    };
    Some((kind, size, next))
}
