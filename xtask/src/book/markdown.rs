//! Links and anchors of a Markdown text.

use std::collections::BTreeSet;

/// Target of a link, and its line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: String,
}

/// Links and diagrams of a text. Code is not searched.
pub(super) fn links(text: &str) -> Vec<Link> {
    let prose = without_code(text);
    let mut links = Vec::new();
    for (at, _) in prose.match_indices("](") {
        let rest = &prose[at + 2..];
        let Some(end) = rest.find(')') else { continue };
        let target = rest[..end].split_whitespace().next().unwrap_or_default();
        let line = prose[..at].matches('\n').count() + 1;
        links.push(Link { line, target: target.to_owned() });
    }
    links
}

/// Anchors of all headings, as GitHub and mdBook make them.
pub(super) fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in without_fences(text).lines() {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let anchor = anchor(title);
        let later = (1..).map(|n| format!("{anchor}-{n}"));
        let free = std::iter::once(anchor.clone()).chain(later).find(|a| !anchors.contains(a));
        anchors.extend(free);
    }
    anchors
}

fn anchor(title: &str) -> String {
    let title = without_targets(title.trim());
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// The text of a heading with links in it, without their targets.
fn without_targets(title: &str) -> String {
    let mut parts = title.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text += part.split_once(')').map_or(part, |(_, rest)| rest);
    }
    text
}

/// The text with blocks of code blanked; lines keep their numbers.
fn without_fences(text: &str) -> String {
    let mut is_code = false;
    let mut prose = String::with_capacity(text.len());
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        if !is_code && !is_fence {
            prose += line;
        }
        is_code ^= is_fence;
        prose.push('\n');
    }
    prose
}

/// Lines of the blocks of code that are a shell's.
pub(super) fn shell(text: &str) -> impl Iterator<Item = &str> {
    let mut language = None;
    text.lines().filter(move |line| {
        let fence = line.trim_start().strip_prefix("```");
        let is_shell = language.is_some_and(|name| ["sh", "console", "bash"].contains(&name));
        if fence.is_some() {
            language = if language.is_none() { fence } else { None };
        }
        is_shell && fence.is_none()
    })
}

/// Inline code of a text, each in one line.
pub(super) fn inline(text: &str) -> Vec<String> {
    let prose = without_fences(text);
    // A paragraph's open backtick ends with it.
    let codes = prose.split("\n\n").flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2));
    codes.map(|code| code.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The text with all code blanked; lines keep their numbers.
fn without_code(text: &str) -> String {
    let prose = without_fences(text);
    let keep = |(at, part): (usize, &str)| match at % 2 {
        0 => part.to_owned(),
        _ => part.chars().filter(|c| *c == '\n').collect(),
    };
    // A paragraph's open backtick ends with it.
    let paragraphs = prose
        .split("\n\n")
        .map(|paragraph| paragraph.split('`').enumerate().map(keep).collect::<Vec<_>>().join("`"));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_the_lines_of_their_targets() {
        let text = "a [b](c.md)\n\n```\n[x](y)\n```\n`[u](v)` ![p](q.svg \"title\") [two\nlines](z.md#a)\n";
        let found = links(text);
        let expected = [(1, "c.md"), (6, "q.svg"), (7, "z.md#a")];
        assert_eq!(found.len(), expected.len());
        for (link, (line, target)) in found.iter().zip(expected) {
            assert_eq!((link.line, link.target.as_str()), (line, target));
        }
    }

    #[test]
    fn inline_code_is_of_paragraphs_and_has_no_line_ends() {
        let text = "a `b\nc` `d`\n\n```sh\n`e`\n```\n\nopen ` here\n\n`f`\n";
        assert_eq!(inline(text), ["b c", "d", "here", "f"]);
    }

    #[test]
    fn anchors_are_lower_case_words_with_hyphens() {
        let text = "# What `a_b` is, and why\n```\n# code\n```\n## Twice\n## Twice\n#none\n# [link](x) end\n";
        let expected = ["link-end", "twice", "twice-1", "what-a_b-is-and-why"];
        assert_eq!(anchors(text).iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }
}
