//! Access to files with secrets, such as tokens and private keys.
//!
//! Only the owner may read them, and the members of a group that is one of the daemon's own. So a
//! cluster can hand a secret to a daemon that is not its owner: Kubernetes gives files of secrets
//! the group `fsGroup` of the pod, and mode 0440.

use rustix::process::{getegid, getgroups};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Mode bits: write or execute by the group, any access by other users, and read by the group.
const GROUP_CHANGES: u32 = 0o030;
const OTHERS: u32 = 0o007;
const GROUP_READS: u32 = 0o040;

/// Refuses a file that other users can read or write.
///
/// # Errors
///
/// The reason, in words that follow the name of the file.
pub(in crate::net) fn check(path: &Path) -> Result<(), String> {
    let facts = path.metadata().map_err(|e| e.to_string())?;
    let own = |group| {
        getegid().as_raw() == group
            || getgroups().is_ok_and(|all| all.iter().any(|one| one.as_raw() == group))
    };
    check_mode(facts.mode() & 0o777, facts.gid(), own)
}

fn check_mode(mode: u32, group: u32, is_own: impl Fn(u32) -> bool) -> Result<(), String> {
    let why = match mode {
        mode if mode & OTHERS != 0 => "other users must not be able to read or write it".into(),
        mode if mode & GROUP_CHANGES != 0 => {
            format!("group {group} must not be able to write or run it")
        }
        mode if mode & GROUP_READS != 0 && !is_own(group) => {
            format!("group {group} can read it and must be one of the daemon's")
        }
        _ => return Ok(()),
    };
    Err(format!("mode {mode:03o}: {why}; use 600, or 640 with a group of the daemon"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_readable_outside_the_daemons_groups_is_refused() {
        let said = |mode, group| check_mode(mode, group, |group| group == 7);
        for mode in [0o600, 0o400, 0o640, 0o440] {
            assert_eq!(said(mode, 7), Ok(()), "{mode:o}");
        }
        assert_eq!(said(0o600, 8), Ok(()), "the group has no access");
        for (mode, group, why) in [
            (
                0o644,
                7,
                "mode 644: other users must not be able to read or write it; use 600, or 640",
            ),
            (0o602, 7, "mode 602: other users must not be able to read"),
            (0o660, 7, "mode 660: group 7 must not be able to write or run it"),
            (0o440, 8, "mode 440: group 8 can read it and must be one of the daemon's"),
        ] {
            let text = said(mode, group).unwrap_err();
            assert!(text.starts_with(why), "{text}");
        }
    }

    #[test]
    fn daemon_groups_are_the_groups_of_the_process() {
        let path = std::env::temp_dir().join(format!("reef-secret-{}", std::process::id()));
        std::fs::write(&path, "x").unwrap(); // has our group, or that of the folder
        let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&path, mode(0o440)).unwrap();
        let own = path.metadata().unwrap().gid() == getegid().as_raw();
        assert!(check(&path).is_ok() || !own);
        std::fs::set_permissions(&path, mode(0o444)).unwrap();
        assert!(check(&path).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(check(&path).unwrap_err().contains("No such file"));
    }
}
