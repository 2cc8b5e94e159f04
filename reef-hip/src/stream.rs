//! Streams of the runtime, and what can be put into one.
//!
//! The runtime maps all streams of one priority to *four hardware queues* (`GPU_MAX_HW_QUEUES` says
//! otherwise). Real-time streams have the highest priority, best-effort streams have a mask of
//! compute units ([`masks`](crate::masks)), with which each has a hardware queue of its own, at the
//! priority between: the two classes never share one. Where the runtime has no masks, best-effort
//! streams have the lowest priority, and of more than four some share a queue: they take turns, and
//! one whose gate is closed or whose kernel doesn't end holds up those behind it.
//!
//! `hipStreamDestroy` waits, so streams that are closed are kept for the next call that opens one.
//!
//! A kernel that never ends keeps its compute units and its hardware queue: `hipStreamDestroy`,
//! `hipFree` and `hipDeviceReset` wait for it, the queue's handle is not public, and so nothing
//! below the end of the process removes it on a stock driver. Real-time work and the streams of
//! other queues go on next to it, and a device that is closed leaves it and its memory alone. A
//! kernel with a guard can't get there as long as it checks its word.

use crate::context::Context;
use crate::driver::NOT_READY;
use crate::handles::Stream;
use reef_core::Result;
use reef_gpu::{StreamKind, Streams};
use std::ffi::{c_int, c_uint, c_void};
use std::time::Duration;

/// `hipStreamNonBlocking`: no hidden order with the null stream.
pub(crate) const NON_BLOCKING: c_uint = 1;
/// `hipStreamWaitValueEq`
pub(crate) const EQUAL: c_uint = 1;
/// Polls of a waiting thread before it sleeps between polls.
const SPINS: u32 = 1000;
const POLL_INTERVAL: Duration = Duration::from_micros(50);

impl Streams for Context {
    type Stream = Stream;

    fn open_stream(&self, kind: StreamKind) -> Result<Stream> {
        if let Some(stream) = self.streams.lock().take(kind) {
            return Ok(stream);
        }
        self.bind()?;
        let (lowest, highest) = self.device.priorities;
        let priority = if kind == StreamKind::RealTime { highest } else { lowest };
        let masked = self.masks.as_ref().and_then(|masks| masks.stream(self.driver, kind));
        let stream = match masked {
            Some(stream) => Stream(stream?),
            None => self.create_stream(priority)?,
        };
        self.streams.lock().add(stream, kind);
        Ok(stream)
    }

    unsafe fn close_stream(&self, stream: Stream) {
        self.retired.lock().is_idle(stream); // before its next user runs something
        self.streams.lock().keep(stream);
        self.destroy_retired();
    }

    unsafe fn is_idle(&self, stream: Stream) -> Result<bool> {
        self.bind()?;
        // SAFETY: the stream is open.
        match unsafe { (self.driver.hipStreamQuery)(stream.0) } {
            NOT_READY => Ok(false),
            code => self.driver.check("hipStreamQuery", code).map(|()| true),
        }
    }

    /// Polls: `hipStreamSynchronize` keeps locks of the runtime meanwhile, which other threads may
    /// need to let this stream's kernels go on.
    unsafe fn wait(&self, stream: Stream) -> Result<()> {
        for polls in 0.. {
            // SAFETY: the stream is open and isn't being captured: `Streams::wait` demands it.
            if unsafe { self.is_idle(stream) }? {
                break;
            }
            match polls {
                ..SPINS => std::hint::spin_loop(),
                _ => std::thread::sleep(POLL_INTERVAL),
            }
        }
        Ok(())
    }

    unsafe fn wait_value(&self, stream: Stream, address: u64, value: u32) -> Result<()> {
        self.bind()?;
        let address = address as *mut c_void;
        // SAFETY: the word came from `alloc_gate`, and is there until the stream has passed it:
        // `wait_value` demands it. reef-gpu's `Stream` keeps the stream open.
        unsafe { self.driver.hipStreamWaitValue32(stream.0, address, value, EQUAL, u32::MAX) }
    }
}

impl Context {
    /// The device must be current.
    pub(crate) fn create_stream(&self, priority: c_int) -> Result<Stream> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call.
        unsafe { self.driver.hipStreamCreateWithPriority(&mut stream, NON_BLOCKING, priority) }?;
        Ok(Stream(stream))
    }

    /// Destroys graphs that don't run any more.
    pub(crate) fn destroy_retired(&self) {
        // Of a lost device nothing runs. SAFETY: `Retired` has streams of the pool, which are open,
        // and none that is being captured.
        let is_idle = |stream| unsafe { self.is_idle(stream) }.unwrap_or(true);
        let ended = self.retired.lock().take_ended(is_idle);
        for exec in ended {
            // SAFETY: made once, and given back.
            let _ = unsafe { self.driver.hipGraphExecDestroy(exec.0) };
        }
    }
}
