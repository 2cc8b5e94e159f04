//! `--fix`: starts what a check has found missing, and says so first.

use super::finding::{Check, Finding, State};
use crate::remote::daemon::Daemon;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
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
    log: Option<String>,
}

/// Starts what is missing and may be started, and adds it to `started`: MPS if asked for, as only
/// programs that start after it use it, then REEF's daemon in this folder.
///
/// # Errors
///
/// A program that cannot be started, or that ends at once. Nothing else is started then.
pub(super) fn fix(
    findings: &[Finding],
    folder: Option<&Path>,
    with_mps: bool,
    started: &mut Vec<Started>,
) -> Result<()> {
    let is_ok = |check| findings.iter().any(|of| of.check == check && of.state == State::Ok);
    let (lacks_mps, lacks_daemon) = (with_mps && !is_ok(Check::Mps), !is_ok(Check::Daemon));
    let has_driver = is_ok(Check::Driver);
    if lacks_mps && has_driver {
        started.push(start_mps()?);
    } else if lacks_mps {
        note!("reef: MPS is not started: there must be a driver that works");
    }
    if lacks_daemon {
        started.extend(start_daemon(folder, has_driver)?);
    }
    if !lacks_mps && !lacks_daemon {
        note!("reef: nothing that --fix starts is missing");
    }
    Ok(())
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
    let file = reef_files::own(&log, File::options().write(true).create(true))
        .and_then(|file| file.set_len(0).map(|()| file))
        .with_context(|| written.to_string())?;
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
    note!("reef: the daemon is process {}: `kill {0}` ends it", child.id());
    Ok(Some(Started {
        check: Check::Daemon,
        process: Some(child.id()),
        log: Some(written.to_string()),
    }))
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
            bail!("the daemon {} is not ready yet: see {}", child.id(), log.display());
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}
