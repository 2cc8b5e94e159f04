//! Programs and shared libraries: ELF files of the host that hold fatbins.
//!
//! nvcc puts fatbins one behind the other into section `.nv_fatbin`; those of relocatable device
//! code are in `__nv_relfatbin`. The wrappers that point to them are not needed.

use super::fatbin::{self, Entry};
use crate::error::Error;
use object::LittleEndian as Little;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, SectionHeader as _};

const DAMAGED: &str = "this ELF file is cut off or damaged, or is not of 64 bits";

const SECTIONS: [&[u8]; 2] = [b".nv_fatbin", b"__nv_relfatbin"];

/// Checks that all sections of a program lie inside.
///
/// # Errors
///
/// `Image`: they don't, or it is not an ELF file of 64 bits.
pub(super) fn check(image: &[u8]) -> Result<(), Error> {
    let damaged = |_| Error::Image(DAMAGED);
    let header = FileHeader64::<Little>::parse(image).map_err(damaged)?;
    for section in header.sections(Little, image).map_err(damaged)?.iter() {
        section.data(Little, image).map_err(damaged)?;
    }
    Ok(())
}

/// Calls `each` with the entries of all fatbins of a program.
///
/// # Errors
///
/// The file is not an ELF file of 64 bits, a fatbin in it is damaged, or `each` refuses.
pub(super) fn read<'a>(
    image: &'a [u8],
    mut each: impl FnMut(Entry<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    let damaged = |_| Error::Image(DAMAGED);
    let header = FileHeader64::<Little>::parse(image).map_err(damaged)?;
    header.endian().map_err(damaged)?;
    let sections = header.sections(Little, image).map_err(damaged)?;
    for section in sections.iter() {
        if SECTIONS.contains(&sections.section_name(Little, section).map_err(damaged)?) {
            fatbins(section.data(Little, image).map_err(damaged)?, &mut each)?;
        }
    }
    Ok(())
}

/// Calls `each` with the entries of fatbins that follow each other, with zeros between them.
///
/// # Errors
///
/// A fatbin is damaged, something else stands there, or `each` refuses.
pub(super) fn fatbins<'a>(
    mut bytes: &'a [u8],
    each: &mut impl FnMut(Entry<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    while let Some(start) = bytes.iter().position(|byte| *byte != 0) {
        let (entries, rest) = fatbin::split(&bytes[start..])?;
        for entry in entries {
            each(entry?)?;
        }
        bytes = rest;
    }
    Ok(())
}
