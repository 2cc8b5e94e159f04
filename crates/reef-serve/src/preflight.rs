//! `--check`: every step of a start before the first client, without listening.

use crate::config::settings::Config;
use crate::error::{Error, Result};
use crate::net::access::Access;
use crate::net::folder::{check_own, folder};
use crate::net::identity::auth::Tokens;
use crate::net::identity::client_id::Protocol;
use crate::net::tls::Tls;
use crate::server::Server;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;

/// Performs the checks of a start: token files, certificates, the group of the sockets, their
/// folder, ports, the device, and that the models load.
///
/// # Errors
///
/// Any error that would keep the daemon from starting.
pub fn check(config: &Config) -> Result<()> {
    config.check()?;
    Tokens::read(config)?;
    Tls::load(&config.tls, Protocol::Grpc)?;
    Access::new(&config.listen.users)?;
    check_folder(config)?;
    for address in [config.listen.grpc, config.listen.http].into_iter().flatten() {
        TcpListener::bind(address).map_err(|e| Error::system(&address.to_string(), e))?;
    }
    Server::open(config.clone())?.registry.clear();
    Ok(())
}

fn check_folder(config: &Config) -> Result<()> {
    let folder = folder(config.listen.folder.as_deref());
    if !folder.exists() {
        return Ok(()); // a start makes it
    }
    check_own(&folder)?;
    let local = folder.join("local.sock");
    match UnixStream::connect(&local) {
        Ok(_) => Err(Error::Exists(format!("{}: another daemon listens there", local.display()))),
        Err(_) => Ok(()),
    }
}
