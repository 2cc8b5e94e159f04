//! A process of its own for the driver's calls.
//!
//! A caller that dies in the middle of a step leaves the driver out of step with the process. So
//! the steps run in a child that is in no terminal's group; it finishes what it has begun, and
//! writes the records, whether or not the parent still waits. One request comes on stdin as JSON,
//! answers go to stdout, a line each: one, or that of each half of a turnover as it ends.
//!
//! | turnover | departure | return |
//! |---|---|---|
//! | 1. | the program copies its memory to the host | the driver restores its part |
//! | 2. | it releases each piece that is copied | the program takes each piece that is free |
//! | 3. | the driver suspends the rest | the program goes on once it has all |
//!
//! The departure begins before the driver is open here, which its first two steps don't need.
//! A departure that is refused in step 1 changes nothing. Then the return is refused, too, and the
//! driver suspends its part again. If step 3 is refused, the program's own memory stays on the host
//! and the rest on the GPU: its room may be taken.

use crate::api::{Api, State, Uuid};
use crate::driver::Driver;
use crate::error::Error;
use crate::group::Group;
use crate::memory::{Devices, Free};
use crate::record::{Held, Process, Records, Steps, Suspended};
use crate::swaps::{Swaps, Waits, come_back, come_back_without_record, hide_all};
use crate::written::absence::Absence;
use crate::written::accounts;
use crate::written::criu::Criu;
use crate::written::files::{self, Adoption, Draft};
use crate::written::numbers;
use crate::written::tree::Tree;
use reef_nvml::Nvml;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Interval between readings of free memory: nothing tells of memory that another process releases.
/// A return waits so once, and a reading asks the management library about each GPU. The program
/// itself waits for each of its pieces, which take 3 ms each, and so reads more often.
const ROOM_INTERVAL: Duration = Duration::from_millis(5);

/// Time for the work of a process that has come back without its own memory: it has none.
const AGAIN_TIMEOUT: Duration = Duration::from_secs(10);

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
    /// Off the GPU, and another process back meanwhile, in the room that becomes free. One process.
    Turnover {
        /// Timeout of the departure in milliseconds.
        timeout_ms: u64,
        /// The process that comes back.
        back: u32,
        /// Memory of the process that leaves, as it was known last. What both free and take at the
        /// same time says nothing about one of them.
        had: Vec<Held>,
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

/// Folder for a process as it is, off the GPU, with its descendants. It goes on, and stays
/// suspended if it was. Its parent starts it from there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdoptedFolder {
    /// The folder, which must not exist.
    pub folder: PathBuf,
    /// The process, and facts for its start.
    pub adoption: Adoption,
}

/// Request of [`write_adopted`].
#[derive(Debug, Serialize, Deserialize)]
struct AdoptedRequest {
    /// Folder of the records.
    records: PathBuf,
    into: AdoptedFolder,
}

/// Request of either kind: their fields differ.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Message {
    Adopted(AdoptedRequest),
    Op(Request),
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
    /// The departure of a turnover was refused: that process runs on.
    Stays(String),
    /// The return of a turnover was refused: that process is away.
    StaysAway(String),
}

/// Runs a request in a child process of `program`, which serves it under [`COMMAND`]. Returns the
/// last answer.
///
/// # Errors
///
/// The child can't be started, or its answer can't be read.
pub fn run(program: &Path, request: &Request) -> io::Result<Answer> {
    run_last(program, request)
}

/// Writes a process to a folder as [`run`] does, with the folder of the records.
///
/// # Errors
///
/// Returns the errors of [`run`].
pub fn write_adopted(program: &Path, records: &Path, into: AdoptedFolder) -> io::Result<Answer> {
    run_last(program, &AdoptedRequest { records: records.to_owned(), into })
}

fn run_last(program: &Path, request: &impl Serialize) -> io::Result<Answer> {
    let mut last = None;
    ask(program, request, &mut |answer| last = Some(answer))?;
    last.ok_or_else(|| no_answer(program, "it has ended"))
}

fn no_answer(program: &Path, error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: no answer: {error}", program.display()))
}

/// Runs a request as [`run`] does, and tells each answer as it comes.
///
/// # Errors
///
/// Returns the errors of [`run`].
pub fn run_each(program: &Path, request: &Request, tell: &mut dyn FnMut(Answer)) -> io::Result<()> {
    ask(program, request, tell)
}

