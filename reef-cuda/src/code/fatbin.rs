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
//! | 32, 36 | 4, 4 | where the name of the source stands in the header, and its length |
//!
//! NVIDIA documents none of this; it is what its library nvFatbin 12.9 writes, and `bump.fatbin` of
//! this crate's tests is from there.

use super::elf;

pub(super) const MAGIC: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();

/// The only version that there is.
const VERSION: u16 = 1;
/// Bytes of the first header, and the least of an entry's.
const HEADER: usize = 16;
const ENTRY: usize = 64;

/// Checks that all that its headers name lies inside, and that machine code in it is whole.
///
/// # Errors
///
/// What it is instead.
pub(super) fn check(image: &[u8]) -> Result<(), &'static str> {
    let mut entries = entries(image).ok_or("this fatbin is cut off or damaged")?;
    while !entries.is_empty() {
        let payload = payload(&mut entries).ok_or("an entry of this fatbin is damaged")?;
        if payload.starts_with(&elf::MAGIC) {
            elf::check(payload)?;
        }
    }
    Ok(())
}

/// The bytes after the header.
fn entries(image: &[u8]) -> Option<&[u8]> {
    let (version, header) = (u16::from_le_bytes(field(image, 4)?), field(image, 6)?);
    let (header, size) = (u16::from_le_bytes(header).into(), length(field(image, 8)?)?);
    if version != VERSION || header < HEADER {
        return None;
    }
    image.get(header..)?.get(..size)
}

/// Takes an entry off, and gives what is in it.
fn payload<'a>(entries: &mut &'a [u8]) -> Option<&'a [u8]> {
    let word = |entry: &[u8], at| field(entry, at).map(|bytes| u32::from_le_bytes(bytes) as usize);
    let header = word(entries, 4)?;
    let size = length(field(entries, 8)?)?;
    let (name, name_length) = (word(entries, 32)?, word(entries, 36)?);
    let fits = word(entries, 16)? <= size
        && word(entries, 20)? <= header
        && name.checked_add(name_length)? <= header;
    if header < ENTRY || !fits {
        return None;
    }
    entries.split_off(..header)?;
    entries.split_off(..size)
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

    /// A fatbin with one entry of machine code that is not compressed.
    pub(in crate::code) fn of_elf(elf: &[u8]) -> Vec<u8> {
        let mut entry = [0; ENTRY];
        entry[..8].copy_from_slice(&[2, 0, 1, 1, ENTRY as u8, 0, 0, 0]);
        entry[8..16].copy_from_slice(&(elf.len() as u64).to_le_bytes());
        let size = (ENTRY + elf.len()) as u64;
        [&MAGIC, &[1, 0, 16, 0], &size.to_le_bytes()[..], &entry, elf].concat()
    }

    #[test]
    fn image_packed_by_nvidia_is_whole() {
        assert_eq!(check(include_bytes!("../../tests/bump.fatbin")), Ok(()));
    }

    #[test]
    fn each_length_that_leads_outside_is_refused() {
        let image = include_bytes!("../../tests/bump.fatbin");
        // Of the file: version, header, entries; of the entry: header, payload, compressed,
        // options, name.
        for at in [4, 6, 8, 15, 16 + 4, 16 + 8, 16 + 15, 16 + 17, 16 + 22, 16 + 33, 16 + 37] {
            let mut damaged = *image;
            damaged[at] = 0xff;
            assert!(check(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn machine_code_inside_is_looked_at() {
        let error = check(&of_elf(b"\x7fELF and no more")).unwrap_err();
        assert!(error.starts_with("this is not an ELF file of 64 bits"), "{error}");
        assert_eq!(check(&of_elf(b"packed somehow")), Ok(()));
    }
}
