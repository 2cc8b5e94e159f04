//! Requests that a web page has a browser send, which comes from an address that was never proved.
//!
//! A browser on the machine reaches a daemon on loopback. It says which page asked (`Origin`), for
//! forms with types of their own, and a page whose name was made to lead to loopback gives that
//! name as `Host`.

use crate::error::{Error, Result};
use crate::name::shown;
use crate::net::identity::peer::Peer;
use crate::net::identity::principal::Principal;
use axum::http::{HeaderMap, header};
use std::net::IpAddr;

/// Types of what any page may have sent without being asked whether it may.
const FORMS: [&str; 3] = ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"];

/// Why a form is refused, and what a program does about it.
const FORM: &str = "any web page may send this type: set Content-Type: application/json \
                    (curl: -H 'Content-Type: application/json')";

/// Refuses what a web page sent, where nothing else says who sends it.
///
/// # Errors
///
/// `Denied`.
pub(super) fn check(peer: &Peer, headers: &HeaderMap) -> Result<()> {
    let Principal::Address(address) = peer.principal else { return Ok(()) };
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"));
    let host = text(header::HOST).unwrap_or_default();
    if address.is_loopback() && !host.is_empty() && !is_local(host) {
        return Err(denied("Host", host, "localhost or an address is wanted on loopback"));
    }
    if let Some(origin) = text(header::ORIGIN)
        && origin.split_once("://").is_none_or(|(_, from)| from != host)
    {
        return Err(denied("Origin", origin, "web pages may not ask"));
    }
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    let plain = kind.split(';').next().unwrap_or_default().trim();
    if FORMS.iter().any(|form| plain.eq_ignore_ascii_case(form)) {
        return Err(denied("Content-Type", kind, FORM));
    }
    Ok(())
}

fn denied(header: &str, value: &str, why: &str) -> Error {
    let shown = shown(value);
    Error::Denied(format!("{header}: {shown:?}: {why}"))
}

/// `localhost` or an address, perhaps with a port: a name that no one can have lead elsewhere.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(address: &str, pairs: &[(&'static str, &str)]) -> Result<()> {
        let pairs = pairs.iter().map(|&(name, value)| {
            (header::HeaderName::from_static(name), value.parse().expect("ASCII"))
        });
        let principal = Principal::at(address.parse().expect("an address"));
        check(&Peer { principal, ..Peer::UNKNOWN }, &pairs.collect())
    }

    #[test]
    fn names_that_lead_to_loopback_are_refused() {
        for host in ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LocalHost"] {
            assert_eq!(says("127.0.0.1", &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:8000", "127.0.0.1.evil.example", "[x]"]
        {
            assert!(says("127.0.0.1", &[("host", host)]).is_err(), "{host}");
            assert!(says("10.0.0.1", &[("host", host)]).is_ok(), "who opened it said so: {host}");
        }
    }

    #[test]
    fn pages_and_forms_are_refused_and_programs_are_not() {
        let said = |pair| says("127.0.0.1", &[("host", "localhost:8000"), pair]);
        assert!(said(("origin", "http://localhost:8000")).is_ok());
        for origin in ["http://evil.example", "http://localhost:3000", "null"] {
            assert!(said(("origin", origin)).is_err(), "{origin}");
        }
        for kind in ["application/json", "application/octet-stream"] {
            assert!(said(("content-type", kind)).is_ok(), "{kind}");
        }
        for kind in ["text/plain;charset=UTF-8", "multipart/form-data; boundary=x"] {
            assert!(said(("content-type", kind)).is_err(), "{kind}");
        }
        let user = Peer { principal: Principal::User(0), ..Peer::UNKNOWN };
        let headers = [(header::ORIGIN, "http://x".parse().unwrap())].into_iter().collect();
        assert_eq!(check(&user, &headers), Ok(()), "the kernel says who it is");
    }
}
