//! Results so far, as a table and files.

use super::args::Args;
use super::config::Workload;
use super::measure::Run;
use super::report;
use super::requests::Phases;
use crate::report::results::BenchTarget;
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// All runs of a workload.
pub(crate) struct Record<'a> {
    args: &'a Args,
    workload: &'a Workload,
    /// The network for each name in the workload.
    networks: &'a BTreeMap<String, String>,
    place: BenchTarget,
    /// Time of each task alone.
    pub(crate) alone: Vec<Phases>,
    time: Duration,
    runs: Vec<Run>,
    /// DISB's report of each.
    disb: Map<String, Value>,
}

impl<'a> Record<'a> {
    pub(crate) fn new(
        args: &'a Args,
        workload: &'a Workload,
        networks: &'a BTreeMap<String, String>,
        place: BenchTarget,
        alone: Vec<Phases>,
    ) -> Self {
        let time = args.options(workload).time;
        Self { args, workload, networks, place, alone, time, runs: Vec::new(), disb: Map::new() }
    }

    /// Adds a run, to the files as well: a bench that is ended early leaves what it has.
    pub(crate) fn add(&mut self, run: Run) -> Result<()> {
        let report = report::disb(self.workload, &run, &self.alone, self.time);
        if let Some(out) = &self.args.common.out {
            report::save_disb(out, &self.workload.name, &run, &report)?;
        }
        self.disb.insert(run.policy.clone(), report);
        self.runs.push(run);
        let rows = self.rows();
        report::results(self.args, self.facts(), &rows).save_at(&self.args.common, &self.place)?;
        Ok(())
    }

    /// Prints it, and draws it if there is a folder for that.
    pub(crate) fn show(self) -> Result<()> {
        let alias = |(name, network): (&String, &String)| format!("{name} is {network}");
        let aliases: Vec<_> = self.networks.iter().map(alias).collect();
        report::show(self.args, &self.place, self.facts(), &self.rows(), &aliases.join(", "))
    }

    fn rows(&self) -> Vec<report::Row> {
        report::rows(self.workload, &self.runs, &self.alone, self.time)
    }

    fn facts(&self) -> Value {
        let seconds = self.time.as_secs_f64();
        json!({ "networks": self.networks, "seconds": seconds, "disb": self.disb })
    }
}
