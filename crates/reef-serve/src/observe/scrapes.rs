//! Cache of the metrics' text for concurrent scrapes.
//!
//! Writing the text takes locks that requests take as well. So a thread of usual priority writes
//! it, because one of low priority would hold the locks for longer. It is not an I/O thread, as
//! devices and the management library may answer late. Afterwards it rests for many times as long.
//! Scrapes that arrive meanwhile wait, and get a text that was written after they arrived.

use crate::error::{Error, Result};
use crate::observe::exposition::Exposition;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// Ratio of the rest to the time of writing: metrics take at most about a twentieth of a processor.
const REST_FACTOR: u32 = 20;

/// Cache of the last text.
#[derive(Debug, Default)]
pub(crate) struct Scrapes(Arc<Mutex<Option<CachedText>>>);

#[derive(Debug)]
struct CachedText {
    began: Instant,
    rested: Instant,
    /// One for each of [`Exposition::ALL`].
    texts: [Bytes; 2],
}

impl Scrapes {
    /// Returns the text in a format, no older than this call. `make` writes it as OpenMetrics.
    ///
    /// # Errors
    ///
    /// `Failed` if `make` panics.
    pub(crate) async fn text(
        &self,
        format: Exposition,
        make: impl FnOnce() -> String + Send + 'static,
    ) -> Result<Bytes> {
        let asked = Instant::now();
        let mut last = self.0.clone().lock_owned().await; // in the order in which they came
        if let Some(last) = last.as_ref().filter(|last| last.began > asked) {
            return Ok(last.text(format));
        }
        if let Some(last) = last.as_ref() {
            sleep_until(last.rested).await;
        }
        // With the lock: a client that disconnects leaves no second text to be written meanwhile.
        let write = move || last.insert(CachedText::make(make)).text(format);
        let written = tokio::task::spawn_blocking(write).await;
        written.map_err(|e| Error::system("a thread that writes metrics", e))
    }
}

impl CachedText {
    fn make(make: impl FnOnce() -> String) -> Self {
        let began = Instant::now();
        let text = make();
        let texts = Exposition::ALL.map(|format| format.write(text.clone()).into());
        let rest = began.elapsed().saturating_mul(REST_FACTOR).min(Duration::from_secs(1));
        Self { began, rested: Instant::now() + rest, texts }
    }

    fn text(&self, format: Exposition) -> Bytes {
        self.texts[format as usize].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::sync::mpsc::channel;

    #[tokio::test]
    async fn concurrent_scrapes_share_a_fresh_text() {
        let (scrapes, made) = (Arc::new(Scrapes::default()), Arc::new(AtomicU32::new(0)));
        let ask = || {
            let (scrapes, made) = (scrapes.clone(), made.clone());
            tokio::spawn(async move {
                let before = made.load(SeqCst);
                let counter = made.clone();
                let make = move || {
                    std::thread::sleep(Duration::from_millis(2)); // sleep: length of a scrape
                    (counter.fetch_add(1, SeqCst) + 1).to_string()
                };
                let text = scrapes.text(Exposition::OpenMetrics, make).await.unwrap();
                let number: u32 = std::str::from_utf8(&text).unwrap().parse().unwrap();
                assert!(number > before, "made after it was asked for");
            })
        };
        for _ in 0..2 {
            let all: Vec<_> = (0..100).map(|_| ask()).collect();
            for one in all {
                one.await.unwrap();
            }
        }
        // Two each time; without a processor for a while, a thread may miss a rest.
        assert!(made.load(SeqCst) <= 20, "{} for 200", made.load(SeqCst));
    }

    /// The runtime of this test has one thread.
    #[tokio::test]
    async fn scrape_that_waits_for_a_device_keeps_no_io_thread() {
        let (answer, answered) = channel();
        let make = move || answered.recv_timeout(Duration::from_secs(60)).unwrap_or_default();
        let scrapes = Scrapes::default();
        let scrape = scrapes.text(Exposition::OpenMetrics, make);
        let others = async { answer.send("text".to_owned()) };
        let (text, sent) = tokio::join!(scrape, others);
        assert_eq!((&*text.unwrap(), sent), (&b"text"[..], Ok(())));
    }
}
