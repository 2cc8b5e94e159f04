//! PTX: NVIDIA's assembly, as text, which the driver reads up to a NUL.

use crate::error::Error;

/// The text without NULs at its end.
///
/// # Errors
///
/// `Image`: it is not PTX, or has a NUL in its middle, where the text would end for the driver.
pub(super) fn check(image: &[u8]) -> Result<&str, Error> {
    let end = image.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let text = std::str::from_utf8(&image[..end]).ok();
    match text.filter(|text| is_ptx(text)) {
        None => Err(Error::Image("this is neither a CUBIN nor a fatbin nor PTX")),
        Some(text) if text.contains('\0') => {
            Err(Error::Image("a NUL stands in the middle of this PTX"))
        }
        Some(text) => Ok(text),
    }
}

/// Returns whether the first directive of a text is that of PTX.
pub(super) fn is_ptx(text: &str) -> bool {
    first_directive(text).is_some_and(|directive| directive.starts_with(".version"))
}

/// Skips white space and comments, and returns the rest; `None` if a comment doesn't end.
fn first_directive(mut text: &str) -> Option<&str> {
    loop {
        text = text.trim_start();
        text = match text.split_at_checked(2) {
            Some(("//", comment)) => comment.split_once('\n')?.1,
            Some(("/*", comment)) => comment.split_once("*/")?.1,
            _ => return Some(text),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_may_come_first_and_nuls_last() {
        let text = "//\n/* by hand\n */  // and\n .version 6.0\n";
        assert_eq!(check(text.as_bytes()), Ok(text));
        assert_eq!(check(format!("{text}\0\0").as_bytes()), Ok(text));
    }

    #[test]
    fn text_that_the_driver_would_misread_is_refused() {
        assert!(check(b".version 6.0\n\0.target sm_50").is_err());
        for other in ["", "// .version", "/* .version 6.0", ".target sm_50", "version 6.0"] {
            assert!(check(other.as_bytes()).is_err(), "{other:?}");
        }
        assert!(check(b".version 6.0 \xff").is_err(), "no text");
    }
}
