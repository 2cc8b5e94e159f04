//! CUBINs: machine code of one GPU, as ELF files.

use object::LittleEndian as Little;
use object::elf::{EM_CUDA, FileHeader64, SHT_NOBITS, SHT_SYMTAB};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};

pub(super) const MAGIC: [u8; 4] = *b"\x7fELF";

/// Checks that all that the headers of a CUBIN name lies inside.
///
/// # Errors
///
/// What it is instead.
pub(super) fn check(image: &[u8]) -> Result<(), &'static str> {
    let header = FileHeader64::<Little>::parse(image)
        .map_err(|_| "this is not an ELF file of 64 bits, or its header is cut off")?;
    if header.endian().is_err() || header.e_machine(Little) != EM_CUDA {
        return Err("this ELF file is not for an NVIDIA GPU");
    }
    match is_whole(header, image) {
        Some(true) => Ok(()),
        _ => Err("this CUBIN is cut off or damaged"),
    }
}

/// Returns whether segments, sections, and the names of sections and symbols lie inside; `None` if
/// the tables that name them don't.
fn is_whole(header: &FileHeader64<Little>, image: &[u8]) -> Option<bool> {
    let inside = |offset: u64, size: u64| {
        offset.checked_add(size).is_some_and(|end| end <= image.len() as u64)
    };
    let segments = header.program_headers(Little, image).ok()?;
    let sections = header.sections(Little, image).ok()?;
    for section in sections.iter() {
        sections.section_name(Little, section).ok()?;
    }
    let symbols = sections.symbols(Little, image, SHT_SYMTAB).ok()?;
    for symbol in symbols.iter() {
        symbol.name(Little, symbols.strings()).ok()?;
    }
    let mut of_file = sections.iter().filter(|section| section.sh_type(Little) != SHT_NOBITS);
    Some(
        segments.iter().all(|s| inside(s.p_offset(Little), s.p_filesz(Little)))
            && of_file.all(|s| inside(s.sh_offset(Little), s.sh_size(Little))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_machines_are_refused() {
        let mut file = [MAGIC.as_slice(), b"\x02\x01\x01", &[0; 57]].concat();
        file[18] = 62; // x86-64
        assert_eq!(check(&file), Err("this ELF file is not for an NVIDIA GPU"));
        file[4] = 1; // 32 bits
        assert!(check(&file).unwrap_err().starts_with("this is not an ELF file of 64 bits"));
    }
}
