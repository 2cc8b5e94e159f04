//! `--fix`: starts what a check has found missing, and says so first.

use super::finding::{Check, Finding, State};
use crate::remote::daemon::Daemon;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Control program of MPS.
const MPS: &str = "nvidia-cuda-mps-control";
/// Time within which a daemon must serve.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two polls of it, and of its answer.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// Most bytes of a log that are read for its last line.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// Program that was started.
#[derive(Debug, Serialize)]
pub(super) struct Started {
    check: Check,
    process: Option<u32>,
    log: Option<PathBuf>,
}

/// Starts what is missing and may be started: REEF's daemon in this folder, and MPS if asked for.
///
/// # Errors
///
/// A program that cannot be started, or that ends at once.
pub(super) fn fix(
    findings: &[Finding],
    folder: Option<&Path>,
    with_mps: bool,
) -> Result<Vec<Started>> {
    let state = |check| findings.iter().find(|of| of.check == check).map(|of| of.state);
    let has_driver = state(Check::Driver) == Some(State::Ok);
    let mut started = Vec::new();
    if with_mps && has_driver && state(Check::Mps) != Some(State::Ok) {
        started.push(start_mps()?);
    }
    if state(Check::Daemon) != Some(State::Ok) {
        started.extend(start_daemon(folder, has_driver)?);
    }
    if started.is_empty() {
        note!("reef: nothing that --fix starts is missing");
    }
    Ok(started)
}

fn start_mps() -> Result<Started> {
    note!("reef: starting MPS: {MPS} -d (it takes up to a quarter of some programs' speed)");
    let status = Command::new(MPS).arg("-d").stdin(Stdio::null()).status().context(MPS)?;
    if !status.success() {
        bail!("{MPS} -d: {status}");
    }
    Ok(Started { check: Check::Mps, process: None, log: None })
}

/// Starts a daemon that outlives this program. One that answers and isn't ready is left alone.
fn start_daemon(folder: Option<&Path>, has_driver: bool) -> Result<Option<Started>> {
    let folder = reef_serve::folder(folder);
    if UnixStream::connect(folder.join("http.sock")).is_ok() {
        note!("reef: a daemon answers in {}: it is not started again", folder.display());
        return Ok(None);
    }
    reef_serve::make_folder(&folder)?;
    let log = folder.join("serve.log");
    let guests = has_driver.then_some("--guests");
    let words = ["reef serve"].into_iter().chain(guests).collect::<Vec<_>>().join(" ");
    let (at, written) = (folder.display(), log.display());
    note!("reef: starting a daemon: {words} --socket-dir {at} (its log: {written})");
    let file = File::create(&log).with_context(|| written.to_string())?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg("serve")
        .args(guests)
        .arg("--socket-dir")
        .arg(&folder)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .process_group(0) // a signal of the terminal is not for it
        .spawn()?;
    wait_until_ready(&mut child, &folder, &log)?;
    Ok(Some(Started { check: Check::Daemon, process: Some(child.id()), log: Some(log) }))
}

fn wait_until_ready(child: &mut Child, folder: &Path, log: &Path) -> Result<()> {
    let daemon = Daemon::in_folder(Some(folder))?;
    let end = Instant::now() + START_TIMEOUT;
    while daemon.get("/v2/health/ready", ANSWER_TIMEOUT).is_err() {
        if let Some(status) = child.try_wait()? {
            let said = reef_files::read_to_string(log, MAX_LOG_BYTES).unwrap_or_default();
            bail!("the daemon ended: {status}: {}", said.lines().last().unwrap_or_default());
        }
        if Instant::now() > end {
            bail!("the daemon is not ready yet: see {}", log.display());
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}
