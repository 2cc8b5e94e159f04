//! Snapshots between processes: restored in another one, and written by one that is killed.

use crate::common::{Journal, contents, cpu, finish, rng, spoil, stopped_at};
use rand::RngExt;
use reef_core::{Parked, PreemptLevel, Seq};
use reef_snapshot::{Digest, Error, Snapshot, write};
use serde_json::json;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROLE: &str = "SNAPSHOT_TEST_ROLE";
const FOLDER: &str = "SNAPSHOT_TEST_FOLDER";

/// Starts this test program as a process that plays `role` in `folder`.
fn start(role: &str, folder: &Path) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["process::child_process_plays_its_role", "--exact", "--nocapture"]);
    command.env(ROLE, role).env(FOLDER, folder).stdout(Stdio::null()).spawn().expect("a process")
}

/// Does nothing unless it runs in a child process of the tests below.
#[test]
fn child_process_plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let folder = std::env::var_os(FOLDER).expect("a folder");
    match role.as_str() {
        "restore" => restore_and_finish(folder.as_ref()),
        "write" => write_for_ever(folder.as_ref()),
        other => panic!("no role {other:?}"),
    }
}

/// Finishes the snapshot, and writes the contents of memory to a file.
fn restore_and_finish(folder: &Path) {
    let device = cpu(2, 2);
    let journal = Journal::new(&device);
    let work = journal.work();
    spoil(&work);
    let parked = Snapshot::open(folder).expect("whole").restore(&work).expect("the same task");
    finish(&work, parked, PreemptLevel::All);
    fs::write(folder.join("contents"), contents(&work).concat()).expect("a file");
}

/// Writes snapshots of which each says in its note what its memory is.
fn write_for_ever(folder: &Path) {
    let device = cpu(3, 1);
    let journal = Journal::new(&device);
    let work = journal.work();
    for task in 0.. {
        let commands = work.task.to_vec();
        let parked = Parked::new(Seq(task * 8), commands, None).expect("no host code");
        let note = json!(Digest::of(&contents(&work).concat()));
        write(folder, &work, &parked, note).expect("written");
        finish(&work, parked, PreemptLevel::All);
    }
}

#[test]
fn another_process_finishes_the_task() {
    let (folder, device) = (tempfile::tempdir().expect("a folder"), cpu(0, 2));
    let journal = Journal::new(&device);
    let work = journal.work();
    let parked = stopped_at(&work, 3, 12, PreemptLevel::All, &mut rng());
    assert!(parked.partial().is_some(), "command 12 is a launch");
    write(folder.path(), &work, &parked, json!(null)).expect("written");
    let status = start("restore", folder.path()).wait().expect("it ends");
    assert!(status.success(), "{status}");
    finish(&work, parked, PreemptLevel::All);
    let there = fs::read(folder.path().join("contents")).expect("it was written");
    assert!(there == contents(&work).concat(), "both continue alike");
}

/// A process that is killed while it writes leaves a snapshot that is whole.
#[test]
fn killed_writer_leaves_a_whole_snapshot() {
    let (folder, mut rng) = (tempfile::tempdir().expect("a folder"), rng());
    let device = cpu(0, 1);
    let journal = Journal::new(&device);
    let work = journal.work();
    let (begin, mut unfinished, mut opened) = (Instant::now(), 0, 0);
    for round in 0..100 {
        let file = || fs::metadata(folder.path().join(reef_snapshot::FILE)).ok().map(|of| of.ino());
        let before = file();
        let mut child = start("write", folder.path());
        // It writes again and again: its first file is there, which has another number.
        while file() == before && child.try_wait().expect("a process").is_none() {
            std::thread::sleep(Duration::from_micros(200)); // sleep: poll of a condition
        }
        let is_unfinished = || folder.path().join("network.reef.unfinished").exists();
        if round % 2 == 0 {
            // sleep: any length is right
            std::thread::sleep(Duration::from_micros(rng.random_range(0..60_000)));
        } else {
            while !is_unfinished() && child.try_wait().expect("a process").is_none() {
                std::thread::sleep(Duration::from_micros(50)); // sleep: poll of a condition
            }
        }
        child.kill().expect("it runs");
        let status = child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(9), "round {round}: {status}");
        unfinished += u32::from(is_unfinished());
        let mut snapshot = Snapshot::open(folder.path()).expect("whole");
        snapshot.restore(&work).expect("the same task");
        assert_eq!(snapshot.manifest().note, json!(Digest::of(&contents(&work).concat())));
        opened += 1;
        if begin.elapsed() > Duration::from_secs(2) && unfinished > 0 {
            break;
        }
    }
    println!("{opened} killed, {unfinished} of them while they wrote");
    assert!(unfinished > 0, "none of {opened} was killed while it wrote");
}

#[test]
fn two_writers_of_one_folder_exclude_each_other() {
    let (folder, device) = (tempfile::tempdir().expect("a folder"), cpu(0, 1));
    let journal = Journal::new(&device);
    let work = journal.work();
    let parked = Parked::new(Seq(0), work.task.to_vec(), None).expect("no host code");
    let path = folder.path().join("network.reef.unfinished");
    let other = fs::File::create(&path).expect("a file");
    other.lock().expect("it is free");
    let refused = write(folder.path(), &work, &parked, json!(1)).expect_err("it is locked");
    assert!(matches!(refused, Error::Locked { .. }), "{refused}");
    drop(other);
    write(folder.path(), &work, &parked, json!(2)).expect("what a killed writer left is taken");
    assert!(!path.exists(), "it has its name");
}
