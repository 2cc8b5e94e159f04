//! Trace and log settings as Triton has them: they say what the daemon does. One that would have it do something else is
//! refused by its name.

use crate::error::{Error, Result};
use crate::name::shown;
use serde_json::{Map, Value, json};
use tracing::level_filters::LevelFilter;

/// Settings with their values, as JSON has them.
pub(super) type Settings = Vec<(&'static str, Value)>;

/// Settings of Triton's that say nothing here.
const NO_TRACE: [&str; 3] = ["trace_count", "log_frequency", "trace_mode"];
const NO_LOG: [&str; 1] = ["log_format"];

/// Of traces, which `GET /reef/trace` takes: each request is in one, for as long as it is being taken.
pub(super) fn trace(is_taken: bool) -> Settings {
    let level = if is_taken { "TIMESTAMPS" } else { "OFF" };
    vec![("trace_level", json!([level])), ("trace_rate", json!("1")), ("trace_file", json!(""))]
}

/// Of the log: what whoever started the daemon has it written.
pub(super) fn log() -> Settings {
    let level = LevelFilter::current();
    let verbose = match level {
        LevelFilter::TRACE => 2,
        LevelFilter::DEBUG => 1,
        _ => 0,
    };
    vec![
        ("log_file", json!("")),
        ("log_info", json!(level >= LevelFilter::INFO)),
        ("log_warning", json!(level >= LevelFilter::WARN)),
        ("log_error", json!(level >= LevelFilter::ERROR)),
        ("log_verbose_level", json!(verbose)),
    ]
}

/// Refuses what of `asked` is not so already. Nothing in the place of a value asks for the usual one.
///
/// # Errors
///
/// `Unimplemented` with the setting; `Invalid` if there is none of this name.
pub(super) fn check(settings: &Settings, asked: &Map<String, Value>) -> Result<()> {
    asked.iter().try_for_each(|(name, value)| check_one(settings, name, value))
}

fn check_one(settings: &Settings, name: &str, value: &Value) -> Result<()> {
    let wanted = texts(value);
    let Some((_, has)) = settings.iter().find(|(known, _)| *known == name) else {
        if NO_TRACE.iter().chain(&NO_LOG).any(|other| *other == name) {
            let nothing = wanted.is_empty();
            let why = || Error::Unimplemented(format!("setting {name}"));
            return if nothing { Ok(()) } else { Err(why()) };
        }
        let have: Vec<_> = settings.iter().map(|(known, _)| *known).collect();
        let (name, have) = (shown(name), have.join(", "));
        return Err(Error::Invalid(format!("no setting {name:?} (have: {have})")));
    };
    if wanted.is_empty() || wanted == texts(has) {
        return Ok(());
    }
    let (wanted, has) = (shown(&wanted.join(", ")), texts(has).join(", "));
    Err(Error::Unimplemented(format!("setting {name}: {wanted:?}, it is {has:?}")))
}

/// A value as texts: the same for a text and a list of one, for a number and its digits.
pub(super) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Array(all) => all.iter().flat_map(|value| value.as_str().map(Into::into)).collect(),
        other => vec![other.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_so_may_be_asked_for_and_what_is_not_is_refused_by_its_name() {
        let said = |settings: &Settings, asked: Value| {
            let asked = asked.as_object().unwrap();
            check(settings, asked).map_err(|error| error.to_string())
        };
        let off = trace(false);
        let same = json!({ "trace_level": ["OFF"], "trace_rate": 1, "trace_file": null, "trace_count": null });
        assert_eq!(said(&off, same), Ok(()));
        for (asked, want) in [
            (
                json!({ "trace_level": ["TIMESTAMPS"] }),
                "setting trace_level: \"TIMESTAMPS\", it is \"OFF\"",
            ),
            (json!({ "trace_rate": "1000" }), "setting trace_rate: \"1000\", it is \"1\""),
            (json!({ "trace_count": "5" }), "setting trace_count"),
            (json!({ "x": 1 }), "no setting \"x\" (have: trace_level, trace_rate, trace_file)"),
        ] {
            let said = said(&off, asked).unwrap_err();
            assert!(said.starts_with(want), "{said}");
        }
        assert_eq!(said(&trace(true), json!({ "trace_level": "TIMESTAMPS" })), Ok(()));
        let log = log();
        let same: Map<String, Value> = log.iter().map(|(k, v)| ((*k).into(), v.clone())).collect();
        assert_eq!(check(&log, &same), Ok(()));
        let said = said(&log, json!({ "log_verbose_level": 9 })).unwrap_err();
        assert!(said.starts_with("setting log_verbose_level: \"9\", it is "), "{said}");
    }
}
