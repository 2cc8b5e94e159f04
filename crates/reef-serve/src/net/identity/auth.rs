//! Authentication: the token that TCP clients show, if one is configured.

use crate::config::settings::Config;
use crate::error::{Error, Result};
use crate::net::identity::peer::Peer;
use crate::net::identity::principal::Principal;
use crate::net::identity::secret;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::RwLock;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Minimum length of a token, in bytes.
const MIN_LEN: usize = 16;

/// Secret of a principal, with its name.
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
    /// Reads the first line of a file that no other user can read.
    ///
    /// # Errors
    ///
    /// `Invalid` if it cannot be read, other users can read it, or it is too short.
    fn read(key: &str, name: &str, path: &Path) -> Result<Self> {
        let wrong =
            |why: &dyn fmt::Display| Error::Invalid(format!("{key} {}: {why}", path.display()));
        secret::check(path).map_err(|why| wrong(&why))?;
        let token = reef_files::token(path).map_err(|e| wrong(&e))?;
        if token.len() < MIN_LEN {
            return Err(wrong(&format!("must have at least {MIN_LEN} bytes, got {}", token.len())));
        }
        Ok(Self { name: name.into(), secret: token.into() })
    }

    /// Compares in a time that does not depend on where they differ.
    fn matches(&self, given: &[u8]) -> bool {
        let pairs = self.secret.iter().zip(given);
        let differ = pairs.fold(0, |differ, (a, b)| differ | (a ^ b));
        self.secret.len() == given.len() && differ == 0
    }
}

/// Tokens in use.
#[derive(Debug, Default)]
pub(crate) struct Tokens(RwLock<Vec<Token>>);

impl Tokens {
    /// Reads the tokens that the configuration names. The token of `listen.token_file` has the
    /// file's name without extension.
    ///
    /// # Errors
    ///
    /// Errors of [`Token::read`]; `Invalid` if two names have one token, or a name has none.
    pub(crate) fn read(config: &Config) -> Result<Self> {
        let tokens = Self::default();
        tokens.reload(config)?;
        Ok(tokens)
    }

    /// Reads them again; after an error the last ones stay in use.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`read`](Self::read).
    pub(crate) fn reload(&self, config: &Config) -> Result<()> {
        let listed = config.listen.token_file.iter().map(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            Token::read("listen.token_file", &name, path)
        });
        let granted = config.rights.iter().filter_map(|(principal, right)| {
            let (name, path) = (principal.strip_prefix("token ")?, right.token_file.as_ref()?);
            Some(Token::read(&format!("rights.{principal:?}.token_file"), name, path))
        });
        let tokens = listed.chain(granted).collect::<Result<Vec<Token>>>()?;
        check_distinct(&tokens)?;
        check_named(config, &tokens)?;
        *self.0.write() = tokens;
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.read().is_empty()
    }

    /// Returns the principal with this token.
    pub(crate) fn holder(&self, shown: &[u8]) -> Option<Principal> {
        let tokens = self.0.read();
        let found = tokens.iter().find(|token| token.matches(shown));
        found.map(|token| Principal::Token(token.name.clone()))
    }
}

/// Refuses a token of two names: it would be found by the first one alone, and the rights of the
/// other would have no effect.
fn check_distinct(tokens: &[Token]) -> Result<()> {
    for (at, token) in tokens.iter().enumerate() {
        let former = tokens[..at].iter().find(|former| former.matches(&token.secret));
        if let Some(former) = former.filter(|former| former.name != token.name) {
            let text = format!(
                "rights.\"token {}\".token_file: must have a token of its own, got that of {:?}",
                token.name, former.name
            );
            return Err(Error::Invalid(text));
        }
    }
    Ok(())
}

/// Refuses rights of a token that no file has: they would have no effect.
fn check_named(config: &Config, tokens: &[Token]) -> Result<()> {
    for principal in config.rights.keys() {
        let Some(name) = principal.strip_prefix("token ") else { continue };
        if tokens.iter().all(|token| *token.name != *name) {
            let why = "must have token_file, unless listen.token_file has this name";
            return Err(Error::Invalid(format!("rights.{principal:?}: {why}")));
        }
    }
    Ok(())
}

/// Returns the principal of a request of `peer`; `given` is its `authorization` header.
///
/// # Errors
///
/// `Unauthenticated` if a token is configured and a client over TCP shows none of them.
pub(crate) fn identify(tokens: &Tokens, peer: &Peer, given: Option<&[u8]>) -> Result<Principal> {
    if !peer.is_tcp() || tokens.is_empty() {
        return Ok(peer.principal.clone());
    }
    let shown = given.and_then(|given| credentials(given, "Bearer"));
    shown.and_then(|shown| tokens.holder(shown)).ok_or_else(|| {
        Error::Unauthenticated("a token is required: authorization: Bearer TOKEN".into())
    })
}

