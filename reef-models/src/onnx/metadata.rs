//! Metadata of a file: labels, alphabets, versions and other texts of its exporter.

use super::fault::Fault;
use super::file::ModelFile;
use super::protobuf::Malformed;
use crate::errors::error::Result;
use crate::files::whole;
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use std::collections::BTreeMap;
use std::path::Path;

/// Keys and values of a file's metadata, with memory of `budget`. The last of equal keys counts.
///
/// # Errors
///
/// `Io` if the file can't be read, `Onnx` if it is none or a value isn't UTF-8, `Memory`.
pub fn metadata(path: impl AsRef<Path>, budget: &Budget) -> Result<BTreeMap<String, String>> {
    let (path, ledger) = (path.as_ref(), Ledger::new(budget));
    let bytes = whole::read(path, &ledger)?;
    let model = ModelFile::read(&bytes, &ledger);
    let read =
        model.and_then(|model| model.metadata.iter().map(|pair| owned(*pair, &ledger)).collect());
    read.map_err(Fault::from).map_err(|fault| fault.of(path.display().to_string(), &ledger))
}

fn owned(
    entry: (&str, &[u8]),
    ledger: &Ledger,
) -> std::result::Result<(String, String), Malformed> {
    let (key, value) = entry;
    ledger.keep((key.len() + value.len()) as u64)?;
    let text = std::str::from_utf8(value);
    let text = text.map_err(|_| Malformed(format!("metadata {key:?} isn't UTF-8")))?;
    Ok((key.into(), text.into()))
}
