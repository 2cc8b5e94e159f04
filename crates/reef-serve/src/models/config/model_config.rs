//! A model's configuration in Triton's form.

use super::fields::{each, number, wrong};
use super::sequences::{SequenceBatching, sequences};
use super::text;
use crate::error::{Error, Result};
use crate::models::description::{All, Description, EngineKind, Versions};
use crate::models::state::spec::StateSpec;
use crate::name::ModelName;
use crate::process::settings::ProcessSettings;
use serde_json::{Map, Value};
use std::fmt;
use std::path::Path;

/// Maximum length of the file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Parameter that lets real-time requests run in batches, as `batch_rt` in `model.toml` does.
pub(crate) const BATCH_RT: &str = "batch_rt";

/// Parameter of Triton's Python backend with the folder of an interpreter.
const EXECUTION_ENV_PATH: &str = "EXECUTION_ENV_PATH";

/// Parameter with the name of a file of scales, as `scales` in `model.toml`.
pub(crate) const SCALES: &str = "scales";

/// Keys of a configuration that are applied. The rest is in `unread`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ModelConfig {
    max_batch: Option<u64>,
    /// Maximum time that a request waits for others, in microseconds; requests run in batches only
    /// if it is set.
    delay_us: Option<u64>,
    batch_rt: Option<bool>,
    scales: Option<String>,
    rt: Option<u64>,
    be: Option<u64>,
    /// Devices of all instances, by their indices among the daemon's; empty as if it were not set.
    gpus: Option<Vec<usize>>,
    versions: Option<Versions>,
    sequences: Option<SequenceBatching>,
    /// Program of a model for Triton's Python backend.
    python: Option<ProcessSettings>,
    /// Names of keys that are not read.
    pub(crate) unread: UnreadKeys,
}

impl ModelConfig {
    /// Reads the configuration of a model from the parameter of a load.
    ///
    /// # Errors
    ///
    /// `Invalid`; `Unimplemented` for another kind of model.
    pub(crate) fn from_json(name: &ModelName, json: &str) -> Result<Self> {
        let mut fields: Map<String, Value> =
            serde_json::from_str(json).map_err(|e| wrong(&format!("JSON: {e}")))?;
        drop_nulls(&mut fields);
        if is_python(&fields) {
            let why = "backend: a client cannot name a program, got \"python\" (config.pbtxt may)";
            return Err(Error::Denied(format!("configuration: {why}")));
        }
        Self::read(name, &fields)
    }

    /// Reads the configuration of a model from its `config.pbtxt`.
    ///
    /// # Errors
    ///
    /// Errors of [`from_json`](Self::from_json), with the file.
    pub(crate) fn from_file(name: &ModelName, file: &Path) -> Result<Self> {
        let of = |why: &dyn std::fmt::Display| Error::Invalid(format!("{}: {why}", file.display()));
        let text = reef_files::read_to_string(file, MAX_BYTES).map_err(|e| of(&e))?;
        let fields = text::read(&text).map_err(|why| of(&why))?;
        let read = Self::read(name, &fields).and_then(|config| config.with_python(&fields));
        read.map_err(|error| error.map_text(|why| format!("{}: {why}", file.display())))
    }

    /// Adds the program of a model for Triton's Python backend.
    fn with_python(mut self, fields: &Map<String, Value>) -> Result<Self> {
        if !is_python(fields) {
            return Ok(self);
        }
        if fields.get("model_transaction_policy").is_some_and(is_decoupled) {
            return Err(Error::Unimplemented(
                "configuration: model_transaction_policy of backend python".into(),
            ));
        }
        let environment = entries(fields.get("parameters").unwrap_or(&Value::Null))
            .into_iter()
            .find(|(key, _)| *key == EXECUTION_ENV_PATH)
            .map(|(_, value)| {
                value.get("string_value").and_then(Value::as_str).unwrap_or_default()
            });
        let config = Value::Object(fields.clone()).to_string();
        let python = ProcessSettings::triton(config, environment);
        self.python = Some(python.map_err(|why| wrong(&format!("{EXECUTION_ENV_PATH}: {why}")))?);
        Ok(self)
    }

