//! Pools of an open device: streams, memory, and graphs that may still run. They are kept, because
//! giving them back to the runtime waits for all work.
//!
//! Everything that was opened or allocated is in its pool, in use or free, until the device is
//! closed.

use crate::driver::Driver;
use crate::handles::{Exec, Stream};
use parking_lot::Mutex;
use reef_core::{Error, Result};
use reef_gpu::{FreeList, StreamKind, place, with_asked};
use std::ffi::{c_uint, c_void};

/// `hipHostMallocPortable | hipHostMallocMapped | hipHostMallocCoherent`
pub(crate) const PINNED: c_uint = 1 | 2 | 0x4000_0000;
/// `hipMallocSignalMemory`
pub(crate) const SIGNALS: c_uint = 2;
/// Bytes of signal memory: the runtime takes no other number.
pub(crate) const SIGNAL: usize = 8;

/// All streams of a device.
#[derive(Debug, Default)]
pub(crate) struct StreamPool {
    open: Vec<(Stream, StreamKind)>,
    kept: Vec<(Stream, StreamKind)>,
}

impl StreamPool {
    pub(crate) fn take(&mut self, kind: StreamKind) -> Option<Stream> {
        let at = self.kept.iter().position(|(_, of)| *of == kind)?;
        let found = self.kept.swap_remove(at);
        self.open.push(found);
        Some(found.0)
    }

    pub(crate) fn add(&mut self, stream: Stream, kind: StreamKind) {
        self.open.push((stream, kind));
    }

    pub(crate) fn keep(&mut self, stream: Stream) {
        if let Some(at) = self.open.iter().position(|(open, _)| *open == stream) {
            self.kept.push(self.open.swap_remove(at));
        }
    }

    /// Streams that are in use.
    pub(crate) fn open(&self) -> impl Iterator<Item = Stream> {
        self.open.iter().map(|(stream, _)| *stream)
    }

    /// Streams that are in use, and those that are kept.
    pub(crate) fn all(&self) -> impl Iterator<Item = Stream> {
        self.open.iter().chain(&self.kept).map(|(stream, _)| *stream)
    }
}

/// Graphs that were given back, and the streams in which they may still run.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    execs: Vec<(Exec, Vec<Stream>)>,
    /// Streams that must not be queried; nothing runs in them.
    capturing: Vec<Stream>,
}

impl Retired {
    pub(crate) fn add(&mut self, exec: Exec, open: impl Iterator<Item = Stream>) {
        let may_run_in = open.filter(|stream| !self.capturing.contains(stream)).collect();
        self.execs.push((exec, may_run_in));
    }

    /// Nothing runs in this stream at the moment.
    pub(crate) fn is_idle(&mut self, stream: Stream) {
        self.execs.iter_mut().for_each(|(_, streams)| streams.retain(|s| *s != stream));
    }

    /// Notes that the stream must not be queried from now on.
    pub(crate) fn begin_capture(&mut self, stream: Stream) {
        self.is_idle(stream);
        self.capturing.push(stream);
    }

    pub(crate) fn end_capture(&mut self, stream: Stream) {
        self.capturing.retain(|s| *s != stream);
    }

    /// Takes out the graphs that run nowhere any more.
    pub(crate) fn take_ended(&mut self, is_idle: impl Fn(Stream) -> bool) -> Vec<Exec> {
        self.execs.iter_mut().for_each(|(_, streams)| streams.retain(|s| !is_idle(*s)));
        let ended = self.execs.extract_if(.., |(_, streams)| streams.is_empty());
        ended.map(|(exec, _)| exec).collect()
    }
}

/// Kind of memory, by its call of the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Device,
    Host,
    Signal,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Device, Self::Host, Self::Signal];

    fn alloc(self, driver: &Driver, bytes: usize) -> Result<u64> {
        let mut memory = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call.
        unsafe {
            match self {
                Self::Device => driver.hipMalloc(&mut memory, place(bytes)),
                Self::Host => driver.hipHostMalloc(&mut memory, place(bytes), PINNED),
                Self::Signal => driver.hipExtMallocWithFlags(&mut memory, SIGNAL, SIGNALS),
            }
        }?;
        Ok(memory as u64)
    }

    /// Waits for all work on the device.
    fn free(self, driver: &Driver, memory: u64) {
        let memory = memory as *mut c_void;
        // SAFETY: it came from `alloc`, once. Of a lost device there is nothing to free.
        let _ = unsafe {
            match self {
                Self::Host => driver.hipHostFree(memory),
                Self::Device | Self::Signal => driver.hipFree(memory),
            }
        };
    }
}

/// Memory in use and memory that is kept, of each kind.
#[derive(Debug, Default)]
pub(crate) struct MemoryPools([Mutex<FreeList>; 3]);

impl MemoryPools {
    pub(crate) fn take(&self, driver: &Driver, kind: Kind, bytes: usize) -> Result<u64> {
        let list = &self.0[kind as usize];
        if let Some(memory) = list.lock().take(bytes) {
            return Ok(memory);
        }
        let memory = match kind.alloc(driver, bytes) {
            Err(Error::OutOfMemory { .. }) => {
                self.release(driver);
                kind.alloc(driver, bytes).map_err(|error| with_asked(error, bytes))?
            }
            other => other?,
        };
        list.lock().add(memory, bytes);
        Ok(memory)
    }

    pub(crate) fn give_back(&self, kind: Kind, memory: u64) {
        self.0[kind as usize].lock().give_back(memory);
    }

    /// Gives all that is kept back to the driver, which waits for all work on the device.
    pub(crate) fn release(&self, driver: &Driver) {
        for kind in Kind::ALL {
            let kept = self.0[kind as usize].lock().drain_free();
            kept.into_iter().for_each(|memory| kind.free(driver, memory));
        }
    }
}
