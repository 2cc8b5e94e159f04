//! State of a process as the kernel tells it, and its liveness, by its ID and its start time.

use std::{fs, io};

/// Numbers of a process in `/proc/PID/stat` (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    state: char,
    /// Process that started it.
    pub parent: u32,
    /// Start time in ticks since the boot.
    pub start: u64,
}

impl ProcessStat {
    /// Reads the numbers of a process.
    ///
    /// # Errors
    ///
    /// There is none of this number.
    #[expect(clippy::disallowed_methods, reason = "of /proc")]
    pub fn of(process: u32) -> io::Result<Self> {
        let file = format!("/proc/{process}/stat");
        let text = fs::read(&file)?;
        Self::parse(&text).ok_or_else(|| io::Error::other(format!("{file}: numbers are missing")))
    }

    /// Parses the file. A program chooses its name, which may have blanks, parentheses and bytes
    /// that are not text: the kernel cuts it after 15 bytes, also inside of a character.
    fn parse(text: &[u8]) -> Option<Self> {
        let name_end = text.iter().rposition(|byte| *byte == b')')?;
        let numbers = std::str::from_utf8(&text[name_end + 1..]).ok()?;
        let fields: Vec<&str> = numbers.split_ascii_whitespace().collect();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Returns the start time of this process, in ticks since boot. Zero: unknown.
pub(super) fn own_start() -> u64 {
    start_of(std::process::id()).unwrap_or(0)
}

/// Returns the start time of a process, in ticks since boot. `None`: there is none of this number.
pub fn start_of(process: u32) -> Option<u64> {
    ProcessStat::of(process).ok().map(|stat| stat.start)
}

/// Returns whether a process has ended, as far as can be seen from here. A process of another
/// namespace looks ended or like a different one; its lock in the accounts file counts then.
pub fn is_gone(process: u32, started: u64) -> bool {
    match ProcessStat::of(process) {
        Err(_) => true,
        Ok(stat) if stat.start != started => true,
        // The first thread has ended. Other threads may still run, and keep the memory.
        Ok(stat) if matches!(stat.state, 'Z' | 'X') => threads(process) <= 1,
        Ok(_) => false,
    }
}

/// Returns whether a process is stopped, by a signal or by a debugger.
pub(crate) fn is_stopped(process: u32) -> bool {
    ProcessStat::of(process).is_ok_and(|stat| matches!(stat.state, 'T' | 't'))
}

fn threads(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::io::{Read, Write};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn process_is_gone_only_after_its_end() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let started = start_of(child.id()).unwrap();
        assert!(!is_gone(child.id(), started) && is_gone(child.id(), started + 1));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(is_gone(child.id(), started));
        assert!(!is_gone(std::process::id(), own_start()));
    }

    #[test]
    fn process_with_a_name_of_any_bytes_is_not_gone() {
        let folder = tempfile::tempdir().unwrap();
        // Fifteen bytes, the last of which begins a letter of two.
        let program = folder.path().join(OsStr::from_bytes(b") R 1 2 3 (cat\xd0\xbe"));
        std::os::unix::fs::symlink("/bin/cat", &program).unwrap();
        let mut child = Command::new(&program);
        child.arg0("cat").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        to.write_all(b"x").unwrap();
        from.read_exact(&mut [0]).unwrap(); // it has its name
        let comm = fs::read(format!("/proc/{}/comm", child.id())).unwrap();
        let stat = ProcessStat::of(child.id());
        let is_gone = stat.as_ref().is_ok_and(|stat| is_gone(child.id(), stat.start));
        drop(to);
        child.wait().unwrap();
        assert_eq!(comm, b") R 1 2 3 (cat\xd0\n");
        assert_eq!((stat.unwrap().parent, is_gone), (std::process::id(), false));
    }

    #[test]
    fn stat_without_its_numbers_is_refused() {
        let whole = "7 (a) S 3 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0";
        let stat = ProcessStat { state: 'S', parent: 3, start: 99 };
        assert_eq!(ProcessStat::parse(whole.as_bytes()), Some(stat));
        for bad in ["", "7 (a", "7 (a)", "7 (a) S", "7 (a) S x", &whole[..40]] {
            assert_eq!(ProcessStat::parse(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
