//! Images as the driver loads and links them.

use super::fatbin::{self, Entry};
use super::{contents, cubin, program, ptx};
use crate::error::Error;
use std::borrow::Cow;

/// Image as `cuModuleLoadData` takes it, which is told no length: a CUBIN or a fatbin that is all
/// there, or PTX, which ends with a NUL.
///
/// # Errors
///
/// It is none of these, is cut off, or names what lies outside of it.
pub fn load_form(image: &[u8]) -> Result<Cow<'_, [u8]>, Error> {
    if image.starts_with(&cubin::MAGIC) {
        cubin::check(image).map(|()| image.into())
    } else if image.starts_with(&fatbin::MAGIC) {
        check(image).map(|()| image.into())
    } else {
        ptx::check(image).map(|text| [text.as_bytes(), b"\0"].concat().into())
    }
}

/// Image as `cuLinkAddData` takes it, which is told its length: as [`load_form`], or an object or a
/// library of the host's, whose device code is all there.
///
/// # Errors
///
/// Returns the errors of [`load_form`].
pub fn link_form(image: &[u8]) -> Result<Cow<'_, [u8]>, Error> {
    if let Some(members) = image.strip_prefix(ARCHIVE) {
        check_members(members).map(|()| image.into())
    } else if image.starts_with(&cubin::MAGIC) && !cubin::is_cubin(image) {
        program::check(image)?;
        program::read(image, |entry| check_entry(&entry))?;
        Ok(image.into())
    } else {
        load_form(image)
    }
}

/// Checks that all that the headers of a fatbin name lies inside, and that machine code in it is
/// whole.
fn check(image: &[u8]) -> Result<(), Error> {
    fatbin::split(image)?.0.try_for_each(|entry| check_entry(&entry?))
}

/// Checks machine code of an entry, also where it is packed and this build unpacks.
fn check_entry(entry: &Entry<'_>) -> Result<(), Error> {
    match contents::code(entry)? {
        Some(code) if code.starts_with(&cubin::MAGIC) => cubin::check(&code),
        _ => Ok(()),
    }
}

/// First bytes of a library of objects.
const ARCHIVE: &[u8] = b"!<arch>\n";

/// Checks the objects of a library: each has a header of 60 bytes, of which ten are the length, as
/// decimal digits, and begins at an even place.
fn check_members(mut members: &[u8]) -> Result<(), Error> {
    const CUT_OFF: Error = Error::Image("this library of objects is cut off or damaged");
    while !members.is_empty() {
        let (header, rest) = members.split_at_checked(60).ok_or(CUT_OFF)?;
        let digits = std::str::from_utf8(&header[48..58]).map_err(|_| CUT_OFF)?;
        let len: usize = digits.trim_end().parse().map_err(|_| CUT_OFF)?;
        let member = rest.get(..len).ok_or(CUT_OFF)?;
        if member.starts_with(&cubin::MAGIC) {
            link_form(member)?;
        }
        members = rest.get(len.next_multiple_of(2)..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fatbin::tests::of;
    use super::*;

    #[test]
    fn file_that_is_not_an_image_is_refused() {
        for image in [b"".as_slice(), b"GIF89a", b"\x7fEL", b"//", b".v", b"\xff\xfe"] {
            let error = load_form(image).unwrap_err().to_string();
            assert_eq!(error, "this is neither a CUBIN nor a fatbin nor PTX");
        }
    }

    /// An entry of a library, and the padding behind it.
    fn member(body: &[u8]) -> Vec<u8> {
        let header = format!("{:<48}{:<10}`\n", "name/", body.len());
        let padding: &[u8] = if body.len().is_multiple_of(2) { b"" } else { b"\n" };
        [header.as_bytes(), body, padding].concat()
    }

    #[test]
    fn objects_of_a_library_are_inspected() {
        let library = |members: &[&[u8]]| {
            let members: Vec<u8> = members.iter().flat_map(|body| member(body)).collect();
            [ARCHIVE, &members].concat()
        };
        assert!(link_form(&library(&[b"some text", b"more"])).is_ok());
        assert!(link_form(&library(&[b"some text", b"\x7fELF and no more"])).is_err());
        let whole = library(&[b"more"]);
        for len in ARCHIVE.len() + 1..whole.len() {
            assert!(link_form(&whole[..len]).is_err(), "{len} bytes");
        }
        assert!(link_form(b"\x7fELF and no more").is_err());
        assert!(link_form(b".version 8.0\n").is_ok());
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
    fn machine_code_inside_is_inspected() {
        let error = check(&of(2, b"\x7fELF and no more", 0, 0)).unwrap_err().to_string();
        assert!(error.starts_with("this is not an ELF file of 64 bits"), "{error}");
        assert_eq!(check(&of(2, b"packed somehow", 0, 0)), Ok(()));
    }

    #[cfg(feature = "unpack")]
    #[test]
    fn machine_code_that_is_packed_is_inspected() {
        // An LZ4 block of 8 literals.
        let error = check(&of(2, b"\x80\x7fELF\x02\x01\x01\x00", 0x2000, 8)).unwrap_err();
        assert!(error.to_string().starts_with("this is not an ELF file of 64 bits"), "{error}");
    }
}
