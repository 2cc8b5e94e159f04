//! Guard against requests that a web page makes a browser send, where no token is shown.
//!
//! A browser on the machine reaches a daemon on loopback, and a Unix socket through a tunnel of
//! `ssh` from loopback. It shows a client's certificate by itself. It names the page (`Origin`),
//! forms have content types of their own, and a page whose name resolves to loopback sends that
//! name as `Host`. An image or a script of a page has none of these: browsers say where such a
//! request comes from (`Sec-Fetch-Site`).

use crate::error::{Error, Result};
use crate::kserve::parameter::only_header;
use crate::name::excerpt;
use crate::net::identity::peer::Peer;
use crate::net::identity::principal::Principal;
use axum::http::{HeaderMap, header};
use std::net::IpAddr;

/// Paths of the daemon's own page and its parts, to which a browser shows a token as a password.
pub(super) const PAGE_PATHS: [&str; 4] =
    ["/", "/reef/page.css", "/reef/page.js", "/reef/page/events"];

/// Content types that any page may send without a preflight request.
const FORMS: [&str; 3] = ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"];

/// Headers in which a browser says where a request comes from, and what asks for it.
const SITE: &str = "sec-fetch-site";
const MODE: &str = "sec-fetch-mode";

/// Values of the first one for requests of the user, and of the daemon's own page.
const OWN_SITES: [&str; 2] = ["none", "same-origin"];

/// Paths to which a link of another page may lead: they change nothing.
const LINKS: [&str; 2] = [PAGE_PATHS[0], "/metrics"];

/// Reason for refusing a request of a page.
const PAGE: &str = "web pages must not send requests";

/// Reason for refusing a form, with the remedy for a program.
const FORM: &str = "any web page may send this type: set Content-Type: application/json \
                    (curl: -H 'Content-Type: application/json')";

/// True if a path is of the daemon's own page.
pub(super) fn is_page(path: &str) -> bool {
    PAGE_PATHS.contains(&path)
}

/// Refuses a request of a web page, unless it shows a token. Programs may send any name without a
/// dot to a Unix socket: a web page has none of these.
///
/// # Errors
///
/// `Denied`; `Invalid` if a header is there twice.
pub(super) fn check(peer: &Peer, path: &str, headers: &HeaderMap) -> Result<()> {
    let host = text(headers, header::HOST.as_str())?.unwrap_or_default();
    let must_be_local = match peer.principal {
        Principal::Token(_) => return Ok(()),
        Principal::Address(address) => address.is_loopback(),
        Principal::Loopback(_) => true,
        Principal::User(_) => is_page(path) || is_domain(host),
        Principal::Certificate(_) => false, // TLS has checked the name
    };
    if must_be_local && !host.is_empty() && !is_local(host) {
        return Err(denied("Host", host, "must be localhost or an address on loopback"));
    }
    if let Some(origin) = text(headers, header::ORIGIN.as_str())?
        && origin.split_once("://").is_none_or(|(_, from)| from != host)
    {
        return Err(denied("Origin", origin, PAGE));
    }
    let site = text(headers, SITE)?.unwrap_or(OWN_SITES[0]);
    let is_link = LINKS.contains(&path) && text(headers, MODE)? == Some("navigate");
    if !OWN_SITES.contains(&site) && !is_link {
        return Err(denied("Sec-Fetch-Site", site, PAGE));
    }
    if !peer.principal.is_anonymous() {
        return Ok(()); // `curl -d` sends the type of a form; a browser adds its `Origin`
    }
    let kind = text(headers, header::CONTENT_TYPE.as_str())?.unwrap_or_default();
    let plain = kind.split(';').next().unwrap_or_default().trim();
    if FORMS.iter().any(|form| plain.eq_ignore_ascii_case(form)) {
        return Err(denied("Content-Type", kind, FORM));
    }
    Ok(())
}

/// Returns the text of a header.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>> {
    let value = only_header(headers, name)?;
    Ok(value.map(|value| value.to_str().unwrap_or("\u{fffd}")))
}

fn denied(header: &str, value: &str, why: &str) -> Error {
    let shown = excerpt(value);
    Error::Denied(format!("{header}: {shown:?}: {why}"))
}

