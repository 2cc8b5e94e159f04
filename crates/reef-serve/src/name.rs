//! Model names and versions, which come from clients and become parts of paths.

use crate::error::{Error, Result};
use std::fmt;
use std::path::{Component, Path};

/// Maximum length of a name, in bytes.
const MAX_LEN: usize = 64;

/// Returns the start of a client's text, short enough to be repeated in an error.
pub(crate) fn excerpt(said: &str) -> String {
    said.chars().take(MAX_LEN).collect()
}

/// True if a client's text names a file of a folder, and none elsewhere.
pub(crate) fn is_file_name(said: &str) -> bool {
    let mut parts = Path::new(said).components();
    let is_plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    is_plain && !said.contains(['/', '\\', '\0'])
}

/// Model name: ASCII letters, digits, `_`, `-` and `.`, without a leading dot. It is always one
/// component of a path, and never `..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelName(String);

impl ModelName {
    /// Checks and wraps `name`.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub fn new(name: &str) -> Result<Self> {
        let fits = |c: u8| c.is_ascii_alphanumeric() || b"_-.".contains(&c);
        if !name.is_empty()
            && name.len() <= MAX_LEN
            && !name.starts_with('.')
            && name.bytes().all(fits)
        {
            return Ok(Self(name.into()));
        }
        let shown = excerpt(name);
        Err(Error::Invalid(format!(
            "model name must be 1 to {MAX_LEN} ASCII letters, digits, _, - and ., without a leading \
             dot, got {shown:?}"
        )))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parses a version of the protocol: a number from 1, or nothing for the newest.
///
/// # Errors
///
/// `Invalid`.
pub(crate) fn version(text: &str) -> Result<Option<u32>> {
    match text.parse::<u32>() {
        Ok(n) if n > 0 => Ok(Some(n)),
        Err(_) if text.is_empty() => Ok(None),
        _ => {
            let shown = excerpt(text);
            Err(Error::Invalid(format!(
                "model version must be a number from 1 or empty, got {shown:?}"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn name_outside_folder_is_refused() {
        let longest = "x".repeat(MAX_LEN);
        for good in ["resnet18", "a", "inception_v3", "bert-480.onnx", &longest] {
            assert_eq!(ModelName::new(good).unwrap().as_str(), good);
        }
        let long = "x".repeat(MAX_LEN + 1);
        for bad in ["", ".", "..", ".x", "a/b", "/etc", "a\\b", "a\0", "ä", "a b", &long] {
            assert!(ModelName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn version_below_1_is_refused() {
        assert_eq!(version(""), Ok(None));
        assert_eq!(version("3"), Ok(Some(3)));
        for bad in ["0", "-1", "1.0", "latest", "4294967296", "../1"] {
            assert!(version(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn valid_name_is_one_path_component(name in "\\PC{0,80}|[./a]{1,6}") {
            if let Ok(name) = ModelName::new(&name) {
                let path = std::path::Path::new("/models").join(name.as_str());
                prop_assert_eq!(path.components().count(), 3);
                prop_assert!(path.file_name().is_some());
            }
        }
    }
}
