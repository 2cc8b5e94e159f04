//! The name in a client's certificate. The certificate has been verified already.
//!
//! It is the first name of the subject's alternatives (DNS, then URI, RFC 5280 section 4.2.1.6), or
//! else the subject's common name.

use crate::error::{Error, Result};
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// Type 2.5.4.3 of X.520 in DER: a common name.
const COMMON_NAME: &[u8] = &[0x06, 3, 0x55, 4, 3];

/// Returns the name in a certificate.
///
/// # Errors
///
/// `Denied` if it holds no name.
pub(in crate::net) fn name(certificate: &CertificateDer<'_>) -> Result<Arc<str>> {
    let wrong = |why: &dyn std::fmt::Display| Error::Denied(format!("client certificate: {why}"));
    let certificate = EndEntityCert::try_from(certificate).map_err(|e| wrong(&e))?;
    let mut alternatives = certificate.valid_dns_names().chain(certificate.valid_uri_names());
    let name = alternatives.next().or_else(|| common_name(certificate.subject()));
    name.map(Into::into).ok_or_else(|| wrong(&"must have an alternative or a common name"))
}

/// Returns the first common name of a subject: sets of pairs of a type and a text.
fn common_name(mut subject: &[u8]) -> Option<&str> {
    while let Some((set, rest)) = content(subject) {
        let (pair, _) = content(set)?;
        if let Some(text) = pair.strip_prefix(COMMON_NAME) {
            return std::str::from_utf8(content(text)?.0).ok();
        }
        subject = rest;
    }
    None
}

/// Returns the content of the first value of DER, and the bytes after it. Names need no lengths of
/// more than two bytes.
fn content(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, from) = match *der.get(1..)? {
        [short @ 0..=0x7f, ..] => (usize::from(short), 2),
        [0x81, length, ..] => (usize::from(length), 3),
        [0x82, high, low, ..] => (usize::from(u16::from_be_bytes([high, low])), 4),
        _ => return None,
    };
    der.get(from..)?.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    fn named(alternatives: &[&str], subject: &[(DnType, &str)]) -> Result<Arc<str>> {
        let names: Vec<_> = alternatives.iter().map(|&name| name.into()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, text) in subject {
            params.distinguished_name.push(kind.clone(), *text);
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        name(certificate.der())
    }

    #[test]
    fn name_is_first_alternative_or_common_name() {
        let subject = [(DnType::OrganizationName, "\x06\x03U\x04\x03"), (DnType::CommonName, "al")];
        assert_eq!(&*named(&["a.example", "b.example"], &subject).unwrap(), "a.example");
        assert_eq!(&*named(&[], &subject).unwrap(), "al");
        let long = "x".repeat(300);
        assert_eq!(&*named(&[], &[(DnType::CommonName, &long)]).unwrap(), long);
        let said = named(&[], &subject[..1]).unwrap_err();
        assert!(matches!(said, Error::Denied(_)), "{said}");
    }

    proptest! {
        #[test]
        fn random_subject_does_not_panic(subject in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = common_name(&subject);
        }
    }
}
