//! A worker's process, from its beginning to its end.

use crate::arguments::Arguments;
use crate::cage::close::close;
use crate::cage::limits::limit;
use crate::control::{self, ToWorker};
use crate::driver::Driver;
use crate::notices::Notices;
use crate::session::{Opened, Sessions, link};
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
    let parsed = Arguments::parse(args)?;
    let Arguments { parent, driver, has_quota, is_trusted, has_own_user, closed_timeout, .. } =
        parsed;
    limit(has_own_user)?;
    // This process ends with its server.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| e.to_string())?;
    if parent != getppid().map(|parent| parent.as_raw_nonzero().get()) {
        return Ok(());
    }
    Printed::begin().map_err(|e| format!("output: {e}"))?;
    let control = std::io::stdin().as_fd().try_clone_to_owned().map_err(|e| e.to_string())?;
    let last = Arc::new(control.try_clone().map_err(|e| e.to_string())?);
    let quota = Quota::new(control.try_clone().map_err(|e| e.to_string())?, has_quota);
    let notices = Notices::new(control.try_clone().map_err(|e| e.to_string())?);
    // The client has said nothing yet that this process has heard.
    let driver = Driver::open(driver.as_deref());
    close()?;
    let opened = Opened { driver, is_trusted, has_own_user, closed_timeout };
    let sessions = Arc::new(Sessions::new(opened, Some(quota.clone()), notices.clone()));
    while let Ok((message, connection)) = control::receive(&control) {
        match (message, connection) {
            (ToWorker::Arrived { hello, name, is_tcp, peer }, Some(connection)) => {
                let (sessions, last) = (sessions.clone(), last.clone());
                let serve = move || {
                    let is_new = hello.session().is_none();
                    let link = link(connection, is_tcp, peer);
                    let served = link.and_then(|link| sessions.serve(link, &hello, name));
                    if let (Err(error), Some(_)) = (&served, std::env::var_os("REEF_LOG")) {
                        eprintln!("reef: worker: {error}");
                    }
                    if is_new {
                        // The sums of the server have what the session had. If the server is gone,
                        // so is this process.
                        let _ = control::send(last.as_fd(), &sessions.status(), None);
                        end(); // the session is over
                    }
                };
                // Without a thread the connection is closed, and the client tries again.
                let _ = thread::Builder::new().name("reef-session".into()).spawn(serve);
            }
            (ToWorker::Arrived { .. }, None) => {}
            (ToWorker::Reserved(is_granted), _) => {
                quota.answer(is_granted);
            }
            (ToWorker::Noted(is_taken), _) => notices.noted(is_taken),
            (ToWorker::Ask, _) => {
                let _ = control::send(&control, &sessions.status(), None); // as below
            }
            (ToWorker::End(why), _) => sessions.end(why),
        }
    }
    end();
    Ok(())
}

/// Ends the process at once, whatever the driver's threads do: the device's memory is free then.
fn end() {
    let _ = kill_process(getpid(), Signal::KILL);
}
