//! Tests of accounts of several processes, which are several open files in one process here.

use super::process::start_of;
use super::{AccountsFile, Audit, Full, Policy, SavedSlot, Slot};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Folder of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("reef-accounts-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path); // of a test that was killed
        Self(path)
    }

    fn join(&self, name: &str, memory: u64) -> std::io::Result<Slot> {
        let file = AccountsFile::open(&self.0, b"sixteen bytes id")?;
        Slot::join(file, name, Some(memory), None)
    }

    /// First slot of this process.
    fn saved(&self) -> SavedSlot {
        let path = self.0.join(FILE);
        let file = std::fs::OpenOptions::new().read(true).open(&path).unwrap();
        let process = std::process::id();
        let started = start_of(process).unwrap();
        assert_eq!(SavedSlot::read(&file, path.clone(), process, started + 1).unwrap(), None);
        SavedSlot::read(&file, path, process, started).unwrap().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn processes_of_a_job_share_one_limit() {
    let folder = Folder::new("jobs");
    let [one, two] = [(); 2].map(|()| folder.join("job", 100).unwrap());
    let other = folder.join("other", 50).unwrap();
    assert_eq!(one.account().reserve(60), Ok(()));
    assert_eq!(two.account().reserve(41), Err(Full { asked: 41, used: 60, limit: 100 }));
    assert_eq!(two.account().reserve(40), Ok(()));
    assert_eq!(other.account().reserve(50), Ok(()));
    assert_eq!(other.account().reserve(u64::MAX).unwrap_err().used, 50);
    one.account().give_back(10);
    assert_eq!((two.account().used(), two.account().own()), (90, 40));
    drop(one);
    assert_eq!(two.account().used(), 40, "its memory is given back");
    assert_eq!(two.reclaim().unwrap(), 0, "no process has died");
}

#[test]
fn process_is_charged_as_long_as_it_has_a_slot() {
    let folder = Folder::new("slots");
    let [one, two] = [(); 2].map(|()| folder.join("job", 100).unwrap());
    let (account, process) = (one.account(), std::process::id());
    let started = start_of(process).unwrap();
    assert!(account.has_process(process, started));
    assert!(!account.has_process(process, started + 1), "another process of this number");
    drop((one, two));
    assert!(!account.has_process(process, started));
}

/// The first slot stands for that of a process which was written to a folder and has ended.
#[test]
fn written_process_returns_to_its_slot_and_memory() {
    let folder = Folder::new("saved");
    let one = folder.join("job", 100).unwrap();
    one.account().reserve(60).unwrap();
    let slot = folder.saved();
    assert_eq!(SavedSlot::new(slot.path().to_owned(), &slot.words()).unwrap(), slot);
    let error = slot.reserve().unwrap_err().to_string();
    assert!(error.starts_with("the slot in the accounts must be free, process "), "{error}");
    drop(one);
    let two = folder.join("job", 100).unwrap();
    two.account().reserve(41).unwrap();
    let error = slot.reserve().unwrap_err().to_string();
    assert!(error.starts_with("its job has ") && error.contains("and it needs "), "{error}");
    assert_eq!(two.account().used(), 41, "nothing was done");
    two.account().give_back(41);
    drop(slot.reserve().unwrap());
    assert_eq!(two.account().used(), 0, "a start that fails leaves nothing");
    let reserved = slot.reserve().unwrap();
    assert_eq!(two.account().reserve(41), Err(Full { asked: 41, used: 60, limit: 100 }));
    reserved.hand_over(start_of(std::process::id()).unwrap());
    assert_eq!((two.reclaim().unwrap(), two.account().used()), (0, 60), "its process lives");
}

#[test]
fn written_process_has_its_limit_without_old_accounts() {
    let folder = Folder::new("saved-gone");
    let one = folder.join("job", 100).unwrap();
    one.account().reserve(60).unwrap();
    let slot = folder.saved();
    drop(one);
    std::fs::remove_dir_all(&folder.0).unwrap();
    let _reserved = slot.reserve().unwrap();
    let two = folder.join("job", 100).unwrap();
    assert_eq!(two.account().reserve(41), Err(Full { asked: 41, used: 60, limit: 100 }));
    two.account().reserve(40).unwrap();
    let error = folder.join("job", 50).unwrap_err().to_string();
    assert!(error.contains("others of it run with"), "{error}");
}

#[test]
fn written_process_is_refused_where_its_account_is_taken() {
    let folder = Folder::new("saved-taken");
    let first = folder.join("first", 1).unwrap();
    let one = folder.join("job", 100).unwrap();
    drop(first);
    let slot = folder.saved();
    drop(one);
    std::fs::remove_dir_all(&folder.0).unwrap();
    let other = folder.join("job", 100).unwrap();
    let error = slot.reserve().unwrap_err().to_string();
    assert!(error.starts_with("other programs of its job must end first"), "{error}");
    drop(other);
    let reserved = slot.reserve().unwrap();
    let next = folder.join("job", 100).unwrap();
    assert_eq!(next.account().job(), 1, "one place, where its process is");
    drop((reserved, next));
    std::fs::remove_dir_all(&folder.0).unwrap();
    let _a = folder.join("a", 1).unwrap();
    let b = folder.join("b", 1).unwrap();
    let _second = folder.join("b", 1).unwrap();
    drop(b);
    let error = slot.reserve().unwrap_err().to_string();
    assert!(error.starts_with("the account of its job must be free"), "{error}");
}

/// A start by root, after a reboot.
#[test]
fn accounts_of_another_user_are_made_with_its_rights() {
    use std::os::unix::fs::{MetadataExt, chown, symlink};
    const OTHER: u32 = 65_534;
    let (own, folder) = (Folder::new("saved-own"), Folder::new("saved-other"));
    let one = own.join("job", 100).unwrap();
    let mut words = own.saved().words();
    drop(one);
    words[3..5].fill(OTHER.into());
    std::fs::create_dir(&folder.0).unwrap();
    let is_root = chown(&folder.0, Some(OTHER), Some(OTHER)).is_ok();
    let is_open = |path: &std::path::Path| path.metadata().is_ok_and(|of| of.mode() & 1 == 1);
    if !is_root || !std::env::temp_dir().ancestors().all(is_open) {
        return eprintln!("skipped: needs root, and a folder that is open to all users");
    }
    let path = folder.0.join("accounts").join(FILE);
    drop(SavedSlot::new(path.clone(), &words).unwrap().reserve().unwrap());
    for made in [&*path, path.parent().unwrap()] {
        assert_eq!(made.metadata().unwrap().uid(), OTHER, "{}", made.display());
    }
    let link = folder.0.join("link");
    symlink(&own.0, &link).unwrap();
    let path = link.join("accounts").join(FILE);
    assert!(SavedSlot::new(path, &words).unwrap().reserve().is_err());
    assert!(!own.0.join("accounts").exists(), "the user may make nothing there");
    std::fs::write(own.0.join("mine"), "").expect("the rights of before");
}

#[test]
fn new_process_takes_the_slot_that_was_left_first() {
    let folder = Folder::new("order");
    let [one, two] = ["one", "two"].map(|name| folder.join(name, 1).unwrap());
    drop((one, two));
    let three = folder.join("three", 1).unwrap();
    assert_eq!((three.account().place(), three.account().job()), (2, 2), "none of those two");
    assert_eq!(folder.join("two", 1).unwrap().account().job(), 1, "a job keeps its place");
}

#[test]
fn job_keeps_its_limits_while_it_has_processes() {
    let folder = Folder::new("terms");
    let one = folder.join("job", 8 << 30).unwrap();
    let error = folder.join("job", 4 << 30).unwrap_err().to_string();
    assert_eq!(error, "job: 4 GiB asked, but others of it run with 8 GiB");
    drop(one);
    assert_eq!(folder.join("job", 4 << 30).unwrap().account().limit(), 4 << 30);
}

#[test]
fn full_accounts_file_is_an_error() {
    let folder = Folder::new("full");
    let slots: Vec<_> = (0..32).map(|job| folder.join(&job.to_string(), 1).unwrap()).collect();
    let error = folder.join("one more", 1).unwrap_err().to_string();
    assert_eq!(error, "32 jobs with limits are on this device");
    let more: Vec<_> = (32..128).map(|_| folder.join("0", 1).unwrap()).collect();
    let error = folder.join("0", 1).unwrap_err().to_string();
    assert_eq!(error, "128 processes with limits are on this device already");
    drop((slots, more));
    folder.join("one more", 1).unwrap();
}

#[test]
fn a_folder_or_a_file_of_something_else_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("foreign");
    std::fs::create_dir(&folder.0).unwrap();
    std::fs::set_permissions(&folder.0, PermissionsExt::from_mode(0o777)).unwrap();
    let error = folder.join("job", 1).unwrap_err().to_string();
    assert!(error.contains("must be a folder of user ") && error.ends_with("mode 777"), "{error}");
    std::fs::set_permissions(&folder.0, PermissionsExt::from_mode(0o700)).unwrap();
    let file = folder.0.join("7369787465656e206279746573206964.accounts");
    std::fs::write(&file, [7; super::ACCOUNTS_BYTES]).unwrap();
    let error = folder.join("job", 1).unwrap_err().to_string();
    assert!(error.ends_with("not accounts: they begin with 0x707070707070707"), "{error}");
    std::fs::write(&file, "a diary").unwrap();
    let error = folder.join("job", 1).unwrap_err().to_string();
    assert!(error.ends_with("not accounts: must have 24576 bytes, got 7"), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), b"a diary");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/dev/null", &file).unwrap();
    assert!(folder.join("job", 1).is_err(), "a link");
}

