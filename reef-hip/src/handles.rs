//! Handles of the runtime: streams, loaded code and its functions, graphs. They are plain numbers:
//! the holder of one must keep what it stands for alive.

use crate::driver::Handle;

/// A stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream(pub(crate) Handle);

// SAFETY: a handle that the runtime lets any thread use.
unsafe impl Send for Stream {}
// SAFETY: a shared reference lets a thread copy the handle and no more, which `Send` allows.
unsafe impl Sync for Stream {}

/// Loaded code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub(crate) Handle);

// SAFETY: a handle that the runtime lets any thread use.
unsafe impl Send for Code {}
// SAFETY: a shared reference lets a thread copy the handle and no more, which `Send` allows.
unsafe impl Sync for Code {}

/// A function of loaded code.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    pub(crate) raw: Handle,
    pub(crate) code: Code,
    /// Its place among the kernels that the code describes.
    pub(crate) kernel: Option<usize>,
}

// SAFETY: a handle that the runtime lets any thread use while the code is loaded, and numbers.
unsafe impl Send for Function {}
// SAFETY: a shared reference lets a thread copy the handle and no more, which `Send` allows.
unsafe impl Sync for Function {}

/// Launches that the device takes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exec(pub(crate) Handle);

// SAFETY: a handle that the runtime lets any thread use.
unsafe impl Send for Exec {}
// SAFETY: a shared reference lets a thread copy the handle and no more, which `Send` allows.
unsafe impl Sync for Exec {}
