//! A session in a folder: of a program, or of a Rust program.

use super::copy::Copy;
use super::state::{Range, State};
use super::target::MAX_STATE_LEN;
use crate::bounded;
use reef_remote::migration::{Each as EachPiece, Frozen, Target};
use reef_snapshot::{ARCHIVE_FILE, Archive, ArchiveWriter};
use reef_wire::codec;
use std::path::Path;

/// Name of the region that has the state of a program's session.
const STATE: &str = "state";
/// Name of the region that has the state of a Rust program's session.
const DEVICE_STATE: &str = "state of a device";

type EachAt<'a> = &'a mut dyn FnMut(usize, &[u8]) -> Result<(), String>;

type Each<'a> = &'a mut dyn FnMut(&Range, u64, &[u8]) -> Result<(), String>;

/// Writes a state, and the memory that `read` gives piece by piece. Returns the file's bytes.
///
/// # Errors
///
/// An error of the system, or the errors of `read`.
pub(crate) fn write(
    folder: &Path,
    state: &State,
    read: impl FnOnce(Each<'_>) -> Result<(), String>,
) -> Result<u64, String> {
    let archive = ArchiveWriter::begin(folder).map_err(text)?;
    let mut writer = archive.writer().map_err(text)?;
    writer.region(STATE, &codec::write(state).map_err(|e| e.to_string())?).map_err(text)?;
    let mut open: Option<u64> = None;
    read(&mut |range, _, bytes| {
        if open != Some(range.at) {
            open = Some(range.at);
            writer.begin_region(&region_name(range.at), range.bytes);
        }
        writer.piece(bytes).map_err(text)
    })?;
    archive.finish(writer).map_err(text)
}

/// Writes the session of a Rust program. Returns the file's bytes.
///
/// # Errors
///
/// An error of the system, or of its memory.
pub(crate) fn write_device(folder: &Path, session: &Frozen<'_>) -> Result<u64, String> {
    let archive = ArchiveWriter::begin(folder).map_err(text)?;
    let mut writer = archive.writer().map_err(text)?;
    writer.region(DEVICE_STATE, session.state).map_err(text)?;
    for (at, region) in session.regions.iter().enumerate() {
        writer.begin_region(&region_name(region.number), region.bytes);
        (session.read)(at, &mut |piece| writer.piece(piece).map_err(text))?;
    }
    archive.finish(writer).map_err(text)
}

fn text(error: reef_snapshot::Error) -> String {
    error.to_string()
}

fn region_name(number: u64) -> String {
    format!("{number:#x}")
}

/// Fault of a file's contents.
fn damaged(why: String) -> reef_snapshot::Error {
    reef_snapshot::Error::Damaged { file: ARCHIVE_FILE.into(), why }
}

/// Reads a state of at most `max_bytes`. Zeros take no room in the file, so it may say any length.
fn read_state(archive: &mut Archive, name: &str, max_bytes: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = archive.region(0, name, |_, piece| {
        if piece.len() > max_bytes - bytes.len() {
            return Err(damaged(format!("{name}: must have at most {max_bytes} bytes")));
        }
        bytes.extend_from_slice(piece);
        Ok(())
    });
    read.map_err(text)?;
    Ok(bytes)
}

/// Gives the pieces of a region to `each`.
fn read_region(
    archive: &mut Archive,
    index: usize,
    number: u64,
    each: EachAt<'_>,
) -> Result<(), String> {
    let mut outcome = Ok(());
    let read = archive.region(index, &region_name(number), |offset, piece| {
        outcome = each(offset, piece);
        outcome.clone().map_err(damaged) // ends the reading
    });
    outcome?;
    read.map_err(text)
}

/// Sends what a folder has to a server, which begins the session. Returns the bytes of its memory.
///
/// # Errors
///
/// The file is damaged; the server's.
pub(crate) fn restore(folder: &Path, target: &Target) -> Result<u64, String> {
    let mut archive = Archive::open(folder).map_err(text)?;
    if archive.name(0) != Some(DEVICE_STATE) {
        return restore_program(archive, target);
    }
    let state = read_state(&mut archive, DEVICE_STATE, MAX_STATE_LEN)?;
    let mut read = |at: usize, number: u64, each: &mut EachPiece<'_>| {
        read_region(&mut archive, at + 1, number, &mut |_, piece| each(piece))
    };
    reef_remote::server::restore(target, &state, &mut read)
}

fn restore_program(mut archive: Archive, target: &Target) -> Result<u64, String> {
    let bytes = read_state(&mut archive, STATE, MAX_STATE_LEN)?;
    let state = bounded::read(&bytes, MAX_STATE_LEN);
    let state: State = state.map_err(|e| format!("state: {e}"))?;
    let mut copy = Copy::begin(target, state.window, &state.program)?;
    for (at, range) in state.memory.iter().enumerate() {
        read_region(&mut archive, at + 1, range.at, &mut |offset, piece| {
            copy.piece(range, range.at + offset as u64, piece)
        })?;
    }
    copy.prepare(&state)?;
    copy.commit()?;
    Ok(state.memory.iter().map(|range| range.bytes).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_longer_than_its_bound_is_refused() {
        let folder = std::env::temp_dir().join(format!("reef-state-{}", std::process::id()));
        let archive = ArchiveWriter::begin(&folder).unwrap();
        let mut writer = archive.writer().unwrap();
        writer.region(STATE, &[0; 9]).unwrap();
        archive.finish(writer).unwrap();
        let mut archive = Archive::open(&folder).unwrap();
        assert_eq!(read_state(&mut archive, STATE, 9).unwrap(), [0; 9]);
        let error = read_state(&mut archive, STATE, 8).unwrap_err();
        assert!(error.ends_with("state: must have at most 8 bytes"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
