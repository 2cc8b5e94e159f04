//! Files that are cut short or changed are refused, whatever they say.

use crate::common::{Journal, cpu, rng, stopped_at};
use proptest::prelude::*;
use rand::RngExt;
use reef_core::{Parked, PreemptLevel, Seq};
use reef_snapshot::format::file::check_bytes;
use reef_snapshot::{Digest, Error, FILE, Snapshot, write};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Bytes after the manifest: its length, its digest, the end.
const TRAILER: usize = 48;

/// A snapshot with some chunks, in the middle of a launch.
fn file() -> Vec<u8> {
    let (folder, device) = (tempfile::tempdir().expect("a folder"), cpu(0, 2));
    let journal = Journal::new(&device);
    let work = journal.work();
    let parked = stopped_at(&work, 2, 4, PreemptLevel::All, &mut rng());
    write(folder.path(), &work, &parked, json!({ "args": ["a", 1] })).expect("written");
    fs::read(folder.path().join(FILE)).expect("it is there")
}

/// First byte of the manifest.
fn manifest_at(file: &[u8]) -> usize {
    let at = file.len() - TRAILER;
    let length = u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"));
    at - length as usize
}

/// The file with another manifest, and digests that fit it.
fn with_manifest(file: &[u8], text: &[u8]) -> Vec<u8> {
    let length = (text.len() as u64).to_le_bytes();
    let digest = *Digest::of(text).as_bytes();
    let parts: [&[u8]; 5] = [&file[..manifest_at(file)], text, &length, &digest, b"REEFDONE"];
    parts.concat()
}

#[test]
fn each_flipped_bit_is_refused() {
    let mut rng = rng();
    let file = file();
    check_bytes(&file).expect("whole");
    let (manifest, end) = (manifest_at(&file), file.len());
    let chunks: Vec<usize> = (0..40).map(|_| rng.random_range(12..manifest)).collect();
    for at in (0..12).chain(manifest..end).chain(chunks) {
        let mut changed = file.clone();
        changed[at] ^= 1 << rng.random_range(0..8);
        match check_bytes(&changed) {
            Err(Error::Damaged { .. } | Error::Version { .. }) => {}
            other => panic!("byte {at} of {end}: {other:?}"),
        }
    }
}

#[test]
fn each_cut_is_refused() {
    let mut rng = rng();
    let file = file();
    let lengths: Vec<usize> = (0..60).map(|_| rng.random_range(0..file.len())).collect();
    let ends = (0..80).chain(file.len() - 80..file.len());
    for length in ends.chain(lengths) {
        match check_bytes(&file[..length]) {
            Err(Error::Damaged { .. }) => {}
            other => panic!("{length} of {} bytes: {other:?}", file.len()),
        }
    }
    let more = [&file[..], &[0]].concat();
    assert!(check_bytes(&more).is_err(), "a byte too many");
}

#[test]
fn fault_of_a_file_is_told_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(FILE);
    let said = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("a file");
        let said = Snapshot::open(folder.path()).expect_err("refused").to_string();
        said.strip_prefix(&format!("{}: ", path.display())).expect("the path").to_owned()
    };
    let file = file();
    assert_eq!(said(b"PNG"), "is cut short");
    assert_eq!(said(&[b'x'; 100]), "is no snapshot of a network");
    assert_eq!(said(&[&file[..8], &[2], &file[9..]].concat()), "format must be 1, got 2");
    assert_eq!(said(&file[..file.len() - 1]), "is cut short");
    let mut changed = file.clone();
    changed[12] ^= 1;
    let chunk = said(&changed);
    assert!(chunk.starts_with("chunk 0 of ") && chunk.ends_with("checksum is wrong"), "{chunk}");
    fs::remove_file(&path).expect("it is there");
    let missing = Snapshot::open(folder.path()).expect_err("missing").to_string();
    assert!(missing.contains("network.reef: No such file"), "{missing}");
}

/// The note would take more room than its file has for it.
#[test]
fn snapshot_that_could_not_be_read_is_not_written() {
    let (folder, device) = (tempfile::tempdir().expect("a folder"), cpu(0, 1));
    let journal = Journal::new(&device);
    let work = journal.work();
    let parked = Parked::new(Seq(0), work.task.to_vec(), None).expect("no host code");
    write(folder.path(), &work, &parked, json!("old")).expect("nothing is in its way");
    let note = json!("x".repeat(64 << 20));
    let said = write(folder.path(), &work, &parked, note).expect_err("too long").to_string();
    assert!(said.contains("manifest: must have at most 67108864 bytes, got "), "{said}");
    assert_eq!(Snapshot::open(folder.path()).expect("whole").manifest().note, json!("old"));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left");
}

