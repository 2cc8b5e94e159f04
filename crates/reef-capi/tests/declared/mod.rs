//! Declarations of the sources and of `reef.h`, as C with all space taken out.

use std::collections::BTreeMap;
use std::path::Path;

/// By name: functions with their types, structures with their members, constants with their values.
pub(crate) type Declared = BTreeMap<String, String>;

fn text(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// Text between two texts, for each occurrence of the first one.
fn between<'a>(text: &'a str, from: &'a str, to: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(from).skip(1).filter_map(move |rest| rest.split_once(to).map(|(inside, _)| inside))
}

fn without_space(text: &str) -> String {
    text.split_whitespace().collect()
}

fn without_comments(text: &str) -> String {
    let line = |line: &str| line.split("//").next().unwrap_or_default().to_owned() + "\n";
    text.lines().map(line).collect()
}

/// Of `reef.h`.
pub(crate) fn by_header() -> Declared {
    let header = without_comments(&text("include/reef.h"));
    let mut all = Declared::new();
    for definition in between(&header, "#define REEF_", "\n") {
        if let Some((name, value)) = definition.split_once(' ') {
            all.insert(format!("REEF_{name}"), value.trim().to_owned());
        }
    }
    for structure in between(&header, "typedef struct {", ";\n\n") {
        let (members, name) = structure.split_once('}').unwrap();
        all.insert(name.trim().to_owned(), without_space(members));
    }
    let functions = between(&header, "extern \"C\" {\n#endif", "#ifdef").next().unwrap();
    for function in functions.split(';').map(without_space) {
        if let Some((head, args)) = function.split_once('(') {
            let at = head.rfind("reef_").unwrap();
            all.insert(head[at..].to_owned(), format!("{}({args}", &head[..at]));
        }
    }
    all
}

/// Texts of the sources with what C gets, except for the statuses.
fn entries() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/entry");
    let files = std::fs::read_dir(folder).unwrap();
    files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

/// Words of text, with one space between two.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Comments of `reef.h`, as one text.
pub(crate) fn comments_of_header() -> String {
    let header = text("include/reef.h");
    let comments = header.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
    words(&comments.collect::<Vec<_>>().join(" "))
}

/// Comments of what C gets, as the sources have them, without the headings of rustdoc.
pub(crate) fn comments_of_sources() -> Vec<String> {
    let mut all = Vec::new();
    for source in entries().into_iter().chain([text("src/status.rs")]) {
        let mut comment = String::new();
        for line in source.lines().map(str::trim_start) {
            if let Some(more) = line.strip_prefix("///") {
                comment = format!("{comment} {more}");
            } else if !line.starts_with("#[") {
                let whole = words(&std::mem::take(&mut comment).replace("# Safety", ""));
                if line.starts_with("pub ") && !whole.is_empty() {
                    all.push(whole);
                }
            }
        }
    }
    all
}

/// Of the sources.
pub(crate) fn by_sources() -> Declared {
    let mut all = Declared::new();
    for text in entries() {
        let text = without_comments(&text);
        all.extend(between(&text, "extern \"C\" fn ", " {\n").map(function));
        all.extend(constants(&text));
        all.extend(between(&text, "pub struct ", "\n}").filter_map(structure));
    }
    all.extend(constants(&without_comments(&text("src/status.rs"))));
    all
}

fn function(declaration: &str) -> (String, String) {
    let (name, rest) = declaration.split_once('(').unwrap();
    let (args, answer) = rest.rsplit_once(") -> ").unwrap();
    let args: Vec<_> = args
        .split(',')
        .filter_map(|arg| arg.split_once(':'))
        .map(|(name, kind)| declared(name, kind))
        .collect();
    let args = if args.is_empty() { "void".to_owned() } else { args.join(",") };
    (name.to_owned(), format!("{}({args})", c_type(answer)))
}

fn constants(text: &str) -> impl Iterator<Item = (String, String)> {
    between(text, "pub const ", ";").map(|constant| {
        let (name, value) = constant.split_once(" = ").unwrap();
        (name.split(':').next().unwrap().to_owned(), number(value))
    })
}

/// `None`: a handle, which has no members.
fn structure(declaration: &str) -> Option<(String, String)> {
    let (name, members) = declaration.split_once(" {")?;
    let members = members.split(",\n").filter_map(|member| member.trim().strip_prefix("pub "));
    let members: Vec<_> = members
        .filter_map(|member| member.split_once(':'))
        .map(|(name, kind)| declared(name, kind))
        .collect();
    let text: String = members.iter().map(|member| format!("{member};")).collect();
    (!text.is_empty()).then(|| (name.to_owned(), text))
}

fn declared(name: &str, kind: &str) -> String {
    format!("{}{}", c_type(kind), name.trim())
}

/// A type of Rust as C has it.
fn c_type(kind: &str) -> String {
    let kind = kind.trim().trim_end_matches(',');
    if let Some(pointee) = kind.strip_prefix("*const ") {
        return format!("const{}*", c_type(pointee));
    }
    if let Some(pointee) = kind.strip_prefix("*mut ") {
        return format!("{}*", c_type(pointee));
    }
    let known = [("c_char", "char"), ("c_void", "void"), ("f32", "float"), ("usize", "size_t")];
    let fixed = ["i32", "u32", "i64", "u64"];
    match known.iter().find(|(rust, _)| *rust == kind) {
        Some((_, c)) => (*c).to_owned(),
        None if fixed.contains(&kind) => kind.replace('i', "int").replace('u', "uint") + "_t",
        None => kind.to_owned(),
    }
}

fn number(value: &str) -> String {
    match value.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(&hex.replace('_', ""), 16).unwrap().to_string(),
        None => value.replace("u64::MAX", "UINT64_MAX"),
    }
}
