//! A worker's process, from its beginning to its end.

use crate::arguments::Arguments;
use crate::control::{self, FromWorker, ToWorker};
use crate::notices::Notices;
use crate::session::Sessions;
use crate::state::printed::Printed;
use crate::state::quota::Quota;
use rustix::process::{Signal, getpid, getppid, kill_process, set_parent_process_death_signal};
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;

/// Serves one program. The socket to the server is this process's standard input; the program's
/// connections come by it. Ends the process.
///
/// # Errors
///
/// The arguments are wrong, or the system refuses something.
pub fn run_worker(args: impl Iterator<Item = OsString>) -> Result<(), String> {
    let Arguments { parent, driver, has_quota, .. } = Arguments::parse(args)?;
    // This process ends with its server.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| e.to_string())?;
    if parent != getppid().map(|parent| parent.as_raw_nonzero().get()) {
        return Ok(());
    }
    Printed::begin().map_err(|e| format!("output: {e}"))?;
    let control = std::io::stdin().as_fd().try_clone_to_owned().map_err(|e| e.to_string())?;
    let quota = if has_quota {
        Some(Quota::new(control.try_clone().map_err(|e| e.to_string())?))
    } else {
        None
    };
    let notices = Notices::new(control.try_clone().map_err(|e| e.to_string())?);
    let sessions = Arc::new(Sessions::new(driver, quota.clone(), notices.clone()));
    while let Ok((message, connection)) = control::receive(&control) {
        match (message, connection) {
            (ToWorker::Arrived { hello, name, is_tcp }, Some(connection)) => {
                let sessions = sessions.clone();
                let serve = move || {
                    let is_new = hello.session().is_none();
                    let served = sessions.serve(connection, is_tcp, &hello, name);
                    if let (Err(error), Some(_)) = (&served, std::env::var_os("REEF_LOG")) {
                        eprintln!("reef: worker: {error}");
                    }
                    if is_new {
                        end(); // the session is over
                    }
                };
                // Without a thread the connection is closed, and the client tries again.
                let _ = thread::Builder::new().name("reef-session".into()).spawn(serve);
            }
            (ToWorker::Arrived { .. }, None) => {}
            (ToWorker::Reserved(is_granted), _) => {
                quota.iter().for_each(|quota| quota.answer(is_granted));
            }
            (ToWorker::Noted, _) => notices.noted(),
            (ToWorker::Ask, _) => {
                let status = FromWorker::Status(sessions.traffic());
                let _ = control::send(&control, &status, None); // the server is gone: so is this
            }
        }
    }
    end();
    Ok(())
}

/// Ends the process at once, whatever the driver's threads do: the device's memory is free then.
fn end() {
    let _ = kill_process(getpid(), Signal::KILL);
}
