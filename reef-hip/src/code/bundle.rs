//! Bundles: what `hipcc --genco` writes, code objects for several targets in one file.
//!
//! ```text
//! "__CLANG_OFFLOAD_BUNDLE__", count, count × { offset, size, length of name, name }, code objects
//! ```
//!
//! All numbers are little-endian and 8 bytes long. A name is
//! `hipv4-amdgcn-amd-amdhsa--gfx906:xnack-`.

use crate::code::target::Target;
use reef_core::{Error, Result};

const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
/// First bytes of bundles that are compressed, which newer compilers make when asked to.
const COMPRESSED: &[u8] = b"CCOB";

/// The code object for this device, if `image` is a bundle; `image` itself otherwise.
///
/// # Errors
///
/// `Invalid` if the bundle is cut off, compressed, or has nothing for this device.
pub(crate) fn unbundle<'a>(image: &'a [u8], device: &Target) -> Result<&'a [u8]> {
    if image.starts_with(COMPRESSED) {
        return Err(Error::invalid("bundle", "is compressed: build it without that"));
    }
    let Some(rest) = image.strip_prefix(MAGIC) else { return Ok(image) };
    let entries = entries(rest, image)
        .ok_or_else(|| Error::invalid("bundle of code objects", "is cut off"))?;
    let fitting = entries.iter().filter(|(target, _)| target.runs_on(device));
    match fitting.max_by_key(|(target, _)| target.strictness()) {
        Some((_, code)) => Ok(code),
        None => {
            let have: Vec<_> = entries.iter().map(|(target, _)| target.to_string()).collect();
            let have = have.join(", ");
            Err(Error::invalid("bundle", format!("is for {have}, the device is {device}")))
        }
    }
}

/// Targets and code of all entries for AMD devices; `None` if something lies outside.
fn entries<'a>(mut rest: &'a [u8], image: &'a [u8]) -> Option<Vec<(Target, &'a [u8])>> {
    let mut entries = Vec::new();
    for _ in 0..number(&mut rest)? {
        let (offset, size) = (number(&mut rest)?, number(&mut rest)?);
        let length = number(&mut rest)?;
        let name = std::str::from_utf8(rest.split_off(..length)?).ok()?;
        let code = image.get(offset..offset.checked_add(size)?)?;
        let target = name.split_once("amdgcn-amd-amdhsa").map(|(_, id)| id.trim_start_matches('-'));
        entries.extend(target.and_then(Target::parse).map(|target| (target, code)));
    }
    Some(entries)
}

fn number(rest: &mut &[u8]) -> Option<usize> {
    let bytes = rest.split_off(..8)?;
    usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let header: usize = entries.iter().map(|(name, _)| 24 + name.len()).sum();
        let mut offset = MAGIC.len() + 8 + header;
        let mut image = MAGIC.to_vec();
        image.extend((entries.len() as u64).to_le_bytes());
        for (name, code) in entries {
            for number in [offset, code.len(), name.len()] {
                image.extend((number as u64).to_le_bytes());
            }
            image.extend(name.as_bytes());
            offset += code.len();
        }
        entries.iter().for_each(|(_, code)| image.extend(*code));
        image
    }

    fn device() -> Target {
        Target::parse("gfx906:sramecc+:xnack-").unwrap()
    }

    #[test]
    fn the_strictest_code_that_fits_is_taken() {
        let image = bundle(&[
            ("host-x86_64-unknown-linux-gnu-", b""),
            ("hipv4-amdgcn-amd-amdhsa--gfx900", b"other"),
            ("hipv4-amdgcn-amd-amdhsa--gfx906:xnack-", b"strict"),
            ("hip-amdgcn-amd-amdhsa-gfx906", b"any"),
            ("hipv4-amdgcn-amd-amdhsa--gfx906:xnack+", b"wrong"),
        ]);
        assert_eq!(unbundle(&image, &device()).unwrap(), b"strict");
        let image = bundle(&[("hip-amdgcn-amd-amdhsa-gfx906", b"any")]);
        assert_eq!(unbundle(&image, &device()).unwrap(), b"any");
    }

    #[test]
    fn file_that_is_not_a_bundle_is_left_alone() {
        assert_eq!(unbundle(b"\x7fELF", &device()).unwrap(), b"\x7fELF");
    }

    #[test]
    fn a_bundle_for_others_says_for_whom() {
        let image = bundle(&[("hipv4-amdgcn-amd-amdhsa--gfx900", b"other")]);
        let error = unbundle(&image, &device()).unwrap_err().to_string();
        assert_eq!(error, "bundle: is for gfx900, the device is gfx906:sramecc+:xnack-");
    }

    #[test]
    fn bundle_that_is_cut_off_anywhere_is_refused() {
        let image = bundle(&[("hipv4-amdgcn-amd-amdhsa--gfx906", b"code")]);
        for length in MAGIC.len()..image.len() {
            assert!(unbundle(&image[..length], &device()).is_err(), "{length} bytes");
        }
        assert!(unbundle(b"CCOB\x02", &device()).is_err());
    }
}
