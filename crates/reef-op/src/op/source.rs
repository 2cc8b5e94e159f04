//! Kernels that come as source, and the launches of one inference: plain data that a caller trusts.

use reef_core::Dim3;

/// One source file, which becomes one module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Name of it in errors.
    pub name: String,
    /// HIP or CUDA C++, as the device's run-time compiler takes it.
    pub text: String,
    /// Its kernels follow the contract of kernels/README.md, so that they can be stopped.
    pub guarded: bool,
}

/// One launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Number of the source that has the kernel.
    pub file: usize,
    /// Name of the kernel, as it stands in the code.
    pub kernel: String,
    /// Blocks in x, y, z.
    pub grid: Dim3,
    /// Threads of a block in x, y, z.
    pub block: Dim3,
    /// Bytes that each argument points to; all arguments are pointers.
    pub args: Vec<usize>,
}

/// Kernels as source, and their launches in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProgramText {
    /// Sources of the kernels.
    pub files: Vec<SourceFile>,
    /// The launches of one inference.
    pub calls: Vec<Call>,
}

/// A [`ProgramText`] that a caller trusts.
#[derive(Debug)]
pub struct Program(ProgramText);

impl Program {
    /// Trusts a program. It is native code of a GPU: nothing can check what it does with its
    /// pointers.
    ///
    /// # Safety
    ///
    /// * Each call, whatever values its memory holds, touches only the bytes that it says its
    ///   arguments point to, or else memory of its own blocks.
    /// * Its kernels end, and don't wait for other blocks of their grid.
    /// * Kernels of files that say so follow the contract of kernels/README.md.
    #[allow(unsafe_code)]
    pub unsafe fn trusted(text: ProgramText) -> Self {
        Self(text)
    }

    /// Returns the text that was trusted.
    pub fn text(&self) -> &ProgramText {
        &self.0
    }
}

impl Program {
    pub(crate) fn calls(&self) -> &[Call] {
        &self.0.calls
    }
}
