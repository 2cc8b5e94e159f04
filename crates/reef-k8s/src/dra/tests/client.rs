//! The client of the API server against a server with TLS.

use super::kubelet::LIMIT;
use crate::dra::api::call::{Api, Call};
use crate::dra::api::client::{Client, Server};
use crate::tests::node::FakeNode;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// Says what was asked; of `/missing` that it isn't there.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let said =
        |name: &str| request.headers().get(name).and_then(|it| it.to_str().ok()).map(str::to_owned);
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    let token = said("authorization");
    let is_missing = path == "/missing";
    let body = request.into_body().collect().await.map(|it| it.to_bytes()).unwrap_or_default();
    let body = String::from_utf8_lossy(&body).into_owned();
    let all = json!({ "method": method, "path": path, "token": token, "body": body, "message": "not here" });
    let status = if is_missing { 404 } else { 200 };
    let text = Full::new(Bytes::from(all.to_string()));
    Ok(Response::builder().status(status).body(text).expect("a status and a text"))
}

/// Serves on a port that it gives, with a certificate that it writes.
async fn serve(authority: &Path) -> u16 {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(authority, cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(answer))
                .await;
        }
    });
    port
}

#[tokio::test]
async fn call_reads_token_anew_and_checks_certificate() {
    let node = FakeNode::new();
    let at = |name: &str| node.folder.join(name);
    let port = serve(&at("ca.crt")).await;
    let server = |authority: &str, host: &str| Server {
        host: host.into(),
        port,
        authority: at(authority),
        token: at("token"),
    };
    std::fs::write(at("token"), "first\n").unwrap();
    let client = Client::new(server("ca.crt", "localhost")).unwrap();
    let object = json!({ "x": 1 });
    let put = client.call(Call::Put, "/a", Some(&object));
    let put = timeout(LIMIT, put).await.expect("an answer").unwrap().ok().unwrap();
    assert_eq!((&put["method"], &put["path"]), (&"PUT".into(), &"/a".into()));
    assert_eq!((&put["token"], &put["body"]), (&"Bearer first".into(), &"{\"x\":1}".into()));
    std::fs::write(at("token"), "second").unwrap();
    let get = timeout(LIMIT, client.call(Call::Get, "/b", None)).await.expect("an answer").unwrap();
    assert_eq!(get.ok().unwrap()["token"], "Bearer second");
    let none = timeout(LIMIT, client.call(Call::Get, "/missing", None)).await.expect("an answer");
    assert_eq!(none.unwrap().ok().unwrap_err(), "404: not here");
    serve(&at("other.crt")).await;
    let other = Client::new(server("other.crt", "localhost")).unwrap();
    let line = timeout(LIMIT, other.call(Call::Get, "/", None)).await.expect("an answer");
    let line = line.unwrap_err().to_string();
    assert!(line.starts_with("API server localhost:") && line.contains("certificate"), "{line}");
    std::fs::remove_file(at("token")).unwrap();
    let line = client.call(Call::Get, "/", None).await.unwrap_err().to_string();
    assert!(line.contains("/token: "), "{line}");
}

#[test]
fn files_that_are_no_certificates_are_refused_by_name() {
    let node = FakeNode::new();
    let authority = node.folder.join("ca.crt");
    let server = |host: &str| Server {
        host: host.into(),
        port: 443,
        authority: authority.clone(),
        token: node.folder.join("token"),
    };
    let line = || Client::new(server("localhost")).err().expect("a refusal").to_string();
    let shown = authority.display().to_string();
    assert!(line().starts_with(&shown), "{}", line());
    std::fs::write(&authority, "nothing").unwrap();
    assert_eq!(line(), format!("{shown}: no certificate in it"));
}
