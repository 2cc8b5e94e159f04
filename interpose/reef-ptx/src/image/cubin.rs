//! CUBINs: machine code of one GPU, as ELF files.
//!
//! `ptxas -lineinfo` keeps the PTX in section `.nv_debug_ptx_txt`, with its lines ended by NULs and
//! without comments and `.loc`. NVIDIA documents neither that nor the names of sections.

use crate::error::Error;
use object::LittleEndian as Little;
use object::SectionIndex;
use object::elf::{
    EM_CUDA, FileHeader64, ProgramHeader64, SHT_NOBITS, SHT_SYMTAB, STT_OBJECT, SectionHeader64,
};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};
use std::hash::{DefaultHasher, Hasher as _};

pub(super) const MAGIC: [u8; 4] = *b"\x7fELF";

/// Bytes of the header, and of the headers of a section and a segment.
pub(super) const HEADER: usize = size_of::<FileHeader64<Little>>();
const SECTION: u64 = size_of::<SectionHeader64<Little>>() as u64;
const SEGMENT: u64 = size_of::<ProgramHeader64<Little>>() as u64;

const DAMAGED: &str = "this CUBIN is cut off or damaged";

/// Section with the PTX that the code was made from.
const TEXT_SECTION: &[u8] = b".nv_debug_ptx_txt";

/// Parts of a CUBIN that matter here.
pub(super) struct Cubin {
    /// As 90.
    pub(super) capability: u32,
    pub(super) kernels: Vec<String>,
    /// Names of variables in global and constant memory.
    pub(super) variables: Vec<String>,
    /// PTX with line ends.
    pub(super) ptx: Option<String>,
}

/// Checks that all that the headers of a CUBIN name lies inside.
///
/// # Errors
///
/// `Image`: it is cut off or damaged, or not a CUBIN.
pub(super) fn check(image: &[u8]) -> Result<(), Error> {
    aligned(image, |image| match is_whole(header(image)?, image) {
        Some(true) => Ok(()),
        _ => Err(Error::Image(DAMAGED)),
    })
}

/// Calls `read` with the bytes at a multiple of eight, as the reader of ELF files requires. A
/// program may have its code anywhere.
fn aligned<T>(image: &[u8], read: impl FnOnce(&[u8]) -> T) -> T {
    const ALIGNMENT: usize = align_of::<u64>();
    if image.as_ptr().align_offset(ALIGNMENT) == 0 {
        return read(image);
    }
    let mut room = vec![0; image.len() + ALIGNMENT];
    let begin = room.as_ptr().align_offset(ALIGNMENT);
    let copy = &mut room[begin..begin + image.len()];
    copy.copy_from_slice(image);
    read(copy)
}

/// Returns whether an image is an ELF file for NVIDIA's GPUs.
pub(super) fn is_cubin(image: &[u8]) -> bool {
    aligned(image, |image| header(image).is_ok())
}

/// Reads names of kernels and, if it is there, PTX.
///
/// # Errors
///
/// Returns the errors of [`check`].
pub(super) fn read(image: &[u8]) -> Result<Cubin, Error> {
    aligned(image, read_aligned)
}

fn read_aligned(image: &[u8]) -> Result<Cubin, Error> {
    check(image)?;
    let header = header(image)?;
    let damaged = |_| Error::Image(DAMAGED);
    let sections = header.sections(Little, image).map_err(damaged)?;
    let flags = header.e_flags.get(Little).0;
    // From version 8 of the ABI on, the number stands one byte higher.
    let low = flags & 0xff;
    let capability = if header.e_ident.abi_version >= 8 { (flags >> 8) & 0xff } else { low };
    let variables = variables(header, image).ok_or(Error::Image(DAMAGED))?;
    let mut cubin = Cubin { capability, kernels: Vec::new(), variables, ptx: None };
    for section in sections.iter() {
        let name = sections.section_name(Little, section).map_err(damaged)?;
        if let Some(kernel) = name.strip_prefix(b".nv.constant0.") {
            cubin.kernels.push(String::from_utf8_lossy(kernel).into_owned());
        } else if name == TEXT_SECTION {
            cubin.ptx = text(section.data(Little, image).map_err(damaged)?);
        }
    }
    Ok(cubin)
}

/// Hashes of the machine code of each kernel. Equal code has equal hashes.
pub(super) fn hashes(image: &[u8]) -> Option<Vec<(String, u64)>> {
    aligned(image, hashes_aligned)
}

fn hashes_aligned(image: &[u8]) -> Option<Vec<(String, u64)>> {
    let sections = header(image).ok()?.sections(Little, image).ok()?;
    let mut all = Vec::new();
    for section in sections.iter() {
        let name = sections.section_name(Little, section).ok()?;
        if let Some(kernel) = name.strip_prefix(b".text.") {
            let mut hasher = DefaultHasher::new();
            hasher.write(section.data(Little, image).ok()?);
            all.push((String::from_utf8_lossy(kernel).into_owned(), hasher.finish()));
        }
    }
    Some(all)
}

