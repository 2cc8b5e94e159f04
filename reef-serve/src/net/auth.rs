//! The token that TCP clients show, if one is configured.

use crate::error::{Error, Result};
use crate::net::peer::Peer;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Least length in bytes.
const MIN_LEN: usize = 16;

/// What a client must know.
pub(crate) struct Token(Vec<u8>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads the first line of a file that only its owner can read.
    ///
    /// # Errors
    ///
    /// `Invalid` if it can't be read, others can read it, or it is too short.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let wrong = |why: &dyn fmt::Display| {
            Error::Invalid(format!("listen.token_file {}: {why}", path.display()))
        };
        let mode = path.metadata().map_err(|e| wrong(&e))?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(wrong(&format!("mode {:o}, only its owner may read it", mode & 0o777)));
        }
        let text = std::fs::read_to_string(path).map_err(|e| wrong(&e))?;
        let token = text.lines().next().unwrap_or_default().trim();
        if token.len() < MIN_LEN {
            return Err(wrong(&format!("{} bytes, at least {MIN_LEN} are wanted", token.len())));
        }
        Ok(Self(token.into()))
    }

    /// Compares in a time that doesn't tell where they differ.
    fn is(&self, given: &[u8]) -> bool {
        let pairs = self.0.iter().zip(given);
        let differ = pairs.fold(0, |differ, (a, b)| differ | (a ^ b));
        self.0.len() == given.len() && differ == 0
    }
}

/// Refuses a TCP client that doesn't know the token; `given` is its `authorization` header.
///
/// # Errors
///
/// `Denied`.
pub(crate) fn check(token: Option<&Token>, peer: Peer, given: Option<&[u8]>) -> Result<()> {
    let Some(token) = token.filter(|_| peer.is_tcp()) else { return Ok(()) };
    let shown = given.and_then(|given| given.strip_prefix(b"Bearer "));
    if shown.is_some_and(|shown| token.is(shown)) {
        return Ok(());
    }
    Err(Error::Denied("a token is wanted: authorization: Bearer TOKEN".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::peer::Principal;

    #[test]
    fn only_the_token_opens() {
        let token = Token(b"0123456789abcdef".into());
        let tcp = Peer { may_share: true, ..Peer::UNKNOWN };
        let unix = Peer { principal: Principal::User(0), ..tcp };
        let opens = |peer, given: Option<&[u8]>| check(Some(&token), peer, given).is_ok();
        assert!(opens(tcp, Some(b"Bearer 0123456789abcdef")));
        assert!(opens(unix, None));
        for bad in ["", "Bearer ", "0123456789abcdef", "Bearer 0123456789abcdeF", "Bearer 0"] {
            assert!(!opens(tcp, Some(bad.as_bytes())), "{bad}");
        }
        assert!(!opens(tcp, Some(b"Bearer 0123456789abcdef0")));
        assert!(!opens(tcp, None));
        assert!(check(None, tcp, None).is_ok());
    }

    #[test]
    fn a_token_that_others_can_read_is_refused() {
        let path = std::env::temp_dir().join(format!("reef-token-{}", std::process::id()));
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        let mode = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, mode(0o644)).unwrap();
        let said = Token::read(&path).unwrap_err().to_string();
        assert!(said.ends_with("mode 644, only its owner may read it"), "{said}");
        std::fs::set_permissions(&path, mode(0o600)).unwrap();
        assert!(Token::read(&path).unwrap().is(b"0123456789abcdef"));
        std::fs::write(&path, "short").unwrap();
        assert!(Token::read(&path).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(Token::read(&path).is_err());
    }
}