    fn read(name: &ModelName, fields: &Map<String, Value>) -> Result<Self> {
        let mut config = Self::default();
        for (key, value) in fields {
            match key.as_str() {
                "name" => check_name(name, value)?,
                "max_batch_size" => config.max_batch = Some(number(key, value)?),
                "dynamic_batching" => config.read_batching(value, fields)?,
                "instance_group" => each(value).try_for_each(|group| config.read_group(group))?,
                "version_policy" => config.versions = Some(versions(value)?),
                "parameters" if is_python(fields) => {} // the model's own
                "parameters" => config.read_parameters(value)?,
                // The files and the device determine these.
                "platform" | "backend" => {}
                "input" | "output" => config.read_tensors(key, value),
                "model_transaction_policy" if !is_decoupled(value) => {}
                "sequence_batching" => {
                    config.sequences = Some(sequences(value)?);
                    config.note_strategy(value);
                }
                "ensemble_scheduling" => {
                    return Err(Error::Unimplemented(format!("configuration: {key}")));
                }
                _ => config.note_unread(key, value),
            }
        }
        Ok(config)
    }

    fn read_batching(&mut self, batching: &Value, fields: &Map<String, Value>) -> Result<()> {
        self.delay_us = Some(0);
        for (key, value) in batching.as_object().into_iter().flatten() {
            match key.as_str() {
                "max_queue_delay_microseconds" => self.delay_us = Some(number(key, value)?),
                // A full batch never waits.
                "preferred_batch_size"
                    if each(value).all(|size| Some(size) == fields.get("max_batch_size")) => {}
                _ => self.note_unread(&format!("dynamic_batching.{key}"), value),
            }
        }
        Ok(())
    }

    /// Adds instances of a class, if the group's name ends as in the daemon's own answer; otherwise
    /// of each class. Groups add up; all must be on the same devices.
    fn read_group(&mut self, group: &Value) -> Result<()> {
        let name = group.get("name").and_then(Value::as_str).unwrap_or_default();
        let count = group.get("count").map_or(Ok(1), |count| number("count", count))?;
        let add = |before: Option<u64>| Some(before.unwrap_or(0).saturating_add(count));
        if !name.ends_with("_be") {
            self.rt = add(self.rt);
        }
        if !name.ends_with("_rt") {
            self.be = add(self.be);
        }
        let gpus = group.get("gpus").into_iter().flat_map(each);
        let place = |gpu| Ok(usize::try_from(number("gpus", gpu)?).unwrap_or(usize::MAX));
        let gpus = gpus.map(place).collect::<Result<Vec<_>>>()?;
        if self.gpus.get_or_insert_with(|| gpus.clone()) != &gpus {
            let text = "configuration: instance_group.gpus: groups on different devices";
            return Err(Error::Unimplemented(text.into()));
        }
        for (key, value) in group.as_object().into_iter().flatten() {
            if !["name", "count", "kind", "gpus"].contains(&key.as_str()) {
                self.note_unread(&format!("instance_group.{key}"), value);
            }
        }
        Ok(())
    }

    /// Notes what is said of the order of sequences, apart from their maximum number.
    fn note_strategy(&mut self, sequences: &Value) {
        for strategy in ["direct", "oldest"] {
            let fields = sequences.get(strategy).and_then(Value::as_object);
            for (key, value) in fields.into_iter().flatten() {
                if (strategy, key.as_str()) != ("oldest", "max_candidate_sequences") {
                    self.note_unread(&format!("sequence_batching.{strategy}.{key}"), value);
                }
            }
        }
    }

