//! Ways to other servers.

use reef_wire::{Address, ClientOptions, Error, Line, TlsClient, Token};
use std::time::Duration;

/// Time within which the other server must answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which the connection to the other server is made anew.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Way to another server.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its address.
    pub address: Address,
    /// Token of the tenant that has the session there.
    pub token: Option<Token>,
    /// Authorities, for `tls:`.
    pub tls: Option<TlsClient>,
    /// Properties of an emulated line, for tests.
    pub line: Option<Line>,
}

impl Target {
    /// A server without a token.
    pub fn new(address: Address) -> Self {
        Self { address, token: None, tls: None, line: None }
    }

    /// Returns options of a client there, of this schema, with a request for a program's session.
    pub fn options(&self, schema: u64, program: &str, request: Vec<u8>) -> ClientOptions {
        let Self { address, token, tls, line } = self.clone();
        let dial = move || {
            let link = address.connect(CONNECT_TIMEOUT, tls.as_ref())?;
            match line {
                Some(line) => link.emulated(line).map_err(|e| Error::Broken(format!("line: {e}"))),
                None => Ok(link),
            }
        };
        let mut options = ClientOptions::new(schema, dial);
        (options.program, options.request) = (program.into(), request);
        (options.token, options.reconnect_timeout) = (token, RECONNECT_TIMEOUT);
        options
    }
}
