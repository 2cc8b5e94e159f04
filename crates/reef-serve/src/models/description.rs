//! Keys of `model.toml`.

use crate::class::Class;
use crate::config::sources::why;
use crate::error::{Error, Result};
use crate::models::state::spec::{StatePair, StateSpec};
use crate::name::{excerpt, is_file_name};
use crate::process::settings::ProcessSettings;
use crate::requests::batch::Batching;
use crate::residency::idle::{self, ResidencyKind};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// Content of a `model.toml`. An unknown key is an error.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Description {
    /// Name of a built-in network; `None` if the files define it.
    pub(super) network: Option<String>,
    /// Rows and columns of the image; default: the network's own.
    pub(super) size: Option<usize>,
    /// Images at a time, the first dimension of the tensors; default: the network's own, or 1.
    pub(super) batch: Option<usize>,
    /// Seed of made-up weights, used instead of a file.
    pub(super) seed: Option<u64>,
    /// File of scales in the version's folder: numbers of 8 bits between the steps. Empty: none.
    pub(super) scales: Option<String>,
    /// Versions to load if none is named; default: the newest.
    pub(super) versions: Option<Versions>,
    /// Instances for requests of each class of the standard protocol.
    pub(super) instances: Instances,
    /// Devices with that many instances each; default: devices that the daemon chooses.
    pub(super) devices: Option<Devices>,
    /// Number of devices that the daemon chooses; default: the configuration's.
    pub(super) replicas: Option<usize>,
    /// Indices of devices among the daemon's, from a configuration in Triton's form; has precedence
    /// over both.
    #[serde(skip)]
    pub(super) gpus: Option<Vec<usize>>,
    /// Shapes of networks that are created at the load, for open sizes, by names of inputs. Clients
    /// of the local path use the first one.
    pub(super) shapes: Vec<BTreeMap<String, Vec<usize>>>,
    /// Iterations after which loops of an ONNX file that data end have ended; default: the trip
    /// count, or 64.
    pub(super) loop_bound: Option<usize>,
    /// Outputs that are inputs of a sequence's next request, and stay on the device. A process has
    /// sequences if one of the next two keys is set.
    pub(super) state: Vec<StatePair>,
    /// Time after which an unused sequence is forgotten, in microseconds; default: a minute.
    pub(super) sequence_idle_us: Option<u64>,
    /// Maximum number of sequences at a time; default: 64.
    pub(super) max_sequences: Option<usize>,
    /// Maximum number of rows (first size of all tensors) of a batch, or of requests for a process;
    /// 0 or 1: no batching.
    pub(super) max_batch: usize,
    /// Time that a request waits for others of its batch, in microseconds.
    pub(super) max_delay_us: u64,
    /// True if real-time requests are batched as well.
    pub(super) batch_rt: bool,
    /// Measures the kernels at the load, if there is no profile.
    pub(super) measure: bool,
    /// Times at which the network's memory is on its device.
    pub(super) residency: ResidencyKind,
    /// Time without a request after which a network leaves its device on demand, such as 30s.
    pub(super) idle: Option<String>,
    /// Kind of its engine; default: a network that the daemon reads itself.
    pub(super) engine: Option<EngineKind>,
    /// Program of a model whose engine is a process, or may become one.
    pub(super) process: Option<ProcessSettings>,
}

/// Kind of a model's engine, which answers its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EngineKind {
    /// A program of its own.
    Process,
    /// A network that the daemon reads itself or, if it does not read the file, a program.
    Auto,
}

/// Number of requests of each class that run at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Instances {
    pub(crate) rt: usize,
    pub(crate) be: usize,
}

impl Default for Instances {
    fn default() -> Self {
        Self { rt: 1, be: 1 }
    }
}

impl Instances {
    /// Returns the number for each class that has any, with the name of the class.
    pub(crate) fn each(self) -> impl Iterator<Item = (&'static str, usize)> {
        let all = [(Class::RealTime, self.rt), (Class::BestEffort, self.be)];
        let some = all.into_iter().filter(|(_, count)| *count > 0);
        some.map(|(class, count)| (class.name(), count))
    }
}

