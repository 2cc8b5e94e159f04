//! Errors of images and texts.

/// Fault of an image or a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not device code, or they are damaged.
    #[error("{0}")]
    Image(&'static str),
    /// The text of a kernel is not PTX as the reader knows it.
    #[error("line {line} of this PTX: {what}")]
    Text {
        /// From 1.
        line: usize,
        /// Form that the reader expected.
        what: &'static str,
    },
}
