//! Allocations whose physical memory can be released and made again at the same address.

use super::calls::{self, Access, Properties, Refused, check};
use crate::driver::calls as driver;
use crate::driver::state::Inside;
use crate::settings::settings;
use reef_cuda_abi::codes::OUT_OF_MEMORY;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// Smaller allocations are the driver's: physical memory comes in units of 2 MiB.
const MIN_BYTES: usize = 1 << 20;

/// Bytes of a piece. Another process can use the memory of each one as soon as it has left.
const PIECE_BYTES: usize = 128 << 20;

/// Part of an allocation, with physical memory of its own or without.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) at: usize,
    /// A multiple of the device's granularity.
    pub(super) bytes: usize,
    /// Handle of its physical memory; zero while it is off the device.
    pub(super) handle: u64,
    pub(super) ordinal: i32,
    pub(super) context: usize,
    /// True if something else may use the physical memory, by a handle or a file.
    is_pinned: bool,
    /// Address of the allocation.
    first: usize,
    /// Bytes of the allocation.
    whole: usize,
}

/// All pieces by address.
static PIECES: Mutex<BTreeMap<usize, Piece>> = Mutex::new(BTreeMap::new());

fn pieces() -> MutexGuard<'static, BTreeMap<usize, Piece>> {
    PIECES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns whether an allocation that can be swapped has physical memory of its own.
pub(crate) fn has_blocks(bytes: u64) -> bool {
    settings().is_swappable && bytes >= MIN_BYTES as u64
}

/// Allocates memory, by `real` if it can't be swapped.
pub(crate) fn allocate(to: *mut usize, bytes: usize, real: impl FnOnce() -> u32) -> u32 {
    if !settings().is_swappable || bytes < MIN_BYTES || to.is_null() || driver::context() == 0 {
        return real();
    }
    match make(bytes) {
        Ok((at, all)) => {
            note(&all);
            // SAFETY: not null, and cuMemAlloc demands of the program that `to` may be written.
            unsafe { *to = at };
            0
        }
        Err(Refused { code: OUT_OF_MEMORY, .. }) => OUT_OF_MEMORY,
        Err(_) => real(),
    }
}

/// Frees memory, by `real` if it is the driver's. Waits for the context's work, as the driver does.
pub(crate) fn free(at: usize, real: impl FnOnce() -> u32) -> u32 {
    if !settings().is_swappable {
        return real();
    }
    let gone = take_out(at);
    let Some(context) = gone.first().map(|one| one.context) else { return real() };
    let waited = driver::in_context(context, calls::synchronize);
    end(gone);
    waited.unwrap_or(0)
}

/// Forgets the pieces of the allocation at an address. Returns them; none if it is the driver's.
fn take_out(first: usize) -> Vec<Piece> {
    let mut all = pieces();
    let Some(whole) = all.get(&first).filter(|one| one.first == first).map(|one| one.whole) else {
        return Vec::new();
    };
    all.extract_if(first..first + whole, |_, _| true).map(|(_, one)| one).collect()
}

/// Frees what a context had that has ended.
pub(crate) fn end_context(context: usize) {
    if settings().is_swappable {
        let is_its = |_: &usize, one: &mut Piece| one.context == context;
        let gone: Vec<Piece> = pieces().extract_if(.., is_its).map(|(_, one)| one).collect();
        gone.chunk_by(|one, next| one.first == next.first).for_each(|of| end(of.to_vec()));
    }
}

fn find(at: usize) -> Option<Piece> {
    let all = pieces();
    let (_, one) = all.range(..=at).next_back()?;
    (at - one.at < one.bytes).then_some(*one)
}

/// Returns the address and the bytes of an allocation that can be swapped: the driver knows only
/// its pieces.
pub(crate) fn whole(at: usize) -> Option<(usize, usize)> {
    let one = if settings().is_swappable { find(at) } else { None };
    one.map(|one| (one.first, one.whole))
}

/// Keeps the allocation at an address on the device: something else has a handle or a file of it.
pub(crate) fn pin(at: usize) {
    if let Some((first, whole)) = whole(at) {
        let mut all = pieces();
        all.range_mut(first..first + whole).for_each(|(_, one)| one.is_pinned = true);
    }
}

