//! Hash of a file by several threads. The memory of a program has many GiB, and a start from a
//! folder waits for their hash.
//!
//! BLAKE3 is a tree, so pieces of a power of two of its chunks have values of their own, which are
//! joined in pairs. The hash is that of one thread.

use blake3::Hasher;
use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

/// Bytes that a thread hashes at a time: a power of two, and at least a chunk of BLAKE3.
const PIECE_BYTES: u64 = 1 << 20;
/// More threads read no faster.
const MAX_THREADS: usize = 16;

/// Tells whether the hash is of no use any more.
pub(crate) type IsOver<'a> = &'a (dyn Fn() -> bool + Sync);

/// Returns the length of a file, and its BLAKE3. Half of the processors are left to other programs.
/// Blocks.
///
/// # Errors
///
/// The system's; `InvalidInput` if the file is not regular, `UnexpectedEof` if it becomes shorter,
/// `Interrupted` once `is_over`, which is asked before each MiB.
pub(super) fn of(path: &Path, is_over: IsOver<'_>) -> io::Result<(u64, blake3::Hash)> {
    let file = reef_files::regular(path)?;
    let bytes = file.metadata()?.len();
    check(is_over)?;
    if bytes <= PIECE_BYTES {
        let mut hasher = Hasher::new();
        let bytes = hasher.update_reader(file)?.count();
        return Ok((bytes, hasher.finalize()));
    }
    Ok((bytes, root(&pieces(&file, bytes, is_over)?)))
}

fn check(is_over: IsOver<'_>) -> io::Result<()> {
    if is_over() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
}

/// Values of the pieces of a file that has more than one.
fn pieces(file: &File, bytes: u64, is_over: IsOver<'_>) -> io::Result<Vec<ChainingValue>> {
    let (count, next) = (bytes.div_ceil(PIECE_BYTES), AtomicU64::new(0));
    let hash_some = || -> io::Result<Vec<(u64, ChainingValue)>> {
        let (mut buffer, mut values) = (vec![0_u8; PIECE_BYTES as usize], Vec::new());
        loop {
            let piece = next.fetch_add(1, Relaxed);
            if piece >= count {
                return Ok(values);
            }
            check(is_over)?;
            let at = piece * PIECE_BYTES;
            let read = &mut buffer[..PIECE_BYTES.min(bytes - at) as usize];
            file.read_exact_at(read, at)?;
            let value = Hasher::new().set_input_offset(at).update(read).finalize_non_root();
            values.push((piece, value));
        }
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = (processors / 2).clamp(1, MAX_THREADS);
    let mut all = Vec::new();
    thread::scope(|scope| -> io::Result<()> {
        let start = |_| thread::Builder::new().spawn_scoped(scope, hash_some).ok();
        // Without a thread, those that are there do its part: this one at least.
        let others: Vec<_> = (1..threads).map_while(start).collect();
        all.extend(hash_some()?);
        for thread in others {
            let gone = |_| Err(io::Error::other("a thread that hashes has ended"));
            all.extend(thread.join().unwrap_or_else(gone)?);
        }
        Ok(())
    })?;
    all.sort_unstable_by_key(|(piece, _)| *piece);
    Ok(all.into_iter().map(|(_, value)| value).collect())
}

/// Joins the values of at least two pieces to the hash of all.
fn root(pieces: &[ChainingValue]) -> blake3::Hash {
    let (left, right) = halves(pieces);
    merge_subtrees_root(&joined(left), &joined(right), Mode::Hash)
}

fn joined(pieces: &[ChainingValue]) -> ChainingValue {
    if let [one] = pieces {
        return *one;
    }
    let (left, right) = halves(pieces);
    merge_subtrees_non_root(&joined(left), &joined(right), Mode::Hash)
}

/// Both parts of at least two pieces: the first one is the largest full tree that is not all of it.
fn halves(pieces: &[ChainingValue]) -> (&[ChainingValue], &[ChainingValue]) {
    pieces.split_at(pieces.len().div_ceil(2).next_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn hash_of_a_file_is_that_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let (path, piece) = (folder.path().join("file"), PIECE_BYTES as usize);
        let data: Vec<u8> = (0..9 * piece).map(|at| (at / 3 % 251) as u8).collect();
        let around = |count: usize| [count * piece - 1, count * piece, count * piece + 1];
        let lengths = [1, 2, 3, 4, 5, 8].into_iter().flat_map(around);
        for length in lengths.chain([0, 1, 1024, 9 * piece]) {
            fs::write(&path, &data[..length]).unwrap();
            let expected = (length as u64, blake3::hash(&data[..length]));
            assert_eq!(of(&path, &|| false).unwrap(), expected, "{length} bytes");
        }
    }

    /// Else the end of a model waits for the hash of all of its memory.
    #[test]
    fn hash_ends_between_pieces_once_it_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        File::create(&path).unwrap().set_len(4096 * PIECE_BYTES).unwrap();
        let asked = AtomicU64::new(0);
        let is_over = || asked.fetch_add(1, Relaxed) >= 3;
        let error = of(&path, &is_over).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        let asked = asked.into_inner();
        assert!(asked <= 3 + MAX_THREADS as u64, "each thread has ended: {asked}");
    }

    #[test]
    fn file_that_becomes_shorter_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(PIECE_BYTES).unwrap();
        let error = pieces(&file, 3 * PIECE_BYTES, &|| false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
