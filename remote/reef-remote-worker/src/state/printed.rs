//! Text that kernels print: the driver writes it to this process's output when it has waited.

use super::lock::lock;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, OnceLock};

/// Maximum number of bytes that are taken at once.
const MAX_LEN: u64 = 1 << 20;

/// The output of this process: a file in memory, so that a write to it never waits.
#[derive(Debug)]
pub(crate) struct Printed {
    file: File,
    taken: Mutex<u64>,
}

impl Printed {
    /// Puts the file in the place of this process's output, once.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    pub(crate) fn begin() -> std::io::Result<()> {
        let file = memfd_create("reef-printed", MemfdFlags::CLOEXEC)?;
        rustix::stdio::dup2_stdout(&file)?;
        let printed = Self { file: file.into(), taken: Mutex::new(0) };
        let _ = PRINTED.set(printed); // this process has one session
        Ok(())
    }

    /// Calls `send` with what has been printed since the last time, in order, if there is anything.
    pub(crate) fn take(send: impl Fn(&[u8])) {
        let Some(this) = PRINTED.get() else { return };
        // SAFETY: writes what the streams of this process hold.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        let mut taken = lock(&this.taken);
        loop {
            let end = this.file.metadata().map_or(0, |metadata| metadata.len());
            if end <= *taken {
                return;
            }
            let mut bytes = vec![0; (end - *taken).min(MAX_LEN) as usize];
            match this.file.read_at(&mut bytes, *taken) {
                Ok(len @ 1..) => {
                    send(&bytes[..len]);
                    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    let _ = fallocate(&this.file, flags, *taken, len as u64); // memory stays in use
                    *taken += len as u64;
                }
                _ => return,
            }
        }
    }
}

static PRINTED: OnceLock<Printed> = OnceLock::new();
