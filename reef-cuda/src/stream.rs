//! Streams of the driver.

use crate::context::Context;
use crate::driver::NOT_READY;
use crate::handles::Stream;
use reef_core::Result;
use reef_gpu::{StreamKind, Streams};
use std::ffi::{c_int, c_uint};

/// `CU_STREAM_NON_BLOCKING`: no hidden order with the legacy default stream.
const NON_BLOCKING: c_uint = 1;
/// `CU_STREAM_WAIT_VALUE_EQ`
const EQUAL: c_uint = 1;

impl Context {
    fn priority(&self, kind: StreamKind) -> c_int {
        let (lowest, highest) = self.own.priorities;
        if kind == StreamKind::RealTime { highest } else { lowest }
    }
}

impl Streams for Context {
    type Stream = Stream;

    fn open_stream(&self, kind: StreamKind) -> Result<Stream> {
        self.bind()?;
        let priority = self.priority(kind);
        let part = match kind {
            StreamKind::RealTime => self.split.as_ref().map(|split| &split.real_time),
            StreamKind::BestEffort => self.split.as_ref().map(|split| &split.best_effort),
        };
        if let Some(part) = part {
            return part.stream(priority).map(Stream);
        }
        let mut stream = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call.
        unsafe { self.driver.cuStreamCreateWithPriority(&mut stream, NON_BLOCKING, priority) }?;
        Ok(Stream(stream))
    }

    fn open_part_stream(&self, kind: StreamKind, percent: u32) -> Result<Stream> {
        self.bind()?;
        match self.parts.get(self.driver, self.primary.device, kind, percent) {
            Some(part) => part.stream(self.priority(kind)).map(Stream),
            None => self.open_stream(kind),
        }
    }

    unsafe fn close_stream(&self, stream: Stream) {
        if self.bind().is_ok() {
            // SAFETY: opened once, and not in use any more.
            let _ = unsafe { self.driver.cuStreamDestroy_v2(stream.0) };
        }
    }

    unsafe fn is_idle(&self, stream: Stream) -> Result<bool> {
        self.bind()?;
        // SAFETY: the stream is open.
        match unsafe { (self.driver.cuStreamQuery)(stream.0) } {
            NOT_READY => Ok(false),
            code => self.driver.check("cuStreamQuery", code).map(|()| true),
        }
    }

    unsafe fn wait(&self, stream: Stream) -> Result<()> {
        self.bind()?;
        // SAFETY: the stream is open.
        unsafe { self.driver.cuStreamSynchronize(stream.0) }
    }

    unsafe fn wait_value(&self, stream: Stream, address: u64, value: u32) -> Result<()> {
        self.bind()?;
        // SAFETY: the word came from `alloc_gate`, and is there until the stream has passed it:
        // `wait_value` demands it. reef-gpu's `Stream` keeps the stream open.
        unsafe { self.driver.cuStreamWaitValue32_v2(stream.0, address, value, EQUAL) }
    }
}
