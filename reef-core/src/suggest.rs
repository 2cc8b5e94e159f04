//! "Did you mean …?": the name that a misspelt one was meant to be.

/// Maximum number of letters in which a suggested name may differ.
const MAX_TYPOS: usize = 3;
/// Maximum length of a name for which one is searched: a client's may be of any length.
const MAX_CHARS: usize = 128;

/// Returns `: did you mean NAME?` for the one of `names` that differs from `asked` by the fewest
/// letters; an empty text if none is near.
///
/// ```
/// use reef_core::did_you_mean;
///
/// assert_eq!(did_you_mean("resnet81", ["resnet18", "vgg19"]), ": did you mean resnet18?");
/// ```
pub fn did_you_mean<'a>(asked: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    if asked.chars().nth(MAX_CHARS).is_some() {
        return String::new();
    }
    let max = (asked.chars().count() / 3).min(MAX_TYPOS);
    let asked = asked.to_lowercase();
    let typos = |name: &str| strsim::osa_distance(&asked, &name.to_lowercase());
    let near = names.into_iter().map(|name| (typos(name), name));
    let nearest = near.filter(|(typos, _)| *typos <= max).min();
    nearest.map_or_else(String::new, |(_, name)| format!(": did you mean {name}?"))
}

/// As [`did_you_mean`], for a message of serde, which has the unknown name and then those that
/// there are, each in backticks.
///
/// ```
/// use reef_core::did_you_mean_in;
///
/// let text = "unknown field `devcie`, expected `device` or `scheduler`";
/// assert_eq!(did_you_mean_in(text), ": did you mean device?");
/// ```
pub fn did_you_mean_in(message: &str) -> String {
    let is_unknown = ["unknown field `", "unknown variant `"].iter().any(|at| message.contains(at));
    let mut names = message.split('`').skip(1).step_by(2);
    match names.next() {
        Some(asked) if is_unknown => did_you_mean(asked, names),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_is_suggested_and_a_far_one_is_not() {
        let names = ["resnet18", "resnet152", "vgg19"];
        assert_eq!(did_you_mean("resnet81", names), ": did you mean resnet18?");
        assert_eq!(did_you_mean("ResNet15", names), ": did you mean resnet152?");
        assert_eq!(did_you_mean("lenet", names), "");
        assert_eq!(did_you_mean("", names), "");
        let long = "resnet18".repeat(20);
        assert_eq!(did_you_mean(&long, [&*long]), "", "of any length");
        assert_eq!(did_you_mean("väg19", ["väg18", "x"]), ": did you mean väg18?");
    }

    #[test]
    fn name_in_a_message_of_serde_is_suggested() {
        let said = "unknown field `devcie`, expected one of `device`, `scheduler`";
        assert_eq!(did_you_mean_in(said), ": did you mean device?");
        let said = "unknown variant `realtime`, expected `real-time` or `best-effort`";
        assert_eq!(did_you_mean_in(said), ": did you mean real-time?");
        assert_eq!(did_you_mean_in("unknown field `x`, there are no fields"), "");
        assert_eq!(did_you_mean_in("invalid type: map, expected `devcie` or `device`"), "");
    }
}
