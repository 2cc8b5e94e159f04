//! Fatbins: code for several GPUs in one file.
//!
//! ```text
//! magic: u32, version: u16, bytes of this header: u16, bytes of all entries: u64, entries
//! ```
//!
//! An entry is a header, which begins with these fields, and a payload. All numbers are
//! little-endian.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 2 | kind: 1 is PTX, 2 machine code |
//! | 4 | 4 | bytes of the header, at least 64 |
//! | 8 | 8 | bytes of the payload |
//! | 16 | 4 | bytes of it that are compressed code; 0 if it isn't compressed |
//! | 20 | 4 | where options of the compiler stand in the header; 0 for nowhere |
//! | 28 | 4 | compute capability, as 90 |
//! | 32, 36 | 4, 4 | where the name of the source stands in the header, and its length |
//! | 40 | 8 | flags: `0x2000` an LZ4 block, `0x8000` a zstd frame |
//! | 56 | 8 | bytes of the code before compression |
//!
//! NVIDIA documents none of this; it is what its library nvFatbin 12.9 writes, and `bump.fatbin` of
//! this crate's tests is from there. The flags are those of fatbinary 13.0.

use crate::error::Error;

pub(super) const MAGIC: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();

/// The only version that there is.
const VERSION: u16 = 1;
/// Bytes of the first header, and the least of an entry's.
pub(super) const HEADER: usize = 16;
const ENTRY: usize = 64;

const CUT_OFF: Error = Error::Image("this fatbin is cut off or damaged");
const DAMAGED_ENTRY: Error = Error::Image("an entry of this fatbin is damaged");

/// Way in which the payload of an entry is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Plain,
    Lz4,
    Zstd,
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Ptx,
    Machine,
    /// Intermediate code, and what later compilers add.
    Other,
}

/// One code of a fatbin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) kind: Kind,
    pub(super) capability: u32,
    pub(super) packing: Packing,
    /// The code as it lies there; the padding behind a packed one is left out.
    pub(super) payload: &'a [u8],
    /// Bytes of the code before it was packed, as the header says.
    #[cfg_attr(not(feature = "unpack"), allow(dead_code))]
    pub(super) raw_size: usize,
}

/// Entries of the fatbin that begins here, and the bytes after it.
///
/// # Errors
///
/// Its header is damaged, or not all entries are there.
pub(super) fn split(
    image: &[u8],
) -> Result<(impl Iterator<Item = Result<Entry<'_>, Error>>, &[u8]), Error> {
    let (mut entries, rest) = entries(image).ok_or(CUT_OFF)?;
    let iterator = std::iter::from_fn(move || {
        if entries.is_empty() {
            return None;
        }
        let taken = take(&mut entries);
        if taken.is_none() {
            entries = &[];
        }
        Some(taken.ok_or(DAMAGED_ENTRY))
    });
    Ok((iterator, rest))
}

/// The bytes after the header, and those after the fatbin.
fn entries(image: &[u8]) -> Option<(&[u8], &[u8])> {
    let (header, size) = lengths(image)?;
    image.get(header..)?.split_at_checked(size)
}

/// Bytes of the header, and of all entries.
fn lengths(image: &[u8]) -> Option<(usize, usize)> {
    let (version, header) = (u16::from_le_bytes(field(image, 4)?), field(image, 6)?);
    let (header, size) = (u16::from_le_bytes(header).into(), length(field(image, 8)?)?);
    let is_known = image.starts_with(&MAGIC) && version == VERSION && header >= HEADER;
    is_known.then_some((header, size))
}

/// Length of a fatbin, by its header.
///
/// # Errors
///
/// The header is damaged.
pub(super) fn end(header: &[u8]) -> Result<usize, Error> {
    let (header, size) = lengths(header).ok_or(CUT_OFF)?;
    header.checked_add(size).ok_or(CUT_OFF)
}

/// Takes an entry off.
fn take<'a>(entries: &mut &'a [u8]) -> Option<Entry<'a>> {
    let word = |entry: &[u8], at| field(entry, at).map(|bytes| u32::from_le_bytes(bytes) as usize);
    let kind = u16::from_le_bytes(field(entries, 0)?);
    let header = word(entries, 4)?;
    let size = length(field(entries, 8)?)?;
    let packed = word(entries, 16)?;
    let (name, name_length) = (word(entries, 32)?, word(entries, 36)?);
    let fits =
        packed <= size && word(entries, 20)? <= header && name.checked_add(name_length)? <= header;
    if header < ENTRY || !fits {
        return None;
    }
    let capability = u32::from_le_bytes(field(entries, 28)?);
    let flags = u64::from_le_bytes(field(entries, 40)?);
    let raw_size = length(field(entries, 56)?)?;
    entries.split_off(..header)?;
    let payload = entries.split_off(..size)?;
    let packing = match packed {
        0 => Packing::Plain,
        _ if flags & 0x8000 != 0 => Packing::Zstd,
        _ => Packing::Lz4,
    };
    let payload = if packed == 0 { payload } else { &payload[..packed] };
    let kind = match kind {
        1 => Kind::Ptx,
        2 => Kind::Machine,
        _ => Kind::Other,
    };
    Some(Entry { kind, capability, packing, payload, raw_size })
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn length(bytes: [u8; 8]) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(bytes)).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A fatbin with one entry: `kind` 1 is PTX, 2 machine code; `packed` is 0 if it is not packed.
    pub(in crate::image) fn of(kind: u8, payload: &[u8], flags: u64, raw_size: u64) -> Vec<u8> {
        let mut entry = [0; ENTRY];
        entry[..8].copy_from_slice(&[kind, 0, 1, 1, ENTRY as u8, 0, 0, 0]);
        entry[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        if flags != 0 {
            entry[16..20].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        }
        entry[28] = 90;
        entry[40..48].copy_from_slice(&flags.to_le_bytes());
        entry[56..64].copy_from_slice(&raw_size.to_le_bytes());
        let size = (ENTRY + payload.len()) as u64;
        [&MAGIC, &[1, 0, 16, 0], &size.to_le_bytes()[..], &entry, payload].concat()
    }

    /// Fatbin of the entries of these.
    pub(in crate::image) fn joined(all: &[Vec<u8>]) -> Vec<u8> {
        let entries: Vec<u8> = all.iter().flat_map(|one| one[HEADER..].to_vec()).collect();
        let size = entries.len() as u64;
        [&MAGIC, &[1, 0, 16, 0], &size.to_le_bytes()[..], &entries].concat()
    }
}
