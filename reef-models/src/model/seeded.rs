//! Made-up weights: a function of seed, tensor name and index, the same on every machine.
//!
//! Trained weights can't be shipped, zeros hide mistakes, and a random generator would tie the
//! values to the order of the layers. So each value stands for itself:
//!
//! ```text
//! key   = fnv1a64(name in UTF-8) xor seed
//! z     = splitmix64's output function of (key + (index + 1) * 0x9e3779b97f4a7c15)
//! unit  = (z >> 40) * 2^-23 - 1                   exact in f32, in [-1, 1)
//! value = offset + scale * unit                   in f32: one product, one sum, each rounded
//! ```
//!
//! | tensor | offset | scale |
//! |---|---|---|
//! | weight of a convolution, a linear layer or a table | 0 | f32(sqrt(6 / fan in)), the root in f64 |
//! | factor of a normalisation | 1 | 0.2 |
//! | the same, if it ends a residual branch | 0.2 | 0.05 |
//! | bias, running mean | 0 | 0.1 |
//! | running variance | 1 | 0.3 |
//! | the image, named `input` | 0 | 1 |
//!
//! A residual branch must end small: fifty full-sized ones on top of each other would grow the
//! activations of ResNet-152 out of all proportion. `reef-models/tools/golden.py` repeats this in
//! numpy.

use crate::errors::error::Result;
use crate::model::ports::Ports;
use crate::model::tensor::{Kind, Source, TensorSpec};
use reef_op::tensor::{Array, Element, Spec};

/// Weights made up from a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seeded(pub u64);

impl Seeded {
    /// The first `elements` values of the image that goes with these weights.
    pub fn input(self, elements: usize) -> Vec<f32> {
        self.values("input", elements, 0.0, 1.0)
    }

    /// Values of all inputs as they lie in memory: floats as [`input`](Self::input) has them, by
    /// the input's name, and integers that are 0 or 1, which every table has.
    pub fn inputs(self, ports: &Ports) -> Vec<u8> {
        let mut bytes = vec![0; ports.bytes()];
        for (offset, port) in ports.iter() {
            let values = self.array(&port.name, &port.spec).to_le_bytes();
            bytes[offset..][..values.len()].copy_from_slice(&values);
        }
        bytes
    }

    /// The values of one of these inputs.
    pub fn array(self, name: &str, spec: &Spec) -> Array {
        let values = self.values(name, spec.elements(), 0.0, 1.0).into_iter();
        match spec.element {
            Element::F32 => Array::F32(values.collect()),
            float if float.is_float() => Array::from_f64(float, values.map(f64::from)),
            whole => Array::from_i64(whole, values.map(|unit| i64::from(unit > 0.0))),
        }
    }

    /// The values of a tensor.
    pub(crate) fn make_tensor(self, tensor: &TensorSpec) -> Vec<f32> {
        let (offset, scale) = range(tensor.kind);
        self.values(&tensor.name, tensor.elements, offset, scale)
    }

    fn values(self, name: &str, elements: usize, offset: f32, scale: f32) -> Vec<f32> {
        let key = fnv1a(name) ^ self.0;
        (0..elements as u64).map(|index| offset + scale * unit(key, index)).collect()
    }
}

impl Source for Seeded {
    fn tensor(&self, tensor: &TensorSpec) -> Result<Vec<f32>> {
        Ok(self.make_tensor(tensor))
    }
}

fn range(kind: Kind) -> (f32, f32) {
    match kind {
        Kind::Weight { fan_in } => (0.0, (6.0 / fan_in as f64).sqrt() as f32),
        Kind::Gain => (1.0, 0.2),
        Kind::BranchGain => (0.2, 0.05),
        Kind::Bias | Kind::Mean => (0.0, 0.1),
        Kind::Variance => (1.0, 0.3),
    }
}

fn fnv1a(name: &str) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

fn unit(key: u64, index: u64) -> f32 {
    let mut z = key.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 40) as f32 * 2f32.powi(-23) - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashes_are_the_published_ones() {
        assert_eq!(fnv1a(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn values_are_those_of_the_golden_script() {
        let want = [-0.558977, 0.8368268, 0.4440534, -0.13469589];
        assert_eq!(Seeded(1).input(4), want);
    }

    #[test]
    fn units_fill_their_interval() {
        let units: Vec<f32> = (0..10_000).map(|index| unit(7, index)).collect();
        assert!(units.iter().all(|unit| (-1.0..1.0).contains(unit)));
        let mean = units.iter().sum::<f32>() / units.len() as f32;
        assert!(mean.abs() < 0.03, "{mean}");
    }
}
