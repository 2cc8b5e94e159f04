//! Handles of the driver: streams, loaded code and its functions, graphs. They are plain numbers:
//! the holder of one must keep what it stands for alive.

use cudarc::driver::sys::{CUfunction, CUgraphExec, CUmodule, CUstream};

/// A stream.
#[derive(Debug, Clone, Copy)]
pub struct Stream(pub(crate) CUstream);

// SAFETY: a handle that the driver lets any thread use.
unsafe impl Send for Stream {}
// SAFETY: a shared reference lets a thread copy the handle and no more, which `Send` allows.
unsafe impl Sync for Stream {}

/// Loaded code.
#[derive(Debug, Clone, Copy)]
pub struct Code(pub(crate) CUmodule);

// SAFETY: a handle that the driver lets any thread use.
unsafe impl Send for Code {}
// SAFETY: a shared reference lets a thread copy the handle and no more, which `Send` allows.
unsafe impl Sync for Code {}

/// A function of loaded code.
#[derive(Debug, Clone, Copy)]
pub struct Function(pub(crate) CUfunction);

// SAFETY: a handle that the driver lets any thread use while the code is loaded.
unsafe impl Send for Function {}
// SAFETY: a shared reference lets a thread copy the handle and no more, which `Send` allows.
unsafe impl Sync for Function {}

/// Launches that the device takes at once.
#[derive(Debug, Clone, Copy)]
pub struct Exec(pub(crate) CUgraphExec);

// SAFETY: a handle that the driver lets any thread use, one at a time; queues take turns on the
// device.
unsafe impl Send for Exec {}
// SAFETY: a shared reference lets a thread copy the handle and no more, which `Send` allows.
unsafe impl Sync for Exec {}
