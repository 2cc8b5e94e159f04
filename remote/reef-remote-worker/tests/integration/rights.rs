//! Class and part of the time of a tenant's programs, and the walls around their workers.

use crate::common::{self, SOON};
use crate::support;
use crate::tenants::{ALICE, BOB, Deaf, open, tenants};
use reef_remote::observe::Sessions;
use reef_remote_calls::{Class, Request, SCHEMA};
use reef_remote_worker::{Destination, WorkerOptions, Workers, migrate, snapshot};
use reef_wire::{Client, ClientOptions, Error, Token, codec};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// A server on which alice has 30 % of the time, and bob may be real-time.
fn serve(name: &str) -> (String, Sessions) {
    let tenants = tenants(name, "compute = \"30%\"", "rt = true");
    let sessions = Sessions::default();
    let listed = sessions.clone();
    let address = support::serve_with("127.0.0.1:0", |options| {
        (options.security.tenants, options.sessions) = (tenants, listed);
    });
    (address, sessions)
}

fn wants(class: Option<Class>) -> Vec<u8> {
    codec::write(&Request { windows: Vec::new(), is_migrated: false, class }).unwrap()
}

/// The environments of all workers, in the order of their sessions.
fn environments(sessions: &Sessions) -> Vec<BTreeMap<String, String>> {
    let read = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
        let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    sessions.list().into_iter().map(|session| read(session.facts.pid.unwrap())).collect()
}

#[test]
fn class_beyond_the_rights_is_refused() {
    let (server, sessions) = serve("class");
    let Err(Error::Refused(said)) = open(&server, ALICE, "", wants(Some(Class::RealTime))) else {
        panic!("alice is real-time")
    };
    assert_eq!(said, "tenant alice: class: must be be, got rt");
    common::until("the refusal is counted", || {
        sessions.metrics().contains("reef_remote_refused_total{reason=\"rights\"} 1")
    });
    let bob = open(&server, BOB, "", wants(Some(Class::RealTime))).unwrap();
    let of = environments(&sessions).remove(0);
    assert_eq!(of.get("REEF_CLASS").map(String::as_str), Some("rt"));
    assert!(!of.contains_key("REEF_COMPUTE") && !of.contains_key("REEF_LIMIT_ID"));
    assert_eq!(sessions.list()[0].facts.class.as_deref(), Some("rt"));
    drop(bob);
}

/// No text of a client reaches its worker's environment, and all sessions share one part.
#[test]
fn tenant_cannot_get_around_its_part() {
    let (server, sessions) = serve("around");
    let name = "x\0REEF_CLASS=rt\0REEF_COMPUTE=100%";
    let all = [
        open(&server, ALICE, name, wants(None)).unwrap(),
        open(&server, ALICE, "REEF_LIMIT_ID=mine", wants(Some(Class::BestEffort))).unwrap(),
        open(&server, ALICE, "", Vec::new()).unwrap(),
    ];
    let environments = environments(&sessions);
    assert_eq!(environments.len(), all.len());
    for of in environments {
        for (name, value) in [
            ("REEF_CLASS", "be"),
            ("REEF_COMPUTE", "30%"),
            ("REEF_COMPUTE_POLICY", "hard"),
            ("REEF_LIMIT_ID", "reef-remote alice"),
        ] {
            assert_eq!(of.get(name).map(String::as_str), Some(value), "{name}");
        }
    }
    // A request with a class that is not there, and one that is cut.
    let mut wrong = wants(Some(Class::RealTime));
    *wrong.last_mut().unwrap() = 9;
    for request in [wrong, vec![0xff]] {
        let Err(Error::Refused(said)) = open(&server, ALICE, "", request) else {
            panic!("the request cannot be read")
        };
        assert!(said.starts_with("request: "), "{said}");
    }
    drop(all);
}

/// The one worker of a server.
fn worker(sessions: &Sessions) -> u32 {
    sessions.list()[0].facts.pid.unwrap()
}

/// A line of `/proc/PID/FILE`, without its name.
fn line(pid: u32, file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).trim().to_owned()
}

/// A worker has nothing of the server's process but what it needs.
#[test]
fn worker_is_in_a_cage_before_its_client_speaks() {
    let mut pipe = [0; 2];
    // SAFETY: a place for two descriptors, which other programs inherit.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    let (server, sessions) = serve("cage");
    let client = open(&server, ALICE, "", wants(None)).unwrap();
    let pid = worker(&sessions);
    assert_eq!(line(pid, "status", "NoNewPrivs:"), "1");
    assert_eq!(line(pid, "status", "Seccomp:"), "2", "calls are filtered");
    assert!(line(pid, "limits", "Max core file size").starts_with("0 "));
    let files = line(pid, "limits", "Max open files");
    let most = files.split_whitespace().next().unwrap().parse::<u64>().unwrap();
    assert!(most <= 8192, "{files}");
    let opened = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let opened: Vec<_> = opened.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok()).collect();
    let own = std::fs::read_link(format!("/proc/self/fd/{}", pipe[0])).unwrap();
    assert!(opened.len() > 2 && !opened.contains(&own), "{own:?} in {opened:?}");
    let environment = environments(&sessions).remove(0);
    let mut foreign = environment.keys().filter(|name| name.starts_with("CARGO"));
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert_eq!(foreign.next(), None, "variables of the server alone");
    drop(client);
    // SAFETY: of this test.
    pipe.into_iter().for_each(|fd| assert_eq!(unsafe { libc::close(fd) }, 0));
}

