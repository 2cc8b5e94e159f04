//! Decoded instructions, by address, for all waves of a device.
//!
//! A page holds the instructions of 16 KiB of code, each decoded when a wave first reaches it. A
//! thread that unmaps or rewrites code calls [`Code::forget`]; a wave looks its page up when it
//! starts running, so it must not be inside `run` at that moment.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::decode::instruction::decode;
use super::inst::Inst;
use super::wave::{Fault, Memory};

const PAGE: u64 = 16 << 10;

/// Decoded instructions.
#[derive(Debug, Default)]
pub struct Code {
    pages: RwLock<HashMap<u64, Arc<Page>>>,
}

impl Code {
    /// Drops what was decoded in a range of addresses.
    pub fn forget(&self, addresses: Range<u64>) {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|&first, _| first + (PAGE - 1) < addresses.start || first >= addresses.end);
    }

    pub(super) fn page(&self, pc: u64) -> Arc<Page> {
        let first = pc - pc % PAGE;
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = pages.get(&first) {
            return Arc::clone(page);
        }
        drop(pages);
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(pages.entry(first).or_insert_with(|| Arc::new(Page::new(first))))
    }
}

#[derive(Debug)]
pub(super) struct Page {
    first: u64,
    slots: Box<[OnceLock<Inst>]>,
}

impl Page {
    fn new(first: u64) -> Self {
        Self { first, slots: (0..PAGE / 4).map(|_| OnceLock::new()).collect() }
    }

    pub(super) fn holds(&self, pc: u64) -> bool {
        pc - pc % PAGE == self.first
    }

    pub(super) fn inst(&self, pc: u64, memory: &dyn Memory) -> Result<&Inst, Fault> {
        let slot = &self.slots[(pc % PAGE / 4) as usize];
        match slot.get() {
            Some(inst) => Ok(inst),
            None => Self::fill(slot, pc, memory),
        }
    }

    #[cold]
    fn fill<'a>(slot: &'a OnceLock<Inst>, pc: u64, memory: &dyn Memory) -> Result<&'a Inst, Fault> {
        let inst = fetch(pc, memory)?;
        Ok(slot.get_or_init(|| inst))
    }
}

/// Decodes the instruction at `pc`.
fn fetch(pc: u64, memory: &dyn Memory) -> Result<Inst, Fault> {
    let fault = |instruction: String, why: &str| Fault { pc, instruction, why: why.to_owned() };
    let word = |at: u64| {
        let mapped = at.is_multiple_of(4) && memory.is_mapped(at, 4);
        // SAFETY: the four bytes are mapped and aligned; addresses of the device are ours.
        mapped.then(|| unsafe { std::ptr::read_volatile(at as *const u32) })
    };
    let Some(first) = word(pc) else {
        return Err(fault(String::new(), "code isn't mapped"));
    };
    let second = word(pc.wrapping_add(4));
    let text = match second {
        Some(second) => format!("{first:08x} {second:08x}"),
        None => format!("{first:08x}"),
    };
    decode(first, second).map_err(|why| fault(text, &why.to_string()))
}
