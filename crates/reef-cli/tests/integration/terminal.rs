//! `reef top` on a terminal gives it back as it was, whatever ends it.

use crate::common::{Folder, http};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
const TIMEOUT: Duration = Duration::from_secs(60);

/// `reef top` on a terminal of its own.
struct Top {
    child: Child,
    /// The process's end of the terminal; open, so that what it says can be read after its end.
    terminal: OwnedFd,
    /// Ours: what is written here are keys.
    keys: File,
    bytes: Receiver<Vec<u8>>,
    said: String,
}

impl Top {
    fn start(socket: &str) -> Self {
        let mut top = Self::begin(socket, "xterm");
        top.waits_for(ENTER);
        top.waits_for("reef top");
        assert!(!top.is_cooked(), "keys come one by one");
        top
    }

    /// Starts it on a terminal of this kind.
    fn begin(socket: &str, kind: &str) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let path = ptsname(&keys, Vec::new()).unwrap().into_string().unwrap();
        let terminal = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let end = || terminal.try_clone().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_reef"))
            .args(["top", "--socket", socket, "--interval", "50ms"])
            .env("TERM", kind)
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let keys = File::from(keys);
        let bytes = read(keys.try_clone().unwrap());
        Self { child, terminal: terminal.into(), keys, bytes, said: String::new() }
    }

    #[track_caller]
    fn waits_for(&mut self, what: &str) {
        let begin = Instant::now(); // of all of it: a screen is drawn again and again
        while !self.said.contains(what) {
            let more = self.bytes.recv_timeout(TIMEOUT.saturating_sub(begin.elapsed()));
            let more = more.unwrap_or_else(|_| panic!("no {what:?} in {:?}", self.said));
            self.said.push_str(&String::from_utf8_lossy(&more));
        }
    }

    /// Returns whether the terminal gives whole lines and echoes input.
    fn is_cooked(&self) -> bool {
        let cooked = LocalModes::ICANON | LocalModes::ECHO;
        tcgetattr(&self.terminal).unwrap().local_modes.contains(cooked)
    }

    /// Waits for its end; the terminal has to be as it was before.
    #[track_caller]
    fn ends(mut self) -> ExitStatus {
        self.waits_for(LEAVE);
        let status = self.child.wait().unwrap();
        assert!(self.is_cooked());
        while let Ok(more) = self.bytes.recv_timeout(Duration::from_millis(100)) {
            self.said.push_str(&String::from_utf8_lossy(&more));
        }
        let after = self.said.rsplit_once(ENTER).expect("it was entered").1;
        assert!(after.ends_with(LEAVE), "{after:?}");
        assert!(after.contains("\x1b[?25h"), "the cursor is there again: {after:?}");
        status
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Output of a terminal, until the test ends.
fn read(mut from: File) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count) = from.read(&mut bytes) {
            if count == 0 || sender.send(bytes[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

fn nothing(_: u64, _: &str) -> (u16, String) {
    (200, String::new())
}

#[test]
fn terminal_that_cannot_be_drawn_on_gets_lines() {
    let folder = Folder::new("top-dumb");
    let socket = folder.path("http.sock");
    http::on_socket(&socket, nothing);
    let mut top = Top::begin(&socket, "dumb");
    top.waits_for(" RT start p50 ");
    assert!(!top.said.contains('\x1b') && top.is_cooked(), "{:?}", top.said);
}

#[test]
fn signals_end_it_and_the_terminal_is_as_before() {
    let folder = Folder::new("top-signals");
    let socket = folder.path("http.sock");
    http::on_socket(&socket, nothing);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let top = Top::start(&socket);
        kill_process(Pid::from_child(&top.child), signal).unwrap();
        let status = top.ends();
        assert_eq!(status.signal(), Some(signal.as_raw()), "it died of it: {status}");
    }
}

#[test]
fn a_key_ends_it_and_the_terminal_is_as_before() {
    let folder = Folder::new("top-keys");
    let mut top = Top::start(&folder.path("no-daemon.sock"));
    top.keys.write_all(b"q").unwrap();
    let status = top.ends();
    assert!(status.success(), "{status}");
}