fn ask(program: &Path, request: &impl Serialize, tell: &mut dyn FnMut(Answer)) -> io::Result<()> {
    let mut child = Command::new(program)
        .arg(COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0) // Ctrl-C is for the parent
        .spawn()?;
    let text = serde_json::to_vec(request)?;
    let _ = child.stdin.take().map(|mut input| input.write_all(&text)); // its answer says more
    let output = child.stdout.take().into_iter();
    let read = output.flat_map(|output| BufReader::new(output).lines()).try_for_each(
        |line| -> io::Result<()> {
            let answer = serde_json::from_str(&line?).map_err(|error| no_answer(program, error))?;
            tell(answer);
            Ok(())
        },
    );
    child.wait()?;
    read
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
    let message: Message = serde_json::from_slice(&text)?;
    let mut tell = |answer: Answer| {
        let line = serde_json::to_string(&answer).unwrap_or_default(); // all of it is text
        let _ = writeln!(output, "{line}").and_then(|()| output.flush()); // nothing may read it
    };
    let served = match message {
        Message::Adopted(AdoptedRequest { records, into }) => {
            keep(named, &Records::at(records), &into).map(|all| tell(Answer::Suspended(all)))
        }
        Message::Op(request) => serve_request(named, &request, &mut tell),
    };
    if let Err(error) = served {
        tell(Answer::Refused(error.to_string()));
    }
    Ok(())
}

/// Departure of programs that move their own memory, which takes none of the driver's calls here.
type Leaving = JoinHandle<Result<Swaps, Error>>;

/// Begins the departure of a turnover: the driver takes 40 to 130 ms until it is open. `None`: it
/// is not begun.
fn begin_departure(request: &Request) -> Option<Leaving> {
    let Op::Turnover { timeout_ms, .. } = &request.op else { return None };
    let (pids, timeout) = (request.pids.clone(), Duration::from_millis(*timeout_ms));
    let thread = thread::Builder::new().name("reef-leave".into());
    thread.spawn(move || Swaps::leave(&pids, timeout)).ok()
}

