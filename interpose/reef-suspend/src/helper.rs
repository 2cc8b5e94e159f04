//! A process of its own for the driver's calls.
//!
//! A caller that dies in the middle of a step leaves the driver out of step with the process. So
//! the steps run in a child that is in no terminal's group; it finishes what it has begun, and
//! writes the records, whether or not the parent still waits. One request comes on stdin as JSON,
//! one answer goes to stdout.

use crate::api::{Api, State, Uuid};
use crate::driver::Driver;
use crate::error::Error;
use crate::group::Group;
use crate::memory::{Devices, Free};
use crate::record::{Process, Records, Steps, Suspended};
use crate::swaps::{Swaps, come_back, hide_all};
use crate::written::absence::Absence;
use crate::written::accounts::{self, Reserved};
use crate::written::criu::{self, Criu};
use crate::written::files::{self, Draft, Written};
use crate::written::tree::Tree;
use reef_nvml::Nvml;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Hidden command of the program that serves requests.
pub const COMMAND: &str = "checkpointer";

/// A request, with the folder of the records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Folder of the records.
    pub folder: PathBuf,
    /// Processes that belong together.
    pub pids: Vec<u32>,
    /// The operation.
    pub op: Op,
}

/// An operation on processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Op {
    /// Off the GPU, in this time for the work that is under way.
    Suspend {
        /// Timeout in milliseconds.
        timeout_ms: u64,
        /// True if the daemon's policy asks, which brings them back.
        for_memory: bool,
    },
    /// Back. Processes that an interrupted suspension left locked go on as well.
    Resume {
        /// Ordinal or identity of another GPU.
        to: Option<String>,
    },
    /// Off the GPU and back on another one; back where they were if that one refuses.
    Move {
        /// Timeout in milliseconds.
        timeout_ms: u64,
        /// Ordinal or identity of the other GPU.
        to: String,
    },
    /// Off the GPU and into a folder. One process, with its descendants.
    Write {
        /// Timeout in milliseconds.
        timeout_ms: u64,
        /// The folder, which must not exist.
        folder: PathBuf,
        /// True if the process goes on; else it ends.
        goes_on: bool,
    },
    /// From a folder and onto the GPU. No process.
    Read {
        /// The folder.
        folder: PathBuf,
    },
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// Records of the suspended processes.
    Suspended(Vec<Suspended>),
    /// Processes that run again, with the memory they had, and the time of the steps.
    Resumed(Vec<Suspended>, Steps),
    /// Nothing was done, or the text says what was.
    Refused(String),
}

/// Runs a request in a child process of `program`, which serves it under [`COMMAND`].
///
/// # Errors
///
/// The child can't be started, or its answer can't be read.
pub fn run(program: &Path, request: &Request) -> io::Result<Answer> {
    let mut child = Command::new(program)
        .arg(COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0) // Ctrl-C is for the parent
        .spawn()?;
    let text = serde_json::to_vec(request)?;
    let _ = child.stdin.take().map(|mut input| input.write_all(&text)); // its answer says more
    let answer = child.wait_with_output()?.stdout;
    serde_json::from_slice(&answer)
        .map_err(|error| io::Error::other(format!("{}: no answer: {error}", program.display())))
}

/// Serves the request of [`run`]. `named`: the file of another driver.
///
/// # Errors
///
/// The request can't be read. An answer that is not read is not an error.
pub fn serve(
    named: Option<OsString>,
    input: &mut impl Read,
    output: &mut impl Write,
) -> io::Result<()> {
    let mut text = Vec::new();
    input.read_to_end(&mut text)?;
    let request: Request = serde_json::from_slice(&text)?;
    let answer = answer(named, &request).unwrap_or_else(|error| Answer::Refused(error.to_string()));
    let _ = output.write_all(&serde_json::to_vec(&answer)?);
    Ok(())
}

