//! `reef suspend`, `reef resume` and `reef move`: programs leave the GPU's memory and come back.
//!
//! A guest of the daemon is suspended by the daemon, which opens its gates first. Without a daemon,
//! or for a program that is not its guest, the driver is asked from here.

use crate::remote::daemon::{Daemon, DaemonAddress, Error, segment};
use crate::remote::scrape::Scrape;
use crate::report::output::print;
use crate::report::table::{Table, table};
use crate::report::time;
use crate::report::usage::Usage;
use anyhow::{Context, Result, bail};
use hyper::StatusCode;
use reef_suspend::Suspended;
use reef_suspend::helper::{Answer, Op, Request, run, serve};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time of the copies: 1 TiB at 1 GB/s.
pub(crate) const COPY_TIMEOUT: Duration = Duration::from_secs(1200);
const METRICS_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
struct Target {
    /// Process number, or a job of `reef exec`.
    #[arg(value_name = "PID|JOB")]
    target: String,
    #[command(flatten)]
    place: DaemonAddress,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(crate) struct Suspend {
    #[command(flatten)]
    target: Target,
    /// Longest time for the program's work on the GPU to end, such as 10s.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time::parse)]
    timeout: Duration,
}

#[derive(clap::Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    target: Target,
}

#[derive(clap::Args)]
pub(crate) struct Move {
    #[command(flatten)]
    target: Target,
    /// GPU to move to, of the same chip: an ordinal such as 1, or a UUID.
    #[arg(long, value_name = "GPU")]
    to: String,
    /// Longest time for the program's work on the GPU to end, such as 10s.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time::parse)]
    timeout: Duration,
}

#[derive(clap::Args)]
pub(crate) struct Checkpoint {
    #[command(flatten)]
    target: Target,
    /// Folder for the program, which must not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Let the program go on; without it, it ends when the folder is written.
    #[arg(long)]
    keep_running: bool,
    /// Longest time for the program's work on the GPU to end, such as 10s.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time::parse)]
    timeout: Duration,
}

#[derive(Deserialize)]
struct SuspendedList {
    suspended: Vec<Suspended>,
}

pub(crate) fn suspend(args: &Suspend) -> Result<()> {
    let timeout_ms = millis(args.timeout)?;
    let path = format!("suspend?timeout_ms={timeout_ms}");
    let all =
        args.target.ask(&path, args.timeout, Op::Suspend { timeout_ms, for_memory: false })?;
    args.target.report(&all)
}

pub(crate) fn resume(args: &Resume) -> Result<()> {
    let all = args.target.ask("resume", Duration::ZERO, Op::Resume { to: None })?;
    args.target.report(&all)
}

pub(crate) fn move_to(args: &Move) -> Result<()> {
    let timeout_ms = millis(args.timeout)?;
    let path = format!("move?timeout_ms={timeout_ms}&to={}", segment(&args.to));
    let op = Op::Move { timeout_ms, to: args.to.clone() };
    let all = args.target.ask(&path, args.timeout, op)?;
    args.target.report(&all)
}

/// Writes a program to a folder.
pub(crate) fn checkpoint(args: &Checkpoint) -> Result<()> {
    let timeout_ms = millis(args.timeout)?;
    let pid = args.target.pid()?;
    let folder = std::path::absolute(&args.out).context("working directory")?;
    let op = Op::Write { timeout_ms, folder, goes_on: args.keep_running };
    args.target.report(&args.target.direct(pid, op)?)
}

/// Starts a program from a folder.
pub(crate) fn restore(folder: &Path, place: &DaemonAddress, json: bool) -> Result<()> {
    let folder = std::path::absolute(folder).context("working directory")?;
    let records = records(place);
    let all = ask_helper(&Request { folder: records, pids: Vec::new(), op: Op::Read { folder } })?;
    report(&all, json)
}

/// The hidden command that makes the driver's calls.
pub(crate) fn checkpointer() -> Result<()> {
    let named = std::env::var_os("REEF_CUDA");
    serve(named, &mut std::io::stdin().lock(), &mut std::io::stdout().lock()).context("no request")
}

