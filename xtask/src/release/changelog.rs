//! The changelog's section of a version.

/// Section of a version, and the day of its release if it has one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Section<'a> {
    /// The heading and all below it.
    pub(crate) text: &'a str,
    /// Text in the heading's parentheses, unless that is `unreleased`.
    pub(crate) day: Option<&'a str>,
}

/// Finds the section `## VERSION (DAY)`.
///
/// # Errors
///
/// There is none, it has no entry, or the heading has another form.
pub(crate) fn section<'a>(changelog: &'a str, version: &str) -> Result<Section<'a>, String> {
    let fault = |what: &str| format!("CHANGELOG.md: {what} of {version}");
    let heading = format!("## {version} (");
    let begin = changelog.find(&heading).ok_or_else(|| fault("must have a section"))?;
    let rest = &changelog[begin..];
    let end = rest[heading.len()..].find("\n## ").map_or(rest.len(), |end| heading.len() + end + 1);
    let text = &rest[..end];
    let day = text[heading.len()..].lines().next().and_then(|line| line.strip_suffix(')'));
    let day = day.ok_or_else(|| fault("must have a day or `unreleased` in the heading"))?;
    if !text.lines().any(|line| line.starts_with("- ")) {
        return Err(fault("must have an entry in the section"));
    }
    Ok(Section { text, day: (day != "unreleased").then_some(day) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Changelog\n\n## 0.2.0 (unreleased)\n\n- new\n\n## 0.1.0 (2026-12-01)\n\n- old\n\n## 0.0.1 (2026-01-01)\n";

    #[test]
    fn section_ends_before_the_next_version() {
        let section = section(TEXT, "0.2.0").unwrap();
        assert_eq!(section, Section { text: "## 0.2.0 (unreleased)\n\n- new\n\n", day: None });
        assert_eq!(super::section(TEXT, "0.1.0").unwrap().day, Some("2026-12-01"));
    }

    #[test]
    fn section_that_is_missing_or_empty_is_a_fault() {
        let fault = |version| section(TEXT, version).unwrap_err();
        assert_eq!(fault("0.3.0"), "CHANGELOG.md: must have a section of 0.3.0");
        assert_eq!(fault("0.0.1"), "CHANGELOG.md: must have an entry in the section of 0.0.1");
    }
}
