//! Command line of a worker, which the server writes and the worker reads.

use reef_remote::server::Security;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of a server or of a worker.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Arguments {
    /// Number of the process that started this one.
    pub parent: Option<i32>,
    /// The client has shown that it is one of the server's, or the server trusts all.
    pub is_trusted: bool,
    /// The process has a user of its own.
    pub has_own_user: bool,
    /// Clients without a token are accepted also where kernels reach the host's memory.
    pub allow_host_access: bool,
    /// The server keeps an account of the program's memory.
    pub has_quota: bool,
    /// Time for which the session is kept once its client's system has closed the connection.
    pub closed_timeout: Option<Duration>,
    /// Library that is the driver.
    pub driver: Option<PathBuf>,
    /// Files for connections from other machines.
    pub security: Security,
}

impl Arguments {
    /// Reads pairs of option and value.
    ///
    /// # Errors
    ///
    /// Names what cannot be read.
    pub fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut parsed = Self::default();
        while let Some(name) = args.next() {
            let name = name.to_string_lossy().into_owned();
            let value = args.next().ok_or_else(|| format!("{name}: must have a value"))?;
            let file = Some(PathBuf::from(&value));
            match &*name {
                "--trusted" => parsed.is_trusted = value == "1",
                "--allow-host-access" => parsed.allow_host_access = value == "1",
                "--own-user" => parsed.has_own_user = value == "1",
                "--closed-timeout" => {
                    let millis = value.to_str().and_then(|millis| millis.parse().ok());
                    parsed.closed_timeout = millis.map(Duration::from_millis);
                }
                "--quota" => parsed.has_quota = value == "1",
                "--driver" => parsed.driver = file,
                "--token-file" => parsed.security.token = file,
                "--cert" => parsed.security.cert = file,
                "--key" => parsed.security.key = file,
                "--parent" => parsed.parent = value.to_str().and_then(|pid| pid.parse().ok()),
                _ => return Err(format!("{name}: no such option")),
            }
        }
        Ok(parsed)
    }
}
