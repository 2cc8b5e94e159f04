//! Device code: what ships with the crate, what users bring as a file, and what they bring as a
//! source.
//!
//! In goes an image, a bundle of images or a source; out comes one code object for the device at
//! hand. Nothing reaches the runtime, which takes no length, unless all that its headers name lies
//! inside.

pub(crate) mod bundle;
pub(crate) mod elf;
pub(crate) mod hiprtc;
pub(crate) mod image;
pub(crate) mod source;
pub(crate) mod target;
