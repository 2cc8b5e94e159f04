//! "Did you mean …?" suggestions.

use crate::name::ModelName;

/// Maximum number of letters in which a suggested name may differ.
const MAX_TYPOS: usize = 3;

/// Returns `: did you mean NAME?` for the one of `names` that differs from `asked` by the fewest
/// letters; an empty text if none is near.
pub(super) fn did_you_mean(
    asked: &ModelName,
    names: impl IntoIterator<Item = ModelName>,
) -> String {
    let max = (asked.as_str().len() / 3).min(MAX_TYPOS);
    let distance = |name: ModelName| (strsim::osa_distance(asked.as_str(), name.as_str()), name);
    let near = names.into_iter().map(distance).filter(|(typos, _)| *typos <= max).min();
    near.map_or_else(String::new, |(_, name)| format!(": did you mean {name}?"))
}
