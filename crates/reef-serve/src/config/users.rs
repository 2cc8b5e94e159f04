//! Users of the machine that may open the sockets.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Users that may open the daemon's Unix sockets, besides its own user and root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(try_from = "String", into = "String")]
pub enum Users {
    /// No other user.
    #[default]
    Owner,
    /// The members of this group: its name in `/etc/group`, or its number.
    Group(String),
    /// Every user.
    All,
}

impl TryFrom<String> for Users {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        match text.split_once(' ') {
            None if text == "owner" => Ok(Self::Owner),
            None if text == "all" => Ok(Self::All),
            Some(("group", name)) if !name.trim().is_empty() => Ok(Self::Group(name.trim().into())),
            _ => Err(Error::Invalid(format!(
                "unknown users {text:?} (have: owner, group NAME, all)"
            ))),
        }
    }
}

/// Its form in the configuration.
impl fmt::Display for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner => f.write_str("owner"),
            Self::Group(name) => write!(f, "group {name}"),
            Self::All => f.write_str("all"),
        }
    }
}

impl From<Users> for String {
    fn from(users: Users) -> Self {
        users.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_parse_owner_group_and_all() {
        let users = |text: &str| Users::try_from(text.to_owned());
        assert_eq!(users("owner"), Ok(Users::default()));
        assert_eq!(users("all"), Ok(Users::All));
        for text in ["owner", "all", "group ml"] {
            assert_eq!(users(text).unwrap().to_string(), text);
        }
        assert_eq!(users("group ml"), Ok(Users::Group("ml".into())));
        for wrong in ["", "group", "group ", "ml", "user 7"] {
            let said = users(wrong).unwrap_err().to_string();
            assert!(said.ends_with("(have: owner, group NAME, all)"), "{said}");
        }
    }
}
