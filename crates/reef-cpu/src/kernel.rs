//! Kernels: functions that a unit calls once per block.

use crate::memory::borrow::Access;
use crate::memory::buffer::Buffer;
use reef_core::Args;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Value of a stop word that lets blocks run.
pub(crate) const RUN: u8 = 0;
/// Value of a stop word that lets running blocks end and starts no others.
pub(crate) const EVICT: u8 = 1;
/// Value of a stop word that asks running blocks to stop.
pub(crate) const RESET: u8 = 2;

/// End of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect.
    Done,
    /// It has changed nothing and runs again later: it saw [`Block::stopped`] before its commit
    /// point, the first write that others can see.
    Stopped,
}

/// Position of a block, and its means to find out that it should stop.
#[derive(Debug)]
pub struct Block<'a> {
    /// Index of the block in the grid, from 0 in x, then y, then z order.
    pub index: u32,
    /// Index of the unit that runs it, from 0.
    pub unit: u32,
    pub(crate) stop: &'a AtomicU8,
    pub(crate) scratch: &'a mut Vec<f32>,
}

impl Block<'_> {
    /// Returns whether to return [`Outcome::Stopped`], if the commit point has not been passed.
    ///
    /// Costs one load; call it every few microseconds of work.
    #[inline]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) == RESET
    }

    /// `len` floats of the unit's own memory, with whatever was there before.
    ///
    /// Grows at the first use and then stays with the unit.
    #[inline]
    pub fn scratch(&mut self, len: usize) -> &mut [f32] {
        if self.scratch.len() < len {
            self.scratch.resize(len, 0.0);
        }
        &mut self.scratch[..len]
    }
}

type Body = dyn Fn(&mut Block<'_>, &Args) -> Outcome + Send + Sync;

/// A named function that is called once per block, on any unit.
///
/// ```
/// use reef_cpu::{Kernel, Outcome};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
///
/// let sum = Arc::new(AtomicU32::new(0));
/// let total = sum.clone();
/// let kernel = Kernel::new("sum", move |block, _args| {
///     let mut own = 0;
///     for number in 0..1_000 {
///         if block.stopped() {
///             return Outcome::Stopped; // nothing has changed yet: the block runs again later
///         }
///         own += number;
///     }
///     total.fetch_add(own, Relaxed); // the effect: nothing stops the block any more
///     Outcome::Done
/// });
/// assert_eq!(kernel.name(), "sum");
/// ```
#[derive(Clone)]
pub struct Kernel(Arc<KernelInner>);

struct KernelInner {
    name: &'static str,
    body: Box<Body>,
    /// Borrowed by each block. Empty for kernels whose launches answer for their memory.
    uses: Vec<(Buffer, Access)>,
}

impl Kernel {
    /// Wraps `body`. Buffers that it captures stay alive as long as the kernel.
    pub fn new(
        name: &'static str,
        body: impl Fn(&mut Block<'_>, &Args) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(KernelInner { name, body: Box::new(body), uses: Vec::new() }))
    }

    /// This kernel, each of whose blocks borrows `uses` while it runs. Written
    /// buffers come first.
    ///
    /// # Panics
    ///
    /// If it has been cloned: a launch of the clone would borrow nothing.
    pub(crate) fn using(self, uses: Vec<(Buffer, Access)>) -> Self {
        let named =
            Arc::into_inner(self.0).expect("kernels are told what they use when they are made");
        Self(Arc::new(KernelInner { uses, ..named }))
    }

    pub(crate) fn uses(&self) -> &[(Buffer, Access)] {
        &self.0.uses
    }

    /// Its name, for traces.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    #[inline]
    pub(crate) fn run(&self, block: &mut Block<'_>, args: &Args) -> Outcome {
        (self.0.body)(block, args)
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", self.name())
    }
}
