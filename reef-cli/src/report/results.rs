//! Results of benches: where, when and how they were measured, and the files they go to.

use crate::report::columns::{Column, as_csv, as_json};
use crate::report::output::print;
use crate::report::usage::Usage;
use anyhow::{Context, Result};
use reef::Device;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Most time for one measurement: an hour would be a typing error.
const MAX_SECONDS: f64 = 600.0;

/// Refuses times that can't be meant.
pub(crate) fn check_seconds(seconds: f64) -> Result<()> {
    if seconds > 0.0 && seconds <= MAX_SECONDS {
        return Ok(());
    }
    Err(Usage(format!("--seconds must be in 0..={MAX_SECONDS}, got {seconds}")).into())
}

/// Makes the folder for results before anything long begins.
pub(crate) fn make_folder(out: &Path) -> Result<()> {
    let wrong = |error| Usage(format!("--out {}: {error}", out.display()));
    Ok(std::fs::create_dir_all(out).map_err(wrong)?)
}

/// Refuses a place where no file can be before anything long begins.
pub(crate) fn check_file(path: &Path) -> Result<(), &'static str> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        _ if path.is_dir() => Err("it is a folder"),
        Some(folder) if !folder.is_dir() => Err("its folder doesn't exist"),
        _ => Ok(()),
    }
}

/// Options that all benches have.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// The device: cpu, cpu:0?units=4 and so on; `reef devices` lists what is there.
    #[arg(long, default_value = "cpu")]
    pub(crate) device: String,
    /// A folder for the results as JSON, CSV and SVG.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Prints JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Seed of what is random: when real-time requests come.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// When the command began.
    #[arg(skip = SystemTime::now())]
    begun: SystemTime,
}

impl Common {
    /// Makes the folder for the results, if one was named.
    pub(crate) fn make_folder(&self) -> Result<()> {
        self.out.as_deref().map_or(Ok(()), make_folder)
    }
}

/// Where a bench ran.
pub(crate) struct Place {
    /// For people.
    pub(crate) title: String,
    /// For programs.
    pub(crate) facts: Value,
}

impl Place {
    /// On a device here.
    pub(crate) fn of<D: Device>(args: &Common, device: &D) -> Self {
        let info = device.info();
        Self {
            title: format!("{} ({})", args.device, info.name),
            facts: json!({ "asked": args.device, "name": info.name, "units": info.units }),
        }
    }
}

/// What a bench found.
pub(crate) struct Results<'a, R> {
    /// Names the files.
    pub(crate) bench: &'static str,
    /// What is not in rows.
    pub(crate) facts: Value,
    pub(crate) columns: &'a [Column<R>],
    pub(crate) rows: &'a [R],
}

impl<R> Results<'_, R> {
    /// Writes JSON and CSV if a folder was named; returns where the plot goes.
    ///
    /// Called after each row, so that a bench that is ended early leaves what it has.
    pub(crate) fn save<D: Device>(&self, args: &Common, device: &D) -> Result<Option<PathBuf>> {
        self.save_at(args, &Place::of(args, device))
    }

    /// The same of a bench that ran elsewhere than on a device here.
    pub(crate) fn save_at(&self, args: &Common, place: &Place) -> Result<Option<PathBuf>> {
        let Some(out) = &args.out else { return Ok(None) };
        let file = |ending: &str| out.join(format!("{}.{ending}", self.bench));
        let write = |ending: &str, text: String| {
            std::fs::write(file(ending), text).with_context(|| file(ending).display().to_string())
        };
        write("json", serde_json::to_string_pretty(&self.json_at(args, place))? + "\n")?;
        write("csv", as_csv(self.columns, self.rows))?;
        Ok(Some(file("svg")))
    }

    /// Everything, and where it was measured.
    pub(crate) fn json<D: Device>(&self, args: &Common, device: &D) -> Value {
        self.json_at(args, &Place::of(args, device))
    }

    /// The same of a bench that ran elsewhere than on a device here.
    pub(crate) fn json_at(&self, args: &Common, place: &Place) -> Value {
        json!({
            "bench": self.bench,
            "version": env!("CARGO_PKG_VERSION"),
            "date": date(args.begun),
            "command": std::env::args().collect::<Vec<_>>().join(" "),
            "device": place.facts,
            "facts": self.facts,
            "rows": as_json(self.columns, self.rows),
        })
    }
}

/// Says where the files are.
pub(crate) fn print_files(plot: Option<&Path>) -> Result<()> {
    let Some(plot) = plot else { return Ok(()) };
    print(format_args!("{}, .csv and .svg", plot.with_extension("json").display()))
}

/// Year, month, day and time of day, UTC.
pub(crate) fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The date that is `days` after 1970-01-01. Years begin in March, so that leap days come last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // from 0000-03-01
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_know_leap_years() {
        let at = |seconds| date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_795_132_799), "2026-11-19T23:59:59Z");
    }
}
