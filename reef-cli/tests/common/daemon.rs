//! A daemon for tests that talk to one.

use crate::common::Folder;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// A daemon that is ended when this is dropped.
pub(crate) struct Daemon(pub(crate) Child);

impl Daemon {
    /// Starts one that has the model `tiny`, with its sockets in `folder`.
    #[allow(dead_code)] // as below
    pub(crate) fn start(folder: &Folder) -> Self {
        Self::start_with(folder, &[])
    }

    /// The same, with more arguments.
    #[allow(dead_code)] // each test file uses one of them
    pub(crate) fn start_with(folder: &Folder, more: &[&str]) -> Self {
        Self::start_in(folder, more, &[])
    }

    /// The same, with these variables.
    pub(crate) fn start_in(folder: &Folder, more: &[&str], set: &[(&str, &str)]) -> Self {
        std::fs::create_dir_all(folder.path("models/tiny/1")).unwrap();
        folder.file("models/tiny/model.toml", "network = \"resnet18\"\nsize = 32\nseed = 1\n");
        let config = format!(
            "[listen]\nfolder = {:?}\n[models]\nrepository = {:?}\nload = [\"*\"]\n",
            folder.path(""),
            folder.path("models")
        );
        let mut child = Command::new(env!("CARGO_BIN_EXE_reef"))
            .args(["serve", "--config", &folder.file("reef.toml", config)])
            .args(more)
            .env("REEF_LOG", "warn")
            .envs(set.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary that this test was built with");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert!(lines.any(|line| line.unwrap() == "ready"), "it ended");
        Self(child)
    }
}

/// What the daemon in this folder says of itself.
#[allow(dead_code)] // as above
pub(crate) fn metrics(folder: &Folder) -> String {
    let mut stream = UnixStream::connect(folder.path("http.sock")).expect("it listens");
    let ask = b"GET /metrics HTTP/1.1\r\nhost: d\r\nconnection: close\r\n\r\n";
    stream.write_all(ask).expect("it reads");
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
