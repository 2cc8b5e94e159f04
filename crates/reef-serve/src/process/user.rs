//! Users of programs.

use crate::error::{Error, Result};

/// A user of the machine and its own group, by passwd(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl User {
    /// Returns the user of this name or number; `None` if it is the daemon's own.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such user; `Denied` if the daemon is another one and not root.
    pub(super) fn other(name: &str) -> Result<Option<Self>> {
        let user = Self::find(&users(), name)?;
        match rustix::process::geteuid().as_raw() {
            own if own == user.uid => Ok(None),
            0 => Ok(Some(user)),
            own => Err(Error::Denied(format!(
                "process.user must be the daemon's own user {own}, which is not root, got {name:?}"
            ))),
        }
    }

    /// Finds a user in the lines of passwd(5), by its name before its number.
    fn find(users: &str, name: &str) -> Result<Self> {
        let all = || users.lines().filter_map(entry);
        let named = all().find(|(of, _)| *of == name);
        let numbered = || all().find(|(_, user)| user.uid.to_string() == name);
        let found = named.or_else(numbered).map(|(_, user)| user);
        found.ok_or_else(|| {
            Error::Invalid(format!("process.user must be a user in /etc/passwd, got {name:?}"))
        })
    }
}

/// Returns name and numbers of a line: name, password, user and group come first.
fn entry(line: &str) -> Option<(&str, User)> {
    let mut parts = line.split(':');
    let name = parts.next()?;
    let uid = parts.nth(1)?.parse().ok()?;
    let gid = parts.next()?.parse().ok()?;
    Some((name, User { uid, gid }))
}

#[expect(clippy::disallowed_methods, reason = "of the system")]
fn users() -> String {
    std::fs::read_to_string("/etc/passwd").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_is_found_by_name_or_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\n+nis\nmodels:x:700:70::/:/bin/false\n";
        let find = |name: &str| User::find(users, name);
        let models = User { uid: 700, gid: 70 };
        assert_eq!((find("models"), find("700")), (Ok(models), Ok(models)));
        assert_eq!(find("root"), Ok(User { uid: 0, gid: 0 }));
        for wrong in ["", "7", "x", "+nis", "models:x"] {
            let want = format!("process.user must be a user in /etc/passwd, got {wrong:?}");
            assert_eq!(find(wrong), Err(Error::Invalid(want)));
        }
    }

    #[test]
    fn own_user_is_none_and_another_needs_root() {
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(User::other(&own.to_string()).ok().flatten(), None);
        if own == 0 {
            return println!("skipped: root may start programs of all users");
        }
        let said = User::other("root");
        assert!(matches!(said, Err(Error::Denied(_))), "{said:?}");
    }
}
