//! Weights in `.safetensors` files, under the names that torchvision gives them.
//!
//! ```text
//! length of the header      u64, little-endian
//! header                    JSON: {"NAME": {"dtype": "F32", "shape": [64, 3, 7, 7], "data_offsets": [0, 37632]}, …}
//! values                    row-major, little-endian, where the offsets say
//! ```
//!
//! Floats of 16, 32 and 64 bits are read, as 32-bit ones. Other tensors are left out: torchvision counts
//! batches in integers, and inference has no use for that. A file is read whole or refused.

use crate::errors::error::{Error, Result};
use crate::model::params::Params;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Longest header: that of a network with ten thousand tensors takes a megabyte.
const MAX_HEADER_LEN: u64 = 100 << 20;

/// One entry of the header.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// Reads all tensors of floats.
///
/// # Errors
///
/// `Io` if the file can't be read, `Safetensors` if it is broken.
pub fn load(path: impl AsRef<Path>) -> Result<Params> {
    let file = path.as_ref().display().to_string();
    let bytes = std::fs::read(path)
        .map_err(|error| Error::Io { file: file.clone(), why: error.to_string() })?;
    from_bytes(&bytes, &file)
}

/// Parses the bytes of a file; `file` names it in errors.
///
/// # Errors
///
/// `Safetensors`.
pub fn from_bytes(bytes: &[u8], file: &str) -> Result<Params> {
    read(bytes).map_err(|why| Error::Safetensors { file: file.into(), why })
}

fn read(bytes: &[u8]) -> Result<Params, String> {
    let (header, data) = split(bytes)?;
    let header: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(header).map_err(|error| format!("header: {error}"))?;
    let mut tensors = BTreeMap::new();
    for (name, entry) in header.into_iter().filter(|(name, _)| name != "__metadata__") {
        let entry = Entry::deserialize(entry).map_err(|error| format!("{name:?}: {error}"))?;
        if let Some(values) = entry.values(data).map_err(|why| format!("{name:?}: {why}"))? {
            tensors.insert(name, values);
        }
    }
    Ok(Params { tensors })
}

/// Header and values.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let (length, rest) = bytes.split_first_chunk().ok_or("ends inside the header's length")?;
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER_LEN || length > rest.len() as u64 {
        return Err(format!("header of {length} bytes, {} there", rest.len()));
    }
    Ok(rest.split_at(length as usize))
}

impl Entry {
    /// Its values, if they are floats.
    fn values(&self, data: &[u8]) -> Result<Option<Vec<f32>>, String> {
        let [begin, end] = self.data_offsets;
        let range = usize::try_from(begin).ok().zip(usize::try_from(end).ok());
        let raw = range.and_then(|(begin, end)| data.get(begin..end));
        let raw = raw.ok_or_else(|| format!("bytes {begin} to {end} of {}", data.len()))?;
        let values = match self.dtype.as_str() {
            "F32" => numbers(raw, f32::from_le_bytes)?,
            "F64" => numbers(raw, |bytes| f64::from_le_bytes(bytes) as f32)?,
            "F16" => numbers(raw, |bytes| half(u16::from_le_bytes(bytes)))?,
            "BF16" => numbers(raw, |b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16))?,
            _ => return Ok(None),
        };
        let elements = self.shape.iter().try_fold(1u64, |product, &n| product.checked_mul(n));
        match elements == Some(values.len() as u64) {
            true => Ok(Some(values)),
            false => Err(format!("{} values for a tensor of {:?}", values.len(), self.shape)),
        }
    }
}

fn numbers<const N: usize>(
    raw: &[u8],
    number: impl Fn([u8; N]) -> f32,
) -> Result<Vec<f32>, String> {
    match raw.as_chunks::<N>() {
        (words, []) => Ok(words.iter().map(|&word| number(word)).collect()),
        _ => Err(format!("{} bytes of numbers that take {N}", raw.len())),
    }
}

