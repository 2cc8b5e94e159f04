//! Memory of other processes.

use std::os::unix::fs::FileExt;

/// All memory of a process that it may write, as far as it can be read.
pub(crate) fn memory_of(pid: u32) -> Vec<u8> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut all = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (begin, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [begin, end] = [begin, end].map(|at| u64::from_str_radix(at, 16).unwrap());
        let mut bytes = vec![0; ((end - begin) as usize).min(64 << 20)];
        if memory.read_exact_at(&mut bytes, begin).is_ok() {
            all.extend(bytes);
        }
    }
    all
}