    /// Notes what is said of tensors and is not in the files, such as the names of an output's
    /// classes.
    fn read_tensors(&mut self, key: &str, tensors: &Value) {
        for (of, value) in each(tensors).filter_map(Value::as_object).flatten() {
            if !["name", "data_type", "format", "dims"].contains(&of.as_str()) {
                self.note_unread(&format!("{key}.{of}"), value);
            }
        }
    }

    fn read_parameters(&mut self, parameters: &Value) -> Result<()> {
        for (key, value) in entries(parameters) {
            let text = value.get("string_value").and_then(Value::as_str);
            match (key, text) {
                (BATCH_RT, Some("true")) => self.batch_rt = Some(true),
                (BATCH_RT, Some("false")) => self.batch_rt = Some(false),
                (SCALES, Some(file)) => self.scales = Some(file.into()),
                (SCALES, None) => return Err(wrong(&"scales must be the name of a file")),
                (BATCH_RT, _) => {
                    return Err(wrong(&format!("{BATCH_RT} must be true or false")));
                }
                _ => self.note_unread(&format!("parameters.{key}"), value),
            }
        }
        Ok(())
    }

    fn note_unread(&mut self, key: &str, value: &Value) {
        let is_default = match value {
            Value::Null => true,
            Value::Bool(flag) => !flag,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(all) => all.is_empty(),
            Value::Object(all) => all.is_empty(),
        };
        if !is_default {
            self.unread.add(key);
        }
    }

    /// Applies its keys to a description.
    ///
    /// # Errors
    ///
    /// `Invalid` if a number is out of range.
    pub(in crate::models) fn apply(&self, description: &mut Description) -> Result<()> {
        let count = |given: u64| usize::try_from(given).unwrap_or(usize::MAX);
        let before = (batches_of(description), sequences_of(description)?);
        let has_rows = description.process.as_ref().is_none_or(ProcessSettings::has_rows);
        match (self.max_batch, self.delay_us) {
            // As in the daemon's own answer: it does not tell batches of requests.
            (None | Some(0), None) if !has_rows => {}
            (max, Some(delay_us)) => {
                description.max_batch = max.map_or(description.max_batch, count);
                description.max_delay_us = delay_us;
            }
            (Some(_), None) => (description.max_batch, description.max_delay_us) = (0, 0),
            (None, None) => {}
        }
        description.batch_rt = self.batch_rt.unwrap_or(description.batch_rt);
        let is_process = description.process.is_some();
        if self.python.is_some() {
            description.engine = Some(EngineKind::Process);
            description.process = self.python.clone();
        }
        if let Some(sequences) = &self.sequences {
            sequences.apply(self.max_batch.unwrap_or(0) > 0, description)?;
        }
        // Only its own files say how a program runs, not a client.
        if is_process && batches_of(description) != before.0 {
            return Err(wrong(&"batches of a process must be as in its own files"));
        }
        if is_process && sequences_of(description)? != before.1 {
            return Err(wrong(&"sequences of a process must be as in its own files"));
        }
        if self.scales.is_some() {
            description.scales = self.scales.clone();
        }
        description.instances.rt = self.rt.map_or(description.instances.rt, count);
        description.instances.be = self.be.map_or(description.instances.be, count);
        if let Some(gpus) = self.gpus.as_ref().filter(|gpus| !gpus.is_empty()) {
            description.gpus = Some(gpus.clone());
        }
        if self.versions.is_some() {
            description.versions = self.versions.clone();
        }
        description.check().map_err(|why| wrong(&why))
    }
}

/// Returns the keys of batches.
fn batches_of(description: &Description) -> (usize, u64, bool) {
    (description.max_batch, description.max_delay_us, description.batch_rt)
}

/// Returns the state of sequences, without which there are none.
fn sequences_of(description: &Description) -> Result<Option<StateSpec>> {
    description.state().map_err(|why| wrong(&why))
}

