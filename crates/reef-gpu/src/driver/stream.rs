//! A stream of the driver, and what can be put into one.

use crate::driver::context::Context;
use crate::driver::timeout::Timeout;
use crate::hal::calls::{LaunchConfig, Vendor};
use crate::hal::streams::StreamKind;
use reef_core::Result;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

/// Way of setting signals: by streams themselves, or by a kernel where they can't.
#[derive(Debug)]
pub(crate) struct Writer<V: Vendor> {
    pub(crate) by_stream: bool,
    /// Sets one signal.
    pub(crate) store: V::Function,
}

impl<V: Vendor> Clone for Writer<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: Vendor> Copy for Writer<V> {}

impl<V: Vendor> Writer<V> {
    /// Sets a signal when all that is in `stream` has ended.
    pub(crate) fn write(self, stream: &Stream<V>, address: u64, value: u32) -> Result<()> {
        // SAFETY: each address is that of a `HostSignal` or a `DeviceSignal`: memory of the
        // context, which the stream keeps, without references. The stream is open, and `store`
        // takes an address and a value.
        unsafe {
            if self.by_stream {
                stream.context.call().write_value(stream.raw, address, value)
            } else {
                stream.launch_one(self.store, 1, [address, value.into()])
            }
        }
    }
}

/// Interval at which a wait with a timeout asks the driver.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// A stream. Dropping it waits for what is in it, unless it was abandoned; then it is kept for the
/// next that is opened.
#[derive(Debug)]
pub(crate) struct Stream<V: Vendor> {
    raw: V::Stream,
    /// Kind of streams to keep it with; `None`: it is on a part of the units, and is closed.
    kind: Option<StreamKind>,
    is_abandoned: bool,
    context: Arc<Context<V>>,
}

impl<V: Vendor> Stream<V> {
    pub(crate) fn open(context: &Arc<Context<V>>, kind: impl Into<StreamKind>) -> Result<Self> {
        let kind = kind.into();
        let kept = context.kept_stream(kind);
        let raw = kept.map_or_else(|| context.call().open_stream(kind), Ok)?;
        Ok(Self { raw, kind: Some(kind), is_abandoned: false, context: context.clone() })
    }

    /// Opens one for captures whose launches run on a part of the units in percent.
    pub(crate) fn open_part(
        context: &Arc<Context<V>>,
        kind: impl Into<StreamKind>,
        percent: u32,
    ) -> Result<Self> {
        let raw = context.call().open_part_stream(kind.into(), percent)?;
        Ok(Self { raw, kind: None, is_abandoned: false, context: context.clone() })
    }

    pub(crate) fn context(&self) -> &Arc<Context<V>> {
        &self.context
    }

    pub(crate) fn raw(&self) -> V::Stream {
        self.raw
    }

    /// Launches a kernel; `params` point to its parameters.
    ///
    /// # Safety
    ///
    /// The parameters are the function's, and what they point to on the device outlives the run. If
    /// it starts early, it waits for the launch before it.
    pub(crate) unsafe fn launch(
        &self,
        function: V::Function,
        config: &LaunchConfig,
        params: &mut [*mut c_void],
    ) -> Result<()> {
        // SAFETY: the stream is open for as long as `self`. The parameters are the function's, and
        // what they point to outlives the run: `launch` demands it.
        unsafe { self.context.call().launch(self.raw, function, config, params) }
    }

    /// Launches one block of a kernel whose parameters are words.
    ///
    /// # Safety
    ///
    /// As [`launch`](Self::launch).
    pub(crate) unsafe fn launch_one<const N: usize>(
        &self,
        function: V::Function,
        threads: u32,
        mut words: [u64; N],
    ) -> Result<()> {
        let mut params = words.each_mut().map(|word| (word as *mut u64).cast());
        // SAFETY: `params` point to `words`, which live until the call has copied them. They are
        // the function's, and what they point to outlives the run: `launch_one` demands it.
        unsafe { self.launch(function, &LaunchConfig::one_block(threads), &mut params) }
    }

    /// Holds what follows until a word has this value.
    ///
    /// # Safety
    ///
    /// As [`crate::hal::streams::Streams::wait_value`].
    pub(crate) unsafe fn wait_value(&self, address: u64, value: u32) -> Result<()> {
        // SAFETY: the stream is open for as long as `self`. The word came from `alloc_gate` and is
        // there until the stream has passed it: `wait_value` demands it.
        unsafe { self.context.call().wait_value(self.raw, address, value) }
    }

    /// Returns whether all in it has ended.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        // SAFETY: it is open for as long as this is there, and isn't asked while it is captured.
        unsafe { self.context.call().is_idle(self.raw) }
    }

    /// Blocks until all in it has ended.
    pub(crate) fn wait(&self) -> Result<()> {
        // SAFETY: it is open for as long as this is there, and isn't waited for while it is
        // captured.
        unsafe { self.context.call().wait(self.raw) }
    }

    /// Blocks until all in it has ended, or until that has taken too long: then it is abandoned.
    pub(crate) fn wait_or_abandon(&mut self, timeout: &mut Timeout) -> Result<()> {
        if !timeout.is_set() && !self.is_abandoned {
            return self.wait();
        }
        while !self.is_abandoned && !self.is_idle()? {
            if timeout.expired().is_some() {
                self.abandon();
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// No thread waits for what is in it any more, and it is not used again.
    pub(crate) fn abandon(&mut self) {
        if !std::mem::replace(&mut self.is_abandoned, true) {
            self.context.abandon(self.raw);
        }
    }

    /// Returns whether it was left alone with what is in it.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }
}

impl<V: Vendor> Drop for Stream<V> {
    fn drop(&mut self) {
        if self.is_abandoned {
            return;
        }
        match (self.wait(), self.kind) {
            (Ok(()), Some(kind)) => self.context.keep_stream(kind, self.raw),
            // SAFETY: opened once, and this is its only owner. Of a lost device nothing is left to
            // wait for.
            _ => unsafe { self.context.call().close_stream(self.raw) },
        }
    }
}
