//! Loads, stores and atomics of lanes, once it is known where each lane's bytes are.
//!
//! The maker of [`Pointers`] has checked, for each lane of the mask, as many bytes as the
//! instruction touches; nothing unmaps them while the instruction runs.

use crate::isa::inst::Inst;
use crate::isa::registers::Lanes;
use crate::isa::space::{
    Bad, load8, load16, load32, load64, store8, store16, store32, store64, update32, update64,
};
use crate::isa::wave::Wave;

/// Addresses of the bytes of each active lane.
#[derive(Debug)]
pub(super) struct Pointers {
    pub(super) mask: u64,
    pub(super) at: Lanes<*mut u8>,
}

impl Pointers {
    /// Takes the address of each lane of the mask from `find`.
    ///
    /// # Errors
    ///
    /// That of the highest lane that has one.
    #[inline(always)]
    pub(super) fn find(
        mask: u64,
        mut find: impl FnMut(usize) -> Result<*mut u8, Bad>,
    ) -> Result<Self, Bad> {
        let mut out = Self { mask, at: [std::ptr::null_mut(); 64] };
        let mut result = Ok(());
        each(mask, |lane| match find(lane) {
            Ok(at) => out.at[lane] = at,
            Err(bad) => result = Err(bad),
        });
        result.map(|()| out)
    }
}

/// Value of less than a word, and the way in which it becomes one.
#[derive(Debug, Clone, Copy)]
pub(super) enum SubWord {
    U8,
    I8,
    U16,
    I16,
}

impl SubWord {
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
        }
    }

    /// # Safety
    ///
    /// As many bytes must be mapped.
    unsafe fn read(self, at: *const u8) -> u32 {
        // SAFETY: `# Safety` demands that as many bytes are mapped as this part has, which is what
        // the loads read.
        unsafe {
            match self {
                Self::U8 => u32::from(load8(at)),
                Self::I8 => load8(at) as i8 as u32,
                Self::U16 => u32::from(load16(at)),
                Self::I16 => load16(at) as i16 as u32,
            }
        }
    }
}

/// Calls `f` for each lane of the mask, lowest first.
#[inline(always)]
pub(super) fn each(mask: u64, mut f: impl FnMut(usize)) {
    if mask == u64::MAX {
        (0..64).for_each(f);
        return;
    }
    let mut left = mask;
    while left != 0 {
        f(left.trailing_zeros() as usize);
        left &= left - 1;
    }
}

/// Loads `words` words into as many registers from `first` on.
#[inline]
pub(super) fn load_words(w: &mut Wave, first: u8, words: u8, from: &Pointers) {
    for k in (0..words).step_by(2) {
        let at = 4 * usize::from(k);
        let (mut low, mut high) = ([0; 64], [0; 64]);
        if k + 1 == words {
            // SAFETY: the maker of `from` has checked the word.
            each(from.mask, |lane| low[lane] = unsafe { load32(from.at[lane].add(at)) });
            w.regs.put(first.wrapping_add(k), &low, from.mask);
        } else {
            each(from.mask, |lane| {
                // SAFETY: the maker of `from` has checked both words.
                let pair = unsafe { load64(from.at[lane].add(at)) };
                low[lane] = pair as u32;
                high[lane] = (pair >> 32) as u32;
            });
            w.regs.put(first.wrapping_add(k), &low, from.mask);
            w.regs.put(first.wrapping_add(k + 1), &high, from.mask);
        }
    }
}

/// Loads less than a word.
pub(super) fn load_part(w: &mut Wave, i: &Inst, part: SubWord, from: &Pointers) {
    let mut value = [0; 64];
    // SAFETY: the maker of `from` has checked the bytes.
    each(from.mask, |lane| value[lane] = unsafe { part.read(from.at[lane]) });
    w.regs.put(i.dst, &value, from.mask);
}

/// Loads less than a word into one half of the register.
pub(super) fn load_half(w: &mut Wave, i: &Inst, part: SubWord, shift: u32, from: &Pointers) {
    let mut value = *w.regs.vgpr(i.dst);
    each(from.mask, |lane| {
        // SAFETY: the maker of `from` has checked the bytes.
        let half = unsafe { part.read(from.at[lane]) } & 0xffff;
        value[lane] = value[lane] & !(0xffff << shift) | half << shift;
    });
    w.regs.put(i.dst, &value, from.mask);
}

/// Stores `words` registers from `first` on.
#[inline]
pub(super) fn store_words(w: &Wave, first: u8, words: u8, to: &Pointers) {
    for k in (0..words).step_by(2) {
        let at = 4 * usize::from(k);
        let low = w.regs.vgpr(first.wrapping_add(k));
        if k + 1 == words {
            // SAFETY: the maker of `to` has checked the word.
            each(to.mask, |lane| unsafe { store32(to.at[lane].add(at), low[lane]) });
        } else {
            let high = w.regs.vgpr(first.wrapping_add(k + 1));
            each(to.mask, |lane| {
                let pair = u64::from(low[lane]) | u64::from(high[lane]) << 32;
                // SAFETY: the maker of `to` has checked both words.
                unsafe { store64(to.at[lane].add(at), pair) }
            });
        }
    }
}

