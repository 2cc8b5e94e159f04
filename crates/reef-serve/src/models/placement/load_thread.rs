//! Work on a thread of its own, whose panic is an error.

use crate::error::{Error, Result};
use std::any::Any;
use std::thread;

/// Stack size of such a thread.
const STACK_BYTES: usize = 8 << 20;

/// Runs `work` on a thread called `name`, so that neither its stack use nor its panic harms the
/// caller. Blocks.
///
/// # Errors
///
/// Errors of `work`; `Failed` if it panics, or no thread can be started.
pub(crate) fn run_on_thread<T: Send>(
    name: &str,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name(name.into()).stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, work);
        let thread = thread.map_err(|e| Error::system("cannot start a thread to load on", e))?;
        thread.join().unwrap_or_else(|panic| Err(panicked(&*panic)))
    })
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown reason");
    Error::Failed(format!("loading panicked: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_is_returned_as_an_error() {
        let said = run_on_thread("test", || -> Result<()> { panic!("no {}", 7) });
        assert_eq!(said, Err(Error::Failed("loading panicked: no 7".into())));
        assert_eq!(run_on_thread("test", || Ok(7)), Ok(7));
    }
}
