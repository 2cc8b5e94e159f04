//! Workloads: the three forms of files that are in use.
//!
//! | form | tasks | class |
//! |---|---|---|
//! | DISB's own | `tasks`, each with `id`, `load`, `client` | `_rt` or `_be` in the id |
//! | REEF's sample for DISB | the same without ids | `client.priority`, 0 is real-time |
//! | REEF's artefact | `rt` and `be`, each with `name`, `frequency` and perhaps a `trace` | the list |
//!
//! In all of them `time` is in seconds and traces in milliseconds.

use super::load::{Load, delays};
use super::requests::Phases;
use crate::report::usage::Usage;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Maximum length of a workload's file: each of its bytes may take a hundred in memory.
const MAX_BYTES: u64 = 8 << 20;
/// Most requests per second: more would be a typing error.
const MAX_FREQUENCY: f64 = 100_000.0;

/// Tasks of a benchmark.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Workload {
    /// Name of the file.
    pub(crate) name: String,
    pub(crate) time: Duration,
    /// Tasks in the order of their ids.
    pub(crate) tasks: Vec<Task>,
}

/// One client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) real_time: bool,
    /// Name in the file.
    pub(crate) model: String,
    pub(crate) load: Load,
}

#[derive(Deserialize)]
struct TaskEntry {
    id: Option<String>,
    load: LoadEntry,
    client: Client,
}

#[derive(Deserialize)]
struct Client {
    model_name: String,
    priority: Option<i64>,
    batch_size: Option<u64>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum LoadEntry {
    Continuous,
    Periodic {
        #[serde(default)]
        priority: i64,
        frequency: f64,
    },
    Poisson {
        frequency: f64,
    },
    Trace {
        trace: Vec<u64>,
    },
    Dependent {
        prev_task_ids: Vec<String>,
    },
}

/// A task of the artefact.
#[derive(Deserialize)]
struct Simple {
    name: String,
    frequency: f64,
    trace: Option<Vec<u64>>,
}

impl Workload {
    /// Delays of the tasks' first launches; `alone` are the times of their requests alone.
    pub(crate) fn delays(&self, alone: &[Phases]) -> Vec<Duration> {
        let loads = self.tasks.iter().map(|task| &task.load);
        delays(loads.zip(alone.iter().map(Phases::total)))
    }

