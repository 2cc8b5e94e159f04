//! Description of a driver's function.

use serde::{Deserialize, Serialize};
use std::ffi::CStr;

/// Object of the driver that a handle names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as the driver names them")]
pub enum Kind {
    Context,
    Stream,
    Event,
    Module,
    Function,
    Library,
    Kernel,
    Graph,
    Node,
    Exec,
    Link,
    Pool,
}

/// Argument of a driver's function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arg {
    /// Number of at most 32 bits. The upper half of the register means nothing.
    Word32,
    /// Number of 64 bits, or an address of the device.
    Word64,
    /// Handle.
    Handle(Kind),
    /// Place for the handle of a new object. The client chooses its number.
    New(Kind),
    /// Place for a handle that may be known already. The worker chooses its number if not.
    Known(Kind),
    /// Handle that the call ends if it succeeds.
    End(Kind),
    /// Handles, as many as the argument of this position says.
    Handles(Kind, usize),
    /// Place for a result, of this number of bytes.
    Out(usize),
    /// Address of a value, of this number of bytes and without addresses inside.
    In(usize),
    /// Text that ends with a zero.
    Text,
    /// Place that there never is.
    Null,
}

/// Way in which a call is sent and made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The client doesn't wait for the code.
    Quiet,
    /// The client waits, and the call does not block.
    Direct,
    /// The client waits, and the call may block until the device has worked.
    Blocking,
}

/// Line of the table of calls.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Name as the driver exports it.
    pub name: &'static CStr,
    /// Way.
    pub way: Way,
    /// Arguments, in order.
    pub args: &'static [Arg],
}
