//! One inference on its way through the daemon.

use crate::class::Priority;
use crate::engine::api::Lane;
use crate::error::{Error, Result};
use crate::net::clients::ClientId;
use crate::requests::regions::Slice;
use crate::tensor::TensorInfo;
use bytes::Bytes;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Bytes that are copied at a time between a region and a lane; they stay in the cache.
const CHUNK: usize = 64 << 10;

/// Where the input comes from.
#[derive(Debug)]
pub(crate) enum Input {
    Bytes(Bytes),
    Region(Slice),
}

/// Where the output goes.
#[derive(Debug)]
pub(crate) enum Output {
    Bytes,
    Region(Slice),
}

/// How long each part of a request took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Phases {
    pub(crate) queue: Duration,
    pub(crate) input: Duration,
    pub(crate) infer: Duration,
    pub(crate) output: Duration,
    /// Until the first real-time command could start.
    pub(crate) delay: Option<Duration>,
}

impl Phases {
    pub(crate) fn total(&self) -> Duration {
        self.queue + self.input + self.infer + self.output
    }
}

/// A request that waits for a lane. Whoever waits for the answer holds the other end of `reply`.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) client: ClientId,
    pub(crate) priority: Priority,
    pub(crate) input: Input,
    pub(crate) output: Output,
    pub(crate) arrived: Instant,
    pub(crate) deadline: Instant,
    pub(crate) reply: oneshot::Sender<Result<Vec<u8>>>,
}

impl Job {
    /// Whether nobody waits for it any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }

    /// Runs it on `lane`. Returns the output, empty if that went to a region.
    ///
    /// # Errors
    ///
    /// `Deadline` if its time was over before it began; the region's; the device's.
    pub(crate) fn run(
        &self,
        lane: &mut dyn Lane,
        output: &TensorInfo,
        phases: &mut Phases,
    ) -> Result<Vec<u8>> {
        let began = Instant::now();
        phases.queue = began - self.arrived;
        let left = self.deadline.saturating_duration_since(began);
        if left.is_zero() {
            let text = format!("timed out after {:?} in the queue", phases.queue);
            return Err(Error::Deadline(text));
        }
        self.input.write(lane)?;
        let written = Instant::now();
        phases.input = written - began;
        phases.delay = lane.run(None, Some(left), &|| self.is_gone())?;
        let ran = Instant::now();
        phases.infer = ran - written;
        let bytes = self.output.read(lane, output.bytes())?;
        phases.output = ran.elapsed();
        Ok(bytes)
    }
}

impl Input {
    fn write(&self, lane: &mut dyn Lane) -> Result<()> {
        match self {
            Self::Bytes(bytes) => lane.write(0, bytes),
            Self::Region(slice) => chunks(slice.bytes(), |at, chunk| {
                slice.read(at, chunk)?;
                lane.write(at, chunk)
            }),
        }
    }
}

impl Output {
    fn read(&self, lane: &mut dyn Lane, bytes: usize) -> Result<Vec<u8>> {
        match self {
            Self::Bytes => {
                let mut data = vec![0; bytes];
                lane.read(0, &mut data)?;
                Ok(data)
            }
            Self::Region(slice) => {
                chunks(slice.bytes(), |at, chunk| {
                    lane.read(at, chunk)?;
                    slice.write(at, chunk)
                })?;
                Ok(Vec::new())
            }
        }
    }
}

/// Goes over `bytes` bytes in pieces: their place, and room for them.
pub(crate) fn chunks(
    bytes: usize,
    mut each: impl FnMut(usize, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let mut room = vec![0; bytes.min(CHUNK)];
    for at in (0..bytes).step_by(CHUNK) {
        let length = CHUNK.min(bytes - at);
        each(at, &mut room[..length])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_everything_once() {
        for bytes in [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK - 4] {
            let mut next = 0;
            chunks(bytes, |at, chunk| {
                assert_eq!(at, next);
                next += chunk.len();
                Ok(())
            })
            .unwrap();
            assert_eq!(next, bytes);
        }
    }
}