/// Returns the credentials of an `authorization` header with this scheme, which may be in any case
/// and be followed by several spaces (RFC 9110).
fn credentials<'a>(given: &'a [u8], scheme: &str) -> Option<&'a [u8]> {
    let (name, rest) = given.split_at_checked(scheme.len())?;
    let is_scheme = name.eq_ignore_ascii_case(scheme.as_bytes()) && rest.starts_with(b" ");
    is_scheme.then(|| rest.trim_ascii_start())
}

/// Returns a browser's password as the header that shows it as a token; `None` if `given` has none.
pub(crate) fn bearer_of_basic(given: &[u8]) -> Option<Vec<u8>> {
    let pair = STANDARD.decode(credentials(given, "Basic")?).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some([b"Bearer ", &pair[colon + 1..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn request_over_tcp_without_token_is_refused() {
        let token = Token { name: "ci".into(), secret: b"0123456789abcdef".into() };
        let tokens = Tokens(RwLock::new(vec![token]));
        let tcp = &Peer::UNKNOWN;
        let unix = &Peer { principal: Principal::User(0), ..Peer::UNKNOWN };
        let principal = |peer: &Peer, given: Option<&[u8]>| identify(&tokens, peer, given);
        let opens = |peer: &Peer, given: Option<&[u8]>| principal(peer, given).is_ok();
        let right = Some(&b"Bearer 0123456789abcdef"[..]);
        assert_eq!(principal(tcp, right), Ok(Principal::Token("ci".into())));
        for same in ["bearer 0123456789abcdef", "BEARER  0123456789abcdef"] {
            assert!(opens(tcp, Some(same.as_bytes())), "{same}");
        }
        assert_eq!(principal(unix, None), Ok(Principal::User(0)));
        assert_eq!(principal(unix, right), Ok(Principal::User(0)), "the kernel has precedence");
        for bad in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer0123456789abcdef",
            "0123456789abcdef",
            "Bearer 0123456789abcdeF",
            "Bearer 0",
        ] {
            assert!(!opens(tcp, Some(bad.as_bytes())), "{bad}");
        }
        assert!(!opens(tcp, Some(b"Bearer 0123456789abcdef0")));
        assert!(!opens(tcp, None));
        assert_eq!(identify(&Tokens::default(), tcp, None), Ok(tcp.principal.clone()));
    }

    #[test]
    fn password_of_a_browser_is_a_token() {
        let said =
            |pair: &str| bearer_of_basic(format!("Basic {}", STANDARD.encode(pair)).as_bytes());
        assert_eq!(said("any:0123:456").as_deref(), Some(&b"Bearer 0123:456"[..]));
        assert_eq!(said(":0123").as_deref(), Some(&b"Bearer 0123"[..]));
        let lower = format!("basic {}", STANDARD.encode(":0123"));
        assert_eq!(bearer_of_basic(lower.as_bytes()).as_deref(), Some(&b"Bearer 0123"[..]));
        assert_eq!(said("0123"), None);
        for bad in ["", "Basic", "Basic !", "Bearer 0123"] {
            assert_eq!(bearer_of_basic(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn token_of_two_names_is_refused() {
        let token = |name: &str, secret: &str| Token { name: name.into(), secret: secret.into() };
        let said = check_distinct(&[token("a", "same"), token("c", "other"), token("b", "same")]);
        let want = "rights.\"token b\".token_file: must have a token of its own, got that of \"a\"";
        assert_eq!(said, Err(Error::Invalid(want.into())));
        assert_eq!(check_distinct(&[token("a", "same"), token("a", "same")]), Ok(()));
        assert_eq!(check_distinct(&[token("a", "one"), token("b", "two")]), Ok(()));
    }

    #[test]
    fn right_of_a_token_without_a_file_is_refused() {
        let config: Config = toml::from_str("[rights.\"token ci\"]\nrt = true\n").unwrap();
        let said = Tokens::read(&config).unwrap_err().to_string();
        let why = "must have token_file, unless listen.token_file has this name";
        assert_eq!(said, format!("rights.\"token ci\": {why}"));
        let token = |name: &str| Token { name: name.into(), secret: "secret".into() };
        assert_eq!(check_named(&config, &[token("ci")]), Ok(()));
        assert!(check_named(&config, &[token("c")]).is_err());
    }

    #[test]
    fn token_file_readable_by_others_is_refused() {
        let path = std::env::temp_dir().join(format!("reef-token-{}", std::process::id()));
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        let mode = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, mode(0o644)).unwrap();
        let read = |path: &Path| Token::read("listen.token_file", "t", path);
        let said = read(&path).unwrap_err().to_string();
        assert!(
            said.contains("mode 644: other users must not be able to read or write it"),
            "{said}"
        );
        std::fs::set_permissions(&path, mode(0o600)).unwrap();
        assert!(read(&path).unwrap().matches(b"0123456789abcdef"));
        std::fs::write(&path, "short").unwrap();
        assert!(read(&path).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(read(&path).is_err());
    }
}
