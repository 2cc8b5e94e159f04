//! The contexts that were seen, in memory of a fixed size.

use super::device::Device;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Contexts that are looked at; launches of others are passed on.
const MOST: usize = 64;

/// A context whose launches are scheduled: addresses are the device's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) device: &'static Device,
    /// Where its streams wait.
    pub(crate) gate: u64,
    /// Where their marks are written.
    pub(crate) marks: u64,
}

#[derive(Debug)]
pub(super) struct Entry {
    /// Zero: free. Written last, so that whoever reads it finds the rest.
    context: AtomicUsize,
    /// Null: calls of this context are passed on.
    device: AtomicPtr<Device>,
    gate: AtomicU64,
    marks: AtomicU64,
}

static ENTRIES: [Entry; MOST] = [const { Entry::new() }; MOST];

/// Whoever changes entries has it.
static CHANGING: Mutex<()> = Mutex::new(());

pub(super) fn lock() -> MutexGuard<'static, ()> {
    CHANGING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Entry {
    const fn new() -> Self {
        let (context, device) = (AtomicUsize::new(0), AtomicPtr::new(std::ptr::null_mut()));
        Self { context, device, gate: AtomicU64::new(0), marks: AtomicU64::new(0) }
    }

    pub(super) fn read(&self) -> Option<Context> {
        // SAFETY: null, or leaked for the life of the process.
        let device = unsafe { self.device.load(Ordering::Relaxed).as_ref() }?;
        let (gate, marks) = (self.gate.load(Ordering::Relaxed), self.marks.load(Ordering::Relaxed));
        Some(Context { device, gate, marks })
    }

    fn write(&self, name: usize, context: Option<Context>) {
        let device = context.map_or(std::ptr::null(), |context| std::ptr::from_ref(context.device));
        self.device.store(device.cast_mut(), Ordering::Relaxed);
        self.gate.store(context.map_or(0, |context| context.gate), Ordering::Relaxed);
        self.marks.store(context.map_or(0, |context| context.marks), Ordering::Relaxed);
        self.context.store(name, Ordering::Release);
    }
}

/// The entry of this context.
pub(super) fn find(name: usize) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.context.load(Ordering::Acquire) == name)
}

/// Adds a context; the caller has the only lock. `None`: there are too many.
pub(super) fn add(name: usize, context: Option<Context>) -> Option<&'static Entry> {
    let free = find(0)?;
    free.write(name, context);
    Some(free)
}

/// Takes a context out, or all; the caller has the only lock.
pub(super) fn take_out(name: Option<usize>) {
    let is_meant = |entry: &&Entry| {
        let context = entry.context.load(Ordering::Relaxed);
        context != 0 && name.is_none_or(|name| name == context)
    };
    ENTRIES.iter().filter(is_meant).for_each(|entry| entry.context.store(0, Ordering::Release));
}

/// Has contexts whose calls are passed on attached anew when they are next seen: a device was joined.
pub(super) fn look_again() {
    let _lock = lock();
    let passed = ENTRIES.iter().filter(|entry| entry.read().is_none());
    passed.for_each(|entry| entry.context.store(0, Ordering::Release));
}

/// The context of this name, or any, and its own name; none is attached for it.
pub(crate) fn any(name: Option<usize>) -> Option<(usize, Context)> {
    ENTRIES.iter().find_map(|entry| {
        let context = entry.context.load(Ordering::Acquire);
        let is_meant = context != 0 && name.is_none_or(|name| name == context);
        entry.read().filter(|_| is_meant).map(|read| (context, read))
    })
}
