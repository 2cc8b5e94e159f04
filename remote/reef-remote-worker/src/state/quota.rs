//! Count of the device's memory that the program allocates, and bounds of what its session takes.
//! The server keeps the accounts.
//!
//! The worker asks the server before it takes something, on the socket between them, and waits for
//! the answer. Where the device's memory has no bound, the server is not asked for that.

use super::lock::lock;
use crate::control::{self, FromWorker};
use reef_cuda_abi::codes::OUT_OF_MEMORY;
use reef_remote::server::Resource;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Bytes of a block of the driver's, which small allocations share.
pub(crate) const BLOCK: u64 = 2 << 20;

/// Bytes of an allocation, and the number of the context with which it ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Charge {
    /// Zero: its block is charged.
    pub(crate) bytes: u64,
    pub(crate) context: u64,
    /// Handle of its pool; zero: it is of none.
    pub(crate) pool: usize,
    /// Number of the block that it shares.
    pub(crate) block: Option<u64>,
}

/// Allocations that have not ended.
#[derive(Debug, Default)]
struct Charges {
    /// By their addresses.
    all: HashMap<u64, Charge>,
    /// Numbers of allocations in shared blocks. The driver keeps a block until the last one ends.
    /// The number of a block is its address in units of a block.
    blocks: HashMap<u64, u64>,
}

impl Charges {
    /// Notes an allocation in a shared block. Returns whether the block is a new one.
    fn share(&mut self, at: u64, context: u64) -> bool {
        let number = at / BLOCK;
        let count = self.blocks.entry(number).or_default();
        *count += 1;
        let is_new = *count == 1;
        self.all.insert(at, Charge { bytes: 0, context, pool: 0, block: Some(number) });
        is_new
    }

    /// Notes the end of an allocation that was taken. Returns the bytes that end with it.
    fn end(&mut self, charge: Charge) -> u64 {
        let Some(number) = charge.block else { return charge.bytes };
        let Entry::Occupied(mut count) = self.blocks.entry(number) else { return 0 };
        *count.get_mut() -= 1;
        if *count.get() > 0 {
            return 0;
        }
        count.remove();
        BLOCK
    }
}

/// The count, and questions to the server, one at a time.
#[derive(Debug)]
pub(crate) struct Quota {
    control: OwnedFd,
    /// The server is asked for memory of the device.
    is_bounded: bool,
    /// Bytes that are allocated.
    memory: AtomicU64,
    /// Taken for a question and its answer.
    asking: Mutex<()>,
    answer: Mutex<Option<bool>>,
    answered: Condvar,
    charges: Mutex<Charges>,
}

impl Quota {
    pub(crate) fn new(control: OwnedFd, is_bounded: bool) -> Arc<Self> {
        let (memory, asking, answer, answered, charges) = Default::default();
        Arc::new(Self { control, is_bounded, memory, asking, answer, answered, charges })
    }

    /// Returns whether the memory has a bound.
    pub(crate) fn is_bounded(&self) -> bool {
        self.is_bounded
    }

    /// Returns the number of bytes that are allocated.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    /// Asks for bytes.
    ///
    /// # Errors
    ///
    /// `OUT_OF_MEMORY`: the bound would be exceeded, or the server is gone.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), u32> {
        if self.is_bounded {
            self.take_of(Resource::Memory, bytes)?;
        }
        self.memory.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Asks for an amount of a resource, which the session has until it gives it back or ends.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`reserve`](Self::reserve).
    pub(crate) fn take_of(&self, what: Resource, amount: u64) -> Result<(), u32> {
        let _alone = lock(&self.asking);
        *lock(&self.answer) = None;
        control::send(&self.control, &FromWorker::Reserve(what, amount), None)
            .map_err(|_| OUT_OF_MEMORY)?;
        let answer = self.answered.wait_while(lock(&self.answer), |answer| answer.is_none());
        let granted = *answer.unwrap_or_else(PoisonError::into_inner) == Some(true);
        if granted { Ok(()) } else { Err(OUT_OF_MEMORY) }
    }

    /// Takes the server's answer.
    pub(crate) fn answer(&self, is_granted: bool) {
        *lock(&self.answer) = Some(is_granted);
        self.answered.notify_all();
    }

    /// Gives bytes back.
    pub(crate) fn release(&self, bytes: u64) {
        self.memory.fetch_sub(bytes, Ordering::Relaxed);
        if self.is_bounded {
            self.give_back(Resource::Memory, bytes);
        }
    }

    /// Gives an amount of a resource back.
    pub(crate) fn give_back(&self, what: Resource, amount: u64) {
        // Without a server there is no account.
        let _ = control::send(&self.control, &FromWorker::Release(what, amount), None);
    }

    /// Notes an allocation whose bytes are reserved.
    pub(crate) fn put(&self, at: u64, charge: Charge) {
        lock(&self.charges).all.insert(at, charge);
    }

    /// Notes an allocation in a block that small ones share. A block is reserved for it, and given
    /// back if the driver has taken none.
    pub(crate) fn put_shared(&self, at: u64, context: u64) {
        let is_new = lock(&self.charges).share(at, context);
        if !is_new {
            self.release(BLOCK);
        }
    }

    /// Takes the charge of an allocation before it is freed: its address may be another one's as
    /// soon as the driver has freed it. [`end`](Self::end) or [`put`](Self::put) follows.
    pub(crate) fn take(&self, at: u64) -> Option<Charge> {
        lock(&self.charges).all.remove(&at)
    }

    /// Gives back what ends with an allocation that was taken.
    pub(crate) fn end(&self, charge: Charge) {
        let bytes = lock(&self.charges).end(charge);
        if bytes > 0 {
            self.release(bytes);
        }
    }

    /// Gives back the bytes of a context that has ended. Memory of pools ends with a primary one
    /// alone: a pool is its device's.
    pub(crate) fn end_context(&self, context: u64, is_primary: bool) {
        let mut charges = lock(&self.charges);
        let ends = |_: &u64, charge: &mut Charge| {
            charge.context == context && (is_primary || charge.pool == 0)
        };
        let ended: Vec<Charge> = charges.all.extract_if(ends).map(|(_, charge)| charge).collect();
        let mut bytes = 0;
        for charge in ended {
            bytes += charges.end(charge);
        }
        drop(charges);
        if bytes > 0 {
            self.release(bytes);
        }
    }
}