/// Maximum length of the file, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// Maximum of `max_batch`, and of `max_delay_us`.
const MAX_BATCH: usize = 256;
const MAX_DELAY_US: u64 = 1_000_000;

/// Maximum number of instances of one class.
const MAX_INSTANCES: usize = 16;

impl Description {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let wrong = |e: &dyn std::fmt::Display| Error::Invalid(format!("{}: {e}", path.display()));
        let text = reef_files::read_to_string(path, MAX_BYTES).map_err(|e| wrong(&e))?;
        Self::parse(&text).map_err(|why| wrong(&why))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let description: Self = toml::from_str(text).map_err(|e| why(text, &e))?;
        description.check()?;
        description.check_batching()?;
        Ok(description)
    }

    /// Refuses keys that need batches without any. A configuration in Triton's form may have them.
    fn check_batching(&self) -> Result<(), String> {
        let keys = [("max_delay_us", self.max_delay_us > 0), ("batch_rt", self.batch_rt)];
        match keys.iter().find(|(_, is_set)| *is_set).filter(|_| self.max_batch < 2) {
            Some((key, _)) => {
                Err(format!("{key} requires max_batch of at least 2, got {}", self.max_batch))
            }
            None => Ok(()),
        }
    }

    /// Refuses numbers out of range.
    pub(super) fn check(&self) -> Result<(), String> {
        // A program may do without the processes of one class.
        let least = usize::from(self.engine != Some(EngineKind::Process));
        for count in [self.instances.rt, self.instances.be] {
            if !(least..=MAX_INSTANCES).contains(&count) {
                return Err(format!("instances must be {least} to {MAX_INSTANCES}, got {count}"));
            }
        }
        if self.instances.rt + self.instances.be == 0 {
            return Err("instances must be at least 1 for one class, got 0 for both".into());
        }
        if self.devices.is_some() && self.replicas.is_some() {
            return Err("devices and replicas cannot be set together".into());
        }
        if self.versions == Some(Versions::Latest { latest: 0 }) {
            return Err("versions.latest must be at least 1, got 0".into());
        }
        if self.versions == Some(Versions::List(Vec::new())) {
            return Err("versions must have at least one number, got none".into());
        }
        if let Some(file) = self.scales_file().filter(|file| !is_file_name(file)) {
            let shown = excerpt(file);
            return Err(format!("scales must be a file of the version's folder, got {shown:?}"));
        }
        if self.max_batch > MAX_BATCH || self.max_delay_us > MAX_DELAY_US {
            return Err(format!(
                "max_batch must be at most {MAX_BATCH} and max_delay_us at most {MAX_DELAY_US}, got {} and {}",
                self.max_batch, self.max_delay_us
            ));
        }
        self.state()?;
        if !self.state.is_empty() && self.max_batch > 1 {
            let max = self.max_batch;
            return Err(format!("max_batch must be 0 or 1 for a model with state, got {max}"));
        }
        self.check_sequences()?;
        self.check_residency()?;
        self.check_process()
    }

    /// Refuses keys of sequences for a network without state, which would have none.
    fn check_sequences(&self) -> Result<(), String> {
        if self.engine.is_some() || !self.state.is_empty() {
            return Ok(());
        }
        match self.sequence_keys().iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => Err(format!("{key} requires state, or engine = \"process\"")),
            None => Ok(()),
        }
    }

    /// Returns the keys of sequences, and whether they are set.
    fn sequence_keys(&self) -> [(&'static str, bool); 2] {
        [
            ("sequence_idle_us", self.sequence_idle_us.is_some()),
            ("max_sequences", self.max_sequences.is_some()),
        ]
    }

    /// Refuses residency that a network cannot have.
    fn check_residency(&self) -> Result<(), String> {
        let idle = self.idle.as_deref();
        if self.residency == ResidencyKind::Always {
            let text = "idle requires residency = \"on-demand\"";
            return if idle.is_some() { Err(text.into()) } else { Ok(()) };
        }
        if !self.state.is_empty() {
            return Err("residency must be \"always\" for a model with state".into());
        }
        if self.measure {
            return Err("measure cannot be set with residency = \"on-demand\"".into());
        }
        let checked = idle.map_or(Ok(idle::DEFAULT), idle::parse);
        checked.map(drop).map_err(|why| format!("idle {why}"))
    }

    /// Returns the time without a request after which its network leaves; `None` if it stays.
    pub(super) fn idle_time(&self) -> Option<Duration> {
        let idle = self.idle.as_deref().and_then(|text| idle::parse(text).ok());
        let is_on_demand = self.residency == ResidencyKind::OnDemand;
        is_on_demand.then(|| idle.unwrap_or(idle::DEFAULT))
    }

    /// Refuses keys that a model's engine does not have.
    fn check_process(&self) -> Result<(), String> {
        let engine = match (self.engine, &self.process) {
            (None, None) => return Ok(()),
            (None, Some(_)) => {
                return Err("process requires engine = \"process\" or \"auto\"".into());
            }
            (Some(EngineKind::Process), None) => {
                return Err("engine = \"process\" requires process.command".into());
            }
            (Some(EngineKind::Process), Some(_)) => "process",
            (Some(EngineKind::Auto), _) => "auto",
        };
        // A program keeps the state of its sequences itself, and a network in its place would not:
        // `auto` has none. It ignores the other keys, which a network in its place has.
        let sequences = self.sequence_keys();
        let state = ("state", !self.state.is_empty());
        let of_networks = [
            ("network", self.network.is_some()),
            ("size", self.size.is_some()),
            ("batch", self.batch.is_some()),
            ("seed", self.seed.is_some()),
            ("scales", self.scales.is_some()),
            ("shapes", !self.shapes.is_empty()),
            ("loop_bound", self.loop_bound.is_some()),
            ("measure", self.measure),
            ("residency", self.residency == ResidencyKind::OnDemand),
        ];
        let refused = match engine {
            "process" => &of_networks[..],
            _ => &sequences,
        };
        match refused.iter().chain([&state]).find(|(_, is_set)| *is_set) {
            Some((key, _)) => Err(format!("{key} cannot be set with engine = {engine:?}")),
            None => self.process.as_ref().map_or(Ok(()), ProcessSettings::check),
        }
    }

    /// Its state, if it has any. That of a process has no pairs: the program keeps it.
    pub(super) fn state(&self) -> Result<Option<StateSpec>, String> {
        let spec = StateSpec::new(&self.state, self.sequence_idle_us, self.max_sequences)?;
        let is_set = self.sequence_idle_us.is_some() || self.max_sequences.is_some();
        let by_program = self.process.is_some() && is_set;
        Ok(Some(spec).filter(|spec| by_program || !spec.pairs.is_empty()))
    }

    /// Name of its file of scales, if it has one.
    pub(super) fn scales_file(&self) -> Option<&str> {
        self.scales.as_deref().filter(|file| !file.is_empty())
    }

    /// Returns the rule that selects its devices.
    pub(super) fn placing(&self) -> Placing {
        if let Some(gpus) = &self.gpus {
            return Placing::At(gpus.clone());
        }
        match (&self.devices, self.replicas) {
            (Some(Devices::Named(names)), _) => Placing::On(names.clone()),
            (Some(Devices::All(_)), _) => Placing::Replicas(0),
            (None, Some(count)) => Placing::Replicas(count),
            (None, None) => Placing::Default,
        }
    }

    /// Returns the batching of each of [`Class::ALL`].
    pub(super) fn batching(&self) -> [Option<Batching>; 2] {
        let delay = Duration::from_micros(self.max_delay_us);
        let batching = (self.max_batch > 1).then_some(Batching { max: self.max_batch, delay });
        Class::ALL.map(|class| batching.filter(|_| self.batch_rt || class == Class::BestEffort))
    }

    /// Returns the versions to load if none is named, each once.
    pub(super) fn choose(&self, have: &[u32]) -> Vec<u32> {
        match &self.versions {
            Some(Versions::List(versions)) => {
                versions.iter().copied().collect::<BTreeSet<_>>().into_iter().collect()
            }
            Some(Versions::All(_)) => have.to_vec(),
            Some(Versions::Latest { latest }) => {
                have[have.len().saturating_sub(*latest)..].to_vec()
            }
            None => have.last().copied().into_iter().collect(),
        }
    }
}

