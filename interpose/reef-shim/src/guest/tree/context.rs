//! Context: its handles, and the address at which its streams wait.

use crate::driver::calls;
use crate::guest::device::Device;
use std::sync::atomic::{
    AtomicI32, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// State of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    /// Its handles are invalid. The record is free once its streams are idle.
    Gone,
    /// Its handles may be used.
    Live,
    /// A call that may end it is under way: no thread of ours uses its handles.
    Ending,
}

/// Name, handle and kind of a context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextNames {
    pub(crate) name: u64,
    pub(crate) handle: usize,
    /// The context that calls for its streams are made in: its own, or of a green one the primary
    /// context.
    pub(crate) via: usize,
    /// The device whose primary context it is, or −1.
    pub(crate) primary: i32,
}

/// Record of a context. The next context of its device takes it when none of this one's work is
/// left.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: &'static Device,
    name: AtomicU64,
    handle: AtomicUsize,
    via: AtomicUsize,
    primary: AtomicI32,
    gate: AtomicU64,
    /// A [`State`]; written last when the record is taken.
    state: AtomicU32,
}

impl Context {
    pub(super) fn new(device: &'static Device) -> Self {
        Self {
            device,
            name: AtomicU64::new(0),
            handle: AtomicUsize::new(0),
            via: AtomicUsize::new(0),
            primary: AtomicI32::new(-1),
            gate: AtomicU64::new(0),
            state: AtomicU32::new(State::Gone as u32),
        }
    }

    pub(super) fn take(&self, names: ContextNames, gate: u64) {
        self.gate.store(gate, Relaxed);
        self.name.store(names.name, Relaxed);
        self.handle.store(names.handle, Relaxed);
        self.via.store(names.via, Relaxed);
        self.primary.store(names.primary, Relaxed);
        self.set(State::Live);
    }

    pub(crate) fn name(&self) -> u64 {
        self.name.load(Relaxed)
    }

    pub(crate) fn handle(&self) -> usize {
        self.handle.load(Relaxed)
    }

    /// Returns the address at which its streams wait.
    pub(crate) fn gate(&self) -> u64 {
        self.gate.load(Relaxed)
    }

    /// Returns whether it is this device's primary context, and lives.
    pub(crate) fn is_primary_of(&self, ordinal: i32) -> bool {
        self.is_live() && self.primary.load(Relaxed) == ordinal
    }

    /// Returns whether handles of it and of its streams may be used.
    pub(crate) fn is_live(&self) -> bool {
        self.state.load(Acquire) == State::Live as u32
    }

    pub(super) fn is_gone(&self) -> bool {
        self.state.load(Acquire) == State::Gone as u32
    }

    pub(crate) fn set(&self, state: State) {
        self.state.store(state as u32, Release);
    }

    /// Calls the driver with this context current.
    pub(crate) fn within<T>(&self, call: impl FnOnce() -> T) -> T {
        within(self.via.load(Relaxed), call)
    }
}

/// Calls the driver with a context current, without breaking captures of the program.
pub(crate) fn within<T>(context: usize, call: impl FnOnce() -> T) -> T {
    calls::with_relaxed_capture(|| calls::in_context(context, call))
}
