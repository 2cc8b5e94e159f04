//! Macros for thunks: exported functions that jump to the function of a real library.
//!
//! *In*: an array of addresses, one for each slot, zero until the first call; a function that looks
//! a slot up. *Out*: functions of any signature. *Invariant*: a thunk changes no argument register
//! and no stack argument. x86-64 System V alone.

/// Defines a function that jumps to the address in its slot, which the first call looks up. `r11`
/// is free at the entry of a function.
///
/// `$slots`: a static array of `AtomicUsize`. `$first_call`: a function that [`first_call!`] has
/// defined.
///
/// [`first_call!`]: crate::first_call
#[macro_export]
macro_rules! thunk {
    ($name:ident, $slot:literal, $slots:ident, $first_call:ident) => {
        #[allow(non_snake_case)]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            ::std::arch::naked_asm!(
                "mov r11, [rip + {slots} + 8 * {slot}]",
                "test r11, r11",
                "jz 2f",
                "jmp r11",
                "2:",
                "mov r11d, {slot}",
                "jmp {first}",
                slots = sym $slots,
                slot = const $slot,
                first = sym $first_call,
            )
        }
    };
}

/// Defines the function that a thunk jumps to at its first call: it looks up the slot in `r11` by
/// `$bind`, with all argument registers kept, and jumps to the function.
///
/// `$bind`: an `extern "C" fn(slot: usize) -> usize` that returns the address.
#[macro_export]
macro_rules! first_call {
    ($name:ident, $bind:ident) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            ::std::arch::naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "push rax",
                "push r11", // the stack is aligned to 16 bytes again
                "sub rsp, 128",
                "movups [rsp], xmm0",
                "movups [rsp + 16], xmm1",
                "movups [rsp + 32], xmm2",
                "movups [rsp + 48], xmm3",
                "movups [rsp + 64], xmm4",
                "movups [rsp + 80], xmm5",
                "movups [rsp + 96], xmm6",
                "movups [rsp + 112], xmm7",
                "mov rdi, r11",
                "call {bind}",
                "mov r11, rax",
                "movups xmm0, [rsp]",
                "movups xmm1, [rsp + 16]",
                "movups xmm2, [rsp + 32]",
                "movups xmm3, [rsp + 48]",
                "movups xmm4, [rsp + 64]",
                "movups xmm5, [rsp + 80]",
                "movups xmm6, [rsp + 96]",
                "movups xmm7, [rsp + 112]",
                "add rsp, 136", // with the slot
                "pop rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "pop rbp",
                "jmp r11",
                bind = sym $bind,
            )
        }
    };
}
