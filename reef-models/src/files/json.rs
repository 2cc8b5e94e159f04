//! Parses JSON so that an error names the file and the place in it.

use crate::errors::error::{Error, Result};
use serde::de::DeserializeOwned;

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
