//! Which users may come in by a Unix socket.
//!
//! | `listen.users` | socket | its folder | who |
//! |---|---|---|---|
//! | `owner` | 0600 | 0700 | the daemon's user and root, by `SO_PEERCRED` |
//! | `group NAME` | 0660 of the group | 0750 of the group | as well whom the kernel lets through: its members |
//! | `all` | 0666 | 0755 | everybody |
//!
//! The kernel says who a client is (`SO_PEERCRED`); which groups that user is in, it knows alone,
//! so it decides by the socket's mode.

use crate::config::users::Users;
use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

/// What a group may do, and what all may.
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;

/// Who may come in.
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

    /// Refuses users that may not come in; the rest has been let through by the socket's mode.
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

    /// Opens a folder of ours to those who may come in: to look for the sockets there.
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

    /// Opens a socket of ours to those who may come in.
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

    /// The group before the mode, so that no other group may enter in between.
    fn set(self, path: &Path, mode: u32) -> Result<()> {
        let wrong = |e| Error::system(&format!("{} (listen.users)", path.display()), e);
        if let Self::Group(group) = self {
            chown(path, None, Some(group)).map_err(wrong)?;
        }
        std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(wrong)
    }

    /// Refuses a socket that somebody else has made if more may come in by it than are wanted, and
    /// nobody finds out.
    ///
    /// # Errors
    ///
    /// `Denied`; `Failed`.
    pub(crate) fn check_socket(self, socket: &Path) -> Result<()> {
        let Self::Group(group) = self else { return Ok(()) }; // all may, or it is seen who came
        let wrong = |e| Error::system(&socket.display().to_string(), e);
        let facts = socket.metadata().map_err(wrong)?;
        let (mode, path) = (facts.mode(), socket.display());
        let is_wanted = mode & ALL_WRITE == 0 && (mode & GROUP_WRITES == 0 || facts.gid() == group);
        if is_wanted {
            return Ok(());
        }
        Err(Error::Denied(format!(
            "{path}: mode {:o} of group {}: others than listen.users may open it (group {group})",
            mode & 0o777,
            facts.gid()
        )))
    }
}

/// The number of a group, by group(5).
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
        Error::Invalid(format!("listen.users: no group {name:?} in /etc/group; its number will do"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_alone_comes_in_until_others_are_let_in() {
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
    fn a_socket_of_others_is_no_wider_than_what_is_wanted() {
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
