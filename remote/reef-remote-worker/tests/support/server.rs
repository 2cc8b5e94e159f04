//! Servers in processes of their own, and programs at them.

use crate::alone::wait_for_turn;
use crate::common::{self, Driver, FAKE, call, library, until};
use crate::support::{client, socket};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::MutexGuard;

/// A server in a process of its own.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(name: &str) -> Self {
        Self::start_with(name, &[])
    }

    /// As [`start`](Self::start), for clients whose connections are closed: on a busy machine they
    /// may come back late.
    #[allow(dead_code)] // not all tests need it
    pub(crate) fn start_torn(name: &str) -> Self {
        Self::start_with(name, &["--closed-timeout", "60000"])
    }

    fn start_with(name: &str, more: &[&str]) -> Self {
        let address = socket(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_reef-remote-worker"));
        let driver = library(FAKE);
        command.args(["serve", &address, "--driver", driver.to_str().unwrap()]).args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "{line}");
        Self { child, address }
    }

    /// Processes that it has started.
    pub(crate) fn workers(&self) -> Vec<u32> {
        let mut all = Vec::new();
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{}/task", self.child.id())) else {
            return all;
        };
        for task in tasks.flatten() {
            let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(text.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        all
    }

    /// The one worker that it has.
    pub(crate) fn worker(&self) -> u32 {
        let mut one = None;
        until("it has one worker", || {
            one = <[u32; 1]>::try_from(self.workers()).ok();
            one.is_some()
        });
        one.expect("it was just there")[0]
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Folder of the workers' sockets.
pub(crate) fn prepare() -> MutexGuard<'static, ()> {
    let one = wait_for_turn();
    let folder = std::env::temp_dir().join(format!("reef-migration-{}", std::process::id()));
    // SAFETY: other threads read it only while they hold the lock.
    unsafe { std::env::set_var("REEF_REMOTE_FOLDER", folder) };
    one
}

#[allow(dead_code)] // not all tests need it
pub(crate) fn open(name: &str, address: &str) -> Driver {
    open_with(name, address, "0")
}

/// A program at a server, whose repeated calls are replayed if `replay` is 1.
pub(crate) fn open_with(name: &str, address: &str, replay: &str) -> Driver {
    let driver = client(name);
    // SAFETY: the test holds the lock of `prepare`, and other threads read variables only while
    // they hold it.
    unsafe {
        std::env::set_var("REEF_REMOTE", address);
        std::env::set_var("REEF_REMOTE_REPLAY", replay);
    }
    assert_eq!(call!(driver, cuInit(0)), 0);
    driver
}
