//! Reads the tensors of a file.

use super::header::{Entry, Header};
use super::part::{Part, Storage};
use crate::errors::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use crate::model::params::Params;
use reef_op::tensor::{Brain, Half, Stored};
use std::io;
use std::path::Path;

/// Bytes that are decoded at a time.
const CHUNK: usize = 64 << 10;

/// Reads all tensors of floats, one after the other, with memory of `budget`.
///
/// # Errors
///
/// `Io` if the file can't be read, `Safetensors` if it is broken, `Memory`.
pub fn load(path: impl AsRef<Path>, budget: &Budget) -> Result<Params> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let io = |error: io::Error| Error::Io { file: name.clone(), why: error.to_string() };
    let file = reef_files::regular(path).map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    named(&name, budget, |ledger| read(Storage::File(&file, bytes), ledger))
}

/// Parses the bytes of a file with memory of `budget`; `file` names it in errors.
///
/// # Errors
///
/// `Safetensors`, `Memory`.
pub fn from_bytes(bytes: &[u8], file: &str, budget: &Budget) -> Result<Params> {
    named(file, budget, |ledger| read(Storage::Memory(bytes), ledger))
}

/// Reads a file within `budget`. An error of `read` gets the name of the file.
fn named(
    file: &str,
    budget: &Budget,
    read: impl FnOnce(&Ledger) -> Result<Params, String>,
) -> Result<Params> {
    let (ledger, file) = (Ledger::new(budget), file.to_owned());
    read(&ledger).map_err(|why| match ledger.refusal() {
        Some(refused) => {
            let at = why.strip_suffix(&format!(": {refused}")).unwrap_or("header").into();
            Error::Memory { file, at, why: refused }
        }
        None => Error::Safetensors { file, why },
    })
}

fn read(place: Storage<'_>, ledger: &Ledger) -> Result<Params, String> {
    let (header, data) = Header::read(place, ledger)?;
    let mut params = Params::default();
    for (name, entry) in header.entries {
        let values = entry.values(data, ledger).map_err(|why| format!("{name:?}: {why}"))?;
        if let Some(values) = values {
            params.tensors.insert(name, values.into_vec());
        }
    }
    Ok(params)
}

impl Entry {
    /// Its values, if they are floats.
    fn values(&self, data: Part<'_>, ledger: &Ledger) -> Result<Option<List<f32>>, String> {
        let [begin, end] = self.data_offsets;
        let raw = data.range(begin, end);
        let raw = raw.ok_or_else(|| format!("bytes {begin} to {end} of {}", data.len))?;
        let values = match self.dtype.as_str() {
            "F32" => numbers(raw, f32::from_le_bytes, ledger)?,
            "F64" => numbers(raw, |bytes| f64::from_le_bytes(bytes) as f32, ledger)?,
            "F16" => numbers(raw, |bytes| Half(u16::from_le_bytes(bytes)).to_f32(), ledger)?,
            "BF16" => numbers(raw, |bytes| Brain(u16::from_le_bytes(bytes)).to_f32(), ledger)?,
            _ => return Ok(None),
        };
        let elements = self.shape.iter().try_fold(1u64, |product, &n| product.checked_mul(n));
        if elements == Some(values.len() as u64) {
            Ok(Some(values))
        } else {
            let shape = &self.shape[..self.shape.len().min(8)];
            Err(format!("{} values for a tensor of {shape:?}", values.len()))
        }
    }
}

fn numbers<const N: usize>(
    raw: Part<'_>,
    number: impl Fn([u8; N]) -> f32,
    ledger: &Ledger,
) -> Result<List<f32>, String> {
    if !raw.len.is_multiple_of(N as u64) {
        return Err(format!("{} bytes of numbers that take {N}", raw.len));
    }
    let len = usize::try_from(raw.len / N as u64).unwrap_or(usize::MAX);
    let mut values = List::with_capacity(len, ledger)?;
    let mut chunk = [0; CHUNK];
    for at in (0..raw.len).step_by(CHUNK) {
        let bytes = &mut chunk[..(raw.len - at).min(CHUNK as u64) as usize];
        raw.copy(at, bytes)?;
        let (words, _) = bytes.as_chunks::<N>();
        values.append(words.len(), words.iter().map(|&word| number(word)), ledger)?;
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::seeded::Seeded;
    use crate::model::tensor::Source;
    use crate::run::reference;
    use crate::zoo::by_name::build;
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
        let params = from_bytes(&state_dict("resnet18"), "x", &Budget::default()).unwrap();
        let model = build("resnet18", Some(32), 1).unwrap();
        let input = Seeded(1).input(model.input().elements());
        let want = reference::execute(&model, &Seeded(1), &input);
        assert_eq!(reference::execute(&model, &params, &input), want);
        let other = build("resnet50", Some(32), 1).unwrap();
        let error = other.params(&params).unwrap_err().to_string();
        assert_eq!(error, "layer1.0.conv1.weight: must have 4096 values, got 36864");
    }

    #[test]
    fn floats_of_every_length_are_read() {
        let header = r#"{"a": {"dtype": "F16", "shape": [4], "data_offsets": [0, 8]},
            "b": {"dtype": "BF16", "shape": [1, 1], "data_offsets": [8, 10]},
            "c": {"dtype": "F64", "shape": [], "data_offsets": [10, 18]}}"#;
        let halves = [0x3c00u16, 0xc000, 0x0001, 0x7bff].map(u16::to_le_bytes).concat();
        let data = [halves, vec![0xc0, 0x3f], 0.25f64.to_le_bytes().into()].concat();
        let params = from_bytes(&file(header, &data), "x", &Budget::default()).unwrap();
        assert_eq!(params.tensors["a"], [1.0, -2.0, 2f32.powi(-24), 65504.0]);
        assert_eq!((params.tensors["b"][0], params.tensors["c"][0]), (1.5, 0.25));
    }

    #[test]
    fn every_defect_has_its_words() {
        let say =
            |bytes: &[u8]| from_bytes(bytes, "x", &Budget::default()).unwrap_err().to_string();
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
        assert!(one(r#"{"dtype": "F32"}"#).starts_with("x: header: \"w\": missing field"));
        let [first, last] = [0, 4].map(|at| {
            format!(r#""w": {{"dtype": "F32", "shape": [1], "data_offsets": [{at}, {}]}}"#, at + 4)
        });
        let twice = say(&file(&format!("{{{first}, {last}}}"), &[0; 8]));
        assert!(twice.starts_with("x: header: \"w\" must be there once"), "{twice}");
    }

    proptest! {
        #[test]
        fn changed_bytes_are_survived(at in 0..400usize, byte: u8, cut in 0..600usize) {
            let header = r#"{"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}"#;
            let mut bytes = file(header, &[7; 16]);
            let len = bytes.len();
            bytes[at % len] = byte;
            bytes.truncate(cut);
            let _ = from_bytes(&bytes, "x", &Budget::default());
        }
    }
}