/// Bytes of variables in global and constant memory, and of machine code.
///
/// # Errors
///
/// Returns the errors of [`check`].
pub(super) fn sizes(image: &[u8]) -> Result<(u64, u64), Error> {
    aligned(image, sizes_aligned)
}

fn sizes_aligned(image: &[u8]) -> Result<(u64, u64), Error> {
    check(image)?;
    let damaged = |_| Error::Image(DAMAGED);
    let sections = header(image)?.sections(Little, image).map_err(damaged)?;
    let (mut data, mut code) = (0_u64, 0_u64);
    for section in sections.iter() {
        let name = sections.section_name(Little, section).map_err(damaged)?;
        let bytes = section.sh_size(Little);
        // The other constants are kernels' own: their parameters, and what their code needs.
        if name.starts_with(b".nv.global") || name == b".nv.constant3" {
            data = data.saturating_add(bytes);
        } else if name.starts_with(b".text.") {
            code = code.saturating_add(bytes);
        }
    }
    Ok((data, code))
}

/// End of the header, and of the headers of sections and segments. If they are so many that the
/// first section counts them, and its header isn't known yet, its end.
///
/// # Errors
///
/// The header is damaged, or not that of a CUBIN.
pub(super) fn end_of_headers(known: &[u8]) -> Result<usize, Error> {
    aligned(known, end_of_headers_aligned)
}

fn end_of_headers_aligned(known: &[u8]) -> Result<usize, Error> {
    let header = header(known)?;
    let end = || {
        let (sections, segments) = (header.e_shoff.get(Little), header.e_phoff.get(Little));
        let first = if sections == 0 { 0 } else { sections.checked_add(SECTION)? };
        if (known.len() as u64) < first {
            return Some(first);
        }
        let end = |at: u64, count: u32, each| at.checked_add(u64::from(count).checked_mul(each)?);
        let sections = end(sections, header.shnum(Little, known).ok()?, SECTION)?;
        let segments = end(segments, header.phnum(Little, known).ok()?, SEGMENT)?;
        Some(sections.max(segments).max(HEADER as u64))
    };
    end().and_then(|end| end.try_into().ok()).ok_or(Error::Image(DAMAGED))
}

/// End of the sections and segments, whose headers are known.
///
/// # Errors
///
/// Returns the errors of [`end_of_headers`].
pub(super) fn end(known: &[u8]) -> Result<usize, Error> {
    aligned(known, end_aligned)
}

fn end_aligned(known: &[u8]) -> Result<usize, Error> {
    let header = header(known)?;
    let end = || {
        let sections = header.section_headers(Little, known).ok()?;
        let segments = header.program_headers(Little, known).ok()?;
        let sections = sections.iter().filter(|section| section.sh_type(Little) != SHT_NOBITS);
        let sections = sections.map(|s| s.sh_offset(Little).checked_add(s.sh_size(Little)));
        let segments = segments.iter().map(|s| s.p_offset(Little).checked_add(s.p_filesz(Little)));
        sections.chain(segments).try_fold(0, |end: u64, next| Some(next?.max(end)))
    };
    end().and_then(|end| end.try_into().ok()).ok_or(Error::Image(DAMAGED))
}

/// Names of the objects in sections of global and constant memory.
fn variables(header: &FileHeader64<Little>, image: &[u8]) -> Option<Vec<String>> {
    let sections = header.sections(Little, image).ok()?;
    let symbols = sections.symbols(Little, image, SHT_SYMTAB).ok()?;
    let mut names = Vec::new();
    for symbol in symbols.iter().filter(|symbol| symbol.st_type() == STT_OBJECT) {
        let Ok(section) = sections.section(SectionIndex(symbol.st_shndx(Little).0.into())) else {
            continue; // it is of another image
        };
        let place = sections.section_name(Little, section).ok()?;
        if place.starts_with(b".nv.global") || place.starts_with(b".nv.constant") {
            let name = symbol.name(Little, symbols.strings()).ok()?;
            names.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    Some(names)
}

/// PTX of a section, if that is what it has.
fn text(section: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(section).ok()?.trim_end_matches('\0');
    let text = text.replace('\0', "\n") + "\n";
    super::ptx::is_ptx(&text).then_some(text)
}

fn header(image: &[u8]) -> Result<&FileHeader64<Little>, Error> {
    let header = FileHeader64::<Little>::parse(image).map_err(|_| {
        Error::Image("this is not an ELF file of 64 bits, or its header is cut off")
    })?;
    if header.endian().is_err() || header.e_machine(Little) != EM_CUDA {
        return Err(Error::Image("this ELF file is not for an NVIDIA GPU"));
    }
    Ok(header)
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
        assert_eq!(check(&file), Err(Error::Image("this ELF file is not for an NVIDIA GPU")));
        file[4] = 1; // 32 bits
        let error = check(&file).unwrap_err().to_string();
        assert!(error.starts_with("this is not an ELF file of 64 bits"));
    }

    #[test]
    fn lines_of_a_section_end_with_nuls() {
        let section = b".version 9.0\0.target sm_90\0\0";
        assert_eq!(text(section).unwrap(), ".version 9.0\n.target sm_90\n");
        assert_eq!(text(b"something else\0"), None);
    }
}
