//! Trace and log settings as Triton has them: they say what the daemon does. The log's level can be
//! changed; any other setting that would have the daemon do something else is refused by its name.

use crate::error::{Error, Result};
use crate::log_level;
use crate::name::shown;
use serde_json::{Map, Value, json};
use tracing::level_filters::LevelFilter;

/// Settings with their values, as JSON has them.
pub(super) type Settings = Vec<(&'static str, Value)>;

/// Settings of Triton's that say nothing here.
const NO_TRACE: [&str; 3] = ["trace_count", "log_frequency", "trace_mode"];
const NO_LOG: [&str; 1] = ["log_format"];

/// Of traces, which `GET /reef/trace` takes: each request is in one, for as long as it is being
/// taken.
pub(super) fn trace(is_taken: bool) -> Settings {
    let level = if is_taken { "TIMESTAMPS" } else { "OFF" };
    vec![("trace_level", json!([level])), ("trace_rate", json!("1")), ("trace_file", json!(""))]
}

/// Of the log.
pub(super) fn log() -> Settings {
    log_at(LevelFilter::current())
}

/// Changes the log's level as `asked` says: what is turned on takes what is less verbose along,
/// what is turned off what is more.
///
/// # Errors
///
/// As [`check`]; `Invalid` for two settings of which one is on and needs the other, which is off.
pub(super) fn change_log(asked: &Map<String, Value>) -> Result<()> {
    let Some(change) = log_level::change() else { return check(&log(), asked) };
    let (level, rest) = wanted_level(LevelFilter::current(), asked)?;
    check(&log(), &rest)?;
    if level != LevelFilter::current() {
        change(level);
        tracing::warn!(%level, "the log's level from now on");
    }
    Ok(())
}

/// The settings of levels, each with the least level at which it is on.
const LEVELS: [(&str, usize); 4] =
    [("log_error", 1), ("log_warning", 2), ("log_info", 3), ("log_verbose_level", 4)];

/// All levels, by the numbers above; 5 is what `log_verbose_level` is at 2.
const FILTERS: [LevelFilter; 6] = [
    LevelFilter::OFF,
    LevelFilter::ERROR,
    LevelFilter::WARN,
    LevelFilter::INFO,
    LevelFilter::DEBUG,
    LevelFilter::TRACE,
];

/// The level that is asked for where it was `now`, and the settings that are not of levels.
fn wanted_level(
    now: LevelFilter,
    asked: &Map<String, Value>,
) -> Result<(LevelFilter, Map<String, Value>)> {
    let mut rest = asked.clone();
    let (mut least, mut most) = ((0, ""), (FILTERS.len() - 1, ""));
    for (name, first) in LEVELS {
        let Some(value) = rest.remove(name).filter(|value| !value.is_null()) else { continue };
        let wrong = || Error::Invalid(format!("setting {name}: {value} is neither true nor false"));
        let no_level = || Error::Invalid(format!("setting {name}: {value} is no number from 0"));
        let on = match name {
            "log_verbose_level" => value.as_u64().ok_or_else(no_level)?.min(2) as usize,
            _ => usize::from(value.as_bool().ok_or_else(wrong)?),
        };
        if on > 0 && first + on - 1 > least.0 {
            least = (first + on - 1, name);
        }
        let above = if on == 0 {
            first - 1
        } else if first == 4 {
            first + on - 1
        } else {
            most.0
        };
        if above < most.0 {
            most = (above, name);
        }
    }
    if least.0 > most.0 {
        let text = format!("settings {} and {}: the one needs the other", least.1, most.1);
        return Err(Error::Invalid(text));
    }
    let now = FILTERS.iter().position(|filter| *filter == now).unwrap_or_default();
    Ok((FILTERS[now.clamp(least.0, most.0)], rest))
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

/// Refuses what of `asked` is not so already. Nothing in the place of a value asks for the usual
/// one.
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
        let log = log_at(LevelFilter::INFO);
        let same: Map<String, Value> = log.iter().map(|(k, v)| ((*k).into(), v.clone())).collect();
        assert_eq!(check(&log, &same), Ok(()));
        let said = said(&log, json!({ "log_file": "x" })).unwrap_err();
        assert!(said.starts_with("setting log_file: \"x\", it is "), "{said}");
    }

    #[test]
    fn what_is_turned_on_or_off_takes_what_hangs_on_it_along() {
        let wanted = |now, asked: Value| {
            let wanted = wanted_level(now, asked.as_object().unwrap());
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
                "settings log_info and log_error: the one needs the other",
            ),
            (
                json!({ "log_verbose_level": 1, "log_info": false }),
                "settings log_verbose_level and log_info: the one needs the other",
            ),
            (json!({ "log_info": 1 }), "setting log_info: 1 is neither true nor false"),
            (
                json!({ "log_verbose_level": -1 }),
                "setting log_verbose_level: -1 is no number from 0",
            ),
        ] {
            assert_eq!(wanted(L::INFO, asked), Err(want.into()));
        }
    }
}
