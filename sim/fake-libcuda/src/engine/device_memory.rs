//! Bytes of the device that are taken, by this process and by others with the same file
//! (`REEF_FAKE_MEMORY`). Bytes of a process that was killed are free again once its files are
//! closed.

use super::settings::setting;
use std::os::fd::AsRawFd;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// Maximum number of processes that share a device.
const MAX_PROCESSES: usize = 64;
/// Word for the most bytes that were ever taken, behind the words of the processes.
const PEAK: usize = MAX_PROCESSES;
/// Words for the numbers of the processes, which the fake management library reads.
const PIDS: usize = PEAK + 1;

/// Word that is not zero once a process has memory of another one.
const ARE_ANY_KEPT: usize = PIDS + MAX_PROCESSES;
/// Words for what each process has of each other one's memory: it counts once that one has ended.
const KEPT: usize = ARE_ANY_KEPT + 1;

/// A piece of memory by its handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: u64,
    pub(crate) references: u64,
    /// Number of mappings: to addresses, in arrays, in multicast objects.
    pub(crate) mappings: u64,
    /// Number of exports that a file somewhere keeps.
    pub(crate) exports: u64,
    /// The process that has made it, if that is another one.
    pub(crate) owner: Option<usize>,
}

/// A file of words, whose byte N is locked by process N, and the byte behind these by a process
/// that changes something.
#[derive(Debug)]
struct Shared {
    file: std::fs::File,
    own: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Usage {
    own: u64,
    peak: u64,
    shared: Option<Shared>,
}

static TAKEN: LazyLock<Mutex<Usage>> = LazyLock::new(|| {
    let shared = std::env::var_os("REEF_FAKE_MEMORY").map(|path| {
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        Shared::join(file.expect("REEF_FAKE_MEMORY"))
    });
    Mutex::new(Usage { shared, ..Usage::default() })
});

fn taken() -> MutexGuard<'static, Usage> {
    TAKEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn lock(file: &std::fs::File, byte: usize, how: i32, kind: i32) -> bool {
    // SAFETY: all zero is a value of this struct.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    (lock.l_start, lock.l_len) = (byte as i64, 1);
    // SAFETY: an open file, and a struct that lives as long as the call.
    unsafe { libc::fcntl(file.as_raw_fd(), how, &raw mut lock) == 0 }
}

/// Bytes of the device: `REEF_FAKE_BYTES`.
pub(crate) fn capacity() -> u64 {
    setting("REEF_FAKE_BYTES", 1 << 30)
}

/// Takes bytes of the device. Returns false if it has fewer.
pub(crate) fn take(bytes: u64) -> bool {
    let mut taken = taken();
    let others = taken.locked(Usage::others);
    let now = (taken.own + others).saturating_add(bytes);
    if now > capacity() {
        return false;
    }
    taken.own += bytes;
    taken.locked(|taken| taken.write(now));
    true
}

/// Bytes of this process.
pub(crate) fn own() -> u64 {
    taken().own
}

/// Gives bytes back.
pub(crate) fn give_back(bytes: u64) {
    let mut taken = taken();
    taken.own -= bytes;
    taken.locked(|taken| taken.write(0));
}

/// The number of this process among those that share the device.
pub(crate) fn own_place() -> usize {
    taken().shared.as_ref().map_or(0, |shared| shared.own)
}

/// Keeps bytes of another process, also after its end.
pub(crate) fn keep(owner: usize, bytes: u64) {
    taken().locked(|taken| taken.change_kept(owner, |kept| kept + bytes));
}

/// Ends that.
pub(crate) fn leave(owner: usize, bytes: u64) {
    taken().locked(|taken| taken.change_kept(owner, |kept| kept - bytes));
}

/// Bytes that are taken now, and the most that ever were.
pub(crate) fn read() -> (u64, u64) {
    let mut taken = taken();
    taken.locked(|taken| {
        let now = taken.own + taken.others();
        (now, taken.peak.max(taken.shared.as_ref().map_or(0, |shared| shared.word(PEAK))))
    })
}

impl Usage {
    /// Runs something while no other process changes the file.
    fn locked<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        let whole = |taken: &Self, kind| {
            taken.shared.iter().for_each(|shared| {
                lock(&shared.file, MAX_PROCESSES, libc::F_OFD_SETLKW, kind);
            });
        };
        whole(self, libc::F_WRLCK);
        let result = run(self);
        whole(self, libc::F_UNLCK);
        result
    }

