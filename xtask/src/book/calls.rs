//! Options by which scripts call `reef`: each is in the help of its command.
//!
//! The help is that of the snapshots, which a test of the command compares with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Folder of the help, a file for each command and all below it.
const HELP: &str = "crates/reef-cli/tests/snapshots/help";
/// Least number of calls, if what reads them works.
const MIN_CALLS: usize = 40;
/// Ends of what stands before the first word of a call in a list of Python.
const CALLERS: [&str; 4] = ["reef, \"", "reef), \"", "REEF, \"", "argv[1], \""];
/// Names of the command in a shell's script, besides paths of it.
const NAMES: [&str; 5] = ["reef", "$reef", "${reef}", "$REEF", "${REEF}"];
/// Characters of a word that ends a call.
const ENDS: &[char] = &['|', '&', ';', '<', '>', ')'];

/// Options by the words of their command, such as `bench start`.
type Commands = BTreeMap<String, BTreeSet<String>>;

/// Faults of the scripts among these files.
///
/// # Errors
///
/// A file cannot be read, or there are too few calls.
pub(super) fn faults(files: &[String]) -> Result<Vec<String>, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let mut commands = Commands::new();
    let folder = fs::read_dir(HELP).map_err(|error| format!("{HELP}: {error}"))?;
    for entry in folder {
        let path = entry.map_err(|error| format!("{HELP}: {error}"))?.path();
        commands.extend(help(&read(&path.display().to_string())?));
    }
    let (mut faults, mut count) = (Vec::new(), 0);
    for file in files {
        let text = read(file)?;
        for call in [of_python(&text), of_shell(&text)].concat() {
            let Some(wrong) = wrong_options(&call, &commands) else { continue };
            count += 1;
            faults.extend(wrong.iter().map(|why| format!("{file}: {why}")));
        }
    }
    if count < MIN_CALLS {
        return Err(format!("calls of reef in scripts: must be at least {MIN_CALLS}, got {count}"));
    }
    Ok(faults)
}

/// Commands of a file of help, and their options.
fn help(text: &str) -> Commands {
    let mut commands = Commands::new();
    let mut command = None;
    for line in text.lines() {
        let title = line.strip_prefix("$ reef").and_then(|rest| rest.strip_suffix(" --help"));
        if let Some(title) = title {
            command = Some(title.trim().to_owned());
            commands.insert(title.trim().to_owned(), BTreeSet::new());
            continue;
        }
        // `-h, --help` is the only one with a short name.
        let option = line.split_whitespace().next().and_then(option);
        if let (Some(command), Some(option)) = (&command, option)
            && let Some(options) = commands.get_mut(command)
        {
            options.insert(option.to_owned());
        }
    }
    commands
}

/// Name of the option that a word begins with.
fn option(word: &str) -> Option<&str> {
    let name = word.split(['=', '[']).next().unwrap_or_default();
    let is_of_name = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let rest = name.strip_prefix("--")?;
    (!rest.is_empty() && rest.bytes().all(is_of_name)).then_some(name)
}

/// Returns the options of a call that its command does not have; `None` if the command is unknown.
fn wrong_options(call: &[String], commands: &Commands) -> Option<Vec<String>> {
    let mut command = call.first().filter(|name| commands.contains_key(*name))?.clone();
    let mut rest = &call[1..];
    while let [next, more @ ..] = rest {
        let longer = format!("{command} {next}");
        if !commands.contains_key(&longer) {
            break;
        }
        (command, rest) = (longer, more);
    }
    let known = &commands[&command];
    let options = rest.iter().take_while(|word| *word != "--").filter_map(|word| option(word));
    let wrong = options.filter(|option| *option != "--help" && !known.contains(*option));
    Some(wrong.map(|option| format!("reef {command}: no option {option}")).collect())
}

/// Words of calls in lists of Python: the texts up to the list's end.
fn of_python(text: &str) -> Vec<Vec<String>> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut calls = Vec::new();
    for caller in CALLERS {
        for (at, _) in text.match_indices(caller) {
            let list = text[at + caller.len() - 1..].split(']').next().unwrap_or_default();
            calls.push(list.split('"').skip(1).step_by(2).map(str::to_owned).collect());
        }
    }
    calls
}

/// Words of calls in a shell's lines.
fn of_shell(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ");
    let mut calls = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let words: Vec<_> =
            line.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect();
        for (at, word) in words.iter().enumerate() {
            if NAMES.contains(word) || word.ends_with("/reef") {
                let call = words[at + 1..].iter().take_while(|word| !word.contains(ENDS));
                calls.push(call.map(|word| (*word).to_owned()).collect());
            }
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "$ reef run --help\nOptions:\n      --device <DEVICE>  Device\n\n\
                        $ reef bench start --help\n      --call-profile[=<FILE>]\n          A --time\n\
                        $ reef bench --help\n";

    fn wrong(text: &str) -> Vec<String> {
        let calls = [of_python(text), of_shell(text)].concat();
        calls.iter().filter_map(|call| wrong_options(call, &help(TEXT))).flatten().collect()
    }

    #[test]
    fn options_that_the_help_lacks_are_found() {
        let fault = ["reef run: no option --model"];
        assert_eq!(
            wrong("subprocess.run([reef, \"run\",\n  \"--model\", name, \"--device=cpu\"])"),
            fault
        );
        assert_eq!(wrong("\"$build/reef\" run \\\n  --model x >--no | reef"), fault);
        assert_eq!(
            wrong("[*split(reef), \"bench\", \"start\", \"--time\"]"),
            ["reef bench start: no option --time"]
        );
    }

    #[test]
    fn words_of_a_program_and_of_comments_are_not_options() {
        assert_eq!(wrong("reef run --device cpu -- x --y\n# reef run --z\nreef runs --z"), [""; 0]);
        assert_eq!(wrong("reef bench start --call-profile=a --help"), [""; 0]);
    }
}