/// A timeout in milliseconds, which must be one of the daemon's range.
pub(crate) fn millis(timeout: Duration) -> Result<u64> {
    match u64::try_from(timeout.as_millis()) {
        Ok(ms @ 1..=600_000) => Ok(ms),
        _ => {
            let got = time::show(timeout);
            Err(Usage(format!("--timeout must be from 1 ms to 600 s, got {got}")).into())
        }
    }
}

impl Target {
    /// Asks the daemon; or the driver, for a process that is not the daemon's guest.
    fn ask(&self, path: &str, timeout: Duration, op: Op) -> Result<Vec<Suspended>> {
        let daemon = self.place.daemon()?;
        let full = format!("/reef/guests/{}/{path}", segment(&self.target));
        match daemon.post(&full, COPY_TIMEOUT + timeout) {
            Ok(answer) => read(&answer, &daemon),
            Err(Error::Refused(status, why)) if status != StatusCode::NOT_FOUND => bail!("{why}"),
            Err(error) => match self.target.parse() {
                Ok(pid) => self.direct(pid, op),
                Err(_) => bail!("{error}; without a daemon, name a process number"),
            },
        }
    }

    /// The process, or the only one of a job.
    fn pid(&self) -> Result<u32> {
        if let Ok(pid) = self.target.parse() {
            return Ok(pid);
        }
        let metrics = self.place.daemon()?.get("/metrics", METRICS_TIMEOUT)?;
        let scrape = Scrape::parse(&String::from_utf8_lossy(&metrics));
        let guests = scrape.all("reef_guest_active").iter().map(|(labels, _)| labels);
        let of_job = guests.filter(|labels| labels.get("job") == Some(&self.target));
        let pids: BTreeSet<u32> =
            of_job.filter_map(|labels| labels.get("pid")?.parse().ok()).collect();
        match pids.first() {
            Some(pid) if pids.len() == 1 => Ok(*pid),
            Some(_) => bail!("{}: one process must be written, got {pids:?}", self.target),
            None => bail!("{}: no guest has this job", self.target),
        }
    }

    fn direct(&self, pid: u32, op: Op) -> Result<Vec<Suspended>> {
        ask_helper(&Request { folder: records(&self.place), pids: vec![pid], op })
    }

    fn report(&self, all: &[Suspended]) -> Result<()> {
        report(all, self.json)
    }
}

/// Folder of the records, which is the daemon's.
fn records(place: &DaemonAddress) -> PathBuf {
    reef_serve::folder(place.folder()).join("suspended")
}

fn ask_helper(request: &Request) -> Result<Vec<Suspended>> {
    let program = std::env::current_exe().context("this program's file")?;
    match run(&program, request)? {
        Answer::Suspended(all) | Answer::Resumed(all, _) => Ok(all),
        Answer::Refused(why) | Answer::Stays(why) | Answer::StaysAway(why) => bail!("{why}"),
    }
}

fn report(all: &[Suspended], is_json: bool) -> Result<()> {
    if is_json {
        return print(serde_json::to_string_pretty(all)?);
    }
    print(as_table(all))
}

fn read(answer: &[u8], daemon: &Daemon) -> Result<Vec<Suspended>> {
    let listed: SuspendedList = serde_json::from_slice(answer)
        .with_context(|| format!("{}: the answer is not a list of processes", daemon.name()))?;
    Ok(listed.suspended)
}

fn as_table(all: &[Suspended]) -> Table {
    let mut table = table(&["pid", "program", "memory", "drained in", "copied in"]);
    for one in all {
        let memory = format!("{:.2} GiB", one.bytes() as f64 / (1_u64 << 30) as f64);
        let seconds = |seconds: f64| format!("{seconds:.3} s");
        let (pid, name) = (one.process.pid.to_string(), one.name.clone());
        table.add_row([pid, name, memory, seconds(one.steps.lock), seconds(one.steps.checkpoint)]);
    }
    table
}
