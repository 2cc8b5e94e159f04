//! Class and part of the time of a tenant's programs.

use crate::common::{self, SOON};
use crate::support;
use reef_remote::observe::Sessions;
use reef_remote::server::Tenants;
use reef_remote_calls::{Class, Request, SCHEMA};
use reef_wire::{Client, ClientOptions, Endpoint, Error, Handler, Message, Token, codec};
use std::collections::BTreeMap;

const ALICE: &str = "the token of alice";
const BOB: &str = "the token of bob, another one";

/// Receiver of messages that does nothing.
struct Deaf;

impl Handler for Deaf {
    fn handle(&mut self, _: &Message<'_>, _: &Endpoint) -> reef_wire::Result<()> {
        Ok(())
    }
}

/// A server on which alice has 30 % of the time, and bob may be real-time.
fn serve(name: &str) -> (String, Sessions) {
    let folder = std::env::temp_dir().join(format!("reef-rights-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("alice"), ALICE).unwrap();
    std::fs::write(folder.join("bob"), BOB).unwrap();
    let rights = "[rights.\"token alice\"]\ntoken_file = \"alice\"\ncompute = \"30%\"\n\
                  [rights.\"token bob\"]\ntoken_file = \"bob\"\nrt = true\n";
    std::fs::write(folder.join("rights"), rights).unwrap();
    let tenants = Tenants::read(&folder.join("rights")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let sessions = Sessions::default();
    let listed = sessions.clone();
    let address = support::serve_with("127.0.0.1:0", |options| {
        (options.security.tenants, options.sessions) = (tenants, listed);
    });
    (address, sessions)
}

fn open(server: &str, token: &str, program: &str, request: Vec<u8>) -> reef_wire::Result<Client> {
    let address: reef_wire::Address = server.parse().unwrap();
    let mut options = ClientOptions::new(SCHEMA, move || address.connect(SOON, None));
    options.token = Some(Token::new(token.as_bytes()));
    (options.program, options.request) = (program.into(), request);
    Client::open(options, Box::new(Deaf))
}

fn wants(class: Option<Class>) -> Vec<u8> {
    codec::write(&Request { windows: Vec::new(), is_carried: false, class }).unwrap()
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
