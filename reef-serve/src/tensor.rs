//! What a model takes and gives, and checking what a client says about it.

use crate::error::{Error, Result};
use reef::models::Model;
use reef::op::Tensor;

/// The only element type: 32-bit floats, little-endian on the wire.
pub(crate) const FP32: &str = "FP32";

/// A tensor's name and shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorInfo {
    pub(crate) name: &'static str,
    pub(crate) shape: Vec<i64>,
}

impl TensorInfo {
    /// The picture: batch, channels, rows, columns.
    pub(crate) fn input(model: &Model) -> Self {
        let Tensor { batch, channels, height, width, .. } = *model.input();
        Self { name: "input", shape: [batch, channels, height, width].map(|n| n as i64).into() }
    }

    /// The logits: batch, classes.
    pub(crate) fn output(model: &Model) -> Self {
        let Tensor { batch, channels, .. } = *model.output();
        Self { name: "logits", shape: [batch, channels].map(|n| n as i64).into() }
    }

    pub(crate) fn elements(&self) -> usize {
        self.shape.iter().product::<i64>() as usize
    }

    pub(crate) fn bytes(&self) -> usize {
        self.elements() * size_of::<f32>()
    }

    /// Refuses a tensor of another name, type or shape.
    ///
    /// # Errors
    ///
    /// `Invalid` with both.
    pub(crate) fn check(&self, name: &str, datatype: &str, shape: &[i64]) -> Result<()> {
        self.check_name(name)?;
        if datatype != FP32 {
            let shown = short(datatype);
            return Err(Error::Invalid(format!("tensor {name}: datatype {shown:?}, it is {FP32}")));
        }
        if shape != self.shape {
            let given = &shape[..shape.len().min(8)];
            let text = format!("tensor {name}: shape {given:?}, it is {:?}", self.shape);
            return Err(Error::Invalid(text));
        }
        Ok(())
    }

    /// Refuses another name.
    ///
    /// # Errors
    ///
    /// `Invalid` with both.
    pub(crate) fn check_name(&self, name: &str) -> Result<()> {
        if name == self.name {
            return Ok(());
        }
        Err(Error::Invalid(format!("no tensor {:?} (have: {})", short(name), self.name)))
    }

    /// Refuses another number of bytes.
    ///
    /// # Errors
    ///
    /// `Invalid` with both.
    pub(crate) fn check_bytes(&self, given: usize) -> Result<()> {
        let want = self.bytes();
        if given == want {
            return Ok(());
        }
        Err(Error::Invalid(format!("tensor {}: {given} bytes given, {want} wanted", self.name)))
    }
}

/// The beginning of a client's text, to be shown to it.
pub(crate) fn short(text: &str) -> &str {
    let end = text.char_indices().nth(64).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// Floats as the wire has them.
pub(crate) fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// What the wire has, as floats.
pub(crate) fn to_floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_contradicts_the_model_is_named() {
        let model = reef::models::build("resnet18", Some(32), 2).unwrap();
        let input = TensorInfo::input(&model);
        assert_eq!((input.shape.as_slice(), input.bytes()), (&[2, 3, 32, 32][..], 24_576));
        assert_eq!(TensorInfo::output(&model).shape, [2, 1000]);
        input.check("input", "FP32", &[2, 3, 32, 32]).unwrap();
        let said = |name, datatype, shape: &[i64]| {
            input.check(name, datatype, shape).unwrap_err().to_string()
        };
        assert_eq!(said("data", "FP32", &[]), "no tensor \"data\" (have: input)");
        let want = "tensor input: datatype \"INT8\", it is FP32";
        assert_eq!(said("input", "INT8", &[2, 3, 32, 32]), want);
        let want = "tensor input: shape [1, 3, 32, 32], it is [2, 3, 32, 32]";
        assert_eq!(said("input", "FP32", &[1, 3, 32, 32]), want);
        let said = input.check_bytes(4).unwrap_err().to_string();
        assert_eq!(said, "tensor input: 4 bytes given, 24576 wanted");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(short("abc"), "abc");
        assert_eq!(short(&"ä".repeat(100)).chars().count(), 64);
    }

    #[test]
    fn floats_survive_the_wire() {
        let values = [0.0, -1.5, f32::MAX, f32::MIN_POSITIVE];
        assert_eq!(to_floats(&to_bytes(&values)).collect::<Vec<_>>(), values);
    }
}
