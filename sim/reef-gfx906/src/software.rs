//! Access to the device for tests: find the library, load it before AMD's runtime, set it, read its
//! trace.

use crate::settings::{Counters, Record, Settings};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::io;
use std::mem::ManuallyDrop;
use std::path::PathBuf;

const FILE: &str = "libreef_gfx906.so";

/// The library next to the running program, where cargo puts it.
///
/// # Errors
///
/// `NotFound` with the folders that were looked at.
pub fn library() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folders: Vec<PathBuf> = program
        .ancestors()
        .skip(1)
        .take(3)
        .flat_map(|folder| [folder.to_owned(), folder.join("deps")])
        .collect();
    let file = folders.iter().map(|folder| folder.join(FILE)).find(|file| file.is_file());
    file.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("no {FILE} (tried {folders:?})"))
    })
}

type Configure = unsafe extern "C" fn(*const Settings) -> bool;
type ReadCounters = unsafe extern "C" fn(*mut Counters);
type Trace = unsafe extern "C" fn(*mut Record, usize) -> usize;
type Text = unsafe extern "C" fn(*mut u8, usize) -> usize;

/// The loaded library. It stays loaded: its threads are the device's clockwork.
#[derive(Debug)]
pub struct Software {
    library: ManuallyDrop<Library>,
}

impl Software {
    /// Loads the library, for all that is loaded after it. Must come before AMD's runtime.
    ///
    /// # Errors
    ///
    /// The library isn't there or can't be loaded.
    pub fn load() -> io::Result<Self> {
        let file = library()?;
        // SAFETY: our own library; it has no initializers.
        let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_GLOBAL) };
        let library = library.map_err(io::Error::other)?;
        Ok(Self { library: ManuallyDrop::new(library) })
    }

    /// Sets how the device is built. False if a value is out of range, or the device is in use
    /// already and more than the step budget and the seed would change.
    pub fn configure(&self, settings: &Settings) -> bool {
        let configure: Configure = self.symbol(b"reef_gfx906_configure\0");
        // SAFETY: the argument points to settings.
        unsafe { configure(settings) }
    }

    /// Holds or releases the device: while it is held, it takes up no packet, so that several
    /// launches can start together.
    pub fn hold(&self, held: bool) {
        let hold: extern "C" fn(bool) = self.symbol(b"reef_gfx906_hold\0");
        hold(held);
    }

    /// Counts of the device's work.
    pub fn counters(&self) -> Counters {
        let read: ReadCounters = self.symbol(b"reef_gfx906_counters\0");
        let mut counters = Counters::default();
        // SAFETY: the argument points to counters.
        unsafe { read(&raw mut counters) };
        counters
    }

    /// The workgroups that ran, in the order in which they were placed.
    pub fn trace(&self) -> Vec<Record> {
        let trace: Trace = self.symbol(b"reef_gfx906_trace\0");
        read_all(|out, room| {
            // SAFETY: there is room for as many as the second argument says.
            unsafe { trace(out, room) }
        })
    }

    /// Empties the trace.
    pub fn forget_trace(&self) {
        let forget: extern "C" fn() = self.symbol(b"reef_gfx906_forget_trace\0");
        forget();
    }

    /// The last fault with its queue, launch, workgroup, address and instruction; empty if there
    /// was none.
    pub fn last_fault(&self) -> String {
        let fault: Text = self.symbol(b"reef_gfx906_last_fault\0");
        let text = read_all(|out, room| {
            // SAFETY: there is room for as many as the second argument says.
            unsafe { fault(out, room) }
        });
        String::from_utf8_lossy(&text).into_owned()
    }

    fn symbol<T: Copy>(&self, name: &[u8]) -> T {
        // SAFETY: this method is private, and each use names a function of `control` with the type
        // that it has there.
        let symbol = unsafe { self.library.get::<T>(name) };
        *symbol.expect("the library was built with this one")
    }
}

/// Reads a list whose length is known only when it is read.
fn read_all<T>(read: impl Fn(*mut T, usize) -> usize) -> Vec<T> {
    let mut items = Vec::new();
    loop {
        let there = read(items.as_mut_ptr(), items.capacity());
        if there <= items.capacity() {
            // SAFETY: that many were written, and there is room for them.
            unsafe { items.set_len(there) };
            return items;
        }
        items.reserve(there);
    }
}
