//! Bytes of the device, read and written by a thread of its own.

use crate::state::shared::Shared;
use reef_remote::migration::PIECE_LEN;
use reef_remote_calls::Call;
use std::sync::Arc;

/// Bytes of a piece, which the kernel of digests has as a number.
pub(crate) const PIECE: usize = PIECE_LEN;

/// Copies between the device and this process, by a stream that waits for no other one.
#[derive(Debug)]
pub(crate) struct Copier {
    shared: Arc<Shared>,
    context: usize,
    /// Pinned memory of one piece.
    buffer: usize,
    stream: usize,
}

impl Copier {
    /// Makes what copies in a context need. Each copy makes the context current in its thread.
    ///
    /// # Errors
    ///
    /// The driver's code.
    pub(crate) fn new(shared: &Arc<Shared>, context: usize) -> Result<Self, u32> {
        let (mut buffer, mut stream) = (0_usize, 0_usize);
        let driver = &shared.driver;
        let places = [&raw mut buffer as usize, &raw mut stream as usize];
        check(driver.set_context(context))?;
        // SAFETY: places for an address and a handle. Stream flag 1: non-blocking.
        unsafe {
            check(driver.of(Call::cuStreamCreate).call([places[1], 1]))?;
            check(driver.functions.host_alloc.call([places[0], PIECE, 1]))?;
        }
        Ok(Self { shared: shared.clone(), context, buffer, stream })
    }

    /// Reads up to a piece.
    ///
    /// # Errors
    ///
    /// The driver's code.
    pub(crate) fn read(&mut self, at: u64, len: usize) -> Result<&[u8], u32> {
        self.enter()?;
        let len = len.min(PIECE);
        let copy = self.shared.driver.functions.to_host;
        // SAFETY: pinned memory of a piece; a wrong address is the driver's to refuse.
        check(unsafe { copy.call([self.buffer, at as usize, len, self.stream]) })?;
        self.wait()?;
        // SAFETY: pinned memory of `PIECE` bytes, which the copy has filled up to `len`. The slice
        // borrows `self`, so no other read writes it meanwhile.
        Ok(unsafe { std::slice::from_raw_parts(self.buffer as *const u8, len) })
    }

    /// Writes up to a piece.
    ///
    /// # Errors
    ///
    /// The driver's code.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), u32> {
        self.enter()?;
        for (number, piece) in bytes.chunks(PIECE).enumerate() {
            let to = at as usize + number * PIECE;
            // SAFETY: pinned memory of a piece, which no copy uses. A wrong address is the
            // driver's to refuse.
            check(unsafe {
                std::ptr::copy_nonoverlapping(piece.as_ptr(), self.buffer as *mut u8, piece.len());
                self.shared.driver.functions.to_device.call([
                    to,
                    self.buffer,
                    piece.len(),
                    self.stream,
                ])
            })?;
            self.wait()?;
        }
        Ok(())
    }

    /// Writes zeros.
    ///
    /// # Errors
    ///
    /// The driver's code.
    pub(crate) fn clear(&mut self, at: u64, len: usize) -> Result<(), u32> {
        self.enter()?;
        let fill = self.shared.driver.of(Call::cuMemsetD8Async);
        // SAFETY: numbers, and a stream. A wrong address is the driver's to refuse.
        check(unsafe { fill.call([at as usize, 0, len, self.stream]) })?;
        self.wait()
    }

    /// Returns the stream, which waits for no other one.
    pub(crate) const fn stream(&self) -> usize {
        self.stream
    }

    fn enter(&self) -> Result<(), u32> {
        check(self.shared.driver.set_context(self.context))
    }

    fn wait(&self) -> Result<(), u32> {
        // SAFETY: a stream of ours.
        check(unsafe { self.shared.driver.of(Call::cuStreamSynchronize).call([self.stream]) })
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        let _ = self.enter(); // the context has ended, and these with it
        // SAFETY: a stream and memory of ours, which no copy uses.
        unsafe {
            self.shared.driver.of(Call::cuStreamDestroy_v2).call([self.stream]);
            self.shared.driver.functions.host_free.call([self.buffer]);
        }
    }
}

pub(crate) fn check(code: u32) -> Result<(), u32> {
    if code == 0 { Ok(()) } else { Err(code) }
}
