//! Trace and log settings of Triton's protocol. They report what the daemon does. The log's level
//! can be changed; a setting with any other value is refused by name.

use crate::error::{Error, Result};
use crate::log_level;
use crate::name::excerpt;
use reef::did_you_mean;
use serde_json::{Map, Value, json};
use tracing::level_filters::LevelFilter;

/// Settings with their JSON values.
pub(super) type Settings = Vec<(&'static str, Value)>;

/// Triton's settings that have no meaning here.
const NO_TRACE: [&str; 3] = ["trace_count", "log_frequency", "trace_mode"];
const NO_LOG: [&str; 1] = ["log_format"];

/// Returns the settings of traces. `GET /reef/trace` records a trace, which includes each request
/// during that time.
pub(super) fn trace(is_recording: bool) -> Settings {
    let level = if is_recording { "TIMESTAMPS" } else { "OFF" };
    vec![("trace_level", json!([level])), ("trace_rate", json!("1")), ("trace_file", json!(""))]
}

/// Returns the settings of the log.
pub(super) fn log() -> Settings {
    log_at(LevelFilter::current())
}

/// Changes the log's level. Enabling a level also enables the less verbose ones; disabling it also
/// disables the more verbose ones.
///
/// # Errors
///
/// Errors of [`check`]; `Invalid` if an enabled setting requires a disabled one.
pub(super) fn change_log(asked: &Map<String, Value>) -> Result<()> {
    let Some(change) = log_level::change() else { return check(&log(), asked) };
    let (level, rest) = requested_level(LevelFilter::current(), asked)?;
    check(&log(), &rest)?;
    if level != LevelFilter::current() {
        change(level);
        tracing::warn!(%level, "log level changed");
    }
    Ok(())
}

/// Settings of levels, each with the lowest level at which it is on.
const LEVELS: [(&str, usize); 4] =
    [("log_error", 1), ("log_warning", 2), ("log_info", 3), ("log_verbose_level", 4)];

/// All levels, by the numbers above; 5 is `log_verbose_level` 2.
const FILTERS: [LevelFilter; 6] = [
    LevelFilter::OFF,
    LevelFilter::ERROR,
    LevelFilter::WARN,
    LevelFilter::INFO,
    LevelFilter::DEBUG,
    LevelFilter::TRACE,
];

/// Returns the requested level, starting from `now`, and the settings that are not levels.
fn requested_level(
    now: LevelFilter,
    asked: &Map<String, Value>,
) -> Result<(LevelFilter, Map<String, Value>)> {
    let mut rest = asked.clone();
    let (mut min, mut max) = ((0, ""), (FILTERS.len() - 1, ""));
    for (name, first) in LEVELS {
        let Some(value) = rest.remove(name).filter(|value| !value.is_null()) else { continue };
        let wrong = || Error::Invalid(format!("setting {name} must be true or false, got {value}"));
        let no_level = || {
            Error::Invalid(format!("setting {name} must be a non-negative integer, got {value}"))
        };
        let on = match name {
            "log_verbose_level" => value.as_u64().ok_or_else(no_level)?.min(2) as usize,
            _ => usize::from(value.as_bool().ok_or_else(wrong)?),
        };
        if on > 0 && first + on - 1 > min.0 {
            min = (first + on - 1, name);
        }
        let above = if on == 0 {
            first - 1
        } else if first == 4 {
            first + on - 1
        } else {
            max.0
        };
        if above < max.0 {
            max = (above, name);
        }
    }
    if min.0 > max.0 {
        let text = format!("setting {} requires {}, which is off", min.1, max.1);
        return Err(Error::Invalid(text));
    }
    let now = FILTERS.iter().position(|filter| *filter == now).unwrap_or_default();
    Ok((FILTERS[now.clamp(min.0, max.0)], rest))
}

fn log_at(level: LevelFilter) -> Settings {
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

/// Refuses settings that differ from the current ones. A null requests the default.
///
/// # Errors
///
/// `Unimplemented` with the setting; `Invalid` if its name is unknown.
pub(super) fn check(settings: &Settings, asked: &Map<String, Value>) -> Result<()> {
    asked.iter().try_for_each(|(name, value)| check_one(settings, name, value))
}

fn check_one(settings: &Settings, name: &str, value: &Value) -> Result<()> {
    let requested = texts(value);
    let Some((_, has)) = settings.iter().find(|(known, _)| *known == name) else {
        if NO_TRACE.iter().chain(&NO_LOG).any(|other| *other == name) {
            let is_default = requested.is_empty();
            let why = || Error::Unimplemented(format!("setting {name}"));
            return if is_default { Ok(()) } else { Err(why()) };
        }
        let have: Vec<_> = settings.iter().map(|(known, _)| *known).collect();
        let name = excerpt(name);
        let meant = did_you_mean(&name, have.iter().copied());
        let have = have.join(", ");
        return Err(Error::Invalid(format!("unknown setting {name:?} (have: {have}){meant}")));
    };
    if requested.is_empty() || requested == texts(has) {
        return Ok(());
    }
    let (requested, has) = (excerpt(&requested.join(", ")), texts(has).join(", "));
    Err(Error::Unimplemented(format!("setting {name}: {requested:?} instead of {has:?}")))
}

/// Returns a value as texts: equal for a text and a list of one, and for a number and its digits.
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
    fn setting_accepts_current_value_only() {
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
                "setting trace_level: \"TIMESTAMPS\" instead of \"OFF\"",
            ),
            (json!({ "trace_rate": "1000" }), "setting trace_rate: \"1000\" instead of \"1\""),
            (json!({ "trace_count": "5" }), "setting trace_count"),
            (
                json!({ "x": 1 }),
                "unknown setting \"x\" (have: trace_level, trace_rate, trace_file)",
            ),
        ] {
            let said = said(&off, asked).unwrap_err();
            assert!(said.starts_with(want), "{said}");
        }
        assert_eq!(said(&trace(true), json!({ "trace_level": "TIMESTAMPS" })), Ok(()));
        let log = log_at(LevelFilter::INFO);
        let same: Map<String, Value> = log.iter().map(|(k, v)| ((*k).into(), v.clone())).collect();
        assert_eq!(check(&log, &same), Ok(()));
        let said = said(&log, json!({ "log_file": "x" })).unwrap_err();
        assert!(said.starts_with("setting log_file: \"x\" instead of "), "{said}");
    }

    #[test]
    fn log_setting_changes_the_levels_that_depend_on_it() {
        let wanted = |now, asked: Value| {
            let wanted = requested_level(now, asked.as_object().unwrap());
            wanted.map(|(level, rest)| (level, rest.len())).map_err(|error| error.to_string())
        };
        use LevelFilter as L;
        for (now, asked, want) in [
            (L::INFO, json!({}), L::INFO),
            (L::INFO, json!({ "log_info": null, "log_info ": true }), L::INFO),
            (L::INFO, json!({ "log_verbose_level": 1 }), L::DEBUG),
            (L::OFF, json!({ "log_verbose_level": 7 }), L::TRACE),
            (L::TRACE, json!({ "log_verbose_level": 1 }), L::DEBUG),
            (L::TRACE, json!({ "log_verbose_level": 0 }), L::INFO),
            (L::WARN, json!({ "log_verbose_level": 0 }), L::WARN),
            (L::DEBUG, json!({ "log_info": false }), L::WARN),
            (L::DEBUG, json!({ "log_info": true }), L::DEBUG),
            (L::ERROR, json!({ "log_info": true, "log_verbose_level": 0 }), L::INFO),
            (L::INFO, json!({ "log_info": false, "log_warning": false }), L::ERROR),
            (L::INFO, json!({ "log_error": false, "log_file": "" }), L::OFF),
        ] {
            let others = asked
                .as_object()
                .unwrap()
                .keys()
                .filter(|key| LEVELS.iter().all(|(name, _)| name != *key));
            assert_eq!(wanted(now, asked.clone()), Ok((want, others.count())), "{now} {asked}");
        }
        for (asked, want) in [
            (
                json!({ "log_info": true, "log_error": false }),
                "setting log_info requires log_error, which is off",
            ),
            (
                json!({ "log_verbose_level": 1, "log_info": false }),
                "setting log_verbose_level requires log_info, which is off",
            ),
            (json!({ "log_info": 1 }), "setting log_info must be true or false, got 1"),
            (
                json!({ "log_verbose_level": -1 }),
                "setting log_verbose_level must be a non-negative integer, got -1",
            ),
        ] {
            assert_eq!(wanted(L::INFO, asked), Err(want.into()));
        }
    }
}