/// A 16-bit float: a sign, 5 bits of exponent, 10 of fraction.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tensor::Source;
    use crate::{Seeded, build, reference};
    use proptest::prelude::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
    }

    /// As torchvision's state_dict is saved: some tensors that inference has no use for among them.
    fn state_dict(name: &str) -> Vec<u8> {
        let model = build(name, Some(32), 1).unwrap();
        let (mut entries, mut data) = (Vec::new(), Vec::<u8>::new());
        for tensor in model.tensors() {
            let values = Seeded(1).tensor(&tensor).unwrap();
            let (begin, shape) = (data.len(), tensor.elements);
            data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            let (name, end) = (&tensor.name, data.len());
            entries.push(format!(
                r#""{name}": {{"dtype": "F32", "shape": [{shape}], "data_offsets": [{begin}, {end}]}}"#
            ));
        }
        let batches = r#"{"dtype": "I64", "shape": [], "data_offsets": [0, 8]}"#;
        entries.push(format!(r#""bn1.num_batches_tracked": {batches}"#));
        file(&format!(r#"{{"__metadata__": {{"a": "b"}}, {}}}"#, entries.join(", ")), &data)
    }

    #[test]
    fn a_state_dict_gives_the_weights_of_a_network() {
        let params = from_bytes(&state_dict("resnet18"), "x").unwrap();
        let model = build("resnet18", Some(32), 1).unwrap();
        let input = Seeded(1).input(model.input().elements());
        let want = reference::execute(&model, &Seeded(1), &input);
        assert_eq!(reference::execute(&model, &params, &input), want);
        let other = build("resnet50", Some(32), 1).unwrap();
        let error = other.params(&params).unwrap_err().to_string();
        assert_eq!(error, "layer1.0.conv1.weight: 36864 values given, 4096 wanted");
    }

    #[test]
    fn floats_of_every_length_are_read() {
        let header = r#"{"a": {"dtype": "F16", "shape": [4], "data_offsets": [0, 8]},
            "b": {"dtype": "BF16", "shape": [1, 1], "data_offsets": [8, 10]},
            "c": {"dtype": "F64", "shape": [], "data_offsets": [10, 18]}}"#;
        let halves = [0x3c00u16, 0xc000, 0x0001, 0x7bff].map(u16::to_le_bytes).concat();
        let data = [halves, vec![0xc0, 0x3f], 0.25f64.to_le_bytes().into()].concat();
        let params = from_bytes(&file(header, &data), "x").unwrap();
        assert_eq!(params.tensors["a"], [1.0, -2.0, 2f32.powi(-24), 65504.0]);
        assert_eq!((params.tensors["b"][0], params.tensors["c"][0]), (1.5, 0.25));
    }

    #[test]
    fn every_defect_has_its_words() {
        let say = |bytes: &[u8]| from_bytes(bytes, "x").unwrap_err().to_string();
        let one = |entry: &str| say(&file(&format!(r#"{{"w": {entry}}}"#), &[0; 8]));
        assert_eq!(say(&[1, 2]), "x: ends inside the header's length");
        assert_eq!(say(&[255; 16]), format!("x: header of {} bytes, 8 there", u64::MAX));
        assert!(say(&file("[]", &[])).starts_with("x: header: invalid type"));
        assert_eq!(
            one(r#"{"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}"#),
            "x: \"w\": bytes 4 to 12 of 8"
        );
        assert_eq!(
            one(r#"{"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}"#),
            "x: \"w\": 2 values for a tensor of [3]"
        );
        assert_eq!(
            one(r#"{"dtype": "F32", "shape": [1], "data_offsets": [0, 5]}"#),
            "x: \"w\": 5 bytes of numbers that take 4"
        );
        assert!(one(r#"{"dtype": "F32"}"#).starts_with("x: \"w\": missing field"));
    }

    proptest! {
        #[test]
        fn changed_bytes_are_survived(at in 0..400usize, byte: u8, cut in 0..600usize) {
            let header = r#"{"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}"#;
            let mut bytes = file(header, &[7; 16]);
            let len = bytes.len();
            bytes[at % len] = byte;
            bytes.truncate(cut);
            let _ = from_bytes(&bytes, "x");
        }
    }
}
