//! Sources of the configuration: file, then environment, then flags; the last one counts.
//!
//! Names of environment variables follow the keys: `REEF_SERVE__LISTEN__GRPC` is `listen.grpc`.

use super::settings::Config;
use crate::error::{Error, Result};
use reef::did_you_mean_in;
use std::path::Path;
use toml::{Table, Value};

/// Maximum length of a configuration file.
const MAX_BYTES: u64 = 1 << 20;

/// Maximum length of what an error quotes of a file.
const MAX_QUOTED_CHARS: usize = 500;

/// Prefix of environment variables that set a key.
pub const SET: &str = "REEF_SERVE__";

/// Reads the configuration from `file`, changed by `environment` and then by `flags`, which are
/// pairs of a key such as `listen.grpc` and a value.
///
/// A value is TOML; a value that is not valid TOML is a string, so `cpu:0` needs no quotes.
///
/// # Errors
///
/// `Invalid` with the file, variable or flag and the key.
pub fn from_sources(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
    flags: &[(String, String)],
) -> Result<Config> {
    let mut table = file.map(read).transpose()?.unwrap_or_default();
    for (name, value) in environment {
        if let Some(key) = name.strip_prefix(SET) {
            let key = key.to_ascii_lowercase().replace("__", ".");
            change(&mut table, &name, &key, &value)?;
        }
    }
    for (key, value) in flags {
        change(&mut table, key, key, value)?;
    }
    let config: Config =
        Value::Table(table).try_into().map_err(|e| wrong("configuration", "", &e))?;
    config.check()?;
    Ok(config)
}

/// Reads a file's table. Parses it as a configuration first, so that the error has the line.
fn read(file: &Path) -> Result<Table> {
    let name = file.display().to_string();
    let text = reef_files::read_to_string(file, MAX_BYTES)
        .map_err(|e| Error::Invalid(format!("{name}: {e}")))?;
    toml::from_str::<Config>(&text).map_err(|e| wrong(&name, &text, &e))?;
    toml::from_str(&text).map_err(|e| wrong(&name, &text, &e))
}

fn wrong(what: &str, text: &str, error: &toml::de::Error) -> Error {
    Error::Invalid(format!("{what}: {}", why(text, error)))
}

/// Returns the line and the fault of TOML in `text`, in one line of bounded length.
pub(crate) fn why(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let (place, said) = match before {
        Some(before) => {
            (format!("line {}: ", before.matches('\n').count() + 1), error.message().to_owned())
        }
        None => (String::new(), error.to_string()),
    };
    let line = without_types(said.trim()).lines().collect::<Vec<_>>().join(" ");
    let quoted: String = line.chars().take(MAX_QUOTED_CHARS).collect();
    place + &quoted + &did_you_mean_in(&line)
}

/// Names of Rust's types in an error of serde, as the readers of a configuration say them.
fn without_types(said: &str) -> String {
    let whole = ["u8", "u16", "u32", "u64", "usize"].map(|of| (of, "a whole number from 0"));
    let mut said = said.to_owned();
    for (of, plain) in whole.into_iter().chain([("f64", "a number")]) {
        said = said.replace(&format!("expected {of}"), &format!("expected {plain}"));
    }
    for (of, plain) in [("a map", "a section"), ("a sequence", "a list")] {
        said = said.replace(&format!("expected {of}"), &format!("expected {plain}"));
    }
    match said.split_once("expected struct ") {
        Some((before, after)) => {
            let rest = after.trim_start_matches(char::is_alphanumeric);
            format!("{before}expected a section{rest}")
        }
        None => said,
    }
}

fn change(table: &mut Table, source: &str, key: &str, value: &str) -> Result<()> {
    let mut parts = path(key);
    let last = parts.pop().unwrap_or_default();
    let mut at = table;
    for part in parts {
        let inner = at.entry(&part).or_insert_with(|| Value::Table(Table::new()));
        at = inner
            .as_table_mut()
            .ok_or_else(|| Error::Invalid(format!("{source}: {part} must be a section")))?;
    }
    at.insert(last, parse(value));
    Ok(())
}

/// Returns the parts of a key such as `limits.queue`.
///
/// An entry of `rights` may hold dots. It is one part in TOML's quotes, and also without them,
/// because a shell removes them: `rights."address 127.0.0.1".rt`.
fn path(key: &str) -> Vec<String> {
    let quoted =
        toml::from_str::<Table>(&format!("{key} = 0")).ok().and_then(|table| only_path(&table));
    quoted.unwrap_or_else(|| {
        let parts = match key.strip_prefix("rights.").and_then(|entry| entry.rsplit_once('.')) {
            Some((entry, right)) => vec!["rights", entry, right],
            None => key.split('.').collect(),
        };
        parts.into_iter().map(str::to_owned).collect()
    })
}

/// Returns the keys down to the only value of a table; `None` if it has several.
fn only_path(table: &Table) -> Option<Vec<String>> {
    let (mut at, mut path) = (table, Vec::new());
    loop {
        let (key, value) = at.iter().next().filter(|_| at.len() == 1)?;
        path.push(key.clone());
        match value {
            Value::Table(inner) => at = inner,
            _ => return Some(path),
        }
    }
}