/// Gets the address and the bytes of an allocation: by `real`, unless it can be swapped.
pub(crate) fn range(
    base: *mut usize,
    bytes: *mut usize,
    at: usize,
    real: impl FnOnce() -> u32,
) -> u32 {
    let code = real();
    if code == 0
        && let Some((first, whole)) = whole(at)
    {
        for (to, value) in [(base, first), (bytes, whole)] {
            if !to.is_null() {
                // SAFETY: not null, and the driver has just written there.
                unsafe { to.write_unaligned(value) };
            }
        }
    }
    code
}

/// Returns all that may leave, by address.
pub(super) fn all() -> Vec<Piece> {
    pieces().values().filter(|one| !one.is_pinned).copied().collect()
}

/// Notes the physical memory of pieces.
pub(super) fn note(changed: &[Piece]) {
    pieces().extend(changed.iter().map(|one| (one.at, *one)));
}

/// Makes an allocation in the current context. Returns its address and its pieces.
fn make(bytes: usize) -> Result<(usize, Vec<Piece>), Refused> {
    let _inside = Inside::always();
    let context = driver::context();
    let no_device = Refused::of("cuCtxGetDevice", 101);
    let ordinal = driver::device().ok_or(no_device)?;
    let (properties, mut unit) = (Properties::of(ordinal), 0);
    check("cuMemGetAllocationGranularity", calls::granularity(&mut unit, &properties, 0))?;
    let unit = unit.max(1);
    let whole = bytes.checked_next_multiple_of(unit);
    let whole = whole.ok_or(Refused::of("cuMemCreate", OUT_OF_MEMORY))?;
    let size = PIECE_BYTES.next_multiple_of(unit);
    let mut first = 0;
    check("cuMemAddressReserve", calls::reserve(&mut first, whole, 0, 0, 0))?;
    let piece = |begin: usize| Piece {
        at: first + begin,
        bytes: size.min(whole - begin),
        handle: 0,
        ordinal,
        context,
        is_pinned: false,
        first,
        whole,
    };
    let mut all: Vec<Piece> = (0..whole).step_by(size).map(piece).collect();
    let taken = all.iter_mut().try_for_each(Piece::take);
    if taken.is_err() {
        end(std::mem::take(&mut all));
    }
    taken.map(|()| (first, all))
}

/// Ends an allocation by its pieces, and its address.
fn end(mut all: Vec<Piece>) {
    let _inside = Inside::always();
    all.iter_mut().filter(|one| one.handle != 0).for_each(Piece::leave);
    if let Some(one) = all.first() {
        // SAFETY: nothing is mapped; the program has given the address back, or never had it.
        let _ = unsafe { calls::free_address(one.first, one.whole) };
    }
}

impl Piece {
    /// Makes physical memory, and maps it, unless it is there.
    pub(super) fn take(&mut self) -> Result<(), Refused> {
        if self.handle != 0 {
            return Ok(());
        }
        let mut handle = 0;
        let properties = Properties::of(self.ordinal);
        check("cuMemCreate", calls::create(&mut handle, self.bytes, &properties, 0))?;
        check("cuMemMap", calls::map(self.at, self.bytes, 0, handle, 0)).inspect_err(|_| {
            // SAFETY: a handle of a moment ago, which is not used again.
            let _ = unsafe { calls::release(handle) };
        })?;
        self.handle = handle;
        let access = Access::of(self.ordinal);
        let granted = calls::set_access(self.at, self.bytes, &access, 1);
        check("cuMemSetAccess", granted).inspect_err(|_| self.leave())
    }

    /// Unmaps and releases its physical memory, which nothing uses. Memory that the driver doesn't
    /// unmap stays as it is.
    pub(super) fn leave(&mut self) {
        // SAFETY: nothing uses the mapping: no call is under way, and no work.
        let unmapped = unsafe { calls::unmap(self.at, self.bytes) };
        if unmapped == Some(0) {
            // SAFETY: a handle of ours, which is not used again.
            let _ = unsafe { calls::release(self.handle) };
            self.handle = 0;
        }
    }
}

/// Returns a piece without memory, which is an allocation of its own.
#[cfg(test)]
pub(super) fn piece_of(at: usize, bytes: usize) -> Piece {
    let (handle, ordinal, context, is_pinned) = (0, 0, 0, false);
    Piece { at, bytes, handle, ordinal, context, is_pinned, first: at, whole: bytes }
}
