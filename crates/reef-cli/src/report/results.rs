//! Results of benches: where, when and how they were measured, and the files they go to.

use crate::report::checks::make_folder;
use crate::report::columns::{Column, as_csv, as_json, as_table};
use crate::report::date::date;
use crate::report::device;
use crate::report::output::{print, save};
use anyhow::{Context, Result};
use reef::Device;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Options that all benches have.
#[derive(clap::Args)]
pub(crate) struct Common {
    #[arg(long, default_value = device::AUTO, help = device::HELP)]
    pub(crate) device: String,
    /// Folder to write the results to, as JSON, CSV and SVG.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Seed of random numbers, such as arrivals of real-time requests.
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

/// Device or daemon that a bench ran on.
pub(crate) struct BenchTarget {
    /// Text for people.
    pub(crate) title: String,
    /// Facts for programs.
    pub(crate) facts: Value,
}

impl BenchTarget {
    /// On a device here.
    pub(crate) fn of<D: Device>(args: &Common, device: &D) -> Self {
        let info = device.info();
        Self {
            title: format!("{} ({})", args.device, info.name),
            facts: json!({ "asked": args.device, "name": info.name, "units": info.units }),
        }
    }
}

/// Results of a bench.
pub(crate) struct Results<'a, R> {
    /// Names the files.
    pub(crate) bench: &'static str,
    /// Facts that are not in rows.
    pub(crate) facts: Value,
    pub(crate) columns: &'a [Column<R>],
    pub(crate) rows: &'a [R],
}

impl<R> Results<'_, R> {
    /// Writes JSON and CSV if a folder was named; returns where the plot goes.
    ///
    /// Called after each row, so that a bench that is ended early leaves what it has.
    pub(crate) fn save<D: Device>(&self, args: &Common, device: &D) -> Result<Option<PathBuf>> {
        self.save_at(args, &BenchTarget::of(args, device))
    }

    /// Like [`save`](Self::save), for a bench that ran elsewhere than on one device of this
    /// process.
    pub(crate) fn save_at(&self, args: &Common, place: &BenchTarget) -> Result<Option<PathBuf>> {
        let Some(out) = &args.out else { return Ok(None) };
        let file = |ending: &str| out.join(format!("{}.{ending}", self.bench));
        save(&file("json"), serde_json::to_string_pretty(&self.json_at(args, place))? + "\n")?;
        save(&file("csv"), as_csv(self.columns, self.rows))?;
        Ok(Some(file("svg")))
    }

    /// Saves the results; `draw` draws the plot, given its file and its title. Then prints JSON if
    /// that was asked for. Else prints the place, what was `measured`, the table, its legend and
    /// the names of the files.
    pub(crate) fn show<D: Device>(
        &self,
        args: &Common,
        device: &D,
        measured: &str,
        legend: &str,
        draw: impl FnOnce(&Path, &str) -> Result<()>,
    ) -> Result<()> {
        self.show_at(args, &BenchTarget::of(args, device), measured, legend, draw)
    }

    /// Like [`show`](Self::show), for a bench that ran elsewhere than on one device of this
    /// process.
    pub(crate) fn show_at(
        &self,
        args: &Common,
        place: &BenchTarget,
        measured: &str,
        legend: &str,
        draw: impl FnOnce(&Path, &str) -> Result<()>,
    ) -> Result<()> {
        let plot = self.save_at(args, place)?;
        if let Some(plot) = &plot {
            draw(plot, &place.title).with_context(|| plot.display().to_string())?;
        }
        if args.json {
            return print(serde_json::to_string_pretty(&self.json_at(args, place))?);
        }
        print(&place.title)?;
        print(measured)?;
        print(as_table(self.columns, self.rows))?;
        print(legend)?;
        print_files(plot.as_deref())
    }

    /// Everything, and where it was measured.
    pub(crate) fn json<D: Device>(&self, args: &Common, device: &D) -> Value {
        self.json_at(args, &BenchTarget::of(args, device))
    }

    /// Like [`json`](Self::json), for a bench that ran elsewhere than on one device of this
    /// process.
    pub(crate) fn json_at(&self, args: &Common, place: &BenchTarget) -> Value {
        json!({
            "bench": self.bench,
            "version": env!("CARGO_PKG_VERSION"),
            "date": date(args.begun),
            "command": command(std::env::args_os()),
            "device": place.facts,
            "facts": self.facts,
            "rows": as_json(self.columns, self.rows),
        })
    }
}

/// The command line. Names of files need not be text.
fn command(words: impl Iterator<Item = OsString>) -> String {
    let words = words.map(|word| word.to_string_lossy().into_owned());
    words.collect::<Vec<_>>().join(" ")
}

pub(crate) fn print_files(plot: Option<&Path>) -> Result<()> {
    let Some(plot) = plot else { return Ok(()) };
    let others = if plot.exists() { ", .csv and .svg" } else { " and .csv" };
    print(format_args!("{}{others}", plot.with_extension("json").display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn command_line_with_any_bytes_is_shown() {
        let words = [b"reef".to_vec(), b"--out".to_vec(), vec![0xff]];
        assert_eq!(command(words.into_iter().map(OsString::from_vec)), "reef --out \u{fffd}");
    }
}