/// True for a model of Triton's Python backend.
fn is_python(fields: &Map<String, Value>) -> bool {
    fields.get("backend").and_then(Value::as_str) == Some("python")
}

/// True for a policy by which a request has any number of answers.
fn is_decoupled(policy: &Value) -> bool {
    let flag = policy.get("decoupled");
    flag.is_some_and(|flag| flag.as_bool() != Some(false) && flag.as_u64() != Some(0))
}

fn check_name(name: &ModelName, value: &Value) -> Result<()> {
    match value.as_str() {
        Some(said) if said.is_empty() || said == name.as_str() => Ok(()),
        _ => Err(wrong(&format!("name must be {name}, got {value}"))),
    }
}

fn versions(policy: &Value) -> Result<Versions> {
    let unknown = || wrong(&"version_policy must be latest, all or specific");
    let latest = |given: &Value| -> Result<usize> {
        Ok(usize::try_from(number("num_versions", given)?).unwrap_or(usize::MAX))
    };
    let policy = policy.as_object().ok_or_else(unknown)?;
    match policy.iter().next().filter(|_| policy.len() == 1) {
        Some((key, _)) if key == "all" => Ok(Versions::All(All::All)),
        Some((key, value)) if key == "latest" => {
            let latest = value.get("num_versions").map_or(Ok(1), latest)?;
            Ok(Versions::Latest { latest })
        }
        Some((key, value)) if key == "specific" => {
            let version = |given| {
                let number = number("versions", given)?;
                u32::try_from(number)
                    .map_err(|_| wrong(&format!("versions must fit 32 bits, got {number}")))
            };
            let versions = value.get("versions").into_iter().flat_map(each).map(version);
            Ok(Versions::List(versions.collect::<Result<_>>()?))
        }
        _ => Err(unknown()),
    }
}

/// Removes nulls: in JSON of protocol buffers null means absent.
fn drop_nulls(fields: &mut Map<String, Value>) {
    fn inside(value: &mut Value) {
        match value {
            Value::Object(fields) => drop_nulls(fields),
            Value::Array(all) => {
                all.retain(|value| !value.is_null());
                all.iter_mut().for_each(inside);
            }
            _ => {}
        }
    }
    fields.retain(|_, value| !value.is_null());
    fields.values_mut().for_each(inside);
}

/// Returns keys and values of a map: an object in JSON, a list of pairs in the text format.
fn entries(map: &Value) -> Vec<(&str, &Value)> {
    fn pair(entry: &Value) -> Option<(&str, &Value)> {
        Some((entry.get("key")?.as_str()?, entry.get("value")?))
    }
    match map.as_object().filter(|map| !map.contains_key("key")) {
        Some(map) => map.iter().map(|(key, value)| (key.as_str(), value)).collect(),
        None => each(map).filter_map(pair).collect(),
    }
}

/// Maximum number of names that are kept, and of characters of each.
const MAX_NAMES: usize = 32;
const MAX_NAME_CHARS: usize = 64;

/// The first names, shortened, and the number of further ones: a client may send any number of
/// them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct UnreadKeys {
    names: Vec<String>,
    more: usize,
}

