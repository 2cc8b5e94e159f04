//! Access to Unix sockets by user.
//!
//! | `listen.users` | socket | its folder | admitted users |
//! |---|---|---|---|
//! | `owner` | 0600 | 0700 | the daemon's user and root, by `SO_PEERCRED` |
//! | `group NAME` | 0660 of the group | 0750 of the group | those, and users that the kernel admits: the group's members |
//! | `all` | 0666 | 0755 | all users |
//!
//! The kernel states a client's user (`SO_PEERCRED`). Only the kernel knows the groups of that
//! user, so it decides by the socket's mode.

use crate::config::users::Users;
use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

/// Write bits of the group, and of all users.
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;

/// Users that are admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Owner,
    Group(u32),
    All,
}

impl Access {
    /// Finds the group's number.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such group.
    pub(crate) fn new(users: &Users) -> Result<Self> {
        Ok(match users {
            Users::Owner => Self::Owner,
            Users::Group(name) => Self::Group(number(name)?),
            Users::All => Self::All,
        })
    }

    /// Refuses a user that is not admitted; for groups the socket's mode has decided already.
    ///
    /// # Errors
    ///
    /// `Denied`.
    pub(crate) fn admit(self, uid: u32) -> Result<()> {
        if self != Self::Owner || Principal::User(uid).is_owner() {
            return Ok(());
        }
        Err(Error::Denied(format!("user {uid} is not the daemon's (listen.users)")))
    }

    /// Opens a folder of the daemon to the admitted users, so that they can reach its sockets.
    ///
    /// # Errors
    ///
    /// `Failed`.
    pub(crate) fn open_folder(self, folder: &Path) -> Result<()> {
        match self {
            Self::Owner => Ok(()), // it may be open already, which its sockets are not
            Self::Group(_) => self.set(folder, 0o750),
            Self::All => self.set(folder, 0o755),
        }
    }

    /// Opens a socket of the daemon to the admitted users.
    ///
    /// # Errors
    ///
    /// `Failed`.
    pub(crate) fn open_socket(self, socket: &Path) -> Result<()> {
        match self {
            Self::Owner => self.set(socket, 0o600),
            Self::Group(_) => self.set(socket, 0o660),
            Self::All => self.set(socket, 0o666),
        }
    }

    /// Sets the group before the mode, so that no other group is admitted in between.
    fn set(self, path: &Path, mode: u32) -> Result<()> {
        let wrong = |e| Error::system(&format!("{} (listen.users)", path.display()), e);
        if let Self::Group(group) = self {
            chown(path, None, Some(group)).map_err(wrong)?;
        }
        std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(wrong)
    }

    /// Refuses a socket that the daemon did not create if its mode admits more users than
    /// `listen.users`. Only for groups: in the other cases each connection is checked.
    ///
    /// # Errors
    ///
    /// `Denied`; `Failed`.
    pub(crate) fn check_socket(self, socket: &Path) -> Result<()> {
        // In the other cases all users are admitted, or each is checked.
        let Self::Group(group) = self else { return Ok(()) };
        let wrong = |e| Error::system(&socket.display().to_string(), e);
        let facts = socket.metadata().map_err(wrong)?;
        let (mode, path) = (facts.mode(), socket.display());
        let is_strict = mode & ALL_WRITE == 0 && (mode & GROUP_WRITES == 0 || facts.gid() == group);
        if is_strict {
            return Ok(());
        }
        Err(Error::Denied(format!(
            "{path}: mode {:o} of group {}: must admit listen.users (group {group}) only",
            mode & 0o777,
            facts.gid()
        )))
    }
}

/// Returns the number of a group, by group(5).
#[expect(clippy::disallowed_methods, reason = "of the system")]
fn number(name: &str) -> Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let found = groups.lines().find_map(|line| {
        let mut parts = line.split(':');
        (parts.next() == Some(name)).then(|| parts.nth(1)?.parse().ok())?
    });
    found.ok_or_else(|| {
        Error::Invalid(format!(
            "listen.users: no group {name:?} in /etc/group; give its number instead"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_owner_admits_owner_and_root_only() {
        let me = rustix::process::getuid().as_raw();
        assert!(Access::Owner.admit(me).is_ok() && Access::Owner.admit(0).is_ok());
        assert!(matches!(Access::Owner.admit(me + 1), Err(Error::Denied(_))));
        assert!(Access::Group(7).admit(me + 1).is_ok() && Access::All.admit(me + 1).is_ok());
        assert_eq!(number("root"), Ok(0));
        assert_eq!(number("4711"), Ok(4711));
        let said = number("nobody-has-this").unwrap_err().to_string();
        assert!(said.starts_with("listen.users: no group \"nobody-has-this\""), "{said}");
    }

    #[test]
    fn passed_socket_with_wider_mode_is_refused() {
        let path = std::env::temp_dir().join(format!("reef-access-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let group = path.metadata().unwrap().gid();
        let check = |access: Access, mode| {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            access.check_socket(&path)
        };
        for mode in [0o600, 0o660] {
            check(Access::Group(group), mode).unwrap();
        }
        assert!(check(Access::Group(group), 0o666).is_err());
        assert!(check(Access::Group(group + 1), 0o660).is_err(), "another group");
        assert!(check(Access::Group(group + 1), 0o600).is_ok(), "the owner alone");
        assert!(check(Access::All, 0o666).is_ok() && check(Access::Owner, 0o666).is_ok());
        std::fs::remove_file(&path).unwrap();
    }
}
