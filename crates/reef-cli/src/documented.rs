//! Commands, options and values that the documents and the help name: all of them work.
//!
//! Each command line of a page is read as the command reads it. What names a device, a scheduler or
//! a setting is looked up as well. Pages of results and lab books have the names of their day.

use clap::error::ErrorKind;
use clap::{ArgMatches, Command};
use reef::scheduler;
use std::fs;
use std::path::{Path, PathBuf};

/// Root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Folders and pages that have the names of their day.
const DATED: [&str; 4] = ["results", "lab", "measured.md", "names.md"];
/// Backends that a build may have.
const BACKENDS: [&str; 5] = [reef::AUTO, "cpu", "cuda", "hip", "remote"];
/// Option of builds with the feature `gfx906-sim`.
const OF_A_FEATURE: &str = "--gfx906-sim";
/// Sections of the daemon's file.
const SECTIONS: [&str; 8] =
    ["[models]", "[listen]", "[limits]", "[guests]", "[rights.", "[tls]", "[memory]", "[times]"];

/// Sources of the daemon's calls over HTTP.
const HTTP: &str = "crates/reef-serve/src/kserve/http";

/// Text of a page with its path below the root.
struct Page {
    path: PathBuf,
    text: String,
}

/// Block of code of a page.
struct Block<'p> {
    language: &'p str,
    text: String,
}

fn pages() -> Vec<Page> {
    let mut pages = Vec::new();
    for place in [
        "README.md",
        "crates/reef-serve/README.md",
        "crates/reef-python/README.md",
        "docs",
        "examples",
    ] {
        collect(&Path::new(ROOT).join(place), &mut pages);
    }
    assert!(pages.len() > 50, "{} pages", pages.len());
    pages
}

fn collect(path: &Path, pages: &mut Vec<Page>) {
    if path.file_name().is_some_and(|name| DATED.iter().any(|of| name == *of)) {
        return;
    }
    if path.is_dir() {
        let inside = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        inside.for_each(|path| collect(&path, pages));
    } else if path.extension().is_some_and(|of| of == "md") {
        let text = fs::read_to_string(path).unwrap();
        pages.push(Page { path: path.strip_prefix(ROOT).unwrap().into(), text });
    }
}

impl Page {
    fn blocks(&self) -> Vec<Block<'_>> {
        let (mut blocks, mut open): (Vec<_>, Option<Block<'_>>) = (Vec::new(), None);
        for line in self.text.lines() {
            match (line.trim_start().strip_prefix("```"), open.take()) {
                (Some(language), None) => open = Some(Block { language, text: String::new() }),
                (Some(_), Some(block)) => blocks.push(block),
                (None, Some(block)) => {
                    open = Some(Block { text: block.text + line + "\n", ..block });
                }
                (None, None) => {}
            }
        }
        blocks
    }

    /// Command lines of blocks for a shell and of indented lines, as words.
    fn lines(&self) -> Vec<Vec<String>> {
        let is_shell = |block: &Block<'_>| ["sh", "console", "bash"].contains(&block.language);
        let blocks = self.blocks().into_iter().filter(is_shell);
        let prose: String = self.text.split("```").step_by(2).collect();
        let indented = prose.lines().filter(|line| line.starts_with("    reef "));
        blocks.flat_map(|block| commands(&block.text)).chain(indented.flat_map(commands)).collect()
    }
}

/// Calls of `reef` in the text of a shell.
fn commands(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ");
    let lines = text.lines().map(|line| words(line.trim_start_matches("$ ")));
    lines.flat_map(|line| calls(&line)).collect()
}

/// Words of a line without its comment; what ends a command is a word of its own.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | '&' | ';' | '>' | '<' | '(' | ')' | '`') => {
                words.extend(word.take());
                words.push(c.to_string());
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The calls of `reef` among the words of a line. A program that it runs is a part of its call.
fn calls(line: &[String]) -> Vec<Vec<String>> {
    let is_end = |word: &String| word.len() == 1 && "|&;><()`".contains(word.as_str());
    let parts = line.split(is_end);
    let begins = |part: &[String]| {
        part.iter().position(|word| !word.contains('=') && word != "sudo" && word != "time")
    };
    let of_reef = parts.filter_map(|part| {
        let part = &part[begins(part)?..];
        of_cargo(part).or_else(|| (part[0] == "reef").then(|| part.to_vec()))
    });
    of_reef.filter(|call| call.len() > 1 && call[1] != "=").collect()
}

