//! Process with its descendants: CRIU writes all of them.

use crate::api::Api;
use crate::error::Error;
use crate::written::criu::signal;
use crate::written::proc::entries;
use reef_guest::limit::ProcessStat;
use std::fs;
use std::io;

/// Beginnings of the names of threads that NCCL and PyTorch's process groups start.
const NCCL_THREADS: [&str; 2] = ["NCCL", "pt_nccl"];
/// Shared memory by which NCCL's ranks of a machine are connected.
const NCCL_MEMORY: &str = "/dev/shm/nccl-";
/// Beginning of the names of the driver's files.
const DRIVER_FILES: &str = "/dev/nvidia";

/// Numbers of a process and of its descendants, the process first.
#[derive(Debug)]
pub(crate) struct Tree(Vec<u32>);

impl Tree {
    /// Finds the descendants of a process.
    pub(crate) fn of(root: u32) -> Self {
        let parents: Vec<(u32, u32)> = entries("/proc")
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(|pid| Some((pid, parent(pid)?)))
            .collect();
        Self(descendants(root, &parents))
    }

    pub(crate) fn pids(&self) -> &[u32] {
        &self.0
    }

    /// Returns the processes that have a context of the driver: the first one of the tree if none
    /// has, for which the driver then says why it can't be suspended.
    ///
    /// # Errors
    ///
    /// `Criu`: a process has a mount namespace of its own, the driver's files without a context of
    /// its own, or NCCL's connections.
    pub(crate) fn with_contexts(&self, api: &impl Api) -> Result<Vec<u32>, Error> {
        let mut all = self.with_contexts_by(&|pid| api.state(pid).is_ok())?;
        if all.is_empty() {
            all.extend(self.0.first());
        }
        Ok(all)
    }

    /// Returns the processes for which `has_context` is true; none if there are none.
    ///
    /// # Errors
    ///
    /// Errors of [`with_contexts`](Self::with_contexts).
    pub(crate) fn with_contexts_by(
        &self,
        has_context: &dyn Fn(u32) -> bool,
    ) -> Result<Vec<u32>, Error> {
        let failed = |pid: u32, why: &str| Error::Criu { why: format!("process {pid}: {why}") };
        let mut all = Vec::new();
        for pid in &self.0 {
            if has_mounts(*pid) {
                let why = "a program with a mount namespace of its own cannot be written: CRIU \
                           does not find the files that it had before. `reef exec` makes one to \
                           mount the library over the driver's files: start it with --bind never";
                return Err(failed(*pid, why));
            }
            if has_nccl(*pid) {
                let why = "a program with NCCL cannot be written: its connections to other \
                           processes and GPUs are not saved";
                return Err(failed(*pid, why));
            }
            if has_context(*pid) {
                all.push(*pid);
            } else if has_driver_files(*pid) {
                let why = "a process with the driver's files and without a context cannot be \
                           written, such as a worker that was forked after the first use of the \
                           GPU: start workers by spawn or forkserver";
                return Err(failed(*pid, why));
            }
        }
        Ok(all)
    }

    /// Has all go on, or ends all.
    ///
    /// # Errors
    ///
    /// Error of the first process.
    pub(crate) fn signal(&self, name: &str) -> io::Result<()> {
        let mut results = self.0.iter().map(|pid| signal(*pid, name));
        let first = results.next().unwrap_or(Ok(()));
        results.for_each(drop); // one that has ended before
        first
    }
}

/// The process, its children, their children, and so on.
fn descendants(root: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut all = vec![root];
    let mut at = 0;
    // A number that another process has got meanwhile could make a circle.
    while at < all.len() && all.len() <= parents.len() {
        let parent = all[at];
        all.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    all
}

fn parent(pid: u32) -> Option<u32> {
    ProcessStat::of(pid).ok().map(|stat| stat.parent)
}

/// Returns whether a process has another mount namespace than this one.
fn has_mounts(pid: u32) -> bool {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/mnt")).ok();
    matches!((namespace("self"), namespace(&pid.to_string())), (Some(own), Some(its)) if own != its)
}

fn has_nccl(pid: u32) -> bool {
    let comm = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm"));
    let mut names = entries(format!("/proc/{pid}/task")).flat_map(comm);
    let is_its = |name: String| NCCL_THREADS.iter().any(|begin| name.starts_with(begin));
    names.any(is_its)
        || fs::read(format!("/proc/{pid}/maps"))
            .is_ok_and(|maps| String::from_utf8_lossy(&maps).contains(NCCL_MEMORY))
}

fn has_driver_files(pid: u32) -> bool {
    let mut links = entries(format!("/proc/{pid}/fd")).flat_map(|file| fs::read_link(file.path()));
    links.any(|to| to.to_string_lossy().starts_with(DRIVER_FILES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn descendants_are_those_of_the_process_alone() {
        let parents = [(1, 0), (2, 1), (3, 2), (4, 1), (5, 3), (6, 4)];
        assert_eq!(descendants(2, &parents), [2, 3, 5]);
        assert_eq!(descendants(9, &parents), [9]);
        let circle = [(1, 2), (2, 1)];
        assert_eq!(descendants(1, &circle)[..2], [1, 2]);
    }

    #[test]
    fn child_belongs_to_the_tree_of_its_parent() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let own = Tree::of(std::process::id());
        assert_eq!(own.pids()[0], std::process::id());
        assert!(own.pids().contains(&child.id()));
        assert_eq!(Tree::of(child.id()).pids(), [child.id()]);
        assert!(!has_nccl(child.id()) && !has_driver_files(child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn thread_of_a_process_group_shows_nccl() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (begin, begun) = std::sync::mpsc::channel();
        let name = "pt_nccl_watchdg".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            begin.send(()).unwrap();
            let _ = ended.recv();
        });
        begun.recv().unwrap();
        assert!(has_nccl(std::process::id()));
        drop(end);
        thread.unwrap().join().unwrap();
    }
}
