//! Refuses what can't be meant before anything long begins.

use crate::report::time;
use crate::report::usage::Usage;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

/// Most time for one measurement: an hour would be a typing error.
const MAX_TIME: Duration = Duration::from_secs(600);

/// Most turns of a bench: more would be a typing error.
#[cfg(feature = "bench")]
const MAX_REPEAT: usize = 1_000;

/// Refuses a measurement of no time, or of too much.
pub(crate) fn check_time(time: Duration) -> Result<(), Usage> {
    time::check("--time", time, MAX_TIME)
}

/// Refuses a rate of nothing per second, or of more than `max`.
#[cfg(feature = "bench")]
pub(crate) fn check_rate(option: &str, rate: f64, max: f64) -> Result<(), Usage> {
    if rate > 0.0 && rate <= max {
        return Ok(());
    }
    Err(Usage(format!("{option} must be greater than 0 and at most {max}, got {rate}")))
}

/// Refuses a number of turns in which nothing is measured, or more than can be meant.
#[cfg(feature = "bench")]
pub(crate) fn check_repeat(count: usize) -> Result<(), Usage> {
    check_count("--repeat", count, MAX_REPEAT)
}

/// Refuses none of something, and more than `max`.
#[cfg(feature = "bench")]
pub(crate) fn check_count(option: &str, count: usize, max: usize) -> Result<(), Usage> {
    if (1..=max).contains(&count) {
        return Ok(());
    }
    Err(Usage(format!("{option} must be from 1 to {max}, got {count}")))
}

/// Refuses a text that is not the address of a server of devices.
#[cfg(feature = "daemon")]
pub(crate) fn check_server(option: &str, text: &str) -> Result<(), Usage> {
    let after = |kinds: [&str; 2]| kinds.into_iter().find_map(|kind| text.strip_prefix(kind));
    let is_address = match after(["unix:", "shm:"]) {
        Some(path) => !path.is_empty(),
        None => {
            let host = after(["tls:", "tcp:"]).unwrap_or(text).rsplit_once(':');
            let is_bare_v6 =
                |host: &str| host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
            let is_host = |host: &str| !host.is_empty() && !is_bare_v6(host);
            host.is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok())
        }
    };
    if is_address {
        return Ok(());
    }
    let forms = "HOST:PORT, tls:HOST:PORT or unix:PATH";
    Err(Usage(format!("{option} must be {forms}, got {text:?}")))
}

/// Makes the folder for results before anything long begins, and checks that it takes files.
pub(crate) fn make_folder(out: &Path) -> Result<()> {
    check_folder(out)?;
    let wrong = |error: std::io::Error| Usage(format!("--out {}: {error}", out.display()));
    std::fs::create_dir_all(out).map_err(wrong)?;
    Ok(reef_files::replaceable(out.join(".reef-check")).map_err(wrong)?)
}

/// Refuses a file as the value of an `--out DIR`.
pub(crate) fn check_folder(out: &Path) -> Result<(), Usage> {
    if out.exists() && !out.is_dir() {
        return Err(Usage(format!("--out {}: must be a folder, got a file", out.display())));
    }
    Ok(())
}

/// Refuses what is not a file of this user as the value of an `--out FILE`, and a file whose
/// folder does not exist.
pub(crate) fn check_file(out: &Path) -> Result<(), Usage> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let wrong = match folder {
        _ if out.is_dir() => "must be a file, got a folder".into(),
        Some(folder) if !folder.is_dir() => "its folder doesn't exist".into(),
        _ => match reef_files::replaceable(out) {
            Ok(()) => return Ok(()),
            Err(error) => error.to_string(),
        },
    };
    Err(Usage(format!("--out {}: {wrong}", out.display())))
}
