//! The daemon, and what it grants.

use super::finding::{Check, Finding};
use crate::remote::daemon::{Daemon, Error};
use anyhow::Result;
use reef_guest::join::{GuestInfo, JoinRequest, Refusal, would_join};
use reef_guest::page::Class;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Longest time of an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Option of a daemon where programs can be guests; elsewhere only networks can run.
const GUESTS: &str = " --guests";

/// Findings of the daemon whose sockets are in this folder, and of the rights of this user there.
/// Without a driver there are no unmodified programs.
pub(super) fn findings(folder: Option<&Path>, has_driver: bool) -> Result<[Finding; 2]> {
    let daemon = Daemon::in_folder(folder)?;
    let found = match daemon.get("/v2/health/ready", TIMEOUT) {
        Ok(_) => Finding::ok(Check::Daemon, format!("ready, {}", described(&daemon))),
        Err(Error::Refused(status, why)) => {
            let remedy = "see its log, and `reef ctl status`";
            Finding::wrong(Check::Daemon, format!("{}: {status} {why}", daemon.name()), remedy)
        }
        Err(error @ (Error::Absent(..) | Error::Gone(_))) => {
            return Ok(without(&error.short(), folder, has_driver));
        }
    };
    Ok([found, rights(folder)])
}

/// Version and devices, as the daemon says.
fn described(daemon: &Daemon) -> String {
    let read = |path: &str| -> Option<Value> {
        serde_json::from_slice(&daemon.get(path, TIMEOUT).ok()?).ok()
    };
    let version = read("/v2").and_then(|server| Some(server["version"].as_str()?.to_owned()));
    let devices = read("/reef/devices").and_then(|all| {
        let names = all["devices"].as_array()?.iter().filter_map(|device| device["name"].as_str());
        Some(names.collect::<Vec<_>>().join(", "))
    });
    let (version, devices) = (version.unwrap_or("?".into()), devices.unwrap_or_default());
    format!("version {version}, {devices}, {}", daemon.name())
}

/// No daemon answers. A folder or a socket that is there says that something else is the matter.
fn without(why: &str, folder: Option<&Path>, has_driver: bool) -> [Finding; 2] {
    let guests = if has_driver { GUESTS } else { "" };
    let place = folder.map(|folder| format!(" --socket-dir {}", folder.display()));
    let start = format!("reef serve{guests}{} &", place.unwrap_or_default());
    let rights = Finding::absent(Check::Rights, "unknown without a daemon", &start);
    let is_left = reef_serve::folder(folder).join("http.sock").exists();
    let daemon = if is_left {
        Finding::wrong(Check::Daemon, why, &format!("start it again: {start}"))
    } else {
        Finding::absent(Check::Daemon, why, &start)
    };
    [daemon, rights]
}

/// Asks whether a program of this user would be taken as real-time.
fn rights(folder: Option<&Path>) -> Finding {
    let socket = reef_serve::folder(folder).join("guests.sock");
    let wish = JoinRequest { class: Class::RealTime, device: [0; 16] };
    match would_join(&socket, &wish, &GuestInfo::default(), Path::new("/proc/self/exe"), TIMEOUT) {
        Ok(_) => Finding::ok(Check::Rights, "this user's programs may be real-time"),
        Err(Refusal::Refused(why)) => {
            let remedy = "set that key to true: reef serve --set KEY=true, or in its file";
            Finding::absent(Check::Rights, format!("best-effort only: {why}"), remedy)
        }
        Err(Refusal::Unreachable(_)) if !socket.exists() => {
            let found = "the daemon takes no unmodified programs";
            Finding::absent(Check::Rights, found, "start it with --guests")
        }
        Err(refusal) => {
            let remedy = "run `reef` and the daemon of one version";
            Finding::wrong(Check::Rights, refusal.to_string(), remedy)
        }
    }
}
