//! Limits that `reef exec` passes to a program's library.

use crate::report::usage::Usage;
use anyhow::{Context, Result};
use reef_guest::limit::{self, AccountsFile, Limits};
use std::ffi::OsString;
use std::time::UNIX_EPOCH;

/// Least limit of memory, in bytes: a smaller one lacks its unit.
const MIN_MEMORY: u64 = 1 << 20;

/// Limits of a program and of all that it starts.
#[derive(clap::Args)]
pub(super) struct Limited {
    /// Limit of device memory for the program and what it starts, on each device, such as 8GiB.
    #[arg(long, value_name = "SIZE")]
    pub(super) memory: Option<String>,
    /// Device memory that other programs' needs do not take from this one, such as 2GiB: needs a
    /// kernel with the cgroup controller dmem.
    #[arg(long, value_name = "SIZE")]
    pub(super) memory_low: Option<String>,
    /// Share of each device's time for the program and what it starts, such as 30%.
    #[arg(long, value_name = "SHARE")]
    compute: Option<String>,
    /// Use of time that other limited programs leave idle.
    #[arg(long, value_enum, value_name = "POLICY")]
    compute_policy: Option<Policy>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Policy {
    /// Never exceed the share.
    Hard,
    /// Also use time that other limited programs leave idle.
    Soft,
}

/// Variables for the library, and whether they limit memory.
#[derive(Debug, Default)]
pub(super) struct Set {
    /// Empty: nothing is limited.
    pub(super) variables: Vec<(&'static str, OsString)>,
    pub(super) has_memory: bool,
}

/// Variables for the library, once it is certain that limits can be kept. Those that are set
/// already count as well.
///
/// # Errors
///
/// A limit that can't be read, or no place for the accounts.
pub(super) fn variables(args: &Limited, job: Option<&str>) -> Result<Set> {
    let mut set: Vec<(&str, OsString)> = Vec::new();
    if let Some(memory) = &args.memory {
        let wrong = |why: &str| Usage(format!("--memory {memory}: {why}"));
        let bytes = limit::bytes(memory).map_err(|why| wrong(&why))?;
        if bytes < MIN_MEMORY {
            let got = limit::format_bytes(bytes);
            let why = format!("must be at least 1 MiB, such as 8GiB, got {got}");
            return Err(wrong(&why).into());
        }
        set.push(("REEF_MEMORY", memory.into()));
    }
    if let Some(compute) = &args.compute {
        let read = limit::parts_per_million(compute);
        read.map_err(|why| Usage(format!("--compute {compute}: {why}")))?;
        set.push(("REEF_COMPUTE", compute.into()));
    }
    set.extend(args.compute_policy.map(|policy| {
        let text = match policy {
            Policy::Hard => "hard",
            Policy::Soft => "soft",
        };
        ("REEF_COMPUTE_POLICY", text.into())
    }));
    let environment = |name: &str| {
        let own = set.iter().find(|(of, _)| *of == name).map(|(_, value)| value.clone());
        own.or_else(|| std::env::var_os(name)).map(|value| value.to_string_lossy().into_owned())
    };
    let limits = Limits::read(environment).map_err(Usage)?;
    let has_share = limits.as_ref().is_some_and(|limits| !limits.compute.is_empty());
    if args.compute_policy.is_some() && !has_share {
        return Err(Usage("--compute-policy needs --compute".into()).into());
    }
    let Some(limits) = limits else {
        return Ok(Set { variables: set, has_memory: false });
    };
    let folder = std::path::absolute(limit::folder(environment)).context("where this runs")?;
    AccountsFile::check(&folder).context("not run: limits need accounts")?;
    if job.is_none() && limits.name.is_empty() {
        set.push(("REEF_LIMIT_ID", own_name().into()));
    }
    set.push(("REEF_ACCOUNTS", folder.into()));
    Ok(Set { variables: set, has_memory: limits.has_memory() })
}

/// A name for this command alone: what it starts has one limit with it.
fn own_name() -> String {
    let now = UNIX_EPOCH.elapsed().map_or(0, |now| now.as_nanos());
    format!("exec-{}-{now}", std::process::id())
}
