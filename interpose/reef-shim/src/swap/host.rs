//! Memory of the host that keeps what has left the device.

use std::ffi::c_void;
use std::io;
use std::ptr;

/// Anonymous memory in large pages, where the system has them.
#[derive(Debug)]
pub(super) struct HostMemory {
    at: *mut u8,
    bytes: usize,
}

// SAFETY: the address of memory that this value owns; it is read and written by raw pointers alone.
unsafe impl Send for HostMemory {}
// SAFETY: a shared reference gives only addresses. Reads and writes are by raw pointers, which
// their users keep in order.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Maps memory. It is taken from the system page by page, when it is first written.
    ///
    /// # Errors
    ///
    /// Too little of the host's memory is available, or the system refuses.
    pub(super) fn new(bytes: usize) -> Result<Self, String> {
        let has = available().unwrap_or(u64::MAX);
        let needs = bytes as u64 + bytes as u64 / 16;
        if has < needs {
            let mib = |bytes: u64| bytes >> 20;
            let (has, needs) = (mib(has), mib(needs));
            return Err(format!("the host must have {needs} MiB available, has {has}"));
        }
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, which this value owns.
        let at = unsafe {
            let flags = flags | libc::MAP_NORESERVE;
            libc::mmap(ptr::null_mut(), bytes.max(1), protection, flags, -1, 0)
        };
        if at == libc::MAP_FAILED {
            return Err(format!("mmap of {bytes} bytes: {}", io::Error::last_os_error()));
        }
        // SAFETY: the mapping of a moment ago. Refused: pages are small.
        unsafe { libc::madvise(at, bytes.max(1), libc::MADV_HUGEPAGE) };
        Ok(Self { at: at.cast(), bytes: bytes.max(1) })
    }

    /// Returns the address of a part.
    pub(super) fn part(&self, begin: usize, bytes: usize) -> *mut u8 {
        assert!(begin.checked_add(bytes).is_some_and(|end| end <= self.bytes));
        // SAFETY: inside of the mapping, as was just asserted.
        unsafe { self.at.add(begin) }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: a mapping of ours that nothing else refers to.
        unsafe { libc::munmap(self.at.cast::<c_void>(), self.bytes) };
    }
}

/// Returns the bytes that the host has available. `None`: the system doesn't say.
#[expect(clippy::disallowed_methods, reason = "a file of the kernel")]
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
