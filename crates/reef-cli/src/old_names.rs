//! Names that commands and options had: a line of old names becomes one of today's before it is
//! read.
//!
//! - **In**: the arguments as typed. **Out**: the same, with each old name replaced.
//! - **Invariant**: a line that has no old name comes out as it went in. What follows `--`, and the
//!   line of a program that `exec` runs, is never changed.

use std::ffi::{OsStr, OsString};

/// Commands that were renamed: the old path, and today's.
const COMMANDS: &[(&[&str], &[&str])] = &[
    (&["client"], &["request"]),
    (&["trace"], &["ctl", "trace"]),
    (&["profile"], &["model", "profile"]),
    (&["model", "check"], &["model", "show"]),
    (&["model", "nodetest"], &["model", "verify", "--against", "onnx-tests"]),
    (&["bench", "preempt"], &["bench", "start"]),
    (&["bench", "pair"], &["bench", "colocate"]),
    (&["bench", "pad"], &["bench", "saturate"]),
];

/// Today's form of an option.
#[derive(Clone, Copy)]
enum Replacement {
    /// Another name.
    Name(&'static str),
    /// Another name, and a unit behind a bare number.
    Unit(&'static str, &'static str),
    /// These arguments, in place of an option without a value.
    Words(&'static [&'static str]),
    /// The value alone, behind the command's name.
    Positional,
}

/// Options that were renamed: today's command, the old option, its form.
const OPTIONS: &[(&[&str], &str, Replacement)] = &[
    (&["request"], "--model", Replacement::Positional),
    (&["request"], "--rt", Replacement::Words(&["--class", "rt"])),
    (&["request"], "--budget-us", Replacement::Unit("--budget", "us")),
    (&["request"], "--period-us", Replacement::Unit("--period", "us")),
    (&["request"], "--sleep-ms", Replacement::Unit("--sleep", "ms")),
    (&["request"], "--timeout-ms", Replacement::Unit("--timeout", "ms")),
    (&["request"], "--spin-us", Replacement::Unit("--spin", "us")),
    (&["run"], "--model", Replacement::Positional),
    (&["run"], "--memory", Replacement::Unit("--memory", "MiB")),
    (&["model", "import"], "--memory", Replacement::Unit("--memory", "MiB")),
    (&["model", "show"], "--param", Replacement::Name("--weights")),
    (&["model", "show"], "--profile", Replacement::Name("--latencies")),
    (&["demo"], "--rt", Replacement::Name("--rt-model")),
    (&["demo"], "--be", Replacement::Name("--be-model")),
    (&["demo"], "--seconds", Replacement::Unit("--time", "s")),
    (&["bench"], "--rt", Replacement::Name("--rt-model")),
    (&["bench"], "--be", Replacement::Name("--be-model")),
    (&["bench"], "--seconds", Replacement::Unit("--time", "s")),
    (&["bench"], "--lead", Replacement::Unit("--lead", "s")),
    (&["bench"], "--cold", Replacement::Unit("--cold", "MiB")),
    (&["bench"], "--side", Replacement::Name("--class")),
    (&["simulate"], "--seconds", Replacement::Unit("--time", "s")),
    (&["ctl", "trace"], "--seconds", Replacement::Unit("--time", "s")),
    (&["top"], "--interval", Replacement::Unit("--interval", "s")),
];

/// The line in today's names. The first argument is the program's own name.
pub(crate) fn modern(typed: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut line: Vec<OsString> = typed.into_iter().collect();
    let first = 1 + line
        .iter()
        .skip(1)
        .take_while(|word| word.as_encoded_bytes().starts_with(b"-"))
        .count();
    rename_command(&mut line, first);
    let is_under = |path: &[&str]| starts_with(&line[first.min(line.len())..], path);
    if is_under(&["exec"]) {
        return line;
    }
    let renamed: Vec<_> = OPTIONS.iter().filter(|(path, ..)| is_under(path)).collect();
    let depth = renamed.iter().map(|(path, ..)| path.len()).max().unwrap_or_default();
    let rest = line.split_off((first + depth).min(line.len()));
    let (mut behind, mut options) = (Vec::new(), Vec::new());
    let mut words = rest.into_iter();
    while let Some(word) = words.next() {
        if word == "--" {
            options.push(word);
            options.extend(words);
            break;
        }
        let (name, value) = split(&word);
        match renamed.iter().find(|(_, old, _)| name == *old) {
            None => options.push(word),
            Some((_, _, now)) => {
                let value = || value.or_else(|| words.next());
                match now {
                    Replacement::Name(name) => options.extend(named(name, value())),
                    Replacement::Unit(name, unit) => {
                        options.extend(named(name, value().map(|value| with_unit(value, unit))));
                    }
                    Replacement::Words(words) => options.extend(words.iter().map(OsString::from)),
                    Replacement::Positional => behind.extend(value()),
                }
            }
        }
    }
    line.extend(behind);
    line.extend(options);
    line
}

