//! Variables of the server's that a worker gets.

use std::ffi::{OsStr, OsString};

/// Variables, and prefixes of variables that end with `_`: of the system's libraries, of NVIDIA's,
/// and of this project's.
const KNOWN: [&str; 13] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "LD_LIBRARY_PATH",
    "LANG",
    "LC_",
    "TZ",
    "RUST_BACKTRACE",
    "CUDA_",
    "NVIDIA_",
    "REEF_",
    "ALNAIR_",
];
/// Parts of names of this project's variables that say where secrets are.
const SECRET: [&str; 3] = ["TOKEN", "KEY", "SECRET"];
/// Variables that name folders of the server's user.
const OF_USER: [&str; 2] = ["HOME", "XDG_RUNTIME_DIR"];

/// Returns the server's variables that a worker gets; fewer if it has a user of its own.
pub(crate) fn environment(has_own_user: bool) -> Vec<(OsString, OsString)> {
    let is_given = |name: &OsStr| is_given(name, has_own_user);
    std::env::vars_os().filter(|(name, _)| is_given(name)).collect()
}

fn is_given(name: &OsStr, has_own_user: bool) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_known = KNOWN
        .iter()
        .any(|known| if known.ends_with('_') { name.starts_with(known) } else { name == *known });
    let is_secret = SECRET.iter().any(|part| name.contains(part));
    is_known && !is_secret && !(has_own_user && OF_USER.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_others_and_secrets_stay() {
        let given = |name: &str, has_own_user| is_given(name.as_ref(), has_own_user);
        for name in ["PATH", "LC_ALL", "CUDA_VISIBLE_DEVICES", "REEF_GUESTS", "HOME"] {
            assert!(given(name, false), "{name}");
        }
        for name in ["AWS_SECRET_ACCESS_KEY", "REEF_TOKEN_FILE", "LD_PRELOAD", "LCX", "PATHS", ""] {
            assert!(!given(name, false), "{name}");
        }
        assert!(!given("HOME", true) && given("PATH", true));
    }
}
