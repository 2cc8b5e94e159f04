//! Parses JSON so that an error names the file and the place in it.

use crate::errors::error::{Error, Result};
use crate::files::whole;
use crate::memory::ledger::Ledger;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Bytes that JSON takes in memory for each of its bytes in a file, at most, and what is made of
/// it: `0,` in a list becomes a number of 8 bytes in a vector that doubles, twice.
const PARSED: u64 = 48;

/// Reads a file and parses its text with `parse`, which gets the text and the name of the file.
/// The memory that this takes stays charged.
///
/// # Errors
///
/// `Io`, `Memory`; the errors of `parse`.
pub(crate) fn read<T>(
    path: &Path,
    ledger: &Ledger,
    parse: impl FnOnce(&str, &str) -> Result<T>,
) -> Result<T> {
    let (bytes, name) = (whole::read(path, ledger)?, path.display().to_string());
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        Err(error) => return Err(Error::Json { file: name, why: error.to_string() }),
    };
    let memory = |why| Error::Memory { file: name.clone(), at: "its schedule".into(), why };
    ledger.keep(text.len() as u64 * PARSED).map_err(memory)?;
    parse(text, &name)
}

/// Parses the whole of `text`; `file` names it in errors.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, file: &str) -> Result<T> {
    let error = |why: String| Error::Json { file: file.into(), why };
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|e| error(placed(&e)))?;
    json.end().map_err(|e| error(e.to_string()))?;
    Ok(value)
}

/// `kernels[3].args[1]: ` and the reader's words; without a place if it is the document itself.
fn placed(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    match error.path().iter().len() {
        0 => error.inner().to_string(),
        _ => format!("{}: {}", error.path(), error.inner()),
    }
}