fn rename_command(line: &mut Vec<OsString>, first: usize) {
    let words = &line[first.min(line.len())..];
    if let Some((old, now)) = COMMANDS.iter().find(|(old, _)| starts_with(words, old)) {
        line.splice(first..first + old.len(), now.iter().map(OsString::from));
    }
}

fn starts_with(words: &[OsString], path: &[&str]) -> bool {
    words.len() >= path.len() && words.iter().zip(path).all(|(word, part)| word == part)
}

/// Name and value of `--name=value`; a word without `=` is all name.
fn split(word: &OsStr) -> (&str, Option<OsString>) {
    match word.to_str() {
        Some(text) if text.starts_with("--") => match text.split_once('=') {
            Some((name, value)) => (name, Some(value.into())),
            None => (text, None),
        },
        _ => ("", None),
    }
}

fn named(name: &str, value: Option<OsString>) -> impl Iterator<Item = OsString> {
    std::iter::once(name.into()).chain(value)
}

/// A bare number gets the unit that it had by the option's name.
fn with_unit(value: OsString, unit: &str) -> OsString {
    let is_number = |text: &str| {
        text.bytes().all(|c| c.is_ascii_digit() || c == b'.') && text.parse::<f64>().is_ok()
    };
    if value.to_str().is_some_and(is_number) {
        let mut value = value;
        value.push(unit);
        return value;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modern(typed: &str) -> String {
        let line = typed.split_whitespace().map(OsString::from);
        super::modern(line).join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn old_lines_become_new_ones() {
        for (old, new) in [
            (
                "reef client --folder d --model tiny --rt --requests 3 --sleep-ms 5 --spin-us=2",
                "reef request tiny --folder d --class rt --requests 3 --sleep 5ms --spin 2us",
            ),
            ("reef client --model=tiny --empty 10", "reef request tiny --empty 10"),
            ("reef trace --seconds 0.5 --out t.json", "reef ctl trace --time 0.5s --out t.json"),
            ("reef profile resnet18 --out p", "reef model profile resnet18 --out p"),
            (
                "reef --gfx906-sim model nodetest --device hip:0 a b",
                "reef --gfx906-sim model verify --against onnx-tests --device hip:0 a b",
            ),
            (
                "reef bench preempt --seconds 2 --be none",
                "reef bench start --time 2s --be-model none",
            ),
            ("reef bench pad --side rt --rt x", "reef bench saturate --class rt --rt-model x"),
            ("reef bench pair --cold 64", "reef bench colocate --cold 64MiB"),
            (
                "reef demo --rt a --be=b,c --seconds 1",
                "reef demo --rt-model a --be-model b,c --time 1s",
            ),
            ("reef run photo.jpg --model m --memory 64", "reef run m photo.jpg --memory 64MiB"),
            ("reef top --interval 0.05", "reef top --interval 0.05s"),
            ("reef help client", "reef help client"),
        ] {
            assert_eq!(modern(old), new);
        }
    }

    #[test]
    fn todays_lines_and_programs_stay_as_they_are() {
        for line in [
            "reef",
            "reef --help",
            "reef exec --class rt -- python train.py --rt 1 --seconds 4 --model x",
            "reef exec train --seconds 4",
            "reef run m -- --model x",
            "reef top --interval 50ms",
            "reef request tiny --class rt --sleep 5ms",
            "reef k8s plugin --rt 4 --be 2",
            "reef demo --time nan",
            "reef bench",
            "reef demo --time",
        ] {
            assert_eq!(modern(line), line);
        }
    }
}
