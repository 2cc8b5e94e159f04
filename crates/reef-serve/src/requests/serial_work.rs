//! Work that may hang, on one blocking thread at a time.

use crate::error::{Error, Result};
use std::sync::Arc;
use tokio::sync::Mutex;

/// Runs work of one kind, such as questions to devices, one after the other. If it hangs, it keeps
/// one thread, however often clients ask again.
#[derive(Debug, Default)]
pub(crate) struct SerialWork(Arc<Mutex<()>>);

impl SerialWork {
    /// Runs `work` on a blocking thread, after all that came before.
    ///
    /// # Errors
    ///
    /// `Failed` if it panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let turn = self.0.clone().lock_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn; // kept until it ends, also if the client has gone
            work()
        });
        done.await.map_err(|e| Error::system("a thread of the daemon", e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test]
    async fn work_that_hangs_keeps_one_thread() {
        let (work, (release, held)) = (SerialWork::default(), channel::<()>());
        let hung = timeout(Duration::from_millis(1), work.run(move || held.recv().is_ok()));
        assert!(hung.await.is_err(), "its client goes");
        let mut next = Box::pin(work.run(|| 7));
        // Time in which a fault would show; none fails right code.
        assert!(timeout(Duration::from_millis(20), &mut next).await.is_err(), "a second thread");
        drop(release);
        assert_eq!(next.await, Ok(7));
    }
}
