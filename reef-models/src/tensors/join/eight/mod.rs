//! Convolutions between numbers of 8 bits, of files that were quantized: formulas on both sides,
//! padding and sums become one operation.
//!
//! ```text
//! map       f32 <- i8   (x - zero) * scale               others may read it as well
//! move      zeros around it                              only with padding
//! contract                                               weights are integers times a scale
//! map       i8 <- f32   round(sum / scale) + zero        sum with bias and ReLU, if it has them
//! ```
//!
//! Numbers may also be `u8`: they become 128 less, so that formulas that read them add 128.
//!
//! For `QLinearConv` the first formula takes off zero points alone, sums are of integers, another
//! formula adds a bias to them, and scales stand in the last one. The operation is the same, with
//! the integers as weights.
//!
//! In: steps in launch order, and which constants are of such convolutions. Out: steps with a move
//! that turns channels last, one that pads with the zero point, the operation, and a move back, for
//! each convolution that the device takes. What is not exactly this stays. The operation writes no
//! -128: where that stands for zero, each number is stored as one more, and all formulas that read
//! it take one off. So the largest number of such a tensor is 126, and with another zero point the
//! lowest is -127. Sums are rounded once, so that numbers between two others may be one apart.

mod formula;
mod parts;
pub(in crate::tensors) mod steps;
#[cfg(all(test, feature = "onnx"))]
mod tests;