/// True if the host is `localhost` or an address, with or without a port. No one else can make such
/// a name resolve elsewhere.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// True if the host is a name with a dot, as those of web pages. The path of a socket, which some
/// clients send, has a `%` or a `/`.
fn is_domain(host: &str) -> bool {
    host.contains('.') && !host.contains(['%', '/'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(address: &str, pairs: &[(&'static str, &str)]) -> Result<()> {
        let principal = match address {
            "127.0.0.1" => Principal::Loopback(0),
            address => Principal::at(address.parse().expect("an address")),
        };
        says_to(principal, "/v2", pairs)
    }

    fn says_to(principal: Principal, path: &str, pairs: &[(&'static str, &str)]) -> Result<()> {
        let pairs = pairs.iter().map(|&(name, value)| {
            (header::HeaderName::from_static(name), value.parse().expect("ASCII"))
        });
        check(&Peer { principal, ..Peer::UNKNOWN }, path, &pairs.collect())
    }

    #[test]
    fn page_through_a_tunnel_needs_a_local_host_name() {
        let user = |path, host| says_to(Principal::User(0), path, &[("host", host)]);
        for path in PAGE_PATHS {
            assert_eq!(user(path, "localhost:8000"), Ok(()));
            assert!(user(path, "evil.example").is_err(), "{path}");
        }
        let token = Principal::Token("ci".into());
        assert_eq!(
            says_to(token, "/", &[("host", "gpu1.example")]),
            Ok(()),
            "it has shown a token"
        );
    }

    #[test]
    fn headers_of_two_values_are_refused() {
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert!(matches!(says_to(Principal::User(0), "/v2", &two), Err(Error::Invalid(_))));
    }

    #[test]
    fn call_through_a_tunnel_is_not_of_a_web_page() {
        let user = |pairs: &[_]| says_to(Principal::User(0), "/v2", pairs);
        for host in ["localhost:8000", "127.0.0.1", "reef", "%2Frun%2Freef%2Fhttp.sock"] {
            assert_eq!(user(&[("host", host)]), Ok(()), "{host}");
        }
        assert!(user(&[("host", "evil.example:8000")]).is_err());
        for origin in ["http://evil.example", "http://localhost:3000", "null"] {
            assert!(user(&[("host", "localhost:8000"), ("origin", origin)]).is_err(), "{origin}");
        }
        let form = ("content-type", "application/x-www-form-urlencoded");
        assert_eq!(user(&[("host", "localhost"), form]), Ok(()), "`curl -d` sends it");
    }

    #[test]
    fn certificate_that_a_browser_shows_is_not_for_other_pages() {
        let alice = |origin| {
            let pairs = [("host", "gpu1.example"), ("origin", origin)];
            says_to(Principal::Certificate("alice".into()), "/v2", &pairs)
        };
        assert_eq!(alice("https://gpu1.example"), Ok(()));
        assert!(alice("https://evil.example").is_err());
    }

    #[test]
    fn host_name_on_loopback_is_refused() {
        for host in ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LocalHost"] {
            assert_eq!(says("127.0.0.1", &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:8000", "127.0.0.1.evil.example", "[x]"]
        {
            assert!(says("127.0.0.1", &[("host", host)]).is_err(), "{host}");
            assert!(says("::1", &[("host", host)]).is_err(), "the kernel names no user: {host}");
            assert!(says("10.0.0.1", &[("host", host)]).is_ok(), "the operator opened it: {host}");
        }
    }

    #[test]
    fn image_or_script_of_another_page_is_refused() {
        let token = Principal::Token("ci".into());
        for who in [Principal::Loopback(0), Principal::User(0), Principal::Certificate("a".into())]
        {
            let said = |path, site, mode| {
                let pairs = [
                    ("host", "localhost:8000"),
                    ("sec-fetch-site", site),
                    ("sec-fetch-mode", mode),
                ];
                says_to(who.clone(), path, &pairs)
            };
            for site in ["cross-site", "same-site"] {
                let text = said("/reef/trace", site, "no-cors").unwrap_err().to_string();
                assert!(text.contains(&format!("Sec-Fetch-Site: \"{site}\": ")), "{text}");
                assert!(said("/reef/trace", site, "navigate").is_err(), "a frame");
                for path in LINKS {
                    assert!(said(path, site, "no-cors").is_err(), "{path}");
                    assert_eq!(said(path, site, "navigate"), Ok(()), "a link to {path}");
                }
            }
            assert_eq!(said("/reef/trace", "none", "navigate"), Ok(()), "typed by the user");
            assert_eq!(said("/reef/page/events", "same-origin", "cors"), Ok(()));
        }
        let pairs = [("sec-fetch-site", "cross-site")];
        assert_eq!(says_to(token, "/reef/trace", &pairs), Ok(()), "it has shown a token");
    }

    #[test]
    fn requests_of_pages_and_forms_are_refused() {
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
    }
}