fn end_departure(leaving: Leaving) -> Result<Swaps, Error> {
    leaving.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Opens the driver. Returns it with its GPUs.
fn open_driver(named: Option<OsString>) -> Result<(Driver, Vec<Uuid>), Error> {
    let driver = Driver::open(named)?;
    let uuids = driver.devices().map_err(|refusal| Error::Absent(refusal.to_string()))?;
    Ok((driver, uuids))
}

/// Returns whether the daemon's policy asks for a suspension.
fn is_for_memory(op: &Op) -> bool {
    matches!(op, Op::Suspend { for_memory: true, .. })
}

fn serve_request(
    named: Option<OsString>,
    request: &Request,
    tell: &mut dyn FnMut(Answer),
) -> Result<(), Error> {
    let leaving = begin_departure(request);
    let (driver, uuids) = match open_driver(named) {
        Ok(opened) => opened,
        Err(error) => {
            if let Some(Ok(swaps)) = leaving.map(end_departure) {
                swaps.undo();
            }
            return Err(error);
        }
    };
    let nvml = Nvml::from_environment().ok();
    let memory = nvml.as_ref().map(|nvml| nvml as &dyn Free);
    let devices = Devices { uuids, memory };
    let (group, records) = (Group::new(&driver, &devices), Records::at(&request.folder));
    let is_counted = |pid: &u32| devices.of(*pid).iter().any(|bytes| *bytes > 0);
    // `had`: another process takes the room meanwhile.
    let suspend_rest = |swaps: Swaps, pids: &[u32], timeout: Duration, had: Option<&[Held]>| {
        // The management library still counts its context.
        let known = had.filter(|_| !pids.iter().any(is_counted)).unwrap_or_default();
        let mut all = match group.suspend(pids, timeout) {
            Ok(mut all) => {
                swaps.note(&mut all);
                all.iter_mut().for_each(|record| record.raise(known));
                all
            }
            // Its own memory has no room to return to.
            Err(_) if had.is_some() && !swaps.is_empty() => swaps.records()?,
            Err(error) => {
                swaps.undo();
                return Err(error);
            }
        };
        all.iter_mut().for_each(|record| record.for_memory = is_for_memory(&request.op));
        let saved = all.iter().try_for_each(|record| records.save(record));
        match saved {
            Ok(()) => Ok(all),
            // Its room may be taken, and a return is possible without a record.
            Err(_) if had.is_some() => Ok(all),
            Err(error) => Err(brought_back(&group, &records, &all, error)),
        }
    };
    let suspend = |pids: &[u32], timeout_ms: &u64| {
        let timeout = Duration::from_millis(*timeout_ms);
        suspend_rest(Swaps::leave(pids, timeout)?, pids, timeout, None)
    };
    let resume_with = |pids: &[u32], to: Option<Uuid>, waits: Option<Waits<'_>>| {
        resume(&driver, &group, &records, pids, to, waits)
    };
    let resume = |pids: &[u32], to: Option<Uuid>| resume_with(pids, to, None);
    let named = |name: &String| device(&devices.uuids, name);
    let answer = match &request.op {
        Op::Suspend { timeout_ms, .. } => suspend(&request.pids, timeout_ms).map(Answer::Suspended),
        Op::Write { timeout_ms, folder, goes_on } => {
            let [pid] = request.pids[..] else {
                let why = format!("one process must be written, got {}", request.pids.len());
                return Err(Error::Criu { why });
            };
            let criu = Criu::from_environment()?;
            let draft = Draft::new(folder)?;
            let tree = Tree::of(pid);
            let pids = tree.with_contexts(&driver)?;
            let absence = Absence::begin(tree.pids())?;
            let all = suspend(&pids, timeout_ms)?;
            let written = write(&criu, draft, &all, &pids, pid, None);
            let ends = written.is_ok() && !goes_on;
            let stopped = Tree::of(pid);
            let process = |pid: &u32| Process::of(*pid).ok();
            let processes: Vec<Process> = stopped.pids().iter().filter_map(process).collect();
            let sent = stopped.signal(if ends { "KILL" } else { "CONT" });
            sent.map_err(|error| Error::Criu { why: error.to_string() })?;
            if ends {
                numbers::wait_for_end(&processes);
                // They did nothing between their checkpoint and their end.
                pids.iter().for_each(|pid| records.forget(*pid));
            } else {
                resume(&pids, None)?;
            }
            drop(absence);
            written.map(|()| Answer::Suspended(all))
        }
        Op::Read { folder } => {
            let criu = Criu::from_environment()?;
            let written = files::open(folder, &|| false)?;
            if written.adoption.is_some() {
                let why = "a process of a daemon's model is started by its daemon alone".to_owned();
                return Err(Error::Criu { why });
            }
            group.check_room(&written.suspended, None)?;
            let reserved = written.reserve()?;
            // Saved, so that `reef resume` finds them if this return is refused.
            let save = |record: &Suspended| records.save(record);
            let (root, all) = written.start(reserved, |images| criu.restore(images), save)?;
            let mut steps = group.resume(&all, None)?;
            steps.restore += come_back(&all, None)?;
            all.iter().for_each(|record| records.forget(record.process.pid));
            Tree::of(root).pids().iter().for_each(|pid| Absence::end(*pid));
            Ok(Answer::Resumed(all, steps))
        }
        Op::Resume { to } => resume(&request.pids, to.as_ref().map(named).transpose()?),
        Op::Move { timeout_ms, to } => {
            let to = named(to)?; // before the processes are touched
            suspend(&request.pids, timeout_ms)?;
            resume(&request.pids, Some(to)).map_err(|error| match resume(&request.pids, None) {
                Ok(_) => Error::NotMoved(error.to_string()),
                Err(_) => error,
            })
        }
        Op::Turnover { timeout_ms, back, had } => {
            let (is_leaving, (ends, ended)) = (AtomicBool::new(true), channel());
            let (is_leaving, suspend_rest, resume_with) =
                (&is_leaving, &suspend_rest, &resume_with);
            thread::scope(|scope| {
                let left = ends.clone();
                scope.spawn(move || {
                    let timeout = Duration::from_millis(*timeout_ms);
                    let left_by_itself = match leaving {
                        Some(leaving) => end_departure(leaving),
                        None => Swaps::leave(&request.pids, timeout),
                    };
                    let made = left_by_itself.and_then(|swaps| {
                        suspend_rest(swaps, &request.pids, timeout, Some(&had[..]))
                    });
                    let stays = |error: Error| Answer::Stays(error.to_string());
                    // Told before the refusal of the return, whose reason it is.
                    let _ = left.send(made.map_or_else(stays, Answer::Suspended));
                    is_leaving.store(false, SeqCst);
                });
                scope.spawn(move || {
                    let waits = || is_leaving.load(SeqCst);
                    let made = resume_with(&[*back], None, Some(&waits));
                    let stays_away = |error: Error| Answer::StaysAway(error.to_string());
                    let _ = ends.send(made.unwrap_or_else(stays_away));
                });
                ended.iter().for_each(&mut *tell);
            });
            return Ok(());
        }
    }?;
    tell(answer);
    Ok(())
}

