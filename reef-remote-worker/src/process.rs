//! A worker's process, from its beginning to its end.

use crate::arguments::Arguments;
use crate::session::serve_connection;
use rustix::process::{Signal, getpid, getppid, kill_process, set_parent_process_death_signal};
use std::ffi::OsString;
use std::os::fd::AsFd;

/// Serves the program at the other end of the socket that is this process's standard input, and
/// ends the process.
///
/// # Errors
///
/// The arguments are wrong, or the system refuses something.
pub fn run_worker(mut args: impl Iterator<Item = OsString>) -> Result<(), String> {
    let transport = args.next().ok_or("must have tcp or unix")?;
    let Arguments { parent, driver, security } = Arguments::parse(args)?;
    // This process ends with its server.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| e.to_string())?;
    if parent != getppid().map(|parent| parent.as_raw_nonzero().get()) {
        return Ok(());
    }
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map_err(|e| e.to_string())?;
    let end = serve_connection(socket, transport == "tcp", &security, driver);
    if let (Err(error), Some(_)) = (&end, std::env::var_os("REEF_LOG")) {
        eprintln!("reef: worker: {error}");
    }
    // At once, whatever the driver's threads do: the device's memory is free then.
    let _ = kill_process(getpid(), Signal::KILL);
    Ok(())
}