impl UnreadKeys {
    fn add(&mut self, name: &str) {
        match self.names.len() {
            0..MAX_NAMES => self.names.push(name.chars().take(MAX_NAME_CHARS).collect()),
            _ => self.more += 1,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl fmt::Display for UnreadKeys {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.names.join(", "))?;
        match self.more {
            0 => Ok(()),
            more => write!(to, ", and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::description::Placing;

    fn read(json: &str) -> Result<(ModelConfig, Description)> {
        let config = ModelConfig::from_json(&ModelName::new("m").unwrap(), json)?;
        let mut description = Description::default();
        config.apply(&mut description)?;
        Ok((config, description))
    }

    #[test]
    fn file_of_the_page_of_programs_is_read() {
        let page = include_str!("../../../../../docs/operate/process-models.md");
        let begin = page.find("name: \"scale\"").expect("a file on the page");
        let (file, _) = page[begin..].split_once("```").expect("its end");
        let (name, fields) = (ModelName::new("scale").unwrap(), text::read(file).unwrap());
        let config = ModelConfig::read(&name, &fields).unwrap().with_python(&fields).unwrap();
        assert!(config.python.is_some() && config.unread.is_empty(), "{config:?}");
    }

    #[test]
    fn policy_of_python_backend_may_be_one_answer() {
        let read = |policy: &str| {
            let file = format!("backend: \"python\" model_transaction_policy {{ {policy} }}");
            let (name, fields) = (ModelName::new("m").unwrap(), text::read(&file).unwrap());
            ModelConfig::read(&name, &fields).and_then(|config| config.with_python(&fields))
        };
        for policy in ["", "decoupled: False", "decoupled: 0"] {
            let config = read(policy).unwrap();
            assert!(config.python.is_some() && config.unread.is_empty(), "{config:?}");
        }
        let want = "configuration: model_transaction_policy of backend python";
        for policy in ["decoupled: True", "decoupled: 1"] {
            assert_eq!(read(policy).unwrap_err(), Error::Unimplemented(want.into()));
        }
    }

    #[test]
    fn batching_requires_dynamic_batching() {
        let (config, said) = read(r#"{ "name": "m", "max_batch_size": 8 }"#).unwrap();
        assert_eq!((said.max_batch, config.unread.is_empty()), (0, true));
        let text = r#"{ "max_batch_size": 8, "dynamic_batching": { "max_queue_delay_microseconds": 50 },
            "parameters": { "batch_rt": { "string_value": "true" } },
            "instance_group": [{ "name": "m_rt", "count": 2 }, { "name": "m_be", "count": 3 }],
            "version_policy": { "latest": { "num_versions": 2 } } }"#;
        let (_, said) = read(text).unwrap();
        assert_eq!((said.max_batch, said.max_delay_us, said.batch_rt), (8, 50, true));
        assert_eq!((said.instances.rt, said.instances.be), (2, 3));
        assert_eq!(said.choose(&[1, 2, 3]), [2, 3]);
    }

    #[test]
    fn instances_are_on_the_devices_of_their_groups() {
        let groups = |groups: &str| read(&format!(r#"{{ "instance_group": [{groups}] }}"#));
        let placing = |text| groups(text).unwrap().1.placing();
        assert_eq!(placing(r#"{ "count": 2 }"#), Placing::Default);
        assert_eq!(placing(r#"{ "gpus": [] }"#), Placing::Default);
        assert_eq!(placing(r#"{ "gpus": [1, 0] }"#), Placing::At(vec![1, 0]));
        let both = r#"{ "name": "m_rt", "gpus": [1] }, { "name": "m_be", "gpus": [1] }"#;
        let (config, said) = groups(both).unwrap();
        assert_eq!((said.placing(), config.unread.is_empty()), (Placing::At(vec![1]), true));
        for different in [r#"{ "gpus": [1] }, { "gpus": [0] }"#, r#"{ "gpus": [1] }, {}"#] {
            let said = groups(different).unwrap_err().to_string();
            assert_eq!(
                said,
                "configuration: instance_group.gpus: groups on different devices is not implemented"
            );
        }
        let said = groups(r#"{ "gpus": [-1] }"#).unwrap_err().to_string();
        assert_eq!(said, "configuration: gpus must be a non-negative integer, got -1");
    }

    #[test]
    fn absent_and_null_keys_leave_the_description() {
        let text = r#"{ "name": null, "max_batch_size": null, "version_policy": { "all": null, "latest": {} },
            "dynamic_batching": { "max_queue_delay_microseconds": 50, "priority_levels": null },
            "instance_group": [null, { "name": null, "count": 2 }, { "count": null }] }"#;
        let config = ModelConfig::from_json(&ModelName::new("m").unwrap(), text).unwrap();
        let mut said = Description { max_batch: 8, max_delay_us: 7, ..Description::default() };
        config.apply(&mut said).unwrap();
        assert_eq!((said.max_batch, said.max_delay_us), (8, 50));
        assert_eq!((said.instances.rt, said.instances.be), (3, 3), "groups add up");
        assert_eq!((said.choose(&[1, 2]), config.unread.is_empty()), (vec![2], true));
        let (_, said) = read(r#"{ "dynamic_batching": null, "max_batch_size": 4 }"#).unwrap();
        assert_eq!(said.max_batch, 0);
    }

    #[test]
    fn order_of_sequences_is_listed_as_unread() {
        let state = r#""state": [{ "input_name": "a", "output_name": "b", "dims": [1] }]"#;
        for (strategy, want) in [
            (r#""direct": { "minimum_slot_utilization": 0.5 }"#, "direct.minimum_slot_utilization"),
            (
                r#""oldest": { "max_candidate_sequences": 4, "max_queue_delay_microseconds": 5 }"#,
                "oldest.max_queue_delay_microseconds",
            ),
        ] {
            let text = format!("{{ \"sequence_batching\": {{ {state}, {strategy} }} }}");
            let unread = read(&text).unwrap().0.unread.to_string();
            assert_eq!(unread, format!("sequence_batching.{want}"));
        }
    }

    #[test]
    fn unread_keys_are_listed_and_unsupported_ones_refused() {
        let text = r#"{ "optimization": { "priority": 1 }, "model_warmup": [], "default_model_filename": "",
            "dynamic_batching": { "preferred_batch_size": [2, 8], "preserve_ordering": false },
            "instance_group": [{ "count": 1, "profile": ["x"] }],
            "input": [{ "name": "x", "format": "FORMAT_NCHW", "optional": false }],
            "output": { "name": "y", "data_type": "TYPE_FP32", "dims": [9], "label_filename": "l" },
            "max_batch_size": 8, "parameters": { "x": { "string_value": "1" } } }"#;
        let unread = read(text).unwrap().0.unread.to_string();
        let want = [
            "dynamic_batching.preferred_batch_size",
            "instance_group.profile",
            "optimization",
            "output.label_filename",
            "parameters.x",
        ];
        assert_eq!(unread, want.join(", "));
        let keys: Vec<_> = (10..60).map(|n| format!("\"{n}{}\": 1", "x".repeat(100))).collect();
        let unread = read(&format!("{{ {} }}", keys.join(", "))).unwrap().0.unread.to_string();
        assert!(unread.ends_with("x, and 18 more") && unread.len() < 3000, "{unread}");
        for (text, want) in [
            ("{", "configuration: JSON: "),
            ("[]", "configuration: JSON: "),
            (r#"{ "name": "other" }"#, "configuration: name must be m, got \"other\""),
            (
                r#"{ "max_batch_size": -1 }"#,
                "configuration: max_batch_size must be a non-negative integer, got -1",
            ),
            (
                r#"{ "sequence_batching": {} }"#,
                "configuration: sequence_batching without state is not implemented",
            ),
            (
                r#"{ "version_policy": {} }"#,
                "configuration: version_policy must be latest, all or ",
            ),
            (
                r#"{ "version_policy": { "latest": { "num_versions": 0 } } }"#,
                "configuration: versions.latest must be at least 1, got 0",
            ),
            (
                r#"{ "version_policy": { "specific": { "versions": [4294967297] } } }"#,
                "configuration: versions must fit 32 bits, got 4294967297",
            ),
            (
                r#"{ "instance_group": [{ "count": 99 }] }"#,
                "configuration: instances must be 1 to 16, got 99",
            ),
        ] {
            let said = read(text).unwrap_err().to_string();
            assert!(said.contains(want), "{said}");
        }
    }
}
