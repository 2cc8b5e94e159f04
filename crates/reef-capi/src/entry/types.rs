//! Types of `reef.h`.

use crate::entry::record::Record;
use std::ffi::c_char;

/// An open device. A handle: compare it with NULL, and give it to functions of this header.
#[derive(Debug)]
pub struct reef_device {
    _opaque: (),
}

/// A network on a device, with memory for one request at a time. A handle.
#[derive(Debug)]
pub struct reef_network {
    _opaque: (),
}

/// Scheduler of the requests of many clients on one device. A handle.
#[derive(Debug)]
pub struct reef_dispatcher {
    _opaque: (),
}

/// Client that submits requests of one class. A handle.
#[derive(Debug)]
pub struct reef_client {
    _opaque: (),
}

/// A submitted inference. A handle.
#[derive(Debug)]
pub struct reef_request {
    _opaque: (),
}

/// Scheduling class of a client: one of the two below.
pub type reef_class = u32;
/// Starts at once, before any best-effort work.
pub const REEF_REAL_TIME: reef_class = 1;
/// Takes what real-time work leaves, and loses nothing.
pub const REEF_BEST_EFFORT: reef_class = 2;

/// Depth of a preemption: one of the three below.
pub type reef_level = u32;
/// Stops work that is not launched.
pub const REEF_HOST_QUEUE: reef_level = 0;
/// Also stops work that is launched and has not started.
pub const REEF_DEVICE_QUEUE: reef_level = 1;
/// Also stops work that runs.
pub const REEF_ALL: reef_level = 2;

/// A time that isn't known.
pub const REEF_UNKNOWN: u64 = u64::MAX;

/// Facts about a device.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct reef_device_info {
    /// Set it to `sizeof(reef_device_info)`.
    pub struct_size: u32,
    /// Streaming multiprocessors, compute units, or CPU threads.
    pub units: u32,
    /// Deepest level that it supports.
    pub level: reef_level,
    /// 0.
    pub reserved: u32,
}

/// Options of a network to load. 0 and NULL mean the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct reef_network_options {
    /// Set it to `sizeof(reef_network_options)`.
    pub struct_size: u32,
    /// Images in a request; 0: as many as the network was made for, or 1.
    pub batch: u32,
    /// Rows and columns of an image; 0: as many as the network was made for.
    pub input_size: u32,
    /// 0.
    pub reserved: u32,
    /// Seed of made-up weights, where the network is one that is built by name and has no others.
    /// 0 is a seed, too.
    pub seed: u64,
    /// A .safetensors or .param file with weights for a network that is built by name, or NULL.
    pub weights: *const c_char,
    /// A file of `reef model calibrate`, for numbers of 8 bits between the steps, or NULL. A device
    /// without kernels for these is an error.
    pub scales: *const c_char,
}

/// Shapes of a network for images. Values are floats, and lie image by image, channel by channel,
/// row by row.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct reef_network_info {
    /// Set it to `sizeof(reef_network_info)`.
    pub struct_size: u32,
    /// Images in a request.
    pub batch: u32,
    /// Channels of an image.
    pub channels: u32,
    /// Its rows.
    pub height: u32,
    /// Its columns.
    pub width: u32,
    /// 0.
    pub reserved: u32,
    /// Values of the whole input.
    pub inputs: u64,
    /// Values of the whole output.
    pub outputs: u64,
}

/// Inputs of a network, or its outputs: one of the two below.
pub type reef_end = u32;
/// The inputs.
pub const REEF_INPUT: reef_end = 1;
/// The outputs.
pub const REEF_OUTPUT: reef_end = 2;

/// Type of a tensor's values: one of those below, which are as wide as C's types of these names.
pub type reef_element = u32;
/// A byte that is 0 or 1.
pub const REEF_BOOL: reef_element = 1;
/// `uint8_t`
pub const REEF_U8: reef_element = 2;
/// `uint16_t`
pub const REEF_U16: reef_element = 3;
/// `uint32_t`
pub const REEF_U32: reef_element = 4;
/// `uint64_t`
pub const REEF_U64: reef_element = 5;
/// `int8_t`
pub const REEF_I8: reef_element = 6;
/// `int16_t`
pub const REEF_I16: reef_element = 7;
/// `int32_t`
pub const REEF_I32: reef_element = 8;
/// `int64_t`
pub const REEF_I64: reef_element = 9;
/// IEEE 754's format of 16 bits.
pub const REEF_F16: reef_element = 10;
/// `float`
pub const REEF_F32: reef_element = 11;
/// `double`
pub const REEF_F64: reef_element = 12;
/// The upper 16 bits of a `float`.
pub const REEF_BF16: reef_element = 14;