/// The call of `reef` that cargo makes: `cargo demo` and `cargo run -p reef-cli -- …`. An option
/// that is in builds with a feature alone is left out.
fn of_cargo(part: &[String]) -> Option<Vec<String>> {
    let (build, arguments) = match part.get(..2)? {
        [cargo, demo] if cargo == "cargo" && demo == "demo" => part.split_at(1),
        [cargo, run] if cargo == "cargo" && run == "run" => {
            let end = part.iter().position(|word| word == "--")?;
            (&part[..end], &part[end + 1..])
        }
        _ => return None,
    };
    let is_ours = build.len() == 1 || build.iter().any(|word| word == "reef-cli");
    let arguments = arguments.iter().filter(|word| *word != OF_A_FEATURE).cloned();
    is_ours.then(|| ["reef".to_owned()].into_iter().chain(arguments).collect())
}

/// Reads a command line, or says why it is refused.
fn read(command: &Command, words: &[String]) -> Result<ArgMatches, String> {
    command.clone().try_get_matches_from(words).or_else(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(ArgMatches::default()),
        _ => Err(error.to_string().lines().next().unwrap_or_default().to_owned()),
    })
}

/// A value in place of which a reader puts one: `FILE`, `"$NODE"`, `…`.
fn is_placeholder(value: &str) -> bool {
    value.contains(['$', '…', '[']) || value.bytes().all(|c| c.is_ascii_uppercase() || c == b'-')
}

/// Value that the command would look up later and not find.
fn wrong_value(words: &[String]) -> Option<String> {
    let values = words.windows(2).filter(|pair| !is_placeholder(&pair[1]));
    let known = |(option, value): (&str, &str)| match option {
        "--device" => value.split(',').all(|name| BACKENDS.contains(&backend(name))),
        "--schedulers" if words[1] == "simulate" => {
            value.split(',').all(|name| name == "guests" || scheduler::by_name(name).is_some())
        }
        "--rt-model" | "--be-model" => value.split(',').all(is_network),
        "--set" => is_setting(value),
        _ => true,
    };
    let pairs = values.map(|pair| (pair[0].as_str(), pair[1].as_str()));
    pairs.into_iter().find(|pair| !known(*pair)).map(|(option, value)| format!("{option} {value}"))
}

fn backend(device: &str) -> &str {
    device.split([':', '?']).next().unwrap_or_default()
}

fn is_network(name: &str) -> bool {
    let names = [reef::models::NAMES, reef::models::TENSOR_NAMES].concat();
    names.contains(&name) || name == "none" || name.contains(['/', '.'])
}

fn is_setting(pair: &str) -> bool {
    let Some((key, value)) = pair.split_once('=') else { return false };
    // Some keys want others, which stand elsewhere on the line.
    let with = |more: &[(&str, &str)]| {
        let all = [&[(key, value)][..], more].concat();
        let flags: Vec<_> =
            all.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        reef_serve::config::from_sources(None, [], &flags).is_ok()
    };
    with(&[]) || with(&[("guests.listen", "true")])
}

