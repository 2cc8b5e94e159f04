//! Pools of stream-ordered memory.

use crate::calls::export::forward;
use std::ffi::c_void;

forward! {
    cudaMemPoolCreate(pool: *mut usize, props: *const c_void) => cuMemPoolCreate(pool, props);
    cudaMemPoolDestroy(pool: usize) => cuMemPoolDestroy(pool);
    cudaMemPoolTrimTo(pool: usize, keep: usize) => cuMemPoolTrimTo(pool, keep);
    cudaMemPoolGetAttribute(pool: usize, attribute: u32, value: *mut c_void)
        => cuMemPoolGetAttribute(pool, attribute, value);
    cudaMemPoolSetAttribute(pool: usize, attribute: u32, value: *mut c_void)
        => cuMemPoolSetAttribute(pool, attribute, value);
    cudaMemPoolSetAccess(pool: usize, list: *const c_void, count: usize) => cuMemPoolSetAccess(pool, list, count);
    cudaMemPoolGetAccess(flags: *mut u32, pool: usize, place: *mut c_void) => cuMemPoolGetAccess(flags, pool, place);
    cudaDeviceGetDefaultMemPool(pool: *mut usize, device: i32) => cuDeviceGetDefaultMemPool(pool, device);
    cudaDeviceGetMemPool(pool: *mut usize, device: i32) => cuDeviceGetMemPool(pool, device);
    cudaDeviceSetMemPool(device: i32, pool: usize) => cuDeviceSetMemPool(device, pool);
}
