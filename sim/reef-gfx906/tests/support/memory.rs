//! Memory of the device and of the host, as slices.

use super::hip::Hip;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

/// Memory of the device.
pub(crate) struct Buffer<'a, T> {
    hip: &'a Hip,
    at: *mut c_void,
    len: usize,
    kind: std::marker::PhantomData<T>,
}

impl<'a, T: Copy + Default> Buffer<'a, T> {
    pub(crate) fn new(hip: &'a Hip, values: &[T]) -> Self {
        let (at, len) = (hip.malloc(size_of_val(values)), values.len());
        hip.copy(at, values.as_ptr().cast(), size_of_val(values));
        Self { hip, at, len, kind: std::marker::PhantomData }
    }

    pub(crate) fn zeros(hip: &'a Hip, len: usize) -> Self {
        Self::new(hip, &vec![T::default(); len])
    }

    pub(crate) fn at(&self) -> *mut c_void {
        self.at
    }

    pub(crate) fn read(&self) -> Vec<T> {
        let mut values = vec![T::default(); self.len];
        self.hip.copy(values.as_mut_ptr().cast(), self.at, size_of_val(&values[..]));
        values
    }
}

impl<T> Drop for Buffer<'_, T> {
    fn drop(&mut self) {
        self.hip.free(self.at);
    }
}

/// Words of the host that the device sees.
pub(crate) struct Pinned<'a> {
    hip: &'a Hip,
    at: *mut c_void,
    len: usize,
}

impl<'a> Pinned<'a> {
    pub(crate) fn new(hip: &'a Hip, len: usize) -> Self {
        let pinned = Self { hip, at: hip.host_malloc(4 * len), len };
        (0..len).for_each(|index| pinned.set(index, 0));
        pinned
    }

    pub(crate) fn at(&self) -> *mut c_void {
        self.at
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < self.len, "word {index} of {}", self.len);
        // SAFETY: within the allocation, which lives as long as this, and aligned to pages.
        unsafe { AtomicU32::from_ptr(self.at.cast::<u32>().add(index)) }
    }

    pub(crate) fn set(&self, index: usize, value: u32) {
        self.word(index).store(value, Ordering::SeqCst);
    }

    pub(crate) fn get(&self, index: usize) -> u32 {
        self.word(index).load(Ordering::SeqCst)
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.hip.host_free(self.at);
    }
}