/// Versions to load if none is named.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "versions must be a list, \"all\" or { latest = N }"
)]
pub(super) enum Versions {
    /// Versions with these numbers.
    List(Vec<u32>),
    /// All versions.
    All(All),
    /// The newest versions, this many.
    Latest { latest: usize },
}

/// Devices by name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "devices must be a list of names, or \"all\"")]
pub(super) enum Devices {
    /// Devices with these names, each with a replica.
    Named(Vec<String>),
    /// All devices.
    All(All),
}

/// Rule that selects the devices of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placing {
    /// Number of the configuration.
    Default,
    /// This number of devices, chosen by the daemon; 0 is all.
    Replicas(usize),
    /// Devices with these names.
    On(Vec<String>),
    /// Devices with these indices among the daemon's.
    At(Vec<usize>),
}

/// The word `all`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum All {
    All,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;

    const MODELS: &str = include_str!("../../../../docs/operate/serving-models.md");
    const PROGRAMS: &str = include_str!("../../../../docs/operate/process-models.md");

    /// Row of a table of keys: its keys and their default.
    type Row = (Vec<&'static str>, &'static str);

    fn rows(page: &'static str, header: &str) -> Vec<Row> {
        let rows = page.lines().skip_while(|line| *line != header).skip(2);
        let row = |line: &'static str| -> Option<Row> {
            let (keys, rest) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
            let keys = keys.split('`').skip(1).step_by(2).map(|key| key.trim_matches(['[', ']']));
            Some((keys.collect(), rest.rsplit(" | ").next()?))
        };
        rows.map_while(row).collect()
    }

    fn named(rows: &[Row]) -> BTreeSet<String> {
        rows.iter().flat_map(|(keys, _)| keys).map(|key| (*key).to_owned()).collect()
    }

    fn default<'r>(rows: &'r [Row], keys: &[&str]) -> &'r str {
        let row = rows.iter().find(|row| row.0 == keys);
        row.expect("a row of the page").1.trim_matches('`')
    }

    /// Keys that are read, as the refusal of another one lists them.
    fn keys_of<T: DeserializeOwned>() -> BTreeSet<String> {
        let said = toml::from_str::<T>("no_key = 1").err().map(|error| error.to_string());
        let said = said.expect("a refusal");
        let (_, list) = said.split_once("expected one of ").expect("a list of keys");
        list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn pages_have_all_keys_and_their_defaults() {
        let models = rows(MODELS, "| key of `model.toml` | meaning | default |");
        assert_eq!(named(&models), keys_of::<Description>());
        let programs = rows(PROGRAMS, "| key | meaning | default |");
        assert_eq!(named(&programs), keys_of::<ProcessSettings>());

        let line = |key: &str| format!("{key} = {}\n", default(&programs, &[key]));
        let text = ["residency", "load_ms", "cancel_ms", "stop_ms"].map(line).concat();
        let settings: ProcessSettings = toml::from_str(&text).unwrap();
        assert_eq!(settings, ProcessSettings::default());
        let line = |key: &str| format!("{key} = {}\n", default(&models, &[key]));
        let text = ["residency", "measure"].map(line).concat();
        assert_eq!(toml::from_str::<Description>(&text).unwrap(), Description::default());
        for rows in [&models, &programs] {
            assert_eq!(idle::parse(default(rows, &["idle"]).trim_matches('"')), Ok(idle::DEFAULT));
        }
        let spec = StateSpec::new(&[], None, None).unwrap();
        let usual = format!("{}, {}", spec.idle.as_micros(), spec.max);
        assert_eq!(default(&models, &["sequence_idle_us", "max_sequences"]), usual);
    }

    #[test]
    fn files_of_the_pages_are_read() {
        let mut files = 0;
        for block in [MODELS, PROGRAMS].iter().flat_map(|page| page.split("```toml\n").skip(1)) {
            let (text, _) = block.split_once("```").unwrap();
            // A line of its own is a part of the table `[process]`.
            let is_part = text.starts_with("env = ");
            let before = "engine = \"process\"\n[process]\ncommand = [\"p\"]\n";
            let text = [if is_part { before } else { "" }, text].concat();
            let description: Description = toml::from_str(&text).unwrap();
            assert_eq!(description.check(), Ok(()), "{text}");
            files += 1;
        }
        assert!(files > 5, "{files} files");
    }

    #[test]
    fn devices_parse_names_count_and_all() {
        let placing = |text: &str| {
            let description: Result<Description, _> = toml::from_str(text);
            description.map(|description| description.placing())
        };
        let two = Placing::On(vec!["cuda:0".into(), "cuda:1".into()]);
        assert_eq!(placing("").unwrap(), Placing::Default);
        assert_eq!(placing("devices = [\"cuda:0\", \"cuda:1\"]").unwrap(), two);
        assert_eq!(placing("devices = \"all\"").unwrap(), Placing::Replicas(0));
        assert_eq!(placing("replicas = 2").unwrap(), Placing::Replicas(2));
        let said = placing("devices = 1").unwrap_err().to_string();
        assert!(said.contains("devices must be a list of names, or \"all\""), "{said}");
    }

    #[test]
    fn keys_that_an_engine_does_not_have_are_refused() {
        let check = |text: &str| toml::from_str::<Description>(text).unwrap().check();
        let process = "process.command = [\"p\"]\n";
        let of = |engine: &str, key: &str| check(&format!("engine = {engine:?}\n{process}{key}"));
        assert_eq!(of("process", ""), Ok(()));
        assert_eq!(of("process", "max_sequences = 32"), Ok(()));
        assert_eq!(of("auto", "size = 32"), Ok(()));
        assert_eq!(check("engine = \"auto\""), Ok(()));
        for (engine, key) in
            [("process", "size"), ("auto", "max_sequences"), ("auto", "sequence_idle_us")]
        {
            let want = format!("{key} cannot be set with engine = {engine:?}");
            assert_eq!(of(engine, &format!("{key} = 32")), Err(want));
        }
        for engine in ["process", "auto"] {
            let want = format!("state cannot be set with engine = {engine:?}");
            assert_eq!(of(engine, "state = [{ input = \"a\", output = \"b\" }]"), Err(want));
        }
        let want = "process requires engine = \"process\" or \"auto\"";
        assert_eq!(check(process), Err(want.into()));
        let want = "engine = \"process\" requires process.command";
        assert_eq!(check("engine = \"process\""), Err(want.into()));
        let want = "process.command must be a program and its arguments";
        assert_eq!(check("engine = \"auto\"\n[process]\n"), Err(want.into()));
    }

    #[test]
    fn delay_of_batches_requires_batches() {
        let parse = |text: &str| Description::parse(text).map(drop);
        for key in ["max_delay_us = 50", "batch_rt = true"] {
            assert_eq!(parse(&format!("max_batch = 2\n{key}")), Ok(()));
            for (more, got) in [("", 0), ("max_batch = 1\n", 1)] {
                let (name, _) = key.split_once(' ').unwrap();
                let want = format!("{name} requires max_batch of at least 2, got {got}");
                assert_eq!(parse(&format!("{more}{key}")), Err(want));
            }
        }
        assert_eq!(parse("max_delay_us = 0\nbatch_rt = false"), Ok(()));
    }

    #[test]
    fn network_without_state_has_no_sequences() {
        let check = |text: &str| toml::from_str::<Description>(text).unwrap().check();
        for key in ["max_sequences", "sequence_idle_us"] {
            let want = format!("{key} requires state, or engine = \"process\"");
            assert_eq!(check(&format!("{key} = 32")), Err(want));
            let state = "[[state]]\ninput = \"a\"\noutput = \"b\"";
            assert_eq!(check(&format!("{key} = 32\n{state}")), Ok(()));
        }
    }

    #[test]
    fn network_on_demand_has_no_state_and_a_time_without_requests() {
        let read = |text: &str| toml::from_str::<Description>(text).unwrap();
        let check = |text: &str| read(&format!("residency = \"on-demand\"\n{text}")).check();
        assert_eq!(check(""), Ok(()));
        assert_eq!(check("engine = \"auto\""), Ok(()));
        assert_eq!(read("residency = \"on-demand\"").idle_time(), Some(idle::DEFAULT));
        let minute = read("residency = \"on-demand\"\nidle = \"1min\"");
        assert_eq!((minute.check(), minute.idle_time()), (Ok(()), Some(Duration::from_secs(60))));
        assert_eq!(read("").idle_time(), None);
        let want = "idle requires residency = \"on-demand\"";
        assert_eq!(read("idle = \"1min\"").check(), Err(want.into()));
        let want = "idle must be a time from 1ms to 24h, such as 30s, got \"1\"";
        assert_eq!(check("idle = \"1\""), Err(want.into()));
        let want = "residency must be \"always\" for a model with state";
        let state = "[[state]]\ninput = \"a\"\noutput = \"b\"\nshape = [1]";
        assert_eq!(check(state), Err(want.into()));
        let want = "measure cannot be set with residency = \"on-demand\"";
        assert_eq!(check("measure = true"), Err(want.into()));
        let want = "residency cannot be set with engine = \"process\"";
        let process = "engine = \"process\"\nprocess.command = [\"p\"]";
        assert_eq!(check(process), Err(want.into()));
    }

    #[test]
    fn one_class_of_a_program_may_have_no_instance() {
        let check = |engine: &str, rt: usize, be: usize| {
            let text = format!("{engine}\ninstances = {{ rt = {rt}, be = {be} }}\n");
            toml::from_str::<Description>(&text).unwrap().check()
        };
        let process = "engine = \"process\"\nprocess.command = [\"p\"]";
        for (rt, be) in [(0, 1), (1, 0), (16, 0)] {
            assert_eq!(check(process, rt, be), Ok(()));
        }
        let want = "instances must be at least 1 for one class, got 0 for both";
        assert_eq!(check(process, 0, 0), Err(want.into()));
        assert_eq!(check(process, 17, 0), Err("instances must be 0 to 16, got 17".into()));
        for engine in ["", "engine = \"auto\""] {
            assert_eq!(check(engine, 0, 1), Err("instances must be 1 to 16, got 0".into()));
        }
    }

    #[test]
    fn versions_parse_list_all_and_latest() {
        let chosen = |text: &str| {
            let description: Result<Description, _> = toml::from_str(text);
            description.map(|description| description.choose(&[1, 3, 7]))
        };
        assert_eq!(chosen("").unwrap(), [7]);
        assert_eq!(chosen("versions = \"all\"").unwrap(), [1, 3, 7]);
        assert_eq!(chosen("versions = { latest = 2 }").unwrap(), [3, 7]);
        assert_eq!(chosen("versions = { latest = 9 }").unwrap(), [1, 3, 7]);
        assert_eq!(chosen("versions = [3]").unwrap(), [3]);
        assert_eq!(chosen("versions = [3, 1, 3]").unwrap(), [1, 3]);
        let none: Description = toml::from_str("versions = []").unwrap();
        let want = "versions must have at least one number, got none";
        assert_eq!(none.check(), Err(want.into()), "no folder is missing");
        for wrong in ["\"newest\"", "{ latest = 2, specific = [1] }"] {
            let said = chosen(&format!("versions = {wrong}")).unwrap_err().to_string();
            assert!(said.contains("versions must be a list, \"all\" or { latest = N }"), "{said}");
        }
    }
}