fn parse(text: &str) -> Value {
    let parsed = toml::from_str::<Table>(&format!("v = {text}"));
    let value = parsed.ok().filter(|table| table.len() == 1).and_then(|mut t| t.remove("v"));
    value.unwrap_or_else(|| Value::String(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect()
    }

    fn file(name: &str, text: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("reef-{name}-{}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn right_is_set_by_the_key_in_a_refusal() {
        for key in [
            "rights.\"address 127.0.0.1\".rt",
            "rights.address 127.0.0.1.rt", // after a shell removed the quotes
            "rights.address ::1.rt",
            "rights.\"token a=b.c\".rt",
            "rights.token a.b.rt",
            "rights.owner.rt",
        ] {
            let config = from_sources(None, [], &pairs(&[(key, "true")]));
            let config = config.unwrap_or_else(|error| panic!("{key}: {error}"));
            let principal = key.strip_prefix("rights.").unwrap().strip_suffix(".rt").unwrap();
            assert!(config.rights[principal.trim_matches('"')].rt, "{key}: {:?}", config.rights);
        }
        for wrong in [
            "rights.\"address 127.0.0.1.rt",
            "rights..rt",
            "rights",
            "",
            "a = 1\nb",
            "limits.\"queue",
        ] {
            assert!(from_sources(None, [], &pairs(&[(wrong, "true")])).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn flags_override_environment_and_file() {
        let path =
            file("order", "device = \"a\"\nscheduler = \"fair-share\"\n[limits]\nqueue = 1\n");
        let environment = pairs(&[
            ("REEF_SERVE__LIMITS__QUEUE", "2"),
            ("REEF_SERVE__DEVICE", "cpu:0?units=1"),
            ("PATH", "/bin"),
        ]);
        let flags = pairs(&[("limits.queue", "3"), ("models.load", "[\"resnet18\"]")]);
        let config = from_sources(Some(&path), environment, &flags).unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(config.scheduler, "fair-share");
        assert_eq!(config.device, "cpu:0?units=1");
        assert_eq!(config.limits.queue, 3);
        assert_eq!(config.models.load, ["resnet18"]);
    }

    #[test]
    fn file_that_never_ends_is_refused_at_once() {
        let said = from_sources(Some(Path::new("/dev/zero")), [], &[]).unwrap_err().to_string();
        assert!(said.contains("/dev/zero: must be a regular file, got a device"), "{said}");
        let path = file("long", "");
        std::fs::File::options().write(true).open(&path).unwrap().set_len(16 << 30).unwrap();
        let said = from_sources(Some(&path), [], &[]).unwrap_err().to_string();
        assert!(said.contains("must have at most 1048576 bytes"), "{said}");
        std::fs::write(&path, "x".repeat(1 << 20)).unwrap();
        let said = from_sources(Some(&path), [], &[]).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(said.len() < 1000, "{} bytes", said.len());
    }

    #[test]
    fn unknown_key_is_refused_from_each_source() {
        let path = file("unknown", "[limits]\nqeue = 1\n");
        let said = from_sources(Some(&path), [], &[]).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(said.contains("qeue") && said.contains("line 2: "), "{said}");
        let said = from_sources(None, pairs(&[("REEF_SERVE__LISTEN__GRCP", "x")]), &[]);
        assert!(said.unwrap_err().to_string().contains("grcp"));
        let said = from_sources(None, [], &pairs(&[("limitz.queue", "1")]));
        assert!(said.unwrap_err().to_string().contains("limitz"));
    }

    #[test]
    fn value_of_wrong_type_is_refused() {
        for (key, value) in [("limits.queue", "many"), ("device", "3"), ("device.x", "1")] {
            assert!(from_sources(None, [], &pairs(&[(key, value)])).is_err(), "{key}={value}");
        }
        let said =
            |key, value| from_sources(None, [], &pairs(&[(key, value)])).unwrap_err().to_string();
        for (key, value, want) in [
            ("limits.queue", "many", "string \"many\", expected a whole number from 0 in"),
            ("limits.queue", "-1", "integer `-1`, expected a whole number from 0 in"),
            ("rt.reserve", "much", "string \"much\", expected a number in"),
            ("limits", "3", "integer `3`, expected a section in `limits`"),
            ("rights", "3", "integer `3`, expected a section in `rights`"),
            ("models.load", "3", "integer `3`, expected a list in `models.load`"),
        ] {
            assert!(said(key, value).contains(want), "{}", said(key, value));
        }
        let missing = from_sources(Some(Path::new("/nowhere.toml")), [], &[]).unwrap_err();
        assert!(missing.to_string().starts_with("/nowhere.toml: No such file"), "{missing}");
    }

    /// The defaults of the page of keys equal those of the code.
    #[test]
    fn page_of_keys_has_the_defaults() {
        let page = include_str!("../../../../docs/reference/configuration.md");
        let begin = page.find("```toml\n").expect("a block of TOML") + 8;
        let text = &page[begin..][..page[begin..].find("```").expect("its end")];
        assert_eq!(toml::from_str::<Config>(text).unwrap(), Config::default());
        let optional = text.replace("# folder", "folder").replace("# grpc", "grpc");
        let optional = optional.replace("# http", "http").replace("# token_file", "token_file");
        toml::from_str::<Config>(&optional.replace("# repository", "repository")).unwrap();
    }

    proptest! {
        /// Any text is a configuration or one error.
        #[test]
        fn random_text_does_not_panic(text in "\\PC{0,200}|(\\[[a-z]{1,8}\\]|[a-z_]{1,9} = [0-9\"a-z]{1,5}|\n){0,12}") {
            if let Ok(config) = toml::from_str::<Config>(&text) {
                let _ = config.check();
            }
        }

        #[test]
        fn random_flag_does_not_panic(key in "[a-z._]{0,20}|limits\\.[a-z]{1,8}", value in "\\PC{0,20}") {
            let _ = from_sources(None, [], &[(key, value)]);
        }
    }
}
