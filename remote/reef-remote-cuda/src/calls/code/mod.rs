//! Code of the device: images, links of images, functions, and their launches.
//!
//! *In*: images and parameters in the program's memory. *Out*: their bytes in messages.
//! *Invariant*: no address of the program's is sent.

mod jit_options;
pub(crate) mod launches;
mod links;
mod modules;
mod occupancy;
mod old_launches;
