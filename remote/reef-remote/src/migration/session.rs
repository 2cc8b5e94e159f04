//! Sessions that can be moved and written.

use super::target::Target;
use std::fmt::Debug;
use std::time::Duration;

/// Outcome of a copy.
#[derive(Debug, Clone, Copy, Default)]
pub struct Report {
    /// Time for which the session stood still.
    pub pause: Duration,
    /// Bytes of its memory.
    pub memory: u64,
    /// Bytes of it that were read in that time.
    pub read: u64,
    /// Bytes that were sent, or written, meanwhile.
    pub delta: u64,
    /// True if its client knows where it is now. Otherwise this server has to tell it later.
    pub is_client_told: bool,
}

/// Memory of a session, by the number under which its state names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Number.
    pub number: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Bytes of a piece of memory, but for the last one of a region.
pub const PIECE_LEN: usize = 2 << 20;

/// Receiver of the pieces of a region, in order: [`PIECE_LEN`] each, but for the last one.
pub type Each<'a> = dyn FnMut(&[u8]) -> Result<(), String> + 'a;

/// A session that stands still.
pub struct Frozen<'a> {
    /// All of it, but for the bytes of its memory.
    pub state: &'a [u8],
    /// Its memory.
    pub regions: &'a [Region],
    /// Reads the region at this place of the list.
    pub read: &'a dyn Fn(usize, &mut Each<'_>) -> Result<(), String>,
}

impl Debug for Frozen<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frozen").field("regions", &self.regions.len()).finish_non_exhaustive()
    }
}

/// Function that writes a session, and returns the bytes of what it has written.
pub type Write<'a> = dyn FnMut(&Frozen<'_>) -> Result<u64, String> + 'a;

/// A session that can be moved and written.
pub trait Migrate: Debug + Send + Sync {
    /// Moves it to another server. It runs there then, and its client is told.
    ///
    /// # Errors
    ///
    /// Reason why it runs on here. Or it has ended, as it is not known whether it runs there.
    fn migrate(&self, to: &Target) -> Result<Report, String>;

    /// Writes it. It runs on, unless it is to end.
    ///
    /// # Errors
    ///
    /// Reason why it can't be written. It runs on.
    fn snapshot(&self, write: &mut Write<'_>, ends: bool) -> Result<Report, String>;
}