/// A write to a block that a full file system lacks would end the process.
#[test]
fn new_and_sparse_accounts_files_get_all_their_blocks() {
    use std::os::unix::fs::MetadataExt;
    let folder = Folder::new("blocks");
    let file = folder.0.join(FILE);
    let bytes = super::ACCOUNTS_BYTES as u64;
    let is_whole = || std::fs::metadata(&file).unwrap().blocks() * 512 >= bytes;
    drop(folder.join("job", 1).unwrap());
    let new = std::fs::File::create(&file).unwrap();
    let gives = rustix::fs::fallocate(&new, rustix::fs::FallocateFlags::empty(), 0, bytes).is_ok();
    if !gives || !is_whole() {
        return eprintln!("skipped: no blocks ahead of writes");
    }
    std::fs::remove_file(&file).unwrap();
    drop(folder.join("job", 1).unwrap());
    assert!(is_whole(), "a new one");
    let sparse = std::fs::File::create(&file).unwrap();
    sparse.set_len(bytes).unwrap();
    drop(folder.join("job", 1).unwrap());
    assert!(is_whole(), "one of a process that ended before");
}

#[test]
fn threads_of_several_processes_never_pass_the_limit_together() {
    let folder = Folder::new("threads");
    let slots = [(); 3].map(|()| folder.join("job", 1000).unwrap());
    let held = &AtomicU64::new(0);
    std::thread::scope(|scope| {
        for (at, slot) in slots.iter().chain(&slots).enumerate() {
            scope.spawn(move || {
                let (account, mut random) = (slot.account(), at as u64);
                for _ in 0..2_000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let bytes = (random >> 33) % 400;
                    if account.reserve(bytes).is_ok() {
                        assert!(held.fetch_add(bytes, Relaxed) + bytes <= 1000);
                        held.fetch_sub(bytes, Relaxed);
                        account.give_back(bytes);
                    }
                }
            });
        }
    });
    assert_eq!(slots[0].account().used(), 0);
}