/// Files of the user's that are where a snapshot is written, and a link to one.
#[test]
fn file_that_is_no_snapshot_is_never_written() {
    let (folder, device) = (tempfile::tempdir().expect("a folder"), cpu(0, 1));
    let journal = Journal::new(&device);
    let work = journal.work();
    let parked = Parked::new(Seq(0), work.task.to_vec(), None).expect("no host code");
    let diary = folder.path().join("diary");
    fs::write(&diary, "precious").expect("a file");
    let why = |name: &str, make: fn(&Path, &Path) -> std::io::Result<()>| {
        let path = folder.path().join(name);
        make(&diary, &path).expect("it is free");
        let said = write(folder.path(), &work, &parked, json!(1)).expect_err("refused").to_string();
        assert_eq!(fs::read(&path).expect("it is there"), b"precious");
        fs::remove_file(&path).expect("it is there");
        said.strip_prefix(&format!("{}: ", path.display())).expect("the path").to_owned()
    };
    type Make = fn(&Path, &Path) -> std::io::Result<()>;
    let link: Make = |from, to| std::os::unix::fs::symlink(from, to);
    let hard: Make = |from, to| fs::hard_link(from, to);
    let copy: Make = |from, to| fs::copy(from, to).map(drop);
    let other = "must be a snapshot to be replaced, got another file";
    assert_eq!([link, hard, copy].map(|make| why(FILE, make)), [other; 3]);
    let unfinished = format!("{FILE}.unfinished");
    assert_eq!(why(&unfinished, link), "must be a regular file, got a symbolic link");
    assert_eq!(why(&unfinished, hard), "must have one name, got 2");
    assert_eq!(why(&unfinished, copy), other);
    assert_eq!(fs::read(&diary).expect("it is there"), b"precious");
    write(folder.path(), &work, &parked, json!(1)).expect("nothing is in its way");
}

/// Numbers of a manifest, by their paths.
fn numbers(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(_) | Value::Null => found.push(path.into()),
        Value::Array(all) => (0..all.len()).for_each(|k| {
            numbers(&all[k], &format!("{path}/{k}"), found);
        }),
        Value::Object(all) => {
            all.iter().for_each(|(key, value)| numbers(value, &format!("{path}/{key}"), found));
        }
        _ => {}
    }
}

/// A manifest that lies, under a digest that is right: it is refused, or restored without a panic
/// and within the memory of the task.
#[test]
fn lying_manifests_do_no_harm() {
    let file = file();
    let text = &file[manifest_at(&file)..file.len() - TRAILER];
    let manifest: Value = serde_json::from_slice(text).expect("JSON");
    let mut paths = Vec::new();
    numbers(&manifest, "", &mut paths);
    assert!(paths.len() > 15, "{paths:?}");
    let device = cpu(0, 1);
    let journal = Journal::new(&device);
    let folder = tempfile::tempdir().expect("a folder");
    let hostile = prop_oneof![
        Just(json!(0)),
        Just(json!(1)),
        Just(json!(u32::MAX)),
        Just(json!(u64::MAX)),
        Just(json!(1_u64 << 20)),
        Just(json!(-1)),
        Just(json!(null)),
        Just(json!([])),
        (0_u64..40).prop_map(|n| json!(n)),
    ];
    let one = (proptest::sample::select(paths), hostile);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let lies = proptest::collection::vec(one, 1..4);
    let result = runner.run(&lies, |lies| {
        let mut lying = manifest.clone();
        for (path, value) in lies {
            if let Some(place) = lying.pointer_mut(&path) {
                *place = value;
            }
        }
        let bytes = with_manifest(&file, &serde_json::to_vec(&lying).expect("JSON"));
        if check_bytes(&bytes).is_ok() {
            fs::write(folder.path().join(FILE), &bytes).expect("a file");
            let restored = Snapshot::open(folder.path()).expect("whole").restore(&journal.work());
            if let Ok(parked) = restored {
                let config = reef_core::Config::default();
                let _ = reef_core::VirtualQueue::enable_parked(&device, config, parked);
            }
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_bytes_are_read_without_a_panic(
        middle in proptest::collection::vec(any::<u8>(), 0..200),
        text in "[\\[\\]{}\",:0-9a-z]{0,80}",
        length in any::<u64>(),
    ) {
        let sealed = with_manifest(&file_of(&[]), text.as_bytes());
        prop_assert!(check_bytes(&sealed).is_err());
        let parts: [&[u8]; 5] =
            [b"REEFSNAP\x01\0\0\0", &middle, &length.to_le_bytes(), &[0; 32], b"REEFDONE"];
        prop_assert!(check_bytes(&parts.concat()).is_err());
        prop_assert!(check_bytes(&middle).is_err());
    }
}

/// A file without chunks.
fn file_of(text: &[u8]) -> Vec<u8> {
    let length = (text.len() as u64).to_le_bytes();
    let digest = *Digest::of(text).as_bytes();
    [b"REEFSNAP\x01\0\0\0", text, &length, &digest, b"REEFDONE"].concat()
}
