//! Keys of shared memory that are one tenant's by how they begin.

use crate::config::rights::Rights;
use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use crate::tensor::short;

/// Refuses a key that begins as another tenant's do, or not as those of `who` do. A user on a Unix
/// socket has no keys, but memory of its own.
///
/// # Errors
///
/// `Denied` with the prefix, if it is that of `who`.
pub(crate) fn check_prefix(rights: &Rights, who: &Principal, key: &str) -> Result<()> {
    if who.is_local() {
        return Ok(());
    }
    let (plain, name) = (plain(key), who.to_string());
    let own = rights.get(&name).and_then(|right| right.shared_memory_prefix.as_deref());
    let denied = |why: String| Err(Error::Denied(format!("shared memory {:?}: {why}", short(key))));
    if let Some(own) = own {
        return match plain.starts_with(own) {
            true => Ok(()),
            false => denied(format!("must begin with {own:?}: shared_memory_prefix of {name}")),
        };
    }
    let mut prefixes = rights.values().filter_map(|right| right.shared_memory_prefix.as_deref());
    match prefixes.any(|prefix| plain.starts_with(prefix)) {
        true => denied("belongs to another tenant".into()),
        false => Ok(()),
    }
}

/// A key without the slash that it may begin with.
pub(crate) fn plain(key: &str) -> &str {
    key.strip_prefix('/').unwrap_or(key)
}
