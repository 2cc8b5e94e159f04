//! A session in a folder.

use super::copy::Copy;
use super::state::{Range, State};
use reef_snapshot::{Archive, ArchiveWriter};
use reef_wire::codec;
use std::path::Path;

/// Name of the region that has the state.
const STATE: &str = "state";

type Each<'a> = &'a mut dyn FnMut(&Range, u64, &[u8]) -> Result<(), String>;

/// Writes a state, and the memory that `read` gives piece by piece. Returns the file's bytes.
///
/// # Errors
///
/// The system's, or those of `read`.
pub(crate) fn write(
    folder: &Path,
    state: &State,
    read: impl FnOnce(Each<'_>) -> Result<(), String>,
) -> Result<u64, String> {
    let text = |e: reef_snapshot::Error| e.to_string();
    let archive = ArchiveWriter::begin(folder).map_err(text)?;
    let mut writer = archive.writer().map_err(text)?;
    writer.region(STATE, &codec::write(state).map_err(|e| e.to_string())?).map_err(text)?;
    let mut open: Option<u64> = None;
    read(&mut |range, _, bytes| {
        if open != Some(range.at) {
            open = Some(range.at);
            writer.begin_region(&format!("{:#x}", range.at), range.bytes);
        }
        writer.piece(bytes).map_err(text)
    })?;
    archive.finish(writer).map_err(text)
}

/// Sends what a folder has to a server, which begins the session.
///
/// # Errors
///
/// The file is damaged; the server's.
pub(crate) fn restore(
    folder: &Path,
    begin: impl FnOnce(&State) -> Result<Copy, String>,
) -> Result<u64, String> {
    let text = |e: reef_snapshot::Error| e.to_string();
    let mut archive = Archive::open(folder).map_err(text)?;
    let mut bytes = Vec::new();
    archive
        .region(0, STATE, |_, piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })
        .map_err(text)?;
    let state: State = codec::read(&bytes).map_err(|e| format!("state: {e}"))?;
    let mut copy = begin(&state)?;
    for (number, range) in state.memory.iter().enumerate() {
        let mut failed = None;
        let name = format!("{:#x}", range.at);
        let read = archive.region(number + 1, &name, |offset, piece| {
            let sent = copy.piece(range, range.at + offset as u64, piece);
            failed = sent.err();
            Ok(())
        });
        read.map_err(text)?;
        if let Some(why) = failed {
            return Err(why);
        }
    }
    copy.prepare(&state)?;
    copy.commit()?;
    Ok(state.memory.iter().map(|range| range.bytes).sum())
}