/// Writes a process with its descendants as it is. None of them may be on a GPU. It goes on.
fn keep(
    named: Option<OsString>,
    records: &Records,
    into: &AdoptedFolder,
) -> Result<Vec<Suspended>, Error> {
    let AdoptedFolder { folder, adoption } = into;
    let driver = Driver::open(named).ok(); // a process without a GPU needs none
    let pid = adoption.process;
    let criu = Criu::from_environment()?;
    let draft = Draft::new(folder)?;
    let tree = Tree::of(pid);
    let state = |pid: u32| driver.as_ref().and_then(|driver| driver.state(pid).ok());
    let all = suspended(&tree, &state, records)?;
    let pids: Vec<u32> = all.iter().map(|one| one.process.pid).collect();
    let _absence = Absence::begin(tree.pids())?;
    let written = write(&criu, draft, &all, &pids, pid, Some(adoption.clone()));
    let _ = Tree::of(pid).signal("CONT"); // it may have ended, and is in the folder all the same
    written.map(|()| all)
}

/// Returns records of the processes of a tree that are suspended. Those that have a record are,
/// also if the driver cannot be opened or does not know them now.
fn suspended(
    tree: &Tree,
    state: &dyn Fn(u32) -> Option<State>,
    records: &Records,
) -> Result<Vec<Suspended>, Error> {
    let has_context = |pid: u32| state(pid).is_some() || records.find(pid).is_some();
    let pids = tree.with_contexts_by(&has_context)?;
    let record = |pid: &u32| match state(*pid) {
        Some(have) if have != State::Suspended => {
            Err(Error::State { pid: *pid, want: State::Suspended.name(), have })
        }
        // Without a record its return would know nothing of its memory.
        _ => records.find(*pid).ok_or_else(|| {
            let why = format!("process {pid}: it has no record of its suspension");
            Error::Criu { why }
        }),
    };
    pids.iter().map(record).collect()
}

/// Writes a process with its descendants, of which `all` are suspended, and leaves all stopped.
fn write(
    criu: &Criu,
    draft: Draft,
    all: &[Suspended],
    pids: &[u32],
    root: u32,
    adoption: Option<Adoption>,
) -> Result<(), Error> {
    let _hidden = hide_all(pids)?;
    criu.dump(root, &draft.images(), adoption.as_ref().map(|adoption| adoption.streams))?;
    let (stopped, mut slots) = (Tree::of(root), Vec::new());
    for pid in stopped.pids() {
        slots.extend(accounts::read(*pid)?);
    }
    draft.finish(all, slots, numbers::of(stopped.pids()), adoption)
}

