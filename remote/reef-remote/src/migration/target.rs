//! Ways to other servers.

use reef_wire::{Address, ClientOptions, Error, Line, Link, TlsClient, Token};
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
    /// Address of a process of this machine that connects to the server, and has its token.
    pub proxy: Option<Address>,
}

impl Target {
    /// A server without a token.
    pub fn new(address: Address) -> Self {
        Self { address, token: None, tls: None, line: None, proxy: None }
    }

    /// Connects to the server, or to the process that does.
    ///
    /// # Errors
    ///
    /// The address's and the system's.
    pub fn dial(&self) -> reef_wire::Result<Link> {
        let address = self.proxy.as_ref().unwrap_or(&self.address);
        let link = address.connect(CONNECT_TIMEOUT, self.tls.as_ref())?;
        match self.line {
            Some(line) => link.emulated(line).map_err(|e| Error::Broken(format!("line: {e}"))),
            None => Ok(link),
        }
    }

    /// Returns options of a client there, of this schema, with a request for a program's session.
    pub fn options(&self, schema: u64, program: &str, request: Vec<u8>) -> ClientOptions {
        let (token, target) = (self.token.clone(), self.clone());
        let dial = move || target.dial();
        let mut options = ClientOptions::new(schema, dial);
        (options.program, options.request) = (program.into(), request);
        (options.token, options.reconnect_timeout) = (token, RECONNECT_TIMEOUT);
        options
    }
}