/// An input or output of a network.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct reef_tensor_info {
    /// Set it to `sizeof(reef_tensor_info)`.
    pub struct_size: u32,
    /// Type of its values.
    pub element: reef_element,
    /// Number of its sizes.
    pub rank: u32,
    /// 0.
    pub reserved: u32,
    /// Bytes of all values; of the most, if each request decides a size.
    pub bytes: u64,
}

/// Options of a client. 0 means the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct reef_client_options {
    /// Set it to `sizeof(reef_client_options)`.
    pub struct_size: u32,
    /// Larger goes first under the scheduler `priority`.
    pub priority: i32,
    /// Best-effort: its part of the device's time under `fair-share`, against the weights of
    /// others; 0: 1.
    pub weight: u32,
    /// Best-effort: commands that can wait, a power of two up to 65536; 0: 1024. A network has one
    /// or several for each layer.
    pub capacity: u32,
    /// Best-effort: commands with the device at once; 0: 4. Few are quick to preempt.
    pub window: u32,
    /// 0.
    pub reserved: u32,
}

/// Counters since the dispatcher was started.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct reef_stats {
    /// Set it to `sizeof(reef_stats)`.
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// Preemptions of best-effort work.
    pub preemptions: u64,
    /// Real-time requests that finished.
    pub rt_finished: u64,
    /// Real-time kernels that were to have best-effort blocks next to them; on a GPU that caps
    /// best-effort queues, the times that it did.
    pub padded_launches: u64,
    /// Best-effort blocks that were planned next to real-time kernels. Some come too late, or find
    /// no room.
    pub padded_blocks: u64,
    /// Times that the device refused to stop or to restore best-effort work, and was asked again.
    pub retries: u64,
    /// Best-effort clients whose work did not end in time. What it uses may stay on the device for
    /// ever.
    pub abandoned: u64,
}

/// When a request was where, in nanoseconds.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct reef_timing {
    /// Set it to `sizeof(reef_timing)`.
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// Time from submission until its first command could start: the preemption, if there was one.
    /// `REEF_UNKNOWN` for best-effort requests.
    pub delay_ns: u64,
    /// Time from then until its last command ended. `REEF_UNKNOWN` for best-effort requests.
    pub device_ns: u64,
    /// Time from submission until the dispatcher noted its end; of a best-effort request, until
    /// this call.
    pub total_ns: u64,
}

macro_rules! records {
    ($($record:ident $(, since $later:ident)? { $($field:ident: $zero:expr),+ })+) => {$(
        // SAFETY: `repr(C)`, numbers and pointers alone, of which the first one is the size.
        unsafe impl Record for $record {
            const NAME: &'static str = stringify!($record);
            const MIN_SIZE: usize = records!(@first $record $($later)?);
            const ZERO: Self = Self { struct_size: 0, $($field: $zero),+ };
        }
    )+};
    // Bytes of the first version: all, or those before the first field that came later.
    (@first $record:ident) => { size_of::<$record>() };
    (@first $record:ident $later:ident) => { std::mem::offset_of!($record, $later) };
}

records! {
    reef_device_info { units: 0, level: 0, reserved: 0 }
    reef_network_options, since scales {
        batch: 0, input_size: 0, reserved: 0, seed: 0, weights: std::ptr::null(), scales: std::ptr::null()
    }
    reef_network_info { batch: 0, channels: 0, height: 0, width: 0, reserved: 0, inputs: 0, outputs: 0 }
    reef_tensor_info { element: 0, rank: 0, reserved: 0, bytes: 0 }
    reef_client_options { priority: 0, weight: 0, capacity: 0, window: 0, reserved: 0 }
    reef_stats, since abandoned {
        reserved: 0, preemptions: 0, rt_finished: 0, padded_launches: 0, padded_blocks: 0, retries: 0,
        abandoned: 0
    }
    reef_timing { reserved: 0, delay_ns: 0, device_ns: 0, total_ns: 0 }
}
