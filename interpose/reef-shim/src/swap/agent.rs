//! Threads of a swappable program: one serves requests and has none of the program's files, one
//! makes the driver's calls.

use super::moves::{Swapped, leave};
use crate::driver::pause_gate;
use crate::explain;
use crate::settings::settings;
use crate::thread;
use reef_guest::swap::{HidingCaller, Listener, Moved, ON_DEVICE, Request, WaitingCaller};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Once};
use std::time::Duration;

/// Interval between polls of the caller whose request is under way.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A request.
struct Task {
    request: Request,
    /// True as long as a return waits for room. Written by the thread of the socket.
    waits: Arc<AtomicBool>,
    answer: Sender<Result<Moved, String>>,
}

/// Serves requests from now on, if the program is swappable.
pub(crate) fn start() {
    static STARTED: Once = Once::new();
    if settings().is_swappable {
        STARTED.call_once(|| {
            // SAFETY: a function that touches an atomic alone.
            unsafe { libc::pthread_atfork(None, None, Some(pause_gate::in_child)) };
            let (ask, asked) = channel();
            let started = thread::spawn("reef-swap", move || move_all(&asked)).and_then(|_| {
                thread::spawn("reef-swap-socket", move || {
                    thread::leave_files();
                    serve(&ask);
                })
            });
            if let Err(error) = started {
                explain::refuse::<()>(&format!("REEF_SWAPPABLE: {error}"));
            }
        });
    }
}

fn serve(ask: &Sender<Task>) {
    loop {
        let listener = match Listener::open() {
            Ok(listener) => listener,
            Err(error) => {
                explain::refuse::<()>(&format!("REEF_SWAPPABLE: {error}"));
                return;
            }
        };
        let caller = serve_until_hidden(&listener, ask);
        if listener.hide(caller).unwrap_or(false) {
            thread::leave_files(); // this process runs again from a folder
        }
    }
}

/// Serves requests until the socket has to close.
fn serve_until_hidden(listener: &Listener, ask: &Sender<Task>) -> HidingCaller {
    loop {
        let run = |request: Request, caller: &WaitingCaller<'_>| -> Result<Moved, String> {
            let (answer, answered) = channel();
            let gone = || "the thread that moves memory has ended".to_owned();
            let waits = Arc::new(AtomicBool::new(request == Request::InWithRoom));
            let task = Task { request, waits: waits.clone(), answer };
            ask.send(task).map_err(|_| gone())?;
            loop {
                match answered.recv_timeout(POLL_INTERVAL) {
                    Ok(moved) => return moved,
                    Err(RecvTimeoutError::Disconnected) => return Err(gone()),
                    Err(RecvTimeoutError::Timeout) if caller.has_ended() => {
                        waits.store(false, Relaxed);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
        };
        match listener.serve(run) {
            Ok(Some(caller)) => return caller,
            Ok(None) => {}
            // A caller that left.
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    }
}

fn move_all(asked: &Receiver<Task>) {
    let mut swapped: Option<Swapped> = None;
    while let Ok(Task { request, waits, answer }) = asked.recv() {
        let moved = match (request, swapped.take()) {
            (Request::Out(_), Some(there)) => {
                swapped = Some(there);
                Err("its memory is off the device already".into())
            }
            (Request::Out(timeout), None) => leave(timeout).map(|(there, moved)| {
                swapped = Some(there);
                moved
            }),
            (Request::In | Request::InWithRoom, None) => Err(ON_DEVICE.into()),
            (Request::In | Request::InWithRoom, Some(there)) => {
                there.come_back(&|| waits.load(Relaxed)).map_err(|(there, why)| {
                    swapped = Some(*there);
                    why
                })
            }
        };
        let _ = answer.send(moved); // the asker may have left
    }
}