/// Stores a byte of each lane, from bit `shift` on.
pub(super) fn store_byte(w: &Wave, data: u8, shift: u32, to: &Pointers) {
    let value = w.regs.vgpr(data);
    // SAFETY: the maker of `to` has checked the byte.
    each(to.mask, |lane| unsafe { store8(to.at[lane], (value[lane] >> shift) as u8) });
}

/// Stores a half of each lane, from bit `shift` on.
pub(super) fn store_half(w: &Wave, data: u8, shift: u32, to: &Pointers) {
    let value = w.regs.vgpr(data);
    // SAFETY: the maker of `to` has checked both bytes.
    each(to.mask, |lane| unsafe { store16(to.at[lane], (value[lane] >> shift) as u16) });
}

/// Lane after lane, changes a word to what `f` gives for it and the lane's data; returns what was
/// there.
#[inline]
pub(super) fn atomic32(
    w: &mut Wave,
    dst: Option<u8>,
    data: u8,
    at: &Pointers,
    f: impl Fn(u32, u32) -> u32,
) -> Result<(), Bad> {
    let data = *w.regs.vgpr(data);
    update_lanes32(w, dst, at, |lane, was| f(was, data[lane]))
}

/// Lane after lane, changes a word to what `change` gives for it; puts what was there into `dst`.
#[inline]
fn update_lanes32(
    w: &mut Wave,
    dst: Option<u8>,
    at: &Pointers,
    change: impl Fn(usize, u32) -> u32,
) -> Result<(), Bad> {
    let mut old = [0; 64];
    let mut result = Ok(());
    each(at.mask, |lane| match update32(at.at[lane], |was| change(lane, was)) {
        Ok(was) => old[lane] = was,
        Err(bad) => result = Err(bad),
    });
    result?;
    if let Some(dst) = dst {
        w.regs.put(dst, &old, at.mask);
    }
    Ok(())
}

/// As [`atomic32`], for 8 bytes.
#[inline]
pub(super) fn atomic64(
    w: &mut Wave,
    dst: Option<u8>,
    data: u8,
    at: &Pointers,
    f: impl Fn(u64, u64) -> u64,
) -> Result<(), Bad> {
    let data = pairs(w, data);
    update_lanes64(w, dst, at, |lane, was| f(was, data[lane]))
}

/// The values of 8 bytes in two registers.
fn pairs(w: &Wave, register: u8) -> Lanes<u64> {
    let (low, high) = (w.regs.vgpr(register), w.regs.vgpr(register.wrapping_add(1)));
    std::array::from_fn(|lane| u64::from(low[lane]) | u64::from(high[lane]) << 32)
}

/// As [`update_lanes32`], for 8 bytes.
#[inline]
fn update_lanes64(
    w: &mut Wave,
    dst: Option<u8>,
    at: &Pointers,
    change: impl Fn(usize, u64) -> u64,
) -> Result<(), Bad> {
    let (mut low, mut high) = ([0; 64], [0; 64]);
    let mut result = Ok(());
    each(at.mask, |lane| match update64(at.at[lane], |was| change(lane, was)) {
        Ok(was) => (low[lane], high[lane]) = (was as u32, (was >> 32) as u32),
        Err(bad) => result = Err(bad),
    });
    result?;
    if let Some(dst) = dst {
        w.regs.put(dst, &low, at.mask);
        w.regs.put(dst.wrapping_add(1), &high, at.mask);
    }
    Ok(())
}

/// Puts `new` where `expected` is; returns what was there.
pub(super) fn swap32(
    w: &mut Wave,
    dst: Option<u8>,
    [new, expected]: [u8; 2],
    at: &Pointers,
    equal: impl Fn(u32, u32) -> bool,
) -> Result<(), Bad> {
    let (new, expected) = (*w.regs.vgpr(new), *w.regs.vgpr(expected));
    let change = |lane: usize, was| if equal(was, expected[lane]) { new[lane] } else { was };
    update_lanes32(w, dst, at, change)
}

/// As [`swap32`], for 8 bytes in two registers each.
pub(super) fn swap64(
    w: &mut Wave,
    dst: Option<u8>,
    [new, expected]: [u8; 2],
    at: &Pointers,
    equal: impl Fn(u64, u64) -> bool,
) -> Result<(), Bad> {
    let (new, expected) = (pairs(w, new), pairs(w, expected));
    let change = |lane: usize, was| if equal(was, expected[lane]) { new[lane] } else { was };
    update_lanes64(w, dst, at, change)
}
