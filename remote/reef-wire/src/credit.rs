//! Credits: how much one end may send before the other has consumed it.
//!
//! An end may have at most [`Limits::frames`] frames and [`Limits::bytes`] bytes that the other has
//! not acknowledged. Acknowledgements and replies are outside of the client's credit, so what frees
//! credit never waits for it. One frame with its payload takes at most half of the bytes. A sender
//! that keeps to this is never stopped for good; one that does not is told so, and its session
//! ends.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Upper bounds of what is sent and not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Number of frames.
    pub frames: u32,
    /// Number of bytes, with headers.
    pub bytes: u64,
}

impl Default for Limits {
    /// 8,192 frames and 64 MiB.
    fn default() -> Self {
        Self { frames: 8192, bytes: 64 << 20 }
    }
}

impl Limits {
    /// Maximum number of bytes of one message.
    pub fn message(&self) -> u64 {
        self.bytes / 2
    }

    /// Returns whether a message with this number of frames and bytes may follow those that
    /// are outstanding.
    pub(crate) fn allow(&self, outstanding: (u64, u64), frames: u64, bytes: u64) -> bool {
        outstanding.0 + frames <= u64::from(self.frames) && outstanding.1 + bytes <= self.bytes
    }

    /// Refuses a peer that has sent more than it may.
    ///
    /// # Errors
    ///
    /// `Protocol` with both numbers.
    pub(crate) fn check(&self, frames: u64, bytes: u64) -> Result<()> {
        if self.allow((0, 0), frames, bytes) {
            return Ok(());
        }
        Err(Error::Protocol(format!(
            "credit: must have at most {} frames and {} bytes outstanding, got {frames} and {bytes}",
            self.frames, self.bytes
        )))
    }

    /// Returns whether so much has been consumed since the last acknowledgement that another one is
    /// due, though nothing else is to be sent: a quarter of the credit, or 4 MiB, so that the
    /// sender can use its buffers again.
    pub(crate) fn acknowledgement_is_due(&self, frames: u64, bytes: u64) -> bool {
        const MAX_UNTOLD: u64 = 4 << 20;
        frames * 4 >= u64::from(self.frames).max(1)
            || bytes >= (self.bytes / 4).clamp(1, MAX_UNTOLD)
    }
}
