//! A daemon under systemd: it gets sockets, reports its state, and sends watchdog messages.
//!
//! A shell plays systemd: file descriptors that a process is to have at fixed numbers go through
//! its standard input and standard error.

use crate::daemon::Daemon;
use crate::{SOON, options};
use reef_serve::{Class, Client};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Starts its arguments with `first` as file descriptor 3 and `second` as 4, named so.
fn passing(names: &str, first: OwnedFd, second: OwnedFd) -> Command {
    let script = "export LISTEN_PID=$$; exec \"$@\" 3<&0 4<&2 0</dev/null 2>/dev/null";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(std::env::current_exe().unwrap());
    shell.env("LISTEN_FDS", "2").env("LISTEN_FDNAMES", names);
    shell.stdin(first).stderr(second);
    shell
}

#[test]
fn sockets_that_are_passed_are_served_and_outlive_the_daemon() {
    let folder = Daemon::place("passed");
    let path = folder.path().join("local.sock");
    let (local, http) = (UnixListener::bind(&path).unwrap(), TcpListener::bind("127.0.0.1:0"));
    let http = http.unwrap();
    let address = http.local_addr().unwrap().to_string();
    let start = |folder| {
        let passed = (local.try_clone().unwrap().into(), http.try_clone().unwrap().into());
        Daemon::start_by(passing("local:http", passed.0, passed.1), folder, &[])
    };
    let folder = (0..2).fold(folder, |folder, _| {
        let mut daemon = start(folder);
        assert_eq!(daemon.http, address, "and not what the configuration says");
        assert!(daemon.get("/v2/health/ready").starts_with("HTTP/1.1 200"));
        let mut client =
            Client::connect("tiny", &options(daemon.folder(), Some(Class::RealTime))).unwrap();
        client.infer(&vec![0.5; client.input_len()]).unwrap();
        daemon.terminate();
        assert!(daemon.ends().success());
        daemon.kill()
    });
    let left: Vec<_> = ["local.sock", "http.sock", "grpc.sock"]
        .map(|name| folder.path().join(name).exists())
        .into();
    assert_eq!(left, [true, false, false], "what was passed stays, what is its own goes");
}

/// Returns the next notice that is not a watchdog message.
fn next_notice(socket: &UnixDatagram) -> String {
    let (mut bytes, begin) = ([0; 1024], Instant::now());
    while begin.elapsed() < SOON {
        let length = socket.recv(&mut bytes).expect("told in time");
        let said = String::from_utf8_lossy(&bytes[..length]);
        if said.trim() != "WATCHDOG=1" {
            return said.trim().into();
        }
    }
    panic!("nothing but signs of life");
}

fn listens(path: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(path).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket
}

#[test]
fn the_service_manager_hears_what_the_daemon_is_at() {
    let folder = Daemon::place("notify");
    let manager = folder.path().join("notify.sock");
    let hears = listens(&manager);
    let mut command = Command::new(std::env::current_exe().unwrap());
    // Not more often: a socket may have room for 10 messages, and others are lost.
    command.env("NOTIFY_SOCKET", &manager).env("WATCHDOG_USEC", "1000000");
    let mut daemon = Daemon::start_by(command, folder, &[]);
    assert_eq!(next_notice(&hears), "READY=1");
    for _ in 0..3 {
        let mut bytes = [0; 64];
        let length = hears.recv(&mut bytes).expect("a sign of life in time");
        assert_eq!(&bytes[..length], b"WATCHDOG=1\n");
    }
    daemon.signal("HUP");
    let said = next_notice(&hears);
    let now = said.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect(&said);
    assert!(now.parse::<u64>().is_ok_and(|now| now > 0), "{said}");
    assert_eq!(next_notice(&hears), "READY=1");
    daemon.terminate();
    assert_eq!(next_notice(&hears), "STOPPING=1");
    assert!(daemon.ends().success());
}
