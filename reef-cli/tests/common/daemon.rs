//! A daemon as a process of its own, with two small models.

use super::Folder;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A running `reef serve`, killed when this is dropped.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) folder: Folder,
    pub(crate) grpc: String,
    pub(crate) http: String,
}

impl Daemon {
    /// Starts one with `tiny` loaded, `other` not, and these flags.
    pub(crate) fn start(test: &str, flags: &[&str]) -> Self {
        let folder = Folder::new(test);
        for name in ["tiny", "other"] {
            std::fs::create_dir_all(folder.path(&format!("models/{name}/1"))).unwrap();
            let text = "network = \"resnet18\"\nsize = 32\nseed = 1\n";
            folder.file(&format!("models/{name}/model.toml"), text);
        }
        Self::start_in(folder, flags)
    }

    /// Starts one in a folder where there was one before.
    pub(crate) fn start_in(folder: Folder, flags: &[&str]) -> Self {
        let repository = folder.path("models");
        let own = folder.path("");
        let mut child = Command::new(env!("CARGO_BIN_EXE_reef"))
            .args(["serve", "--folder", &own, "--repository", &repository, "--load", "tiny"])
            .args(["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(["--set", "listen.tcp_shared_memory=true"])
            .args(flags)
            .env("REEF_LOG", "warn")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary that this test was built with");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let (mut grpc, mut http) = (String::new(), String::new());
        loop {
            let line = lines.next().expect("ready before the end").expect("text");
            match line.split_once(' ') {
                Some(("grpc", address)) => grpc = address.into(),
                Some(("http", address)) => http = address.into(),
                None if line == "ready" => break,
                _ => {}
            }
        }
        Self { child, folder, grpc, http }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name).into()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill {name} {pid}");
    }

    /// Waits for its end; panics if it takes longer than `time`.
    pub(crate) fn ends_within(&mut self, time: Duration) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < time, "still there after {time:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Bytes of memory that it has resident, and threads.
    pub(crate) fn usage(&self) -> (u64, usize) {
        let pid = self.child.id();
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let number = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)).expect(key);
            line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        (number("VmRSS:") * 1024, number("Threads:") as usize)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
