//! Device code: what ships with the library, what users bring as a file, and what they bring as a
//! source.
//!
//! In goes an image or a source; out comes code that the driver can load for the device at hand.
//! Nothing reaches the driver, which takes no length, unless all that its headers name lies inside.

pub(crate) mod image;
pub(crate) mod nvrtc;
pub(crate) mod source;
