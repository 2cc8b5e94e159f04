//! Shares next to busy real-time programs, as `reef exec` passes them to a program's library.

use crate::report::usage::Usage;
use anyhow::{Result, bail};
use reef_guest::beside::{Percent, Slo};
use reef_guest::page::Class;
use std::ffi::OsString;

/// Wishes of a program: the daemon bounds them.
#[derive(clap::Args)]
pub(super) struct Shares {
    /// Part of the time in which a best-effort program runs while real-time programs are busy, such
    /// as 30% [default: `guests.beside` of the daemon, 0].
    #[arg(long, value_name = "SHARE")]
    beside: Option<String>,
    /// Part of the time that a best-effort program has whatever real-time programs do, such as 5%.
    #[arg(long, value_name = "SHARE")]
    floor: Option<String>,
    /// Latency of a real-time program by that alone, such as 1.10: as much best-effort work runs as
    /// keeps it.
    #[arg(long, value_name = "RATIO")]
    slo: Option<String>,
}

/// Variables for the library.
///
/// # Errors
///
/// A value that is out of range, or that the program's class can't have.
pub(super) fn variables(args: &Shares, class: Class) -> Result<Vec<(&'static str, OsString)>> {
    let mut set: Vec<(&str, OsString)> = Vec::new();
    for (option, name, share) in
        [("--beside", "REEF_BESIDE", &args.beside), ("--floor", "REEF_FLOOR", &args.floor)]
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
            bail!(Usage("--slo needs --class rt: a best-effort program has --beside".into()));
        }
        set.push(("REEF_SLO", slo.into()));
    }
    Ok(set)
}
