//! A plugin from the process's start to the signal that ends it.

use crate::error::{Error, Result};
use std::io;
use std::pin::Pin;
use tokio::signal::unix::{SignalKind, signal};

/// Ends with SIGTERM or SIGINT.
type Signal = Pin<Box<dyn Future<Output = ()>>>;

/// Runs `serve` with what it should end at. Blocks.
///
/// # Errors
///
/// Errors of `serve`; `Failed`, if the system has no thread or no signals for it.
pub(crate) fn until_signal(serve: impl AsyncFnOnce(Signal) -> Result<()>) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let failed = |error: io::Error| Error::Failed(format!("a thread for the plugin: {error}"));
    let runtime = runtime.enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let mut term = signal(SignalKind::terminate()).map_err(failed)?;
        let mut int = signal(SignalKind::interrupt()).map_err(failed)?;
        let end = async move {
            tokio::select! { _ = term.recv() => (), _ = int.recv() => () }
        };
        serve(Box::pin(end)).await
    })
}
