//! Containers of device code: programs, fatbins, CUBINs, PTX.
//!
//! In go bytes of unknown origin; out come PTX texts and names of kernels that have machine code.
//! No length that a header names is trusted before it was compared with the bytes that are there.

mod contents;
mod cubin;
mod declarations;
mod device_code;
mod extent;
mod fatbin;
mod footprint;
mod load;
mod program;
mod ptx;
#[cfg(feature = "unpack")]
mod unpack;

pub use contents::{Container, Image, MachineCode, Source};
pub use device_code::DeviceCode;
pub use extent::{Extent, extent};
pub use footprint::Footprint;
pub use load::{link_form, load_form};
