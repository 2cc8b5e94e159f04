//! Objects that belong to the process that made them.

use crate::errors::Error;
use pyo3::prelude::*;
use std::mem::ManuallyDrop;
use std::ops::Deref;

/// An object of this process. A forked child has none of its threads, so the child may neither use
/// nor drop it.
pub(crate) struct Owned<T> {
    object: ManuallyDrop<T>,
    process: u32,
}

impl<T> Owned<T> {
    pub(crate) fn new(object: T) -> Self {
        Self { object: ManuallyDrop::new(object), process: std::process::id() }
    }

    /// The object.
    ///
    /// # Errors
    ///
    /// `reef.Error`: this process was forked from that of the object.
    pub(crate) fn get(&self) -> PyResult<&T> {
        if self.process == std::process::id() {
            return Ok(&self.object);
        }
        Err(Error::new_err(format!(
            "opened in process {}, of which this one is a fork: open it again here",
            self.process
        )))
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.object) };
        }
    }
}

/// An object whose drop may wait for the device. It is dropped without the interpreter's lock, so
/// that other threads run meanwhile.
pub(crate) struct SlowDrop<T: Send>(ManuallyDrop<T>);

impl<T: Send> SlowDrop<T> {
    pub(crate) fn new(object: T) -> Self {
        Self(ManuallyDrop::new(object))
    }
}

impl<T: Send> Deref for SlowDrop<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send> Drop for SlowDrop<T> {
    fn drop(&mut self) {
        let object = &mut self.0;
        // SAFETY: dropped once, here.
        let drop_it = move || unsafe { ManuallyDrop::drop(object) };
        Python::attach(|py| py.detach(drop_it));
    }
}
