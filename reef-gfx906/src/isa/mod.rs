//! The instructions of gfx906: decoding, and what each does to a wave of 64 lanes.

mod wave;

pub use wave::{Code, Fault, Memory, Pause, Wave};
