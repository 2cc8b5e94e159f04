//! Messages between a program's library and its worker.
//!
//! The lane of a message is the program's thread. A reply is the driver's code in four bytes, four
//! zeros, and what the call returned.

use reef_wire::little_endian::{U16, U32, U64};
use reef_wire::messages;
use serde::{Deserialize, Serialize};

/// Maximum number of arguments of a call in the table.
pub const MAX_ARGS: usize = 8;

/// Maximum number of bytes of a copy that one message carries.
pub const MAX_PIECE_LEN: usize = 8 << 20;

/// Number of the legacy default stream.
pub const LEGACY_STREAM: u64 = 1;
/// Number of a thread's own default stream.
pub const OWN_STREAM: u64 = 2;

/// Maximum number of bytes of a kernel's parameters.
pub const MAX_PARAMS_LEN: usize = 32_764;

messages! {
    /// Hash of the declarations.
    pub DECLARED;
    /// Makes a context current in the thread. Zero: none.
    hot 16 SetCurrent { context: U64 }
    /// A call of the table. Its arguments follow, in words of 64 bits: a number; an id; for a
    /// place, 1 if there is one; for bytes, their number and themselves.
    hot 17 TableCall { call: U16, reserved: U16, reserved2: U32 }
    /// A launch. The attributes follow, and then the parameters as they lie in the kernel's memory.
    hot 18 Launch {
        function: U64, stream: U64, grid_x: U32, grid_y: U32, grid_z: U32,
        block_x: U32, block_y: U32, block_z: U32, shared: U32, attributes: U32, cooperative: U32, reserved: U32
    }
    /// A copy of the bytes that follow to the device.
    hot 19 ToDevice { to: U64, stream: U64 }
    /// A copy from the device. The reply has the bytes.
    hot 20 ToHost { from: U64, bytes: U64, stream: U64 }
    /// A module's or library's image, which follows after the options: pairs of option and value.
    hot 21 Load { id: U64, is_library: U32, options: U32 }
    /// A function of a module, or a kernel of a library, by the name that follows. The reply has
    /// where its parameters lie: pairs of offset and size.
    hot 22 FindFunction { id: U64, of: U64, is_kernel: U32, reserved: U32 }
    /// Layout of the parameters of a function that has come otherwise.
    hot 23 Layout { function: U64 }
    /// A call of a host function, in a stream's order.
    hot 24 CallHost { stream: U64, token: U64 }
    /// The host function has returned.
    hot 25 HostReturned { call: U64 }
    /// Of the worker: the stream has come to a host function. It comes there again unless
    /// `is_once` is 1.
    hot 26 HostCalled { token: U64, call: U64, is_once: U32, reserved: U32 }
    /// Of the worker: text that kernels have printed follows.
    hot 51 KernelPrinted { reserved: U64 }
    /// Of the worker: a call that has no reply has failed.
    hot 27 Failed { code: U32, call: U32 }
    /// Asks for memory of the window, for allocations in the lane's context: `least` or more
    /// bytes, and `wished` where memory allows. The reply has the first address and the bytes.
    hot 40 Lease { least: U64, wished: U64 }
    /// The end of an allocation within a lease. The reply comes when the device has worked, as for
    /// a free. Then leases end whose first addresses follow.
    hot 41 FreeLeased { context: U64 }
    /// Of another server: memory of the window.
    hot 42 MigrateMap { at: U64, bytes: U64, device: U32, reserved: U32 }
    /// Of another server: bytes of that memory, which follow.
    hot 43 MigrateBytes { at: U64 }
    /// Of another server: zeros in that memory.
    hot 44 MigrateClear { at: U64, bytes: U64 }
    /// Of another server: the next piece of the session's state, which follows.
    hot 45 MigrateState { reserved: U64 }
    /// Of another server: the session is made of its state. The reply comes when it could run.
    hot 46 MigratePrepare { reserved: U64 }
    /// Of another server: the session runs here from now on.
    hot 47 MigrateCommit { reserved: U64 }
    /// The reply comes when all before has been made.
    hot 28 Barrier { reserved: U64 }
    /// A link of several images to one. The options follow as for a load, and then the images: the
    /// kind of each, its bytes and its name. The reply has the linked image, and then the logs.
    hot 30 Link { options: U32, images: U32 }
    /// A template of `reef-replay`, whose definition follows.
    hot 31 Define { template: U16, reserved: U16, reserved2: U32 }
    /// A record of `reef-replay`: operations of the thread as differences from a template, which
    /// goes on here at this position. The tokens follow.
    hot 32 Advance { template: U16, at: U16 }
    /// A kernel node of a graph, or new parameters of one. The nodes before it follow, and then
    /// the parameters.
    hot 29 KernelNode {
        what: U32, after: U32, node: U64, of: U64, function: U64,
        grid_x: U32, grid_y: U32, grid_z: U32, block_x: U32, block_y: U32, block_z: U32, shared: U32, reserved: U32
    }
    /// A node of a graph that copies inside the device, or new parameters of one. The nodes before
    /// it follow, and then [`BOX_WORDS`] words.
    hot 50 CopyNode { what: U32, after: U32, node: U64, of: U64, context: U64 }
}

/// A copy of a box of bytes inside the device, in words: for the source and then for the
/// destination x in bytes, y, z, level of detail, address, bytes of a row, rows of a slice; then
/// the box's width in bytes, height and depth.
pub const BOX_WORDS: usize = 17;

/// A new node of a graph.
pub const ADD_NODE: u32 = 0;
/// New parameters of a node of a graph.
pub const SET_NODE: u32 = 1;
/// New parameters of a node of an instantiated graph.
pub const SET_EXEC_NODE: u32 = 2;

/// Hash of all that both ends must agree on.
pub const SCHEMA: u64 = DECLARED
    ^ reef_wire::codec::hash(concat!(
        env!("CARGO_PKG_VERSION"),
        include_str!("jit_option.rs"),
        include_str!("launch_attribute.rs"),
        include_str!("messages.rs"),
        include_str!("table.rs"),
        include_str!("window.rs")
    ))
    ^ reef_wire::codec::hash(reef_replay::FORMAT);

/// Returns whether operations of this kind are replayed.
pub fn is_replayed(op: u16) -> bool {
    use reef_wire::Hot;
    matches!(op, TableCall::OP | Launch::OP | ToDevice::OP)
}

/// Facts about the server's devices, which a client gets when its session begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Version of the driver.
    pub version: i32,
    /// Devices, by ordinal.
    pub devices: Vec<DeviceFacts>,
    /// First address of the session's window, of those that the program could keep. `None`: the
    /// driver chooses each address.
    pub window: Option<u64>,
    /// Codes with the names and texts of errors.
    pub errors: Vec<(u32, String, String)>,
}

/// Facts about one device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// Name.
    pub name: String,
    /// UUID.
    pub uuid: [u8; 16],
    /// Bytes of memory.
    pub memory: u64,
    /// PCI address.
    pub pci: String,
    /// Attributes with their values.
    pub attributes: Vec<(u32, i32)>,
}
