//! PTX: NVIDIA's assembly, as text, which the driver reads up to a NUL.

use super::declarations::declarations;
use crate::error::Error;
use crate::text::cursor::{Cursor, Kind};

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

/// Names of the variables in global and constant memory that a text declares and defines.
pub(super) fn variables(text: &str) -> Vec<String> {
    let defined = declarations(text).into_iter().filter(|of| !of.is_extern);
    defined.map(|of| of.name.to_owned()).collect()
}

/// Values of a text's directive `.target`: the kind of device, such as `sm_90a`, and options.
pub(super) fn target(text: &str) -> Vec<&str> {
    let (mut values, mut cursor) = (Vec::new(), Cursor::new(text, 0));
    if cursor.any(|token| token.is(".target")) {
        while let Some(value) = cursor.next().filter(|token| token.kind == Kind::Word) {
            values.push(value.text);
            if cursor.next().is_none_or(|token| !token.is(",")) {
                break;
            }
        }
    }
    values
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
    fn variables_of_a_text_are_found() {
        let text = ".version 8.0\n// .global .u32 no;\n.visible .global .align 4 .b8 table[16] = {1, 2};\n\
            .extern .global .u32 elsewhere;\n.const .align 8 .u64 scale = 3;\n.global .u32 count;\n\
            .visible .entry k(.param .u64 a) { ld.global.u32 r1, [a]; st.global.u32 [a], r1; }";
        assert_eq!(variables(text), ["table", "scale", "count"]);
    }

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
