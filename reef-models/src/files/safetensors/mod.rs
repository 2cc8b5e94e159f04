//! Weights in `.safetensors` files, under the names that torchvision gives them.
//!
//! ```text
//! length of the header      u64, little-endian
//! header                    JSON: {"NAME": {"dtype": "F32", "shape": [64, 3, 7, 7],
//!                                           "data_offsets": [0, 37632]}, …}
//! values                    row-major, little-endian, where the offsets say
//! ```
//!
//! Floats of 16, 32 and 64 bits are read, as 32-bit ones. Other tensors are left out: torchvision
//! counts batches in integers, and inference has no use for that. A file is read whole or refused.
//!
//! In: a file or its bytes. Out: tensors by name, or what is wrong, with the tensor. Invariant: a
//! tensor has as many values as its shape says, and its memory was charged before it was made.

mod header;
mod part;
pub(crate) mod read;

pub use read::{from_bytes, load};
