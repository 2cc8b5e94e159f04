//! Launches as of CUDA 3: parameters and sizes are set one by one, and stay with the function.

use super::launches::send_packed;
use crate::calls::export::{plain, stream};
use crate::session::session;
use crate::state::functions::Functions;
use crate::state::lock::lock;
use reef_cuda_abi::codes::*;
use reef_remote_calls::MAX_PARAMS_LEN;
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

plain! {
    cuFuncSetBlockShape(function: u64, x: i32, y: i32, z: i32) = block_shape;
    cuFuncSetSharedSize(function: u64, bytes: u32) = shared_size;
    cuParamSetSize(function: u64, bytes: u32) = size;
    cuParamSeti(function: u64, at: i32, value: u32) = integer;
    cuParamSetf(function: u64, at: i32, value: f32) = float;
    cuParamSetv(function: u64, at: i32, from: *const u8, bytes: u32) = value;
    cuLaunch(function: u64) = one;
    cuLaunchGrid(function: u64, x: i32, y: i32) = grid;
    cuLaunchGridAsync(function: u64, x: i32, y: i32, on: usize) = grid_on;
}

/// Settings of a function.
#[derive(Debug, Clone)]
struct Setting {
    block: [u32; 3],
    shared: u32,
    params: Vec<u8>,
}

/// Changes what is set for a function, or reads it.
fn with<T>(function: u64, change: impl FnOnce(&mut Setting) -> Result<T, u32>) -> Result<T, u32> {
    static ALL: OnceLock<Mutex<HashMap<u64, Setting>>> = OnceLock::new();
    session()?;
    Functions::all().get(function).ok_or(INVALID_HANDLE)?;
    let mut all = lock(ALL.get_or_init(Mutex::default));
    let none = || Setting { block: [1; 3], shared: 0, params: Vec::new() };
    change(all.entry(function).or_insert_with(none))
}

fn block_shape(function: u64, x: i32, y: i32, z: i32) -> Result<(), u32> {
    if [x, y, z].iter().any(|size| *size <= 0) {
        return Err(INVALID_VALUE);
    }
    with(function, |setting| {
        setting.block = [x, y, z].map(|size| size as u32);
        Ok(())
    })
}

fn shared_size(function: u64, bytes: u32) -> Result<(), u32> {
    with(function, |setting| {
        setting.shared = bytes;
        Ok(())
    })
}

fn size(function: u64, bytes: u32) -> Result<(), u32> {
    if bytes as usize > MAX_PARAMS_LEN {
        return Err(INVALID_VALUE);
    }
    with(function, |setting| {
        setting.params.resize(bytes as usize, 0);
        Ok(())
    })
}

fn put(function: u64, at: i32, bytes: &[u8]) -> Result<(), u32> {
    let begin = usize::try_from(at).map_err(|_| INVALID_VALUE)?;
    let end = begin.saturating_add(bytes.len());
    if end > MAX_PARAMS_LEN {
        return Err(INVALID_VALUE);
    }
    with(function, |setting| {
        if setting.params.len() < end {
            setting.params.resize(end, 0);
        }
        setting.params[begin..end].copy_from_slice(bytes);
        Ok(())
    })
}

fn integer(function: u64, at: i32, value: u32) -> Result<(), u32> {
    put(function, at, &value.to_ne_bytes())
}

fn float(function: u64, at: i32, value: f32) -> Result<(), u32> {
    put(function, at, &value.to_ne_bytes())
}

unsafe fn value(function: u64, at: i32, from: *const u8, bytes: u32) -> Result<(), u32> {
    if from.is_null() && bytes > 0 || bytes as usize > MAX_PARAMS_LEN {
        return Err(INVALID_VALUE);
    }
    if bytes == 0 {
        return with(function, |_| Ok(()));
    }
    // SAFETY: not null, and cuParamSetv demands `bytes` bytes at `from`. They are copied during the
    // call.
    put(function, at, unsafe { std::slice::from_raw_parts(from, bytes as usize) })
}

fn one(function: u64) -> Result<(), u32> {
    grid(function, 1, 1)
}

fn grid(function: u64, x: i32, y: i32) -> Result<(), u32> {
    grid_on(function, x, y, 0)
}

fn grid_on(function: u64, x: i32, y: i32, on: usize) -> Result<(), u32> {
    if x <= 0 || y <= 0 {
        return Err(INVALID_VALUE);
    }
    let Setting { block, shared, params } = with(function, |setting| Ok(setting.clone()))?;
    send_packed(function, [x as u32, y as u32, 1], block, shared, stream(on, false), &params)
}
