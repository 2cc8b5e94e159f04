//! Work on a thread of its own, whose panic is an error, and which is left behind if it never ends.

use crate::error::{Error, Result};
use std::any::Any;
use std::sync::mpsc::{RecvTimeoutError, SendError, sync_channel};
use std::thread;
use std::time::Duration;

/// Stack size of such a thread.
const STACK_BYTES: usize = 8 << 20;

/// Interval at which a caller polls whether to wait on.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs `work` on a thread called `name`, so that neither its stack use nor its panic harms the
/// caller. Blocks, unless `abandons` returns an error: then the thread is left behind, and what it
/// makes later is passed to `discard`.
///
/// # Errors
///
/// Errors of `work` and of `abandons`; `Failed` if it panics, or no thread can be started.
pub(in crate::models) fn run_on_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
    discard: impl FnOnce(T) + Send + 'static,
    mut abandons: impl FnMut() -> Option<Error>,
) -> Result<T> {
    let (sender, done) = sync_channel(0); // what is not received comes back to the sender
    let run = move || {
        if let Err(SendError(Ok(late))) = sender.send(work()) {
            discard(late);
        }
    };
    let thread = thread::Builder::new().name(name.into()).stack_size(STACK_BYTES).spawn(run);
    let thread = thread.map_err(|e| Error::system("cannot start a thread to load on", e))?;
    loop {
        match done.recv_timeout(POLL_INTERVAL) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) => {
                if let Some(why) = abandons() {
                    return Err(why);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                let panic = thread.join().expect_err("it has sent nothing");
                return Err(panicked(&*panic));
            }
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown reason");
    Error::Failed(format!("loading panicked: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn panic_is_returned_as_an_error() {
        let said = run_on_thread("test", || -> Result<()> { panic!("no {}", 7) }, drop, || None);
        assert_eq!(said, Err(Error::Failed("loading panicked: no 7".into())));
        assert_eq!(run_on_thread("test", || Ok(7), drop, || None), Ok(7));
    }

    #[test]
    fn work_that_hangs_is_abandoned_and_its_result_discarded() {
        let (release, held) = channel::<()>();
        let (discarded, late) = channel();
        let work = move || Ok(held.recv().map_or(7, |()| 0));
        let discard = move |result| _ = discarded.send(result);
        let lost = Error::Unavailable("lost".into());
        let said = run_on_thread("test", work, discard, || Some(lost.clone()));
        assert_eq!(said, Err(lost));
        drop(release);
        assert_eq!(late.recv(), Ok(7));
    }
}
