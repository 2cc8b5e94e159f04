//! TLS for TCP connections, and certificates of clients.
//!
//! One acceptor serves gRPC and HTTP alike; only the negotiated protocol differs. Unix sockets need
//! no TLS: the kernel states the peer.

use crate::config::listen;
use crate::error::{Error, Result};
use crate::net::identity::certificate::name;
use crate::net::identity::client_id::Protocol;
use crate::net::identity::principal::Principal;
use crate::net::identity::secret;
use parking_lot::RwLock;
use reef_files::MAX_PEM_BYTES;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Acceptor that turns TCP connections into TLS connections.
#[derive(Clone)]
pub(crate) struct Tls {
    acceptor: Arc<RwLock<TlsAcceptor>>,
    /// True if clients must show a certificate.
    pub(crate) mutual: bool,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("mutual", &self.mutual).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files that the configuration names; `None` if it names none.
    ///
    /// # Errors
    ///
    /// `Invalid` with key and file if one is missing or broken, or others can read the private key.
    pub(crate) fn load(config: &listen::Tls, protocol: Protocol) -> Result<Option<Self>> {
        let (Some(cert), Some(key)) = (&config.cert, &config.key) else { return Ok(None) };
        let chain = certificates("tls.cert", cert)?;
        let wrong = |why: &dyn fmt::Display| wrong("tls.key", key, why);
        secret::check(key).map_err(|why| wrong(&why))?;
        let private = reef_files::read(key, MAX_PEM_BYTES).map_err(|e| wrong(&e))?;
        let private = PrivateKeyDer::pem_slice_iter(&private).next();
        let private = private.ok_or_else(|| wrong(&"no private key (PEM) in it"))?;
        let private = private.map_err(|e| wrong(&e))?;
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider has what it defaults to");
        let builder = match &config.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(roots(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = verifier.build().map_err(|e| self::wrong("tls.client_ca", path, &e));
                builder.with_client_cert_verifier(verifier?)
            }
        };
        let mut server = builder.with_single_cert(chain, private).map_err(|e| wrong(&e))?;
        server.alpn_protocols = match protocol {
            Protocol::Grpc => vec![b"h2".to_vec()],
            Protocol::Http | Protocol::Local => vec![b"http/1.1".to_vec()],
        };
        let acceptor = Arc::new(RwLock::new(TlsAcceptor::from(Arc::new(server))));
        Ok(Some(Self { acceptor, mutual: config.client_ca.is_some() }))
    }

    /// Reads the files again, for future connections. After an error the last ones stay in use.
    ///
    /// # Errors
    ///
    /// Errors of [`load`](Self::load).
    pub(crate) fn reload(&self, config: &listen::Tls, protocol: Protocol) -> Result<()> {
        if let Some(fresh) = Self::load(config, protocol)? {
            *self.acceptor.write() = fresh.acceptor.read().clone();
        }
        Ok(())
    }

    /// Completes the handshake.
    ///
    /// # Errors
    ///
    /// `Denied` if the client does not complete it, or shows no trusted certificate.
    pub(crate) async fn accept(&self, stream: tokio::net::TcpStream) -> Result<Stream> {
        let acceptor = self.acceptor.read().clone();
        let accepted = acceptor.accept(stream).await;
        accepted.map_err(|e| Error::Denied(format!("TLS: {e}")))
    }
}

/// A connection with TLS.
pub(crate) type Stream = tokio_rustls::server::TlsStream<tokio::net::TcpStream>;

/// Returns the principal that the client's certificate names, if it has shown one.
///
/// # Errors
///
/// Errors of [`certificate::name`](name).
pub(super) fn principal(stream: &Stream) -> Result<Option<Principal>> {
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    shown.map(|certificate| Ok(Principal::Certificate(name(certificate)?))).transpose()
}

fn roots(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("tls.client_ca", path)? {
        roots.add(certificate).map_err(|e| wrong("tls.client_ca", path, &e))?;
    }
    Ok(roots)
}

fn certificates(key: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = reef_files::read(path, MAX_PEM_BYTES).map_err(|e| wrong(key, path, &e))?;
    let read = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let read = read.map_err(|e| wrong(key, path, &e))?;
    if read.is_empty() {
        return Err(wrong(key, path, &"no certificate (PEM) in it"));
    }
    Ok(read)
}

fn wrong(key: &str, path: &Path, why: &dyn fmt::Display) -> Error {
    Error::Invalid(format!("{key} {}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    #[test]
    fn tls_file_error_names_its_key() {
        let folder = std::env::temp_dir().join(format!("reef-tls-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str| folder.join(name);
        let pair = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
        let other = rcgen::KeyPair::generate().unwrap();
        for (name, text) in [
            ("cert.pem", pair.cert.pem()),
            ("key.pem", pair.signing_key.serialize_pem()),
            ("other.pem", other.serialize_pem()),
            ("broken.pem", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n".into()),
            ("empty.pem", String::new()),
        ] {
            write(file(name), text).unwrap();
            set_permissions(file(name), Permissions::from_mode(0o600)).unwrap();
        }
        let load = |cert: &str, key: &str, ca: Option<&str>| {
            let path = |name: &str| -> Option<PathBuf> { Some(file(name)) };
            let config =
                listen::Tls { cert: path(cert), key: path(key), client_ca: ca.and_then(path) };
            Tls::load(&config, Protocol::Grpc)
        };
        assert!(!load("cert.pem", "key.pem", None).unwrap().unwrap().mutual);
        assert!(load("cert.pem", "key.pem", Some("cert.pem")).unwrap().unwrap().mutual);
        assert!(Tls::load(&listen::Tls::default(), Protocol::Http).unwrap().is_none());
        for (cert, key, ca, begin, has) in [
            ("none.pem", "key.pem", None, "tls.cert ", "none.pem"),
            ("broken.pem", "key.pem", None, "tls.cert ", "broken.pem"),
            ("empty.pem", "key.pem", None, "tls.cert ", "no certificate"),
            ("cert.pem", "none.pem", None, "tls.key ", "none.pem"),
            ("cert.pem", "cert.pem", None, "tls.key ", "no private key"),
            ("cert.pem", "empty.pem", None, "tls.key ", "no private key"),
            ("cert.pem", "other.pem", None, "tls.key ", "other.pem"),
            ("cert.pem", "key.pem", Some("empty.pem"), "tls.client_ca ", "no certificate"),
        ] {
            let said = load(cert, key, ca).unwrap_err().to_string();
            assert!(said.starts_with(begin) && said.contains(has), "{said}");
        }
        set_permissions(file("key.pem"), Permissions::from_mode(0o644)).unwrap();
        let said = load("cert.pem", "key.pem", None).unwrap_err().to_string();
        assert!(
            said.contains("mode 644: other users must not be able to read or write it"),
            "{said}"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
