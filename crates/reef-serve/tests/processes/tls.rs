//! TLS over TCP, and certificates of clients.

use crate::Folder;
use crate::daemon::Daemon;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};

/// Writes a file that only its owner can read.
fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// An authority `NAME-ca.pem`, and a certificate of it for localhost with its key.
fn certify(folder: &Path, name: &str) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    write(folder, &format!("{name}-ca.pem"), &authority.pem());
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    write(folder, &format!("{name}.pem"), &certificate.pem());
    write(folder, &format!("{name}-key.pem"), &key.serialize_pem());
}

/// Returns the daemon's answer to GET over TLS. `name` is that of the client's certificate.
fn get(daemon: &Daemon, files: &Path, name: Option<&str>) -> Result<String, std::io::Error> {
    let mut roots = RootCertStore::empty();
    let pem = |name: String| CertificateDer::from_pem_file(files.join(name)).unwrap();
    roots.add(pem("daemon-ca.pem".into())).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match name {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let key = PrivateKeyDer::from_pem_file(files.join(format!("{name}-key.pem"))).unwrap();
            builder.with_client_auth_cert(vec![pem(format!("{name}.pem"))], key).unwrap()
        }
    };
    let mut tls = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut tcp = TcpStream::connect(&daemon.http).unwrap();
    let mut stream = Stream::new(&mut tls, &mut tcp);
    stream.write_all(b"GET /v2 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn flags(files: &Path, client_ca: Option<&str>) -> Vec<String> {
    let path = |name: &str| files.join(name).display().to_string();
    let mut flags = vec![
        format!("tls.cert={}", path("daemon.pem")),
        format!("tls.key={}", path("daemon-key.pem")),
    ];
    flags.extend(client_ca.map(|name| format!("tls.client_ca={}", path(name))));
    flags
}

fn daemon(test: &str, files: &Folder, client_ca: Option<&str>) -> Daemon {
    let flags = flags(files.path(), client_ca);
    Daemon::start(test, &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn tcp_is_encrypted_and_unix_sockets_stay_as_they_are() {
    let files = Folder::new("tls-files");
    certify(files.path(), "daemon");
    let daemon = daemon("tls", &files, None);
    let said = get(&daemon, files.path(), None).unwrap();
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("\"reef\""), "{said}");
    assert!(!daemon.get("/v2").starts_with("HTTP/1.1"), "nothing goes in the clear");
    let mut unix =
        std::os::unix::net::UnixStream::connect(daemon.folder().join("http.sock")).unwrap();
    unix.write_all(b"GET /v2 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut said = String::new();
    unix.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

/// They take no time of the threads that serve others.
#[test]
fn handshakes_have_a_thread_of_their_own() {
    let files = Folder::new("tls-thread-files");
    certify(files.path(), "daemon");
    let daemon = daemon("tls-thread", &files, None);
    let said = get(&daemon, files.path(), None).unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    let threads = std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
    let name = |thread: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(thread.ok()?.path().join("comm")).ok()
    };
    let names: Vec<String> = threads.filter_map(name).collect();
    assert!(names.iter().any(|name| name.trim() == "reef-tls"), "{names:?}");
}

#[test]
fn clients_without_a_certificate_of_the_authority_stay_outside() {
    let files = Folder::new("mtls-files");
    for name in ["daemon", "client", "outsider"] {
        certify(files.path(), name);
    }
    let daemon = daemon("mtls", &files, Some("client-ca.pem"));
    let said = get(&daemon, files.path(), Some("client")).unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    for name in [None, Some("outsider")] {
        let said = get(&daemon, files.path(), name);
        assert!(said.as_ref().map_or(true, String::is_empty), "{name:?}: {said:?}");
    }
    let said = get(&daemon, files.path(), Some("client")).unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "and the daemon is as it was: {said}");
}

/// gRPC over TLS, by a client that knows the authority.
#[test]
fn grpc_is_spoken_over_tls() {
    let files = Folder::new("tls-grpc-files");
    certify(files.path(), "daemon");
    let daemon = daemon("tls-grpc", &files, None);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(files.path().join("daemon-ca.pem")).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut tls = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut tcp = TcpStream::connect(&daemon.grpc).unwrap();
    let mut stream = Stream::new(&mut tls, &mut tcp);
    // The preface and empty settings: a server of HTTP/2 answers with its own, a frame of type 4.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).unwrap();
    assert_eq!(frame[3], 4, "{frame:?}");
    assert_eq!(tls.alpn_protocol(), Some(&b"h2"[..]));
}
