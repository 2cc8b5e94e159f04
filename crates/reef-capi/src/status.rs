//! Status codes of all functions.

/// Result of a call: `REEF_OK`, or the reason why it did nothing. Later versions may have more of
/// them.
pub type reef_status = i32;

/// It is done.
pub const REEF_OK: reef_status = 0;
/// An argument can't be: a null pointer, text that isn't UTF-8, a number out of range.
pub const REEF_INVALID: reef_status = 1;
/// No device, network, scheduler or library has this name.
pub const REEF_NOT_FOUND: reef_status = 2;
/// It is there already.
pub const REEF_EXISTS: reef_status = 3;
/// The device or this version can't do it.
pub const REEF_UNSUPPORTED: reef_status = 4;
/// The device stopped answering, or a kernel of the client failed.
pub const REEF_LOST: reef_status = 5;
/// The time is over; what was asked goes on.
pub const REEF_TIMEOUT: reef_status = 6;
/// The device or the host is out of memory.
pub const REEF_NO_MEMORY: reef_status = 7;
/// Not now: a request of the network is on its way, or a queue is full.
pub const REEF_BUSY: reef_status = 8;
/// A fault of the library. It caught it, and the handle may still be freed.
pub const REEF_INTERNAL: reef_status = 9;
/// The request was cancelled, or its client or dispatcher was freed.
pub const REEF_CANCELLED: reef_status = 10;
/// Null, freed, a handle of another kind, or one of the process that this one was forked from.
pub const REEF_HANDLE: reef_status = 11;
/// A file can't be read, or isn't what it should be.
pub const REEF_FILE: reef_status = 12;
/// The vendor's driver refused a call.
pub const REEF_DRIVER: reef_status = 13;
/// The operating system refused something, such as a thread.
pub const REEF_SYSTEM: reef_status = 14;

/// Their names, by number.
pub(crate) const NAMES: [&std::ffi::CStr; 15] = [
    c"REEF_OK",
    c"REEF_INVALID",
    c"REEF_NOT_FOUND",
    c"REEF_EXISTS",
    c"REEF_UNSUPPORTED",
    c"REEF_LOST",
    c"REEF_TIMEOUT",
    c"REEF_NO_MEMORY",
    c"REEF_BUSY",
    c"REEF_INTERNAL",
    c"REEF_CANCELLED",
    c"REEF_HANDLE",
    c"REEF_FILE",
    c"REEF_DRIVER",
    c"REEF_SYSTEM",
];