#[test]
fn audit_charges_contexts_and_reads_all_counts() {
    let folder = Folder::new("audit");
    let mut audit = Audit::new(folder.0.clone());
    audit.refresh().unwrap();
    assert_eq!(audit.jobs(), [], "there is no folder");
    let file = AccountsFile::open(&folder.0, b"sixteen bytes id").unwrap();
    let slot = Slot::join(file, "REEF_JOB=team", Some(100), Some(250_000)).unwrap();
    let (account, pid) = (slot.account(), std::process::id());
    account.reserve(30).unwrap();
    audit.refresh().unwrap();
    audit.charge(|device| {
        assert_eq!(device, b"sixteen bytes id");
        Some(vec![(1, Some(7)), (pid, Some(45))])
    });
    assert_eq!(account.reserve(56), Err(Full { asked: 56, used: 45, limit: 100 }));
    account.note_refused();
    account.note_waited(std::time::Duration::from_millis(3));
    account.charge(1, 5_000_000, Policy::Hard);
    let [job] = &audit.jobs()[..] else { panic!("{:?}", audit.jobs()) };
    assert_eq!((job.name.as_str(), job.memory, job.part), ("team", Some(100), Some(250_000)));
    assert_eq!((job.used, job.overhead, job.refused), (45, 15, 1));
    assert_eq!((job.waited.as_millis(), job.ran.as_millis()), (3, 5));
    let [process] = &job.processes[..] else { panic!("{:?}", job.processes) };
    assert_eq!((process.pid, process.used, process.overhead), (pid, 30, 15));
    for unknown in [None, Some(vec![(pid, None)])] {
        audit.charge(|_| unknown.clone());
        assert_eq!(account.overhead(), 15, "what isn't known stays");
    }
    audit.charge(|_| {
        account.give_back(30); // freed after the driver was asked
        Some(vec![(pid, Some(45))])
    });
    assert_eq!(account.overhead(), 15);
    audit.charge(|_| Some(Vec::new()));
    assert_eq!((account.overhead(), account.used()), (0, 0), "it has no context any more");
    drop(slot);
    assert_eq!(audit.jobs(), []);
}

