//! One address for each of the library's functions, filled in when it is first needed, and a
//! function that jumps there.

use crate::real::{is_there, symbol};
use std::arch::naked_asm;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `NVML_ERROR_LIBRARY_NOT_FOUND`, `NVML_ERROR_FUNCTION_NOT_FOUND`.
pub(crate) const NO_LIBRARY: u32 = 12;
pub(crate) const NO_FUNCTION: u32 = 13;

/// Zero: not looked up yet. Written by whoever comes first, always with the same value.
static SLOTS: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];

/// The address behind a slot: the real library's function, or one that says that there is none.
pub(crate) fn address(slot: usize) -> usize {
    match SLOTS.get(slot).map_or(0, |at| at.load(Ordering::Acquire)) {
        0 => bind(slot),
        at => at,
    }
}

/// The real library's function behind a slot. `None`: there is none. It is looked up at each call.
pub(crate) fn real(slot: usize) -> Option<usize> {
    NAMES.get(slot).and_then(|name| symbol(name))
}

/// Looks a slot up for the first time.
#[cold]
extern "C" fn bind(slot: usize) -> usize {
    let at = real(slot).unwrap_or_else(|| match is_there() {
        true => no_function as *const () as usize,
        false => no_library as *const () as usize,
    });
    if let Some(place) = SLOTS.get(slot) {
        place.store(at, Ordering::Release);
    }
    at
}

extern "C" fn no_library() -> u32 {
    NO_LIBRARY
}

extern "C" fn no_function() -> u32 {
    NO_FUNCTION
}

/// A function that jumps to its slot's address, which the first call looks up. `r11` is free at a
/// function's entry.
macro_rules! thunk {
    ($name:ident, $slot:literal) => {
        #[allow(non_snake_case)]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                "mov r11, [rip + {slots} + 8 * {slot}]",
                "test r11, r11",
                "jz 2f",
                "jmp r11",
                "2:",
                "mov r11d, {slot}",
                "jmp {first}",
                slots = sym SLOTS,
                slot = const $slot,
                first = sym first_call,
            )
        }
    };
}

/// Looks up the slot in `r11` with all arguments kept, none of which are floating-point numbers,
/// and goes on to the function.
#[unsafe(naked)]
unsafe extern "C" fn first_call() {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "mov rdi, r11", // the stack is aligned to 16 bytes
        "call {bind}",
        "mov r11, rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rbp",
        "jmp r11",
        bind = sym bind,
    )
}

#[allow(non_upper_case_globals)]
mod names {
    use super::{SLOTS, first_call, naked_asm};

    include!(concat!(env!("OUT_DIR"), "/names.rs"));
}

pub(crate) use names::*;
