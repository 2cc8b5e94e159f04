//! Running the command, and folders for its files.

#![allow(dead_code)] // each test file uses some of it

#[cfg(feature = "daemon")]
pub(crate) mod daemon;
#[cfg(feature = "daemon")]
pub(crate) mod driver;
pub(crate) mod http;

use std::path::PathBuf;
use std::process::{Command, Output};

pub(crate) fn reef(args: &[&str]) -> Output {
    let reef = env!("CARGO_BIN_EXE_reef");
    Command::new(reef).args(args).output().expect("the binary that this test was built with")
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// Runs a command that must succeed and say nothing on stderr; returns what it printed.
#[track_caller]
pub(crate) fn prints(args: &[&str]) -> String {
    let output = reef(args);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{args:?}");
    text(&output.stdout).into()
}

/// Runs a command that must succeed, whatever it says of its progress; returns what it printed.
#[track_caller]
pub(crate) fn says(args: &[&str]) -> String {
    let output = reef(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout).into()
}

/// Runs a command that must refuse its input in one line; returns the line without `reef: `.
#[track_caller]
pub(crate) fn refuses(args: &[&str]) -> String {
    let output = reef(args);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    stderr.trim_end().strip_prefix("reef: ").unwrap_or_else(|| panic!("{stderr}")).into()
}

/// Reads what a command printed for programs.
#[track_caller]
pub(crate) fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("JSON")
}

/// An empty folder for one test, removed in the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("reef-cli-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o700); // whatever the umask is
        std::fs::set_permissions(&path, own).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").into()
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // it lies in the system's temporary folder
    }
}
