//! Questions to the daemon, over HTTP at its socket.

use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Longest time of an answer; in tests, also on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 2 });
/// Most bytes of an answer.
const MAX_BYTES: usize = 4 << 20;

type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Asks the daemon of this folder for the text at `path`.
///
/// # Errors
///
/// No answer in time, or one that isn't a text or not of success.
pub(crate) async fn get(folder: &Path, path: &str) -> Result<String, String> {
    match timeout(TIMEOUT, exchange(folder, path)).await {
        Ok(answer) => answer.map_err(|error| format!("the daemon's {path}: {error}")),
        Err(_) => Err(format!("the daemon's {path}: no answer within {TIMEOUT:?}")),
    }
}

async fn exchange(folder: &Path, path: &str) -> Result<String, Problem> {
    let stream = UnixStream::connect(folder.join("http.sock")).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let _connection = Connection(tokio::spawn(async { drop(connection.await) }));
    let request = Request::get(path).header(HOST, "localhost");
    let answer = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
    let status = answer.status();
    if !status.is_success() {
        return Err(status.to_string().into());
    }
    let bytes = Limited::new(answer.into_body(), MAX_BYTES).collect().await?.to_bytes();
    Ok(String::from_utf8(bytes.into())?)
}

/// The task of a connection, which ends with this: a daemon that doesn't answer leaves none behind.
struct Connection(tokio::task::JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}
