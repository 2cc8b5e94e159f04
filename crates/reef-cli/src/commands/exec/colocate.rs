//! Shares next to busy real-time programs, as `reef exec` passes them to a program's library.

use crate::report::usage::Usage;
use anyhow::{Result, bail};
use reef_guest::colocation::{Percent, Slo};
use reef_guest::page::Class;
use std::ffi::OsString;
use std::path::PathBuf;

/// Wishes of a program: the daemon bounds them.
#[derive(clap::Args)]
pub(super) struct Shares {
    /// Part of the time in which a best-effort program runs while real-time programs are busy, such
    /// as 30% [default: `guests.colocate` of the daemon, 0].
    #[arg(long, value_name = "SHARE")]
    colocate: Option<String>,
    /// Part of the time that a best-effort program has whatever real-time programs do, such as 5%.
    #[arg(long, value_name = "SHARE")]
    floor: Option<String>,
    /// Latency of a real-time program by that alone, such as 1.10: as much best-effort work runs as
    /// keeps it.
    #[arg(long, value_name = "RATIO")]
    slo: Option<String>,
    /// Share of the device's threads that the program has under MPS, always, such as 20%. It slows
    /// others less than a part of the time.
    #[arg(long, value_name = "SHARE")]
    threads: Option<String>,
}

/// Variable by which MPS bounds a program's threads.
const THREADS: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
/// Variable by which MPS prefers the kernels of one program.
const PRIORITY: &str = "CUDA_MPS_CLIENT_PRIORITY";
/// Variable that names the folder of MPS, and the folder without it.
const MPS_FOLDER: (&str, &str) = ("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps");

/// Variables for the library: shares and a target, which a daemon grants.
///
/// # Errors
///
/// A value that is out of range, or that the program's class can't have.
pub(super) fn variables(args: &Shares, class: Class) -> Result<Vec<(&'static str, OsString)>> {
    let mut set: Vec<(&str, OsString)> = Vec::new();
    for (option, name, share) in
        [("--colocate", "REEF_COLOCATE", &args.colocate), ("--floor", "REEF_FLOOR", &args.floor)]
    {
        let Some(share) = share else { continue };
        Percent::parse(share).map_err(|why| Usage(format!("{option} {why}")))?;
        if class == Class::RealTime {
            bail!(Usage(format!("{option} is for --class be: a real-time program has --slo")));
        }
        set.push((name, share.into()));
    }
    if let Some(slo) = &args.slo {
        Slo::parse(slo).map_err(|why| Usage(format!("--slo {why}")))?;
        if class == Class::BestEffort {
            bail!(Usage("--slo needs --class rt: a best-effort program has --colocate".into()));
        }
        set.push(("REEF_SLO", slo.into()));
    }
    Ok(set)
}

/// Variable by which programs of a class come first under MPS or yield, unless it is set already.
pub(super) fn priority(class: Class) -> Option<(&'static str, OsString)> {
    // Not left to the default: set to 0, gaps between kernels were shorter (H200, 2026-11-28).
    let value = match class {
        Class::RealTime => "0",
        Class::BestEffort => "1",
    };
    std::env::var_os(PRIORITY).is_none().then(|| (PRIORITY, value.into()))
}

/// Variable for a share of threads, which MPS keeps without a daemon.
///
/// # Errors
///
/// A share that is none, or no MPS that keeps it.
pub(super) fn threads(args: &Shares) -> Result<Option<(&'static str, OsString)>> {
    let Some(share) = &args.threads else { return Ok(None) };
    let percent = Percent::parse(share).map_err(|why| Usage(format!("--threads {why}")))?;
    if percent == Percent::NONE {
        bail!(Usage("--threads must be at least 1 %, got 0".into()));
    }
    let folder = std::env::var_os(MPS_FOLDER.0).filter(|folder| !folder.is_empty());
    let folder = PathBuf::from(folder.unwrap_or_else(|| MPS_FOLDER.1.into()));
    if !folder.join("control").exists() {
        let place = folder.display();
        bail!(Usage(format!(
            "--threads needs MPS, got no control daemon at {place}: start nvidia-cuda-mps-control -d"
        )));
    }
    Ok(Some((THREADS, (percent.parts() / 10_000).to_string().into())))
}