    /// Tasks that depend on task `k`.
    pub(crate) fn dependents(&self, k: usize) -> Vec<usize> {
        let id = &self.tasks[k].id;
        let waits = |task: &Task| matches!(&task.load, Load::Dependent { on } if on.contains(id));
        (0..self.tasks.len()).filter(|&to| waits(&self.tasks[to])).collect()
    }
}

pub(crate) fn load(path: &Path) -> Result<Workload, Usage> {
    let wrong = |why: String| Usage(format!("{}: {why}", path.display()));
    let text =
        reef_files::read_to_string(path, MAX_BYTES).map_err(|error| wrong(error.to_string()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    parse(&text, &name).map_err(wrong)
}

pub(crate) fn parse(text: &str, name: &str) -> Result<Workload, String> {
    let json: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut tasks = match ["tasks", "rt", "be"].map(|list| json.get(list)) {
        [Some(tasks), None, None] => named(entries(tasks, "tasks")?)?,
        [None, Some(rt), Some(be)] => simple(entries(rt, "rt")?, entries(be, "be")?),
        _ => return Err("no workload: neither \"tasks\" nor \"rt\" and \"be\"".into()),
    };
    let time = json["time"].as_f64().ok_or("\"time\" is no number")?;
    tasks.sort_by(|a, b| a.id.cmp(&b.id));
    if !(time > 0.0 && time <= 86_400.0) {
        return Err(format!("time {time} is out of range"));
    }
    check(&tasks)?;
    Ok(Workload { name: name.into(), time: Duration::from_secs_f64(time), tasks })
}

fn entries<T: DeserializeOwned>(list: &Value, name: &str) -> Result<Vec<T>, String> {
    let entries =
        list.as_array().ok_or_else(|| format!("{name:?} is not a list"))?.iter().enumerate();
    let read = |(i, entry)| T::deserialize(entry).map_err(|error| format!("{name}[{i}]: {error}"));
    entries.map(read).collect()
}

/// Tasks of the first two forms.
fn named(entries: Vec<TaskEntry>) -> Result<Vec<Task>, String> {
    let mut tasks: Vec<Task> = Vec::new();
    for TaskEntry { id, load, client } in entries {
        let real_time = match (&id, client.priority) {
            (_, Some(priority)) => priority == 0,
            (Some(id), None) if id.contains("_rt") != id.contains("_be") => id.contains("_rt"),
            (id, None) => {
                let id = id.as_deref().unwrap_or("without id");
                return Err(format!(
                    "task {id:?} is neither \"_rt\" nor \"_be\", and has no priority"
                ));
            }
        };
        if client.batch_size.is_some_and(|size| size != 1) {
            return Err(format!("batch_size {:?}: only 1 is supported", client.batch_size));
        }
        let id = id.unwrap_or_else(|| free_id(&tasks, &client.model_name, real_time));
        tasks.push(Task { id, real_time, model: client.model_name, load: load.load() });
    }
    Ok(tasks)
}

/// Tasks of the artefact's form. A trace takes precedence over a frequency.
fn simple(rt: Vec<Simple>, be: Vec<Simple>) -> Vec<Task> {
    let mut tasks = Vec::new();
    let all = rt.into_iter().map(|task| (true, task));
    for (real_time, Simple { name, frequency, trace }) in
        all.chain(be.into_iter().map(|t| (false, t)))
    {
        let load = match trace {
            Some(trace) => Load::Trace(millis(trace)),
            None => Load::Periodic { frequency, priority: i64::from(!real_time) },
        };
        let id = free_id(&tasks, &name, real_time);
        tasks.push(Task { id, real_time, model: name, load });
    }
    tasks
}

/// `MODEL_rt_N`, with the first free number.
fn free_id(tasks: &[Task], model: &str, real_time: bool) -> String {
    let class = if real_time { "rt" } else { "be" };
    let alike = tasks.iter().filter(|task| task.model == model && task.real_time == real_time);
    format!("{model}_{class}_{}", alike.count())
}

impl LoadEntry {
    fn load(self) -> Load {
        match self {
            Self::Continuous => Load::Continuous,
            Self::Periodic { priority, frequency } => Load::Periodic { frequency, priority },
            Self::Poisson { frequency } => Load::Poisson { frequency },
            Self::Trace { trace } => Load::Trace(millis(trace)),
            Self::Dependent { prev_task_ids } => Load::Dependent { on: prev_task_ids },
        }
    }
}

fn millis(trace: Vec<u64>) -> Vec<Duration> {
    trace.into_iter().map(Duration::from_millis).collect()
}

fn check(tasks: &[Task]) -> Result<(), String> {
    if tasks.is_empty() {
        return Err("no tasks".into());
    }
    if let Some(pair) = tasks.windows(2).find(|pair| pair[0].id == pair[1].id) {
        return Err(format!("two tasks {:?}", pair[0].id));
    }
    for task in tasks {
        if let Load::Periodic { frequency, .. } | Load::Poisson { frequency } = task.load
            && !(0.0..=MAX_FREQUENCY).contains(&frequency)
        {
            return Err(format!("task {:?}: frequency {frequency} is out of range", task.id));
        }
        check_dependencies(task, tasks)?;
    }
    Ok(())
}

/// Checks that the tasks it depends on exist and don't depend on it.
fn check_dependencies(task: &Task, tasks: &[Task]) -> Result<(), String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![task]);
    while let Some(Task { id, load, .. }) = open.pop() {
        let Load::Dependent { on } = load else { continue };
        if on.is_empty() {
            return Err(format!("task {id:?} depends on no task"));
        }
        for wanted in on {
            if *wanted == task.id {
                return Err(format!("task {wanted:?} depends on itself"));
            }
            let found = tasks.iter().find(|other| other.id == *wanted);
            let found = found
                .ok_or_else(|| format!("task {id:?} depends on {wanted:?}, which isn't there"))?;
            if seen.insert(wanted) {
                open.push(found);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, load: &str) -> String {
        format!(r#"{{"id": "{id}", "load": {load}, "client": {{"model_name": "m"}}}}"#)
    }

    fn tasks(tasks: &[String]) -> Result<Workload, String> {
        parse(&format!(r#"{{"time": 60, "tasks": [{}]}}"#, tasks.join(", ")), "x")
    }

    #[test]
    fn file_over_its_bound_is_refused() {
        let name = format!("reef-disb-long-{}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
        let error = load(&path).map(drop).unwrap_err().0;
        std::fs::remove_file(&path).unwrap();
        assert!(error.ends_with("must have at most 8388608 bytes, got more"), "{error}");
    }

    #[test]
    fn the_three_forms_say_the_same() {
        let disb = tasks(&[
            task("vgg_rt_0", r#"{"type": "periodic", "priority": 0, "frequency": 100}"#),
            task("vgg_be_0", r#"{"type": "periodic", "priority": 1, "frequency": 40}"#),
        ]);
        let sample = r#"{"time": 60, "tasks": [
            {"load": {"type": "periodic", "priority": 0, "frequency": 100}, "client": {"model_name": "vgg", "priority": 0}},
            {"load": {"type": "periodic", "priority": 1, "frequency": 40}, "client": {"model_name": "vgg", "priority": 1}}]}"#;
        let artefact = r#"{"time": 60, "rt": [{"name": "vgg", "frequency": 100}],
            "be": [{"name": "vgg", "frequency": 40}]}"#;
        let mut disb = disb.unwrap();
        disb.tasks.iter_mut().for_each(|task| task.model = "vgg".into());
        assert_eq!(parse(sample, "x").unwrap(), disb);
        assert_eq!(parse(artefact, "x").unwrap(), disb);
        assert_eq!(disb.tasks[0].id, "vgg_be_0", "in alphabetical order");
    }

    #[test]
    fn every_load_is_read() {
        let loads = [
            (r#"{"type": "continuous"}"#, Load::Continuous),
            (r#"{"type": "poisson", "frequency": 20}"#, Load::Poisson { frequency: 20.0 }),
            (r#"{"type": "trace", "trace": [7]}"#, Load::Trace(vec![Duration::from_millis(7)])),
        ];
        for (text, load) in loads {
            assert_eq!(tasks(&[task("a_rt", text)]).unwrap().tasks[0].load, load);
        }
        let trace =
            r#"{"time": 1, "rt": [{"name": "vgg", "frequency": 9, "trace": [1]}], "be": []}"#;
        let load = &parse(trace, "x").unwrap().tasks[0].load;
        assert_eq!(*load, Load::Trace(vec![Duration::from_millis(1)]));
    }

    #[test]
    fn invalid_workload_error_names_the_fault() {
        let steady = r#"{"type": "continuous"}"#;
        let on = |ids: &str| format!(r#"{{"type": "dependent", "prev_task_ids": [{ids}]}}"#);
        let say = |all: &[String]| tasks(all).unwrap_err();
        assert_eq!(say(&[]), "no tasks");
        assert_eq!(say(&[task("a_rt", steady), task("a_rt", steady)]), "two tasks \"a_rt\"");
        assert!(say(&[task("a", steady)]).starts_with("task \"a\" is neither"));
        let often = say(&[task("a_rt", r#"{"type": "often"}"#)]);
        assert!(often.starts_with("tasks[0]: unknown variant `often`"), "{often}");
        assert!(parse("[]", "x").unwrap_err().starts_with("no workload"));
        let fast = r#"{"type": "poisson", "frequency": 1e9}"#;
        assert_eq!(
            say(&[task("a_rt", fast)]),
            "task \"a_rt\": frequency 1000000000 is out of range"
        );
        assert_eq!(say(&[task("a_rt", &on(""))]), "task \"a_rt\" depends on no task");
        assert_eq!(
            say(&[task("a_rt", &on(r#""b_rt""#))]),
            "task \"a_rt\" depends on \"b_rt\", which isn't there"
        );
        let circle = [task("a_rt", &on(r#""b_rt""#)), task("b_rt", &on(r#""a_rt""#))];
        assert_eq!(say(&circle), "task \"a_rt\" depends on itself");
        assert!(parse("{", "x").unwrap_err().contains("EOF"));
        assert_eq!(
            parse(r#"{"time": -1, "rt": [], "be": []}"#, "x").unwrap_err(),
            "time -1 is out of range"
        );
    }

    #[test]
    fn the_workloads_that_ship_are_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("disb");
        let count = |name: &str| load(&folder.join(name)).unwrap().tasks.len();
        assert_eq!(
            ["A", "B", "C", "D", "E"].map(|w| count(&format!("{w}.json"))),
            [2, 2, 6, 10, 10]
        );
        assert_eq!(count("REAL.json"), 10);
        assert_eq!(["A", "C", "D"].map(|w| count(&format!("reef-sample/{w}.json"))), [2, 6, 10]);
        assert_eq!(["A", "C", "D"].map(|w| count(&format!("reef-artefact/{w}.json"))), [2, 6, 10]);
    }
}