/// A server that is root gives each session a user, which can read none of the server's files.
#[test]
fn session_has_a_user_of_its_own_where_the_server_may() {
    let options = |path: &str| {
        let mut options = WorkerOptions::new(env!("CARGO_BIN_EXE_reef-remote-worker").into());
        options.driver = Some(common::library(common::FAKE));
        options.users = Some(210_000..=210_001);
        (format!("unix:{path}").parse().unwrap(), options)
    };
    let folder = std::env::temp_dir().join(format!("reef-users-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket").display().to_string();
    let (address, with_users) = options(&path);
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        let said = Workers::bind(&address, with_users).unwrap_err().to_string();
        assert!(said.contains("worker users: the server must be root"), "{said}");
        return;
    }
    let sessions = Sessions::default();
    let with_users = {
        let mut with_users = with_users;
        with_users.sessions = sessions.clone();
        with_users
    };
    let workers = Workers::bind(&address, with_users).unwrap();
    std::thread::spawn(move || workers.run());
    let client = || {
        let address: reef_wire::Address = format!("unix:{path}").parse().unwrap();
        let options = ClientOptions::new(SCHEMA, move || address.connect(SOON, None));
        Client::open(options, Box::new(Deaf))
    };
    let [first, second] = [client().unwrap(), client().unwrap()];
    let users = || -> Vec<String> {
        let pids = sessions.list().into_iter().map(|session| session.facts.pid.unwrap());
        pids.map(|pid| line(pid, "status", "Uid:")).collect()
    };
    assert_eq!(users(), ["210000\t210000\t210000\t210000", "210001\t210001\t210001\t210001"]);
    let pid = worker(&sessions);
    let stays = "its worker has a user of its own, 210000, so it does not move and is not written";
    let expected = Err(format!("session {pid}: {stays}"));
    assert_eq!(migrate(pid, &Destination::new(&format!("unix:{path}"))).map(drop), expected);
    assert_eq!(snapshot(pid, &folder.join("saved"), true).map(drop), expected);
    let said = sessions.migration(sessions.list()[0].id).map(drop).unwrap_err();
    assert!(said.ends_with(&format!("must be named by its worker, {pid}")), "{said}");
    let commands = std::env::temp_dir().join(format!("reef-remote-210000/{pid}.sock"));
    assert!(!commands.exists(), "nothing of it stays for the next session with this user");
    assert_eq!(line(pid, "status", "Groups:"), "", "no group of the server's");
    let bound = line(pid, "limits", "Max processes");
    assert!(bound.starts_with("4096 "), "{bound}");
    let Err(Error::Refused(said)) = client() else { panic!("a third user") };
    assert_eq!(said, "all users of workers have sessions");
    drop(first);
    common::until("a user is free", || client().is_ok());
    drop(second);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// An unauthenticated peer has no session if kernels reach all memory of their process.
#[test]
fn unauthenticated_peer_is_refused_where_kernels_reach_host() {
    let token = std::env::temp_dir().join(format!("reef-host-token-{}", std::process::id()));
    std::fs::write(&token, ALICE).unwrap();
    let driver = common::library(common::FAKE);
    let code = |args: &[&str], pageable: &str, address: &str, token: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reef-remote-worker"));
        command.args(["serve", address, "--driver", driver.to_str().unwrap()]).args(args);
        command.env("REEF_FAKE_PAGEABLE", pageable).stdout(Stdio::piped());
        let mut server = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let address = said.trim().strip_prefix("listening on ").unwrap().to_owned();
        let address: reef_wire::Address = address.parse().unwrap();
        let mut options = ClientOptions::new(SCHEMA, move || address.connect(SOON, None));
        options.token = token.map(|token| Token::new(token.as_bytes()));
        let opened = Client::open(options, Box::new(Deaf)).map(drop).map_err(|e| e.to_string());
        server.kill().unwrap();
        server.wait().unwrap();
        opened
    };
    let tcp = "127.0.0.1:0";
    let said = code(&[], "1", tcp, None).unwrap_err();
    assert!(said.contains("reach all memory of the server's process"), "{said}");
    assert_eq!(code(&[], "0", tcp, None), Ok(()));
    assert_eq!(code(&["--allow-host-access", "1"], "1", tcp, None), Ok(()));
    let with_token = ["--token-file", token.to_str().unwrap()];
    assert_eq!(code(&with_token, "1", tcp, Some(ALICE)), Ok(()));
    assert_eq!(code(&[], "1", &support::socket("host"), None), Ok(()), "it is of this user");
    std::fs::remove_file(token).unwrap();
}
