//! Unix sockets by path: which one it is that stands there, what comes in, and how one is called.

use crate::error::{Error, Result};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::Stream;
use tonic::transport::{Channel, Endpoint};

/// Longest time of an answer: a kubelet calls the plugin back before it answers. In tests, also on
/// a busy machine.
const TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 15 });

/// Identity of the file at a path. It includes the time because inode numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    number: u64,
    made: (i64, i64),
}

/// `None`: there is no file.
pub(crate) fn identity(path: &Path) -> Option<Identity> {
    let found = std::fs::symlink_metadata(path).ok()?;
    let made = (found.mtime(), found.mtime_nsec());
    Some(Identity { device: found.dev(), number: found.ino(), made })
}

/// A socket at a path, which it leaves when it is dropped if it is still its own.
#[derive(Debug)]
pub(crate) struct OwnSocket {
    path: PathBuf,
    identity: Option<Identity>,
}

/// State of a socket that this process made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Kept,
    /// Removed, as the kubelet does when it starts.
    Gone,
    /// Another plugin's stands there.
    Taken,
}

impl OwnSocket {
    /// Listens at `path`, in the place of a socket that stood there, another plugin's too.
    pub(crate) fn bind(path: &Path) -> Result<(Self, Incoming)> {
        // The kubelet takes each socket in a folder that it watches for a plugin's, but for names
        // with a dot in front.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let new = path.with_file_name(format!(".{}.{name}", std::process::id()));
        reef_files::clear(&new).map_err(|error| Error::of(&new, &error))?; // of one that was killed
        check_free(path)?;
        let listener = UnixListener::bind(&new).map_err(|error| Error::of(&new, &error))?;
        let own = Self { path: path.to_owned(), identity: identity(&new) };
        std::fs::rename(&new, path).map_err(|error| Error::of(path, &error))?;
        Ok((own, Incoming(listener)))
    }

    pub(crate) fn fate(&self) -> Fate {
        match identity(&self.path) {
            None => Fate::Gone,
            found if found == self.identity => Fate::Kept,
            Some(_) => Fate::Taken,
        }
    }
}

/// Refuses a path at which another file than a socket stands.
fn check_free(path: &Path) -> Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            let what = if found.is_dir() { "a folder" } else { "another file" };
            Err(Error::Refused(format!(
                "{}: must be absent or a socket, got {what}",
                path.display()
            )))
        }
        _ => Ok(()), // what cannot be looked at cannot be replaced either
    }
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        if self.fate() == Fate::Kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Connections as they come.
#[derive(Debug)]
pub(crate) struct Incoming(UnixListener);

impl Stream for Incoming {
    type Item = io::Result<UnixStream>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let come = ready!(self.0.poll_accept(context));
        Poll::Ready(Some(come.map(|(stream, _)| stream)))
    }
}

/// A connection to a Unix socket.
pub(crate) async fn connect(path: &Path) -> Result<Channel> {
    let failed = |error: &dyn std::error::Error| {
        Error::Failed(format!(
            "{}: {}",
            path.display(),
            error.source().map_or(error.to_string(), ToString::to_string)
        ))
    };
    let endpoint = Endpoint::from_shared(format!("unix:{}", path.display()));
    let endpoint = endpoint.map_err(|error| failed(&error))?.timeout(TIMEOUT);
    endpoint.connect().await.map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn socket_of_another_plugin_is_replaced_but_no_other_file() {
        let folder = std::env::temp_dir().join(format!("reef-k8s-socket-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x.sock");
        std::fs::write(&path, "precious").unwrap();
        let error = OwnSocket::bind(&path).unwrap_err().to_string();
        assert!(error.ends_with("x.sock: must be absent or a socket, got another file"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::fs::remove_file(&path).unwrap();
        let (first, _incoming) = OwnSocket::bind(&path).unwrap();
        let (second, _connections) = OwnSocket::bind(&path).unwrap();
        assert_eq!((first.fate(), second.fate()), (Fate::Taken, Fate::Kept));
        drop((first, second));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir(&folder).unwrap();
    }
}
