//! The API server over HTTP/1 and TLS, with the token of a service account.

use super::call::{Api, Call, Reply};
use crate::error::{Error, Result};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Longest time of a call: a kubelet waits for 45 s. In tests, also on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 10 });
/// The longest object; the API server stores none above 1.5 MiB.
const MAX_BYTES: usize = 4 << 20;

type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Address of the API server, and the files that identify both sides.
#[derive(Clone, Debug)]
pub struct Server {
    /// A name or an address, as its certificate has it.
    pub host: String,
    /// A port.
    pub port: u16,
    /// Certificates of the authorities that may have signed the server's certificate, in PEM.
    pub authority: PathBuf,
    /// A file with the token, read for each call because it is replaced every hour.
    pub token: PathBuf,
}

/// A connection for each call: there is one a minute, and one for each new claim.
pub(in crate::dra) struct Client {
    server: Server,
    name: ServerName<'static>,
    tls: TlsConnector,
}

impl Client {
    /// # Errors
    ///
    /// `Refused`: the certificates can't be read, or the host isn't one.
    pub(in crate::dra) fn new(server: Server) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&server.authority)? {
            roots.add(certificate).map_err(|error| refused(&server.authority, &error))?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has what it defaults to")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let host = server.host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host);
        let name = name.map_err(|_| Error::Refused(format!("{:?} isn't a host", server.host)))?;
        Ok(Self { server, name, tls: TlsConnector::from(Arc::new(config)) })
    }

    async fn connect(&self) -> std::result::Result<TlsStream<TcpStream>, Problem> {
        let host = self.server.host.trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, self.server.port)).await?;
        Ok(self.tls.connect(self.name.clone(), stream).await?)
    }

    async fn exchange(
        &self,
        call: Call,
        path: &str,
        body: Option<&Value>,
    ) -> std::result::Result<Reply, Problem> {
        let request = self.request(call, path, body)?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(self.connect().await?)).await?;
        let connection = tokio::spawn(connection);
        let answer = sender.send_request(request).await?;
        let status = answer.status().as_u16();
        let bytes = Limited::new(answer.into_body(), MAX_BYTES).collect().await?.to_bytes();
        connection.abort();
        // An answer that isn't JSON comes from something in between, and its status says enough.
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Reply { status, body })
    }

    fn request(
        &self,
        call: Call,
        path: &str,
        body: Option<&Value>,
    ) -> std::result::Result<Request<Full<Bytes>>, Problem> {
        let token = reef_files::read_to_string(&self.server.token, reef_files::MAX_TOKEN_BYTES);
        let token = token.map_err(|error| Error::of(&self.server.token, &error))?;
        let method = match call {
            Call::Get => Method::GET,
            Call::Post => Method::POST,
            Call::Put => Method::PUT,
        };
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, format!("{}:{}", self.server.host, self.server.port))
            .header(AUTHORIZATION, format!("Bearer {}", token.trim()))
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json");
        Ok(request.body(Full::new(body))?)
    }
}

#[tonic::async_trait]
impl Api for Client {
    async fn call(&self, call: Call, path: &str, body: Option<&Value>) -> Result<Reply> {
        let Server { host, port, .. } = &self.server;
        let failed =
            |why: &dyn std::fmt::Display| Error::Failed(format!("API server {host}:{port}: {why}"));
        match timeout(TIMEOUT, self.exchange(call, path, body)).await {
            Ok(reply) => reply.map_err(|error| failed(&error)),
            Err(_) => Err(failed(&format!("no answer within {TIMEOUT:?}"))),
        }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = reef_files::read(path, reef_files::MAX_PEM_BYTES);
    let text = text.map_err(|error| refused(path, &error))?;
    let read = CertificateDer::pem_slice_iter(&text).collect::<std::result::Result<Vec<_>, _>>();
    let read = read.map_err(|error| refused(path, &error))?;
    if read.is_empty() {
        return Err(refused(path, &"no certificate in it"));
    }
    Ok(read)
}

fn refused(path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::Refused(format!("{}: {why}", path.display()))
}
