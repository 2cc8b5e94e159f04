//! Fat binaries: the same code for several kinds of devices, as machine code and PTX text, perhaps
//! compressed.

use super::size::{Size, u16_at, u32_at, u64_at};
use super::{elf, lz4, ptx};

/// First bytes of a fat binary, and of its wrapper: four bytes, a version, and the address of the
/// fat binary.
pub(super) const MAGIC: [u8; 4] = [0x50, 0xed, 0x55, 0xba];
pub(super) const WRAPPER: [u8; 4] = [0xb1, 0x43, 0x62, 0x46];
/// Bytes of the header, and minimum bytes of an entry's header.
const HEADER: usize = 16;
const ENTRY: usize = 64;
/// Kinds of entries.
const TEXT: usize = 1;
const MACHINE: usize = 2;
/// Flags of an entry: compressed as LZ4, and as Zstandard, which isn't read here.
const LZ4: usize = 0x2000;
const ZSTD: usize = 0x8000;
/// Maximum bytes of a fat binary, and of an unpacked entry.
const MAX_BYTES: usize = 1 << 34;
const MAX_UNPACKED: usize = 1 << 30;

/// Returns the whole image, as far as its header says.
///
/// # Safety
///
/// The memory that the header describes is readable.
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

/// Returns the size of the largest entry for a device with this first digit of its compute
/// capability: machine code for it, or else text.
pub(super) fn size(image: &[u8], major: u32) -> Size {
    let entries = || {
        let first = u16_at(image, 6).and_then(|at| Entry::read(image, at));
        std::iter::successors(first, |entry| Entry::read(image, entry.next))
    };
    let of = |kind: usize| entries().filter(move |entry| entry.kind == kind);
    let largest = |sizes: &mut dyn Iterator<Item = Size>| sizes.reduce(Size::or);
    let fits = |entry: &Entry<'_>| major == 0 || entry.architecture / 10 == major as usize;
    let machine = largest(&mut of(MACHINE).filter(fits).map(|entry| entry.size()));
    match machine {
        Some(machine) if !machine.is_unknown => machine,
        _ => {
            let text = largest(&mut of(TEXT).map(|entry| entry.size())).unwrap_or_default();
            machine.unwrap_or_default().or(text)
        }
    }
}

/// Code for one kind of device.
#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    kind: usize,
    architecture: usize,
    flags: usize,
    /// Bytes of the payload that count if it is packed, and bytes when unpacked.
    packed: usize,
    unpacked: usize,
    payload: &'a [u8],
    /// Offset of the next entry.
    next: usize,
}

impl<'a> Entry<'a> {
    fn read(image: &'a [u8], at: usize) -> Option<Self> {
        let header = image.get(at..)?;
        let begin = at.checked_add(u32_at(header, 4)?.max(ENTRY))?;
        let next = begin.checked_add(u64_at(header, 8)?)?;
        Some(Self {
            kind: u16_at(header, 0)?,
            architecture: u32_at(header, 28)?,
            flags: u64_at(header, 40)?,
            packed: u32_at(header, 16)?,
            unpacked: u64_at(header, 56)?,
            payload: image.get(begin..next)?,
            next,
        })
    }

    fn size(&self) -> Size {
        if self.flags & ZSTD != 0 || self.unpacked > MAX_UNPACKED {
            return Size::UNKNOWN;
        }
        if self.flags & LZ4 == 0 {
            return self.size_of(self.payload);
        }
        let packed = self.payload.get(..self.packed);
        let block = packed.and_then(|packed| lz4::block(packed, self.unpacked));
        block.map_or(Size::UNKNOWN, |block| self.size_of(&block))
    }

    fn size_of(&self, payload: &[u8]) -> Size {
        match self.kind {
            MACHINE => elf::size(payload),
            _ => ptx::size(payload.split(|byte| *byte == 0).next().unwrap_or_default()),
        }
    }
}
