//! Names that were meant.

use crate::name::ModelName;

/// Letters in which a name that was meant may differ.
const MISSPELT: usize = 3;

/// `: did you mean NAME?` for the one of `names` that differs from `asked` by the fewest letters,
/// if by few; else nothing.
pub(super) fn did_you_mean(
    asked: &ModelName,
    names: impl IntoIterator<Item = ModelName>,
) -> String {
    let most = (asked.as_str().len() / 3).min(MISSPELT);
    let far = |name: ModelName| (strsim::osa_distance(asked.as_str(), name.as_str()), name);
    let near = names.into_iter().map(far).filter(|(far, _)| *far <= most).min();
    near.map_or_else(String::new, |(_, name)| format!(": did you mean {name}?"))
}
