//! Hits that files are still allowed to have: `xtask/words.baseline`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Number of hits by path and rule.
pub(super) type Counts = BTreeMap<(String, u32), usize>;

const HEAD: &str = "\
# Hits of the rules of docs/internals/words.md that are still allowed: path, rule, number. The numbers only fall.
# Written by `cargo xtask words --update`, also after a merge conflict in this file.
";

/// Reads a baseline. Of both sides of a merge conflict the smaller number counts.
pub(super) fn parse(text: &str) -> Result<Counts, String> {
    let mut counts = Counts::new();
    for (number, line) in text.lines().enumerate() {
        let is_marker =
            ["<<<<<<<", "|||||||", "=======", ">>>>>>>"].iter().any(|m| line.starts_with(m));
        if is_marker || line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fault = || format!("line {}: must be `path rule number`, got {line:?}", number + 1);
        let mut words = line.split(' ');
        let mut next = || words.next().ok_or_else(fault);
        let path = next()?.to_owned();
        let rule = next()?.parse().map_err(|_| fault())?;
        let count: usize = next()?.parse().map_err(|_| fault())?;
        counts.entry((path, rule)).and_modify(|c| *c = count.min(*c)).or_insert(count);
    }
    Ok(counts)
}

/// Text of a baseline, a section for each top folder.
pub(super) fn write(counts: &Counts) -> String {
    let mut text = HEAD.to_owned();
    let mut above = None;
    for ((path, rule), count) in counts {
        let folder = top_folder(path);
        if above != Some(folder) {
            let _ = write!(text, "\n# {folder}\n\n");
            above = Some(folder);
        }
        let _ = writeln!(text, "{path} {rule} {count}");
    }
    text
}

/// Folders and rules that have more hits than before, with both numbers. Files may be moved and
/// merged inside of a folder, so single files don't count here.
pub(super) fn raised(before: &Counts, now: &Counts) -> Vec<String> {
    let before = by_folder(before);
    let more = by_folder(now).into_iter().filter_map(|((folder, rule), now)| {
        let before = before.get(&(folder, rule)).copied().unwrap_or(0);
        (now > before).then(|| format!("{folder}: rule {rule}: {before} before, {now} now"))
    });
    more.collect()
}

fn by_folder(counts: &Counts) -> BTreeMap<(&str, u32), usize> {
    let mut sums = BTreeMap::new();
    for ((path, rule), count) in counts {
        *sums.entry((top_folder(path), *rule)).or_default() += count;
    }
    sums
}

fn top_folder(path: &str) -> &str {
    path.split_once('/').map_or(".", |(folder, _)| folder)
}