    /// Bytes of other processes that live.
    fn others(&mut self) -> u64 {
        let Some(shared) = &self.shared else { return 0 };
        let others = (0..MAX_PROCESSES).filter(|at| *at != shared.own);
        let own: u64 = others
            .filter(|at| shared.word(*at) > 0 && shared.lives(*at))
            .map(|at| shared.word(at))
            .sum();
        own + shared.sum_kept()
    }

    /// Changes what this process has of another one's memory.
    fn change_kept(&mut self, owner: usize, change: impl FnOnce(u64) -> u64) {
        let Some(shared) = &self.shared else { return };
        let word = KEPT + shared.own * MAX_PROCESSES + owner;
        shared.set(word, change(shared.word(word)));
        shared.set(ARE_ANY_KEPT, 1);
    }

    /// Writes what this process has, and a new peak.
    fn write(&mut self, now: u64) {
        self.peak = self.peak.max(now);
        let Some(shared) = &self.shared else { return };
        shared.set(shared.own, self.own);
        shared.set(PEAK, shared.word(PEAK).max(now));
    }
}

impl Shared {
    /// Takes the first free place. What a dead process has left there is gone before anybody takes
    /// it for this one's; where memory of dead processes is kept, their places are not taken.
    fn join(file: std::fs::File) -> Self {
        lock(&file, MAX_PROCESSES, libc::F_OFD_SETLKW, libc::F_WRLCK);
        let mut shared = Self { file, own: 0 };
        let are_any_kept = shared.word(ARE_ANY_KEPT) != 0;
        let own = (0..MAX_PROCESSES).find(|at| {
            let is_fresh = !are_any_kept || shared.word(PIDS + at) == 0;
            is_fresh && lock(&shared.file, *at, libc::F_OFD_SETLK, libc::F_WRLCK)
        });
        shared.own = own.expect("a place");
        shared.set(shared.own, 0);
        shared.set(PIDS + shared.own, u64::from(std::process::id()));
        lock(&shared.file, MAX_PROCESSES, libc::F_OFD_SETLKW, libc::F_UNLCK);
        shared
    }

    fn word(&self, at: usize) -> u64 {
        use std::os::unix::fs::FileExt;
        let mut bytes = [0; 8];
        let _ = self.file.read_exact_at(&mut bytes, 8 * at as u64); // not written yet: zero
        u64::from_le_bytes(bytes)
    }

    fn set(&self, at: usize, value: u64) {
        use std::os::unix::fs::FileExt;
        self.file.write_all_at(&value.to_le_bytes(), 8 * at as u64).expect("REEF_FAKE_MEMORY");
    }

    /// Bytes that living processes have of ended ones.
    fn sum_kept(&self) -> u64 {
        if self.word(ARE_ANY_KEPT) == 0 {
            return 0;
        }
        let lives = |at: &usize| *at == self.own || (self.word(PIDS + at) != 0 && self.lives(*at));
        let (living, ended): (Vec<usize>, Vec<usize>) = (0..MAX_PROCESSES).partition(lives);
        let has = |at: &usize| {
            ended.iter().map(|of| self.word(KEPT + at * MAX_PROCESSES + of)).sum::<u64>()
        };
        living.iter().map(has).sum()
    }

    /// Returns whether a process has this lock. Bytes of a dead one are forgotten.
    fn lives(&self, at: usize) -> bool {
        let is_dead = lock(&self.file, at, libc::F_OFD_SETLK, libc::F_WRLCK);
        if is_dead {
            self.set(at, 0);
            lock(&self.file, at, libc::F_OFD_SETLK, libc::F_UNLCK);
        }
        !is_dead
    }
}
