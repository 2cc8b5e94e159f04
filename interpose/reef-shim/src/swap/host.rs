//! Memory of the host that keeps what has left the device.

use std::ffi::c_void;
use std::io;
use std::path::Path;
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

    /// Gives the system the pages of a part back. Its bytes are lost: it can be written again, page
    /// by page as at first.
    pub(super) fn release(&self, begin: usize, bytes: usize) {
        let at = self.part(begin, bytes).cast::<c_void>();
        // SAFETY: inside of the mapping, and no reference to its bytes exists. Refused: they stay.
        unsafe { libc::madvise(at, bytes, libc::MADV_DONTNEED) };
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: a mapping of ours that nothing else refers to.
        unsafe { libc::munmap(self.at.cast::<c_void>(), self.bytes) };
    }
}

/// Returns the bytes that the host has available, and that the program's control groups leave it.
/// `None`: the system doesn't say.
fn available() -> Option<u64> {
    let text = read(Path::new("/proc/meminfo"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let host = kib.checked_mul(1024)?;
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    Some(host.min(left_by_groups(Path::new("/sys/fs/cgroup"), group)))
}

/// Bytes that a group of version 2 and those around it leave to its processes: the limit less what
/// is used. Files in the page cache count as free, because the kernel drops them before.
fn left_by_groups(root: &Path, group: &str) -> u64 {
    let number = |folder: &Path, name: &str| read(&folder.join(name))?.trim().parse::<u64>().ok();
    let left = |folder: &Path| {
        let limit = number(folder, "memory.max")?; // "max" is none
        let used = number(folder, "memory.current")?;
        let files = read(&folder.join("memory.stat")).unwrap_or_default();
        let files = files.lines().find_map(|line| line.strip_prefix("inactive_file "));
        let files = files.and_then(|bytes| bytes.parse::<u64>().ok()).unwrap_or(0);
        Some(limit.saturating_sub(used.saturating_sub(files)))
    };
    let folder = root.join(group);
    let around = folder.ancestors().take_while(|folder| folder.starts_with(root));
    around.filter_map(left).min().unwrap_or(u64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "a file of the kernel")]
fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_part_is_new_and_the_rest_stays() {
        let (unit, host) = (1 << 20, HostMemory::new(3 << 20).unwrap());
        // SAFETY: the mapping of a moment ago.
        unsafe { host.part(0, 3 * unit).write_bytes(7, 3 * unit) };
        host.release(unit, unit);
        // SAFETY: `host` has three units mapped, and no other thread uses them.
        let at = |byte: usize| unsafe { host.part(byte, 1).read() };
        let ends = [0, unit - 1, unit, 2 * unit - 1, 2 * unit, 3 * unit - 1].map(at);
        assert_eq!(ends, [7, 7, 0, 0, 7, 7]);
        // SAFETY: `host` has three units mapped, and no other thread uses them.
        unsafe { host.part(unit, 1).write(5) };
        assert_eq!(at(unit), 5, "it is written again");
    }

    #[test]
    fn smallest_group_around_the_program_counts() {
        let root = std::env::temp_dir().join(format!("reef-groups-{}", std::process::id()));
        let pod = root.join("pod");
        std::fs::create_dir_all(pod.join("container")).unwrap();
        let put = |name: &str, text: &str| std::fs::write(pod.join(name), text).unwrap();
        put("container/memory.max", "max\n");
        put("memory.max", "1000\n");
        put("memory.current", "900\n");
        assert_eq!(left_by_groups(&root, "pod/container"), 100);
        put("memory.stat", "anon 600\ninactive_file 300\nactive_file 0\n");
        assert_eq!(left_by_groups(&root, "pod/container"), 400, "files can go");
        assert_eq!(left_by_groups(&root, "other"), u64::MAX, "without a limit");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