fn answer(named: Option<OsString>, request: &Request) -> Result<Answer, Error> {
    let driver = Driver::open(named)?;
    let uuids = driver.devices().map_err(|refusal| Error::Absent(refusal.to_string()))?;
    let nvml = Nvml::from_environment().ok();
    let memory = nvml.as_ref().map(|nvml| nvml as &dyn Free);
    let devices = Devices { uuids, memory };
    let (group, records) = (Group::new(&driver, &devices), Records::at(&request.folder));
    let suspend = |pids: &[u32], timeout_ms: &u64, for_memory| {
        let timeout = Duration::from_millis(*timeout_ms);
        let swaps = Swaps::leave(pids, timeout)?;
        let mut all = match group.suspend(pids, timeout) {
            Ok(all) => all,
            Err(error) => {
                swaps.undo();
                return Err(error);
            }
        };
        swaps.note(&mut all);
        all.iter_mut().for_each(|record| record.for_memory = for_memory);
        let saved = all.iter().try_for_each(|record| records.save(record));
        match saved {
            Ok(()) => Ok(all),
            Err(error) => Err(brought_back(&group, &records, &all, error)),
        }
    };
    let resume = |pids: &[u32], to| resume(&driver, &group, &records, pids, to);
    let named = |name: &String| device(&devices.uuids, name);
    match &request.op {
        Op::Suspend { timeout_ms, for_memory } => {
            suspend(&request.pids, timeout_ms, *for_memory).map(Answer::Suspended)
        }
        Op::Write { timeout_ms, folder, goes_on } => {
            let [pid] = request.pids[..] else {
                let why = format!("one process must be written, got {}", request.pids.len());
                return Err(Error::Criu { why });
            };
            let criu = Criu::find(std::env::var_os(criu::VARIABLE))?;
            let draft = Draft::new(folder)?;
            let tree = Tree::of(pid);
            let pids = tree.with_contexts(&driver)?;
            let absence = Absence::begin(tree.pids())?;
            let all = suspend(&pids, timeout_ms, false)?;
            let written = write(&criu, draft, &all, &pids, pid);
            let ends = written.is_ok() && !goes_on;
            let sent = Tree::of(pid).signal(if ends { "KILL" } else { "CONT" });
            sent.map_err(|error| Error::Criu { why: error.to_string() })?;
            if ends {
                // They did nothing between their checkpoint and their end.
                pids.iter().for_each(|pid| records.forget(*pid));
            } else {
                resume(&pids, None)?;
            }
            drop(absence);
            written.map(|()| Answer::Suspended(all))
        }
        Op::Read { folder } => {
            let criu = Criu::find(std::env::var_os(criu::VARIABLE))?;
            let Written { suspended: mut all, accounts, images } = files::open(folder)?;
            group.check_room(&all, None)?;
            let reserved = Reserved::new(&accounts)?;
            let root = criu.restore(&images)?;
            reserved.hand_over();
            for record in &mut all {
                let pid = record.process.pid;
                record.process = Process::of(pid)
                    .map_err(|error| Error::Record { what: format!("process {pid}"), error })?;
                records.save(record)?; // so that `reef resume` finds it if this return is refused
            }
            let mut steps = group.resume(&all, None)?;
            steps.restore += come_back(&all)?;
            all.iter().for_each(|record| records.forget(record.process.pid));
            Tree::of(root).pids().iter().for_each(|pid| Absence::end(*pid));
            Ok(Answer::Resumed(all, steps))
        }
        Op::Resume { to } => resume(&request.pids, to.as_ref().map(named).transpose()?),
        Op::Move { timeout_ms, to } => {
            let to = named(to)?; // before the processes are touched
            suspend(&request.pids, timeout_ms, false)?;
            resume(&request.pids, Some(to)).map_err(|error| match resume(&request.pids, None) {
                Ok(_) => Error::NotMoved(error.to_string()),
                Err(_) => error,
            })
        }
    }
}

/// Writes a process with its descendants, of which `all` are suspended, and leaves all stopped.
fn write(
    criu: &Criu,
    draft: Draft,
    all: &[Suspended],
    pids: &[u32],
    root: u32,
) -> Result<(), Error> {
    let _hidden = hide_all(pids)?;
    criu.dump(root, &draft.images())?;
    let mut slots = Vec::new(); // of processes that are stopped now
    for pid in Tree::of(root).pids() {
        slots.extend(accounts::read(*pid)?);
    }
    draft.finish(all, slots)
}