#[test]
fn deleted_accounts_file_is_not_read_any_more() {
    let folder = Folder::new("audit-deleted");
    let (mut audit, slot) = (Audit::new(folder.0.clone()), folder.join("job", 100).unwrap());
    audit.refresh().unwrap();
    std::fs::remove_file(folder.0.join("7369787465656e206279746573206964.accounts")).unwrap();
    let _other = folder.join("other", 100).unwrap();
    audit.refresh().unwrap();
    assert_eq!(audit.jobs().iter().map(|job| &job.name[..]).collect::<Vec<_>>(), ["other"]);
    drop(slot);
}

/// Each of two daemons for the same device writes the overhead of a process, and doesn't add to it.
#[test]
fn two_daemons_charge_a_process_once() {
    let (folder, pid) = (Folder::new("two-daemons"), std::process::id());
    let slot = folder.join("job", 100).unwrap();
    slot.account().reserve(30).unwrap();
    let mut daemons = [(); 2].map(|()| Audit::new(folder.0.clone()));
    for _ in 0..3 {
        for daemon in &mut daemons {
            daemon.refresh().unwrap();
            daemon.charge(|_| Some(vec![(pid, Some(50))]));
        }
    }
    assert_eq!((slot.account().used(), slot.account().overhead()), (50, 20));
    let [mut first, mut second] = daemons;
    assert_eq!([first.is_alone().unwrap(), second.is_alone().unwrap()], [true, false]);
    assert!(first.is_alone().unwrap(), "still");
    drop(first);
    // A child that another test starts has the file too, until it has become its program.
    let begin = std::time::Instant::now();
    while !second.is_alone().unwrap() {
        assert!(begin.elapsed().as_secs() < 60, "the first one has ended");
        std::thread::yield_now();
    }
}

fn names(audit: &Audit) -> Vec<String> {
    audit.jobs().into_iter().map(|job| job.name).collect()
}

/// Name of a test's accounts file.
const FILE: &str = "7369787465656e206279746573206964.accounts";

/// A process that may write the file may shorten it, which would kill a reader that maps it.
#[test]
fn accounts_file_shortened_during_an_audit_has_no_jobs() {
    let folder = Folder::new("audit-shortened");
    let slot = folder.join("job", 100).unwrap();
    let mut audit = Audit::new(folder.0.clone());
    audit.refresh().unwrap();
    assert_eq!(names(&audit), ["job"]);
    let copy = folder.0.join("copy");
    std::fs::copy(folder.0.join(FILE), &copy).unwrap();
    drop(slot);
    std::fs::rename(&copy, folder.0.join(FILE)).unwrap();
    audit.refresh().unwrap();
    assert_eq!(names(&audit), ["job"], "of another file");
    std::fs::File::options().write(true).open(folder.0.join(FILE)).unwrap().set_len(0).unwrap();
    audit.charge(|_| Some(vec![(std::process::id(), Some(45))]));
    assert!(names(&audit).is_empty());
}

#[test]
fn audit_never_waits_and_opens_a_bounded_number_of_files() {
    let (folder, other) = (Folder::new("audit-many"), [7; 16]);
    let _slot = folder.join("job", 100).unwrap();
    for device in 0..200 {
        let name = format!("{:032x}.accounts", device + 1);
        std::fs::copy(folder.0.join(FILE), folder.0.join(name)).unwrap();
    }
    let joining = AccountsFile::open(&folder.0, &other).unwrap();
    assert!(joining.take(0).unwrap(), "a process that never ends joining");
    let mut audit = Audit::new(folder.0.clone());
    for _ in 0..2 {
        audit.refresh().unwrap();
        assert!((127..=128).contains(&names(&audit).len()), "{}", names(&audit).len());
    }
}

#[test]
fn audit_follows_no_link_and_opens_only_files() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new("audit-links");
    drop(folder.join("job", 100).unwrap());
    let victim = folder.0.join("victim");
    std::fs::rename(folder.0.join(FILE), &victim).unwrap();
    for name in [FILE, "daemon.lock"] {
        symlink(&victim, folder.0.join(name)).unwrap();
    }
    let mut audit = Audit::new(folder.0.clone());
    assert!(audit.refresh().is_err() && audit.is_alone().is_err());
    std::fs::remove_file(folder.0.join(FILE)).unwrap();
    std::fs::create_dir(folder.0.join(FILE)).unwrap();
    assert!(audit.refresh().is_err(), "a folder");
    let lock = folder.0.join("daemon.lock");
    std::fs::remove_file(&lock).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&lock).status().unwrap().success());
    assert!(audit.is_alone().is_err(), "a FIFO, which has no reader");
    std::fs::remove_file(&lock).unwrap();
    assert!(audit.is_alone().unwrap());
    let mode = std::fs::metadata(folder.0.join("daemon.lock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
