//! Endpoints and their encryption.

use super::users::Users;
use crate::error::{Error, Result};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// Endpoints of the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Listen {
    /// Folder of the sockets `grpc.sock`, `http.sock` and `local.sock`; only their owner may write
    /// to it. Default: `$XDG_RUNTIME_DIR/reef`, or else `reef-UID` in the temporary folder.
    pub folder: Option<PathBuf>,
    /// Users that may open these sockets besides root: `owner` (the default), `group NAME` or
    /// `all`.
    pub users: Users,
    /// TCP address for gRPC, such as `127.0.0.1:8001` or `localhost:8001`. An address other than
    /// loopback requires a token or certificates of clients.
    #[serde(deserialize_with = "address")]
    pub grpc: Option<SocketAddr>,
    /// TCP address for HTTP, with the same rules.
    #[serde(deserialize_with = "address")]
    pub http: Option<SocketAddr>,
    /// File whose first line every TCP client must send: `authorization: Bearer TOKEN`.
    pub token_file: Option<PathBuf>,
    /// Accepts tokens in plain text from other machines, for use behind a proxy that encrypts.
    pub insecure: bool,
    /// Accepts clients of other machines without token or certificate, for use in a cluster that
    /// decides which clients reach the daemon.
    pub anonymous: bool,
    /// Exempts `GET /v2/health/live` and `/v2/health/ready` from the token.
    pub open_probes: bool,
    /// Lets TCP clients without a token register shared memory of the daemon's user. Off by
    /// default, because any user of the machine can connect to a loopback address.
    pub tcp_shared_memory: bool,
}

/// Encryption of TCP. Files are PEM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// The daemon's certificate and its chain. If `None`, TCP is not encrypted.
    pub cert: Option<PathBuf>,
    /// Its private key; only its owner may be able to read it.
    pub key: Option<PathBuf>,
    /// Authorities of clients: a client without a certificate of one of them is refused.
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
        let is_taken = |http: &SocketAddr| http.port() != 0 && self.grpc == Some(*http);
        if let Some(http) = self.http.filter(is_taken) {
            let text = format!("listen.http: must differ from listen.grpc, got {http} for both");
            return Err(Error::Invalid(text));
        }
        for (key, address) in [("listen.grpc", self.grpc), ("listen.http", self.http)] {
            let Some(address) = address.filter(|address| !address.ip().is_loopback()) else {
                continue;
            };
            let remedy = match (tokens, tls.cert.is_some(), tls.client_ca.is_some()) {
                (false, _, false) if !self.anonymous => "set listen.token_file or tls.client_ca",
                (true, false, _) if !self.insecure => {
                    "tokens would be sent in plain text: set tls.cert and tls.key, or listen.insecure = true"
                }
                _ => continue,
            };
            return Err(Error::Invalid(format!("{key}: {address} is not loopback: {remedy}")));
        }
        Ok(())
    }
}

/// Parses an address or host name: its first IPv4 address, or else its first address.
fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let found: Vec<_> = text.to_socket_addrs().into_iter().flatten().collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    let wrong = || format!("must be an address such as 127.0.0.1:8000, got {text:?}");
    first.map(|&address| Some(address)).ok_or_else(|| D::Error::custom(wrong()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_accepts_host_name_with_port() {
        let listen = |http: &str| toml::from_str::<Listen>(&format!("http = {http:?}"));
        for text in ["127.0.0.1:8000", "localhost:8000"] {
            assert_eq!(listen(text).unwrap().http, Some(([127, 0, 0, 1], 8000).into()), "{text}");
        }
        for text in ["localhost", "8000", "localhost:80000", ""] {
            let said = listen(text).unwrap_err().to_string();
            assert!(
                said.contains(&format!("must be an address such as 127.0.0.1:8000, got {text:?}")),
                "{said}"
            );
        }
    }
}
