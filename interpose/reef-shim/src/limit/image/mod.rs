//! Memory of the global variables of code, read from the code, because the driver doesn't return
//! it.
//!
//! *In*: an image as programs give it to the driver. *Out*: bytes, at most. *Invariant*: nothing is
//! read beyond what the image itself says that it has; what can't be read counts as nothing and is
//! [said](size::Size::is_unknown).

mod elf;
mod fatbin;
mod lz4;
mod ptx;
pub(crate) mod read;
pub(crate) mod size;
