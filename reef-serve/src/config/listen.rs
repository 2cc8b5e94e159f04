//! Where clients come in, and what that is encrypted with.

use super::users::Users;
use crate::error::{Error, Result};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// Where clients come in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Listen {
    /// Folder of the sockets `grpc.sock`, `http.sock` and `local.sock`, to which only their owner
    /// may write. Default: `$XDG_RUNTIME_DIR/reef`, or else `reef-UID` in the temporary folder.
    pub folder: Option<PathBuf>,
    /// Who may open these sockets besides root: `owner` (the default), `group NAME` or `all`.
    pub users: Users,
    /// TCP address for gRPC, such as `127.0.0.1:8001`. Not loopback: only with a token
    /// or certificates of clients. A name such as `localhost:8001` does as well.
    #[serde(deserialize_with = "address")]
    pub grpc: Option<SocketAddr>,
    /// TCP address for HTTP, likewise.
    #[serde(deserialize_with = "address")]
    pub http: Option<SocketAddr>,
    /// A file whose first line every TCP client must send: `authorization: Bearer TOKEN`.
    pub token_file: Option<PathBuf>,
    /// Lets tokens come in plain text from other machines: somebody else encrypts, as a proxy does.
    pub insecure: bool,
    /// Lets clients come in from other machines who show neither token nor certificate: somebody
    /// else decides who reaches the daemon, as a cluster does.
    pub anonymous: bool,
    /// `GET /v2/health/live` and `/v2/health/ready` need no token.
    pub open_probes: bool,
    /// Lets TCP clients without a token register shared memory of the daemon's user. Any user of
    /// the machine can connect to a loopback address, so it is off.
    pub tcp_shared_memory: bool,
}

/// What TCP is encrypted with. Files are PEM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// The daemon's certificate and those that lead to its authority. None: TCP is not encrypted.
    pub cert: Option<PathBuf>,
    /// Its private key, which only its owner may read.
    pub key: Option<PathBuf>,
    /// Authorities of clients: a client without a certificate of theirs is refused.
    pub client_ca: Option<PathBuf>,
}

impl Tls {
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |text: &str| Err(Error::Invalid(text.into()));
        match (&self.cert, &self.key, &self.client_ca) {
            (Some(_), None, _) => wrong("tls.cert: set tls.key as well"),
            (None, Some(_), _) => wrong("tls.key: set tls.cert as well"),
            (None, None, Some(_)) => wrong("tls.client_ca: set tls.cert and tls.key as well"),
            (Some(_), Some(_), _) | (None, None, None) => Ok(()),
        }
    }
}

impl Listen {
    pub(super) fn check(&self, tls: &Tls, tokens: bool) -> Result<()> {
        for (key, address) in [("listen.grpc", self.grpc), ("listen.http", self.http)] {
            let Some(address) = address.filter(|address| !address.ip().is_loopback()) else {
                continue;
            };
            let wanted = match (tokens, tls.cert.is_some(), tls.client_ca.is_some()) {
                (false, _, false) if !self.anonymous => "set listen.token_file or tls.client_ca",
                (true, false, _) if !self.insecure => {
                    "tokens would go in plain text: set tls.cert and tls.key, or listen.insecure = true"
                }
                _ => continue,
            };
            return Err(Error::Invalid(format!("{key}: {address} is not loopback: {wanted}")));
        }
        Ok(())
    }
}

/// An address, or what a host's name leads to: its first address of IPv4, or else its first.
fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let found: Vec<_> = text.to_socket_addrs().into_iter().flatten().collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    let wanted = || format!("{text:?} is no address (such as 127.0.0.1:8000 or localhost:8000)");
    first.map(|&address| Some(address)).ok_or_else(|| D::Error::custom(wanted()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_a_name() {
        let listen = |http: &str| toml::from_str::<Listen>(&format!("http = {http:?}"));
        for text in ["127.0.0.1:8000", "localhost:8000"] {
            assert_eq!(listen(text).unwrap().http, Some(([127, 0, 0, 1], 8000).into()), "{text}");
        }
        for text in ["localhost", "8000", "localhost:80000", ""] {
            let said = listen(text).unwrap_err().to_string();
            assert!(said.contains(&format!("{text:?} is no address (such as ")), "{said}");
        }
    }
}
