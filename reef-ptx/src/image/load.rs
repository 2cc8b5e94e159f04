//! Images as the driver loads them.

use super::{cubin, fatbin, ptx};
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
        fatbin::check(image).map(|()| image.into())
    } else {
        ptx::check(image).map(|text| [text.as_bytes(), b"\0"].concat().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_is_not_an_image_is_refused() {
        for image in [b"".as_slice(), b"GIF89a", b"\x7fEL", b"//", b".v", b"\xff\xfe"] {
            let error = load_form(image).unwrap_err().to_string();
            assert_eq!(error, "this is neither a CUBIN nor a fatbin nor PTX");
        }
    }
}
