//! A daemon for tests that talk to one.

use super::Folder;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The command.
const REEF: &str = env!("CARGO_BIN_EXE_reef");

/// A daemon that is ended when this is dropped.
pub(crate) struct Daemon(pub(crate) Child);

impl Daemon {
    /// Starts one that has the model `tiny`, with its sockets in `folder`.
    pub(crate) fn start(folder: &Folder) -> Self {
        Self::start_with(folder, &[])
    }

    /// Starts a daemon with more arguments.
    pub(crate) fn start_with(folder: &Folder, more: &[&str]) -> Self {
        Self::start_in(folder, more, &[])
    }

    /// Starts a daemon with more arguments and these variables.
    pub(crate) fn start_in(folder: &Folder, more: &[&str], set: &[(&str, &str)]) -> Self {
        Self::start_by(Path::new(REEF), folder, more, set)
    }

    /// Starts a daemon from another file of the command.
    pub(crate) fn start_by(
        program: &Path,
        folder: &Folder,
        more: &[&str],
        set: &[(&str, &str)],
    ) -> Self {
        Self::spawn(program, folder, more, set, Stdio::inherit())
    }

    /// Starts a daemon whose log of this level goes to the file that comes along.
    pub(crate) fn start_logged(folder: &Folder, level: &str, more: &[&str]) -> (Self, String) {
        Self::start_logged_in(folder, more, &[("REEF_LOG", level)])
    }

    /// As [`start_in`](Self::start_in), with the log in the file that comes along.
    pub(crate) fn start_logged_in(
        folder: &Folder,
        more: &[&str],
        set: &[(&str, &str)],
    ) -> (Self, String) {
        let path = folder.path("log");
        let log = std::fs::File::create(&path).unwrap();
        (Self::spawn(Path::new(REEF), folder, more, set, log.into()), path)
    }

    fn spawn(
        program: &Path,
        folder: &Folder,
        more: &[&str],
        set: &[(&str, &str)],
        log: Stdio,
    ) -> Self {
        std::fs::create_dir_all(folder.path("models/tiny/1")).unwrap();
        folder.file("models/tiny/model.toml", "network = \"resnet18\"\nsize = 32\nseed = 1\n");
        let config = format!(
            "[listen]\nfolder = {:?}\n[models]\nrepository = {:?}\nload = [\"*\"]\n",
            folder.path(""),
            folder.path("models")
        );
        let mut child = Command::new(program)
            .args(["serve", "--config", &folder.file("reef.toml", config)])
            .args(more)
            .env("REEF_LOG", "warn")
            .envs(set.iter().copied())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the binary that this test was built with");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert!(lines.any(|line| line.unwrap() == "ready"), "it ended");
        Self(child)
    }
}

/// Metrics of the daemon in this folder.
pub(crate) fn metrics(folder: &Folder) -> String {
    ask(folder, "GET /metrics", "")
}

/// Answer of the daemon to a request with this body.
pub(crate) fn ask(folder: &Folder, what: &str, body: &str) -> String {
    let mut stream = UnixStream::connect(folder.path("http.sock")).expect("it listens");
    let length = body.len();
    let ask = format!(
        "{what} HTTP/1.1\r\nhost: d\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(ask.as_bytes()).expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    text
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