/// Brings programs back whose records can't be written: a return would know nothing of their
/// memory. Returns the error.
fn brought_back(
    group: &Group<'_, Driver>,
    records: &Records,
    all: &[Suspended],
    error: Error,
) -> Error {
    match (group.resume(all, None).and_then(|_| come_back(all, None)), error) {
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

/// Brings processes back. With `waits` they take the room that another process leaves meanwhile.
fn resume(
    driver: &Driver,
    group: &Group<'_, Driver>,
    records: &Records,
    pids: &[u32],
    to: Option<Uuid>,
    waits: Option<Waits<'_>>,
) -> Result<Answer, Error> {
    // Those of `restored` were, and couldn't move their memory back.
    let (mut all, mut restored, mut without_record) = (Vec::new(), Vec::new(), Vec::new());
    for pid in pids {
        let found = records.find(*pid);
        if found.is_none() {
            without_record.push(*pid);
        }
        match driver.state(*pid) {
            Ok(State::Locked) => {
                group.unlock(*pid)?;
                restored.extend(found.filter(|record| record.is_swapped));
            }
            state => {
                let is_running = state == Ok(State::Running);
                let is_restored = match &found {
                    Some(record) => is_running && record.is_swapped,
                    None => is_running && come_back_without_record(*pid)?,
                };
                let record = found.map_or_else(|| Suspended::unknown(*pid), Ok)?;
                if is_restored { &mut restored } else { &mut all }.push(record);
            }
        }
    }
    let mut steps = match waits {
        _ if all.is_empty() => Steps::default(),
        None => group.resume(&all, to)?,
        Some(waits) => {
            let rests: Vec<Suspended> = all.iter().map(Suspended::without_swapped).collect();
            while waits() && !group.has_room(&rests, to) {
                thread::sleep(ROOM_INTERVAL);
            }
            group.resume(&rests, to)?
        }
    };
    let again: Vec<u32> = all.iter().map(|record| record.process.pid).collect();
    all.append(&mut restored);
    match come_back(&all, waits) {
        Ok(seconds) => steps.restore += seconds,
        Err(error) => {
            if waits.is_some() {
                let _ = group.suspend(&again, AGAIN_TIMEOUT); // refused: the next return knows
            }
            return Err(error);
        }
    }
    for pid in without_record {
        come_back_without_record(pid)?;
    }
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
    use crate::written::criu::Streams;
    use reef_guest::swap::{self, Listener, Moved, WaitingCaller};

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
        let want = "/nowhere/libcuda.so.1 not found: this needs NVIDIA's driver, version 570 or later; \
                    REEF_CUDA names its file";
        assert_eq!(answer, Answer::Refused(want.into()));
    }

    /// It leaves while the driver is opened.
    #[test]
    fn program_of_a_turnover_without_a_driver_goes_on() {
        let listener = Listener::open().unwrap();
        let program = thread::spawn(move || {
            let mut asked = Vec::new();
            while asked.len() < 2 {
                let run = |one: swap::Request, _: &WaitingCaller<'_>| -> Result<Moved, String> {
                    asked.push(one);
                    Ok(Moved::default())
                };
                listener.serve(run).unwrap();
            }
            asked
        });
        let own = std::process::id();
        let op = Op::Turnover { timeout_ms: 1000, back: own, had: Vec::new() };
        let request = Request { folder: "/nowhere".into(), pids: vec![own], op };
        let text = serde_json::to_vec(&request).unwrap();
        let mut output = Vec::new();
        serve(Some("/nowhere/libcuda.so.1".into()), &mut text.as_slice(), &mut output).unwrap();
        let answer: Answer = serde_json::from_slice(&output).unwrap();
        assert!(matches!(answer, Answer::Refused(_)), "{answer:?}");
        let out = swap::Request::Out(Duration::from_secs(1));
        assert_eq!(program.join().unwrap(), [out, swap::Request::In]);
    }

    /// Else its folder would be one of a process that was never on a GPU, and nothing would bring
    /// it back.
    #[test]
    fn suspended_process_is_one_also_without_a_driver() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (records, tree) = (Records::at(folder.path()), Tree::of(child.id()));
        assert!(suspended(&tree, &|_| None, &records).unwrap().is_empty());
        let record = Suspended::unknown(child.id()).unwrap();
        records.save(&record).unwrap();
        for state in [None, Some(State::Suspended)] {
            let found = suspended(&tree, &|_| state, &records).unwrap();
            assert_eq!(found, std::slice::from_ref(&record), "{state:?}");
        }
        assert!(suspended(&tree, &|_| Some(State::Running), &records).is_err());
        drop(child.stdin.take());
        child.wait().unwrap();
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

    #[test]
    fn request_of_either_kind_is_read_as_it_was_written() {
        let adoption =
            Adoption { process: 7, streams: Streams { socket: 1, pipe: 2 }, note: "note".into() };
        let into = AdoptedFolder { folder: "/into".into(), adoption };
        let request = AdoptedRequest { records: "/records".into(), into: into.clone() };
        let text = serde_json::to_string(&request).unwrap();
        let read: Message = serde_json::from_str(&text).unwrap();
        assert!(matches!(read, Message::Adopted(read) if read.into == into), "{text}");
        let op = Op::Write { timeout_ms: 1, folder: "/into".into(), goes_on: true };
        let request = Request { folder: "/records".into(), pids: vec![7], op };
        let text = serde_json::to_string(&request).unwrap();
        let read: Message = serde_json::from_str(&text).unwrap();
        assert!(matches!(read, Message::Op(read) if read == request), "{text}");
    }
}
