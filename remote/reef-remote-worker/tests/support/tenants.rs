//! Tenants of a server, and clients that show their tokens.

use crate::common::SOON;
use reef_remote::server::Tenants;
use reef_remote_calls::SCHEMA;
use reef_wire::{Address, Client, ClientOptions, Endpoint, Handler, Message, Token};

pub(crate) const ALICE: &str = "the token of alice";
pub(crate) const BOB: &str = "the token of bob, another one";

/// Receiver of messages that does nothing.
pub(crate) struct Deaf;

impl Handler for Deaf {
    fn handle(&mut self, _: &Message<'_>, _: &Endpoint) -> reef_wire::Result<()> {
        Ok(())
    }
}

/// Alice and bob, with these lines of rights.
pub(crate) fn tenants(name: &str, alice: &str, bob: &str) -> Tenants {
    let folder = std::env::temp_dir().join(format!("reef-rights-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut rights = String::new();
    for (tenant, token, lines) in [("alice", ALICE, alice), ("bob", BOB, bob)] {
        std::fs::write(folder.join(tenant), token).unwrap();
        rights += &format!("[rights.\"token {tenant}\"]\ntoken_file = \"{tenant}\"\n{lines}\n");
    }
    std::fs::write(folder.join("rights"), rights).unwrap();
    let tenants = Tenants::read(&folder.join("rights")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    tenants
}

/// A session of a tenant at a server, for a program with a request.
pub(crate) fn open(
    server: &str,
    token: &str,
    program: &str,
    request: Vec<u8>,
) -> reef_wire::Result<Client> {
    let address: Address = server.parse().unwrap();
    let mut options = ClientOptions::new(SCHEMA, move || address.connect(SOON, None));
    options.token = Some(Token::new(token.as_bytes()));
    (options.program, options.request) = (program.into(), request);
    Client::open(options, Box::new(Deaf))
}
