//! Files, read whole.

use crate::errors::error::{Error, Result};
use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use std::io::{self, Read};
use std::path::Path;

/// All bytes of a file. A file that is not a regular one has no length, and is refused.
///
/// # Errors
///
/// `Io`, `Memory`.
pub(crate) fn read(path: &Path, ledger: &Ledger) -> Result<List<u8>> {
    let name = || path.display().to_string();
    let io = |error: io::Error| Error::Io { file: name(), why: error.to_string() };
    let mut file = reef_files::regular(path).map_err(io)?;
    let len = usize::try_from(file.metadata().map_err(io)?.len()).unwrap_or(usize::MAX);
    let memory = |why| Error::Memory { file: name(), at: "all of it".into(), why };
    let mut bytes = List::filled(0, len, ledger).map_err(memory)?;
    file.read_exact(&mut bytes).map_err(io)?;
    Ok(bytes)
}
