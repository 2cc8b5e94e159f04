//! Threads of processes, and folders of the system's, in `/proc`.

use std::fs;
use std::path::{Path, PathBuf};

/// Entries of a folder; none if it is not there, as that of a process that has ended.
pub(super) fn entries(folder: impl AsRef<Path>) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

/// Folders of the threads of a process that have this name.
pub(super) fn threads(pid: u32, name: &str) -> Vec<PathBuf> {
    let tasks = entries(format!("/proc/{pid}/task")).map(|task| task.path());
    let comm = |task: &PathBuf| fs::read_to_string(task.join("comm"));
    tasks.filter(|task| comm(task).is_ok_and(|found| found.trim_end() == name)).collect()
}
