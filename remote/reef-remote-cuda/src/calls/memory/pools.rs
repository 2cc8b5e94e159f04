//! Pools of stream-ordered memory: attributes have the size that each has.

use crate::calls::export::plain;
use crate::calls::table::table;
use reef_cuda_abi::codes::*;
use reef_remote_calls::Call;

plain! {
    cuMemPoolGetAttribute(pool: u64, attribute: u32, value: *mut u8) = get;
    cuMemPoolSetAttribute(pool: u64, attribute: u32, value: *const u8) = set;
}

/// The first three are flags of 32 bits, the others are bytes.
fn len(attribute: u32) -> usize {
    if attribute <= 3 { 4 } else { 8 }
}

unsafe fn get(pool: u64, attribute: u32, value: *mut u8) -> Result<(), u32> {
    if value.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut found = [0_u8; 8];
    let args = [pool as usize, attribute as usize, found.as_mut_ptr() as usize];
    // SAFETY: a place of this size.
    unsafe { table(Call::cuMemPoolGetAttribute, false, &args) }?;
    // SAFETY: not null, and cuMemPoolGetAttribute demands room for the attribute's type, which has
    // `len` bytes, at most 8.
    unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), value, len(attribute)) };
    Ok(())
}

unsafe fn set(pool: u64, attribute: u32, value: *const u8) -> Result<(), u32> {
    if value.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut given = [0_u8; 8];
    // SAFETY: not null, and cuMemPoolSetAttribute demands a value of the attribute's type, which
    // has `len` bytes, at most 8.
    unsafe { std::ptr::copy_nonoverlapping(value, given.as_mut_ptr(), len(attribute)) };
    let args = [pool as usize, attribute as usize, given.as_ptr() as usize];
    // SAFETY: a value of this size.
    unsafe { table(Call::cuMemPoolSetAttribute, false, &args) }
}