/// Brings programs back whose records can't be written: a return would know nothing of their
/// memory. Returns the error.
fn brought_back(
    group: &Group<'_, Driver>,
    records: &Records,
    all: &[Suspended],
    error: Error,
) -> Error {
    match (group.resume(all, None).and_then(|_| come_back(all)), error) {
        (Ok(_), error) => {
            all.iter().for_each(|record| records.forget(record.process.pid));
            error
        }
        (Err(left), Error::Record { what, error }) => {
            Error::Record { what, error: io::Error::other(format!("{error}; {left}")) }
        }
        (Err(_), error) => error,
    }
}

fn resume(
    driver: &Driver,
    group: &Group<'_, Driver>,
    records: &Records,
    pids: &[u32],
    to: Option<Uuid>,
) -> Result<Answer, Error> {
    // Those of `restored` were, and couldn't move their memory back.
    let (mut all, mut restored) = (Vec::new(), Vec::new());
    for pid in pids {
        match driver.state(*pid) {
            Ok(State::Locked) => group.unlock(*pid)?,
            state => {
                let record = records.find(*pid).map_or_else(|| Suspended::unknown(*pid), Ok)?;
                let is_restored = state == Ok(State::Running) && record.is_swapped;
                if is_restored { &mut restored } else { &mut all }.push(record);
            }
        }
    }
    let mut steps = if all.is_empty() { Steps::default() } else { group.resume(&all, to)? };
    all.append(&mut restored);
    steps.restore += come_back(&all)?;
    for pid in pids {
        records.forget(*pid);
        Absence::end(*pid); // of a program from a folder, whose return was refused at first
    }
    Ok(Answer::Resumed(all, steps))
}

/// A GPU by its ordinal, by its identity, or by the beginning of it.
fn device(uuids: &[Uuid], name: &str) -> Result<Uuid, Error> {
    let text = |uuid: &Uuid| uuid.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let ordinal = name.strip_prefix("cuda:").unwrap_or(name);
    if let Some(uuid) = ordinal.parse().ok().and_then(|at: usize| uuids.get(at)) {
        return Ok(*uuid);
    }
    let wanted = name.trim_start_matches("GPU-").replace('-', "").to_lowercase();
    let mut found =
        uuids.iter().filter(|uuid| wanted.len() >= 8 && text(uuid).starts_with(&wanted));
    if let (Some(uuid), None) = (found.next(), found.next()) {
        return Ok(*uuid);
    }
    let have: Vec<_> =
        uuids.iter().enumerate().map(|(at, uuid)| format!("{at} = GPU-{}", text(uuid))).collect();
    Err(Error::NoDevice { name: name.to_owned(), have: have.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_is_named_by_ordinal_or_identity() {
        let uuids = [[0x1a; 16], [0x2b; 16]];
        assert_eq!(device(&uuids, "1").unwrap(), uuids[1]);
        assert_eq!(device(&uuids, "cuda:0").unwrap(), uuids[0]);
        assert_eq!(device(&uuids, "GPU-2b2b2b2b-2b2b").unwrap(), uuids[1]);
        let error = device(&uuids, "2").unwrap_err().to_string();
        assert!(error.starts_with("no GPU 2 (have: 0 = GPU-1a1a"), "{error}");
    }

    #[test]
    fn machine_without_a_driver_is_refused_in_words() {
        let request =
            Request { folder: "/nowhere".into(), pids: vec![1], op: Op::Resume { to: None } };
        let text = serde_json::to_vec(&request).unwrap();
        let mut output = Vec::new();
        serve(Some("/nowhere/libcuda.so.1".into()), &mut text.as_slice(), &mut output).unwrap();
        let answer: Answer = serde_json::from_slice(&output).unwrap();
        assert_eq!(answer, Answer::Refused("/nowhere/libcuda.so.1 not found".into()));
    }

    /// The request is longer than a pipe, so that its writer learns of the end.
    #[test]
    fn child_that_ends_early_has_no_answer() {
        let pids = vec![1; 1 << 20];
        let request = Request { folder: "/nowhere".into(), pids, op: Op::Resume { to: None } };
        let error = run(Path::new("true"), &request).unwrap_err().to_string();
        assert!(error.starts_with("true: no answer: "), "{error}");
    }

    #[test]
    fn request_that_is_not_one_is_an_error() {
        assert!(serve(None, &mut b"{}".as_slice(), &mut Vec::new()).is_err());
    }
}
