//! Calls of the CUDA driver as messages.
//!
//! Most calls are lines of a [table](CALLS): the name, and what each argument is. The program's
//! library packs the arguments by that line, and the worker unpacks them by the same line. Calls
//! that the table cannot express have messages of their own.
//!
//! *Invariant*: a handle travels as an [`Id`](reef_wire::Id)-like number that the worker looks up,
//! never as an address of the worker's driver.

mod context_flags;
mod image;
mod jit_option;
mod launch_attribute;
mod messages;
mod occupancy;
mod parts;
mod pointer_attribute;
mod spec;
mod table;
mod window;

pub use context_flags::are_context_flags_known;
pub use image::image_len;
pub use jit_option::{JitLog, JitNumber, JitOption};
pub use launch_attribute::{ATTRIBUTE_LEN, LaunchAttribute};
pub use messages::*;
pub use occupancy::largest_block;
pub use parts::{read_layout, split_padded};
pub use pointer_attribute::pointer_attribute_len;
pub use spec::{Arg, Kind, Spec, Way};
pub use table::{CALLS, Call};
pub use window::{Class, Request, SLAB_LEN, WINDOW_LEN, WINDOW_SLOTS, has_range};