/// Reads each command line of the documents.
pub(crate) fn check_lines(command: &Command) {
    let (mut faults, mut read_lines) = (Vec::new(), 0);
    for page in pages() {
        for line in page.lines() {
            let shown = format!("{}: {}", page.path.display(), line.join(" "));
            let line: Vec<_> =
                line.into_iter().filter(|word| !word.starts_with(['…', '['])).collect();
            read_lines += 1;
            faults.extend(read(command, &line).err().map(|why| format!("{shown}\n    {why}")));
            faults.extend(wrong_value(&line).map(|value| format!("{shown}\n    no {value}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(read_lines > 100, "{read_lines} lines");
}

/// Returns whether a file is one of `reef remote serve --rights`; its tokens are made up.
fn is_of_tenants(text: &str, file: &Path) -> bool {
    let named = text.lines().filter_map(|line| line.trim().strip_prefix("token_file = \""));
    for name in named.filter_map(|rest| rest.split('"').next()) {
        let token = file.with_file_name(Path::new(name).file_name().unwrap());
        fs::write(token, name.repeat(16)).unwrap();
    }
    reef::remote::server::Tenants::read(file).is_ok()
}

/// Commands and options in prose: their names alone, as values are often left out there.
pub(crate) fn check_prose(command: &Command) {
    let (mut faults, mut found) = (Vec::new(), 0);
    for page in pages() {
        let prose: String = page.text.split("```").step_by(2).collect();
        let inline = prose.split('`').skip(1).step_by(2).filter(|code| code.starts_with("reef "));
        for code in inline.filter(|code| !code.contains(['{', '\n'])) {
            found += 1;
            let wrong = unknown_name(command, &words(code));
            faults.extend(wrong.map(|name| format!("{}: {code}: no {name}", page.path.display())));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(found > 200, "{found}");
}

/// The first command or option of a line that there is not.
fn unknown_name(top: &Command, line: &[String]) -> Option<String> {
    let mut command = top;
    for word in line.iter().skip(1).take_while(|word| *word != "--") {
        let is_name =
            word.bytes().all(|c| c.is_ascii_lowercase() || c == b'-' || c.is_ascii_digit());
        match command.find_subcommand(word) {
            Some(below) => command = below,
            None if command.has_subcommands() && is_name && !word.starts_with('-') => {
                return (word != "help").then(|| word.clone());
            }
            None => {}
        }
        let Some(name) = word.strip_prefix("--").and_then(|name| name.split('=').next()) else {
            continue;
        };
        let is_called = |arg: &clap::Arg| arg.get_long() == Some(name);
        if !["help", "version"].contains(&name) && !command.get_arguments().any(is_called) {
            return Some(word.clone());
        }
    }
    None
}

/// Reads each file of settings in the documents.
pub(crate) fn check_settings() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("reef.toml");
    let (mut faults, mut files) = (Vec::new(), 0);
    for page in pages() {
        let is_ours = |block: &Block<'_>| {
            let has_section = SECTIONS.iter().any(|section| block.text.contains(section));
            block.language == "toml" && has_section
        };
        for block in page.blocks().into_iter().filter(is_ours) {
            files += 1;
            fs::write(&file, &block.text).unwrap();
            let read = reef_serve::config::from_sources(Some(&file), [], &[]);
            let wrong = read.err().filter(|_| !is_of_tenants(&block.text, &file));
            faults.extend(wrong.map(|why| format!("{}: {why}", page.path.display())));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(files > 5, "{files} files");
}

/// Keys of the daemon in prose, such as `limits.queue`, and values of them.
pub(crate) fn check_keys() {
    let all = fs::read_to_string(Path::new(ROOT).join("docs/reference/configuration.md")).unwrap();
    let (mut faults, mut found) = (Vec::new(), 0);
    // Pages of designs have keys that are not there yet.
    for page in pages().iter().filter(|page| !page.path.starts_with("docs/internals")) {
        let prose: String = page.text.split("```").step_by(2).collect();
        for code in prose.split('`').skip(1).step_by(2).filter(|code| is_key(code)) {
            found += 1;
            let (key, value) = code.split_once(" = ").map_or((code, None), |(k, v)| (k, Some(v)));
            let is_right = value.is_none_or(|value| is_setting(&format!("{key}={value}")));
            if !is_right || !has_key(&all, key) {
                faults.push(format!("{}: {code}", page.path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(found > 50, "{found} keys");
}

/// True for the key of a section, with or without a value. Files have such names, too.
fn is_key(code: &str) -> bool {
    let key = code.split(" = ").next().unwrap_or_default();
    let Some((section, name)) = key.split_once('.') else { return false };
    let is_file = ["", "rs", "sock", "md", "toml"].contains(&name);
    let is_name = !is_file && name.bytes().all(|c| c.is_ascii_lowercase() || c == b'_');
    is_name && SECTIONS.contains(&format!("[{section}]").as_str())
}

/// Returns whether the page of keys has this one in its section.
fn has_key(page: &str, key: &str) -> bool {
    let (section, name) = key.split_once('.').unwrap_or_default();
    let after = page.split_once(&format!("\n[{section}]")).map_or("", |(_, after)| after);
    let mut lines = after.lines().skip(1).take_while(|line| !line.starts_with('['));
    lines.any(|line| line.trim_start_matches("# ").starts_with(&format!("{name} = ")))
}

/// Paths of the daemon's calls in the documents: each has a route.
pub(crate) fn check_paths() {
    let (mut all, mut faults, mut found) = (Vec::new(), Vec::new(), 0);
    routes(&Path::new(ROOT).join(HTTP), &mut all);
    for page in pages() {
        for path in http_paths(&page.text) {
            found += 1;
            if !all.iter().any(|route| is_of_route(path, route)) {
                faults.push(format!("{}: {path}", page.path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(found > 30, "{found} paths");
}

fn routes(folder: &Path, found: &mut Vec<String>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            routes(&path, found);
        } else if path.extension().is_some_and(|of| of == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let calls = text.split(".route(\"").skip(1);
            found.extend(calls.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        }
    }
}

/// Paths of calls in a text: alone, or after the address of this machine.
fn http_paths(text: &str) -> Vec<&str> {
    let begins = ["/v1/", "/v2/", "/reef/"].into_iter();
    let begins = begins.flat_map(move |begin| text.match_indices(begin));
    let is_end = |c: char| c.is_whitespace() || "`\"|(='".contains(c);
    let is_call = |at: &usize| {
        let before = text[..*at].rsplit(is_end).next().unwrap_or_default();
        let host = before.trim_start_matches("http://");
        before.is_empty() || host.starts_with("localhost") || host.starts_with("127.0.0.1")
    };
    let is_part = |c: char| c.is_ascii_alphanumeric() || "/_.$-".contains(c);
    let path = |at: usize| {
        let rest = &text[at..];
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        rest[..end].trim_end_matches('.')
    };
    begins.map(|(at, _)| at).filter(is_call).map(path).collect()
}

/// Returns whether a path is of a route. One that ends with `/` is the beginning of one.
fn is_of_route(path: &str, route: &str) -> bool {
    let mut parts = route.split('/');
    let mut is_part = |part: &str| parts.next().is_some_and(|of| of == part || of.starts_with('{'));
    match path.strip_suffix('/') {
        Some(begin) => begin.split('/').all(is_part),
        None => path.split('/').all(&mut is_part) && parts.next().is_none(),
    }
}

/// Calls `visit` with each command and its path.
fn each(command: &Command, path: &str, visit: &mut impl FnMut(&Command, &str)) {
    visit(command, path);
    for below in command.get_subcommands() {
        each(below, &format!("{path} {}", below.get_name()), visit);
    }
}

/// A default is a text that clap reads when nothing is said.
pub(crate) fn check_defaults(command: &Command) {
    let mut defaults = 0;
    each(command, "reef", &mut |command, path| {
        defaults +=
            command.get_arguments().filter(|arg| !arg.get_default_values().is_empty()).count();
        let alone = command.clone().subcommand_required(false).arg_required_else_help(false);
        let alone = alone.mut_args(|arg| arg.required(false));
        if let Err(error) = alone.try_get_matches_from(["reef"]) {
            assert_eq!(error.kind(), ErrorKind::MissingRequiredArgument, "{path}: {error}");
        }
    });
    assert!(defaults > 50, "{defaults} defaults");
}

/// `[default: …]` in the text of an option that has no default for clap to print, and values after
/// "such as": each is read by the option.
pub(crate) fn check_help(command: &Command) {
    let (mut values, mut faults) = (0, Vec::new());
    each(command, "reef", &mut |command, path| {
        for arg in command.get_arguments().filter(|arg| arg.get_long().is_some()) {
            let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
            for value in named(&help.unwrap_or_default()) {
                values += 1;
                let alone = command.clone().subcommand_required(false);
                let alone = alone.mut_args(|other| other.required(false));
                let option = format!("--{}={value}", arg.get_long().unwrap_or_default());
                let read = alone.try_get_matches_from(["reef", &option]);
                let wrong = read.err().filter(|error| {
                    matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue)
                });
                faults.extend(wrong.map(|error| format!("{path} {option}: {error}")));
            }
        }
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(values > 20, "{values} values");
}

/// Values that a help names: after `such as` and in `[default: …]`.
fn named(help: &str) -> Vec<&str> {
    let until = |text: &'_ str| text.split([';', ')', ']']).next().map_or(0, str::len);
    let mut found = Vec::new();
    for begin in ["such as ", "[default: "] {
        for (at, _) in help.match_indices(begin) {
            let text = &help[at + begin.len()..];
            let text = &text[..until(text)];
            let first = text.split([' ', '\n']).next().unwrap_or_default();
            let value = first.trim_end_matches(['.', ',', ':']);
            let is_value = value.bytes().any(|c| c.is_ascii_digit() || c == b'=')
                && !value.contains(['$', '/']);
            found.extend(is_value.then_some(value));
        }
    }
    found
}

/// Tries what reads the documents on lines with a fault.
pub(crate) fn check_itself(command: &Command) {
    let calls = |text: &str| commands(text).iter().map(|call| call.join(" ")).collect::<Vec<_>>();
    assert_eq!(
        calls("$ reef demo --device 'cpu:0?units=4' # comment\n"),
        ["reef demo --device cpu:0?units=4"]
    );
    assert_eq!(
        calls("A=1 reef top | head -1 && reef ctl \\\n  status"),
        ["reef top", "reef ctl status"]
    );
    assert_eq!(calls("reef = { path = \"x\" }\ncargo test\ncargo run --example a -- b\n"), [""; 0]);
    assert_eq!(
        calls("cargo demo --size 64\ncargo run --release -p reef-cli -- model list # x"),
        ["reef demo --size 64", "reef model list"]
    );
    let wrong = ["reef", "demo", "--device", "tpu:0"].map(str::to_owned);
    assert_eq!(wrong_value(&wrong).as_deref(), Some("--device tpu:0"));
    let wrong = ["reef", "serve", "--set", "limits.qeue=1"].map(str::to_owned);
    assert_eq!(wrong_value(&wrong).as_deref(), Some("--set limits.qeue=1"));
    assert!(read(command, &["reef", "demo", "--no-such"].map(str::to_owned)).is_err());
    let unknown = |line: &str| unknown_name(command, &words(line));
    assert_eq!(unknown("reef bench strat --time").as_deref(), Some("strat"));
    assert_eq!(unknown("reef exec --clas rt -- x --y").as_deref(), Some("--clas"));
    assert_eq!(unknown("reef exec --class rt -- x --y"), None);
    assert_eq!(unknown("reef bench preempt --time 1s").as_deref(), Some("preempt"), "of before");
    let page = "\n[limits]  # x\n# queue = 64\n[times]\nring = 1\n";
    assert!(is_key("limits.queue = 1") && !is_key("lmits.queue") && !is_key("limits.md/x"));
    assert!(has_key(page, "limits.queue") && !has_key(page, "limits.ring"));
    let text = "`/v2/models/M/infr`, /run/reef/x.sock; http://localhost:1/v2/health/ready.";
    assert_eq!(http_paths(text), ["/v2/models/M/infr", "/v2/health/ready"]);
    let route = "/v2/models/{model}/infer";
    assert!(is_of_route("/v2/models/M/infer", route) && is_of_route("/v2/models/", route));
    assert!(!is_of_route("/v2/models/M/infr", route) && !is_of_route("/v2/models/M", route));
}
