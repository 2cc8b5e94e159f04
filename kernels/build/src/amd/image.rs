//! The code of one source in one build.

use super::clang::TARGET;
use super::code_object::Kernel;

/// The code of one source in one build.
pub(super) struct Image {
    pub(super) source: String,
    pub(super) build: &'static str,
    pub(super) code: Vec<u8>,
    pub(super) kernels: Vec<Kernel>,
    /// As text.
    pub(super) instructions: String,
}

impl Image {
    pub(super) fn file(&self) -> String {
        format!("{}-{}-{}.z", self.source, self.build, TARGET)
    }
}
