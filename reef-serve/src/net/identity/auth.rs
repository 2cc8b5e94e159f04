//! Whom a request speaks for: the token that TCP clients show, if one is configured.

use crate::config::settings::Config;
use crate::error::{Error, Result};
use crate::net::identity::peer::Peer;
use crate::net::identity::principal::Principal;
use crate::net::identity::secret;
use parking_lot::RwLock;
use std::fmt;
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
    /// Reads the first line of a file that nobody else can read.
    ///
    /// # Errors
    ///
    /// `Invalid` if it can't be read, others can read it, or it is too short.
    fn read(key: &str, name: &str, path: &Path) -> Result<Self> {
        let wrong =
            |why: &dyn fmt::Display| Error::Invalid(format!("{key} {}: {why}", path.display()));
        secret::check(path).map_err(|why| wrong(&why))?;
        let text = std::fs::read_to_string(path).map_err(|e| wrong(&e))?;
        let token = text.lines().next().unwrap_or_default().trim();
        if token.len() < MIN_LEN {
            return Err(wrong(&format!("{} bytes, at least {MIN_LEN} are wanted", token.len())));
        }
        Ok(Self { name: name.into(), secret: token.into() })
    }

    /// Compares in a time that doesn't tell where they differ.
    fn is(&self, given: &[u8]) -> bool {
        let pairs = self.secret.iter().zip(given);
        let differ = pairs.fold(0, |differ, (a, b)| differ | (a ^ b));
        self.secret.len() == given.len() && differ == 0
    }
}

/// The tokens that are known now.
#[derive(Debug, Default)]
pub(crate) struct Tokens(RwLock<Vec<Token>>);

impl Tokens {
    /// Reads those that the configuration names. That of `listen.token_file` is named as the file,
    /// without extension.
    ///
    /// # Errors
    ///
    /// As [`Token::read`].
    pub(crate) fn read(config: &Config) -> Result<Self> {
        let tokens = Self::default();
        tokens.reload(config)?;
        Ok(tokens)
    }

    /// Reads them anew; in the case of an error they stay as they are.
    ///
    /// # Errors
    ///
    /// As [`Token::read`].
    pub(crate) fn reload(&self, config: &Config) -> Result<()> {
        let listed = config.listen.token_file.iter().map(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            Token::read("listen.token_file", &name, path)
        });
        let granted = config.rights.iter().filter_map(|(who, right)| {
            let (name, path) = (who.strip_prefix("token ")?, right.token_file.as_ref()?);
            Some(Token::read(&format!("rights.{who:?}.token_file"), name, path))
        });
        let tokens = listed.chain(granted).collect::<Result<_>>()?;
        *self.0.write() = tokens;
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.read().is_empty()
    }

    /// Whose token that is.
    pub(crate) fn holder(&self, shown: &[u8]) -> Option<Principal> {
        let tokens = self.0.read();
        let found = tokens.iter().find(|token| token.is(shown));
        found.map(|token| Principal::Token(token.name.clone()))
    }
}

/// Whom a request of `peer` speaks for; `given` is its `authorization` header.
///
/// # Errors
///
/// `Unauthenticated` if a token is configured and a client over TCP doesn't show it.
pub(crate) fn identify(tokens: &Tokens, peer: &Peer, given: Option<&[u8]>) -> Result<Principal> {
    if !peer.is_tcp() || tokens.is_empty() {
        return Ok(peer.principal.clone());
    }
    let shown = given.and_then(|given| given.strip_prefix(b"Bearer "));
    shown.and_then(|shown| tokens.holder(shown)).ok_or_else(|| {
        Error::Unauthenticated("a token is wanted: authorization: Bearer TOKEN".into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_the_token_opens() {
        let token = Token { name: "ci".into(), secret: b"0123456789abcdef".into() };
        let tokens = Tokens(RwLock::new(vec![token]));
        let tcp = &Peer::UNKNOWN;
        let unix = &Peer { principal: Principal::User(0), ..Peer::UNKNOWN };
        let who = |peer: &Peer, given: Option<&[u8]>| identify(&tokens, peer, given);
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
        assert_eq!(identify(&Tokens::default(), tcp, None), Ok(tcp.principal.clone()));
    }

    #[test]
    fn a_token_that_others_can_read_is_refused() {
        let path = std::env::temp_dir().join(format!("reef-token-{}", std::process::id()));
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        let mode = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, mode(0o644)).unwrap();
        let read = |path: &Path| Token::read("listen.token_file", "t", path);
        let said = read(&path).unwrap_err().to_string();
        assert!(said.contains("mode 644: others may read or write it"), "{said}");
        std::fs::set_permissions(&path, mode(0o600)).unwrap();
        assert!(read(&path).unwrap().is(b"0123456789abcdef"));
        std::fs::write(&path, "short").unwrap();
        assert!(read(&path).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(read(&path).is_err());
    }
}
