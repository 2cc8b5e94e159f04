//! Whom a request speaks for: the token that TCP clients show, if one is configured.

use crate::error::{Error, Result};
use crate::net::peer::Peer;
use crate::net::principal::Principal;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

/// Least length in bytes.
const MIN_LEN: usize = 16;

/// What a client must know, and whom it speaks for then.
pub(crate) struct Token {
    name: Arc<str>,
    secret: Vec<u8>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token {}", self.name)
    }
}

impl Token {
    /// Reads the first line of a file that only its owner can read. Its name is the file's, without extension.
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
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Self { name: name.into(), secret: token.into() })
    }

    /// Compares in a time that doesn't tell where they differ.
    fn is(&self, given: &[u8]) -> bool {
        let pairs = self.secret.iter().zip(given);
        let differ = pairs.fold(0, |differ, (a, b)| differ | (a ^ b));
        self.secret.len() == given.len() && differ == 0
    }
}

/// Whom a request of `peer` speaks for; `given` is its `authorization` header.
///
/// # Errors
///
/// `Unauthenticated` if a token is configured and a client over TCP doesn't show it.
pub(crate) fn identify(
    token: Option<&Token>,
    peer: &Peer,
    given: Option<&[u8]>,
) -> Result<Principal> {
    let Some(token) = token.filter(|_| peer.is_tcp()) else { return Ok(peer.principal.clone()) };
    let shown = given.and_then(|given| given.strip_prefix(b"Bearer "));
    if shown.is_some_and(|shown| token.is(shown)) {
        return Ok(Principal::Token(token.name.clone()));
    }
    Err(Error::Unauthenticated("a token is wanted: authorization: Bearer TOKEN".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_opens() {
        let token = Token { name: "ci".into(), secret: b"0123456789abcdef".into() };
        let tcp = &Peer::UNKNOWN;
        let unix = &Peer { principal: Principal::User(0), ..Peer::UNKNOWN };
        let who = |peer: &Peer, given: Option<&[u8]>| identify(Some(&token), peer, given);
        let opens = |peer: &Peer, given: Option<&[u8]>| who(peer, given).is_ok();
        let right = Some(&b"Bearer 0123456789abcdef"[..]);
        assert_eq!(who(tcp, right), Ok(Principal::Token("ci".into())));
        assert_eq!(who(unix, None), Ok(Principal::User(0)));
        assert_eq!(who(unix, right), Ok(Principal::User(0)), "the kernel goes before it");
        for bad in ["", "Bearer ", "0123456789abcdef", "Bearer 0123456789abcdeF", "Bearer 0"] {
            assert!(!opens(tcp, Some(bad.as_bytes())), "{bad}");
        }
        assert!(!opens(tcp, Some(b"Bearer 0123456789abcdef0")));
        assert!(!opens(tcp, None));
        assert_eq!(identify(None, tcp, None), Ok(tcp.principal.clone()));
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
