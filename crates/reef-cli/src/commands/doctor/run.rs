//! Runs all checks and prints what they found.

use super::driver::Found;
use super::finding::{Check, Finding, State};
use super::fix::fix;
use super::{daemon, mps, programs};
use crate::report::output::print;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::io::IsTerminal;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Checks that must be ok; others only must not be wrong.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CHECK")]
    pub(crate) need: Vec<Check>,
    /// Folder of the daemon's sockets [default: $XDG_RUNTIME_DIR/reef, or /tmp/reef-UID].
    #[arg(long = "socket-dir", value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Library that takes the driver's place [default: $REEF_SHIM, or next to this program].
    #[arg(long)]
    pub(crate) shim: Option<PathBuf>,
    /// Start REEF's daemon if there is none, say so, and check again.
    #[arg(long)]
    pub(crate) fix: bool,
    /// Also start MPS, which takes up to a quarter of some programs' speed.
    #[arg(long, requires = "fix")]
    pub(crate) mps: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut findings = findings_of(args)?;
    let (mut started, mut fixed) = (Vec::new(), Ok(()));
    if args.fix {
        fixed = fix(&findings, args.folder.as_deref(), args.mps, &mut started);
        findings = findings_of(args)?;
    }
    let wrong = findings.iter().filter(|finding| finding.state == State::Wrong);
    let wrong: Vec<_> = wrong.map(|finding| finding.check.to_string()).collect();
    if args.json {
        let ok = wrong.is_empty() && fixed.is_ok();
        let all = json!({ "ok": ok, "checks": findings, "started": started });
        print(serde_json::to_string_pretty(&all)?)?;
    } else {
        let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        findings.iter().try_for_each(|finding| print(finding.lines(colours)))?;
    }
    fixed.context("not fixed")?;
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("wrong: {}", wrong.join(", "))
}

fn findings_of(args: &Args) -> Result<Vec<Finding>> {
    let driver = Found::find();
    let [of_driver, of_gpu] = driver.findings();
    let mps = if driver.is_there() {
        mps::finding(args.folder.as_deref())
    } else {
        Finding::absent(Check::Mps, "of no use without a GPU", "needs a GPU first")
    };
    let [of_daemon, rights] = daemon::findings(args.folder.as_deref(), driver.is_there())?;
    let library = programs::library(args.shim.as_deref(), &driver);
    let all = [of_driver, of_gpu, mps, of_daemon, rights, programs::limits(), library];
    let judge = |finding: Finding| {
        let is_needed = args.need.contains(&finding.check);
        finding.judged(is_needed)
    };
    Ok(all.into_iter().map(judge).collect())
}
