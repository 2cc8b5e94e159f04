//! Work on a thread of its own, whose panic is an error.

use crate::error::{Error, Result};
use std::any::Any;
use std::thread;

/// Stack of such a thread.
const STACK: usize = 8 << 20;

/// What `work` gives, on a thread called `name`: nothing that it does to its stack or by a panic
/// harms the caller.
///
/// # Errors
///
/// Those of `work`; `Failed` if it panics, or if there is no thread.
pub(crate) fn aside<T: Send>(name: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name(name.into()).stack_size(STACK);
        let thread = thread.spawn_scoped(scope, work);
        let thread = thread.map_err(|e| Error::system("no thread to load on", e))?;
        thread.join().unwrap_or_else(|panic| Err(panicked(&*panic)))
    })
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
    Error::Failed(format!("loading panicked: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let said = aside("test", || -> Result<()> { panic!("no {}", 7) });
        assert_eq!(said, Err(Error::Failed("loading panicked: no 7".into())));
        assert_eq!(aside("test", || Ok(7)), Ok(7));
    }
}
