//! `docs/glossary.md`: each term once, with one meaning, and with files that are there.

use std::collections::BTreeMap;

pub(super) const FILE: &str = "docs/glossary.md";

/// Faults of the glossary's text, a line each. `files` are the tracked ones.
pub(super) fn faults(text: &str, files: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        let Some([terms, meaning]) = row(line) else { continue };
        let all = terms_of(terms);
        for term in &all {
            if let Some(first) = known.insert(term.clone(), number) {
                faults
                    .push(format!("{FILE}:{number}: {term:?} has another meaning in line {first}"));
            }
        }
        let meanings = meaning.split("; ").count();
        if meanings != all.len() {
            let terms = all.join(", ");
            faults.push(format!(
                "{FILE}:{number}: {terms}: must have one meaning a term, between `; `, got {meanings}"
            ));
        }
        let gone = paths(line).filter(|path| !files.iter().any(|file| is_meant(path, file)));
        faults.extend(gone.map(|path| format!("{FILE}:{number}: there is no file {path}")));
    }
    faults
}

/// The first two cells of a table's row.
fn row(line: &str) -> Option<[&str; 2]> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let row = [cells.next()?, cells.next()?];
    let is_head = row[0] == "term" || row[0].chars().all(|c| matches!(c, '-' | ':'));
    (!is_head).then_some(row)
}

/// Terms of a cell. What stands in brackets does not make another term.
fn terms_of(cell: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut depth = 0;
    for c in cell.chars() {
        depth += i32::from(c == '(');
        if depth == 0 && c != '`' {
            plain.extend(c.to_lowercase());
        }
        depth -= i32::from(c == ')');
    }
    plain.split(',').map(|term| term.trim().to_owned()).filter(|term| !term.is_empty()).collect()
}

/// Paths of files and folders in backticks, with braces taken apart.
fn paths(line: &str) -> impl Iterator<Item = String> {
    let code = line.split('`').skip(1).step_by(2);
    code.filter(|code| code.contains('/') && !code.contains(' '))
        .flat_map(|path| {
            match path.split_once('{').and_then(|(a, rest)| Some((a, rest.split_once('}')?))) {
                Some((before, (names, after))) => {
                    names.split(',').map(|name| format!("{before}{name}{after}")).collect()
                }
                None => vec![path.to_owned()],
            }
        })
        .filter(|path| !path.starts_with("reef.dev/"))
}

/// Whether a path names the file, or a folder that it is in.
fn is_meant(path: &str, file: &str) -> bool {
    let file = format!("/{file}");
    match path.strip_suffix('/') {
        Some(folder) => file.contains(&format!("/{folder}/")),
        None => file.ends_with(&format!("/{path}")),
    }
}
