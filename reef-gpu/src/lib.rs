//! What the GPU backends do alike, on top of what each vendor's driver does.

mod image;
mod options;
mod vendor;

pub use image::Build;
pub use options::{Options, Precision};
pub use vendor::{Facts, FunctionFacts, GateWord, Vendor};
