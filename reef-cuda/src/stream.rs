//! A stream of the driver, and what can be put into one.

use crate::context::Context;
use crate::driver::NOT_READY;
use cudarc::driver::sys::*;
use reef_core::{Dim3, Priority, Result};
use std::ffi::c_void;
use std::sync::Arc;

/// A function of a module, loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function(pub(crate) CUfunction);

// SAFETY: a handle that the driver lets any thread use.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// How words of ours are set: by streams themselves, or by a kernel where they can't.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer {
    pub(crate) by_stream: bool,
    /// Sets one word.
    pub(crate) store: Function,
}

impl Writer {
    /// Sets a word of ours when all that is in `stream` has ended.
    pub(crate) fn write(self, stream: &Stream, address: u64, value: u32) -> Result<()> {
        // SAFETY: callers give words of ours, which nobody refers to.
        unsafe {
            match self.by_stream {
                true => stream.write_word(address, value),
                false => stream.launch_one(self.store, 1, [address, value.into()]),
            }
        }
    }
}

/// A stream. Dropping it waits for what is in it.
#[derive(Debug)]
pub(crate) struct Stream {
    raw: CUstream,
    context: Arc<Context>,
}

// SAFETY: a handle that the driver lets any thread use.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(crate) fn open(context: &Arc<Context>, priority: Priority) -> Result<Self> {
        Ok(Self { raw: context.stream(priority)?, context: context.clone() })
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Launches a kernel; `params` point to its parameters.
    ///
    /// # Safety
    ///
    /// The parameters are the function's, and what they point to on the device outlives the run.
    pub(crate) unsafe fn launch(
        &self,
        function: Function,
        grid: Dim3,
        block: Dim3,
        shared: u32,
        params: &mut [*mut c_void],
    ) -> Result<()> {
        self.context.bind()?;
        let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
        // SAFETY: the caller's promise; the driver copies the parameters before it returns.
        unsafe {
            self.context.driver.cuLaunchKernel(
                function.0,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                shared,
                self.raw,
                params.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        }
    }

    /// Launches one block of a kernel whose parameters are words.
    ///
    /// # Safety
    ///
    /// As [`launch`](Self::launch).
    pub(crate) unsafe fn launch_one<const N: usize>(
        &self,
        function: Function,
        threads: u32,
        mut words: [u64; N],
    ) -> Result<()> {
        let mut params = words.each_mut().map(|word| (word as *mut u64).cast());
        // SAFETY: the caller's promise.
        unsafe { self.launch(function, [1; 3], [threads, 1, 1], 0, &mut params) }
    }

    /// Sets a word when all before it has ended. Only where the device has stream memory operations.
    ///
    /// # Safety
    ///
    /// The word is memory that the device can write and nobody refers to.
    pub(crate) unsafe fn write_word(&self, address: u64, value: u32) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the caller's promise.
        unsafe { self.context.driver.cuStreamWriteValue32_v2(self.raw, address, value, 0) }
    }

    /// Whether all in it has ended.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        self.context.bind()?;
        let driver = self.context.driver;
        // SAFETY: the stream is open.
        match unsafe { (driver.cuStreamQuery)(self.raw) } {
            NOT_READY => Ok(false),
            code => driver.check("cuStreamQuery", code).map(|()| true),
        }
    }

    /// Blocks until all in it has ended.
    pub(crate) fn wait(&self) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the stream is open.
        unsafe { self.context.driver.cuStreamSynchronize(self.raw) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.wait(); // of a lost device nothing is left to wait for
        if self.context.bind().is_ok() {
            // SAFETY: opened once, and nobody uses it any more.
            let _ = unsafe { self.context.driver.cuStreamDestroy_v2(self.raw) };
        }
    }
}
