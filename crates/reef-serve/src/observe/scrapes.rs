//! Cache of the metrics' text for concurrent scrapes.
//!
//! Writing the text takes locks that requests take as well. So a thread of usual priority writes
//! it, because one of low priority would hold the locks for longer. Afterwards it rests for many
//! times as long. Scrapes that arrive meanwhile wait, and get a text that was written after they
//! arrived.

use crate::observe::exposition::Exposition;
use bytes::Bytes;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// Ratio of the rest to the time of writing: metrics take at most about a twentieth of a processor.
const REST_FACTOR: u32 = 20;

/// Cache of the last text.
#[derive(Debug, Default)]
pub(crate) struct Scrapes(Mutex<Option<CachedText>>);

#[derive(Debug)]
struct CachedText {
    began: Instant,
    rested: Instant,
    /// One for each of [`Exposition::ALL`].
    texts: [Bytes; 2],
}

impl Scrapes {
    /// Returns the text in a format, no older than this call. `make` writes it as OpenMetrics.
    pub(crate) async fn text(&self, format: Exposition, make: impl FnOnce() -> String) -> Bytes {
        let asked = Instant::now();
        let mut last = self.0.lock().await; // in the order in which they came
        if let Some(last) = last.as_ref().filter(|last| last.began > asked) {
            return last.text(format);
        }
        if let Some(last) = last.as_ref() {
            sleep_until(last.rested).await;
        }
        last.insert(CachedText::make(make)).text(format)
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::time::Duration;

    #[tokio::test]
    async fn concurrent_scrapes_share_a_fresh_text() {
        let (scrapes, made) = (Arc::new(Scrapes::default()), Arc::new(AtomicU32::new(0)));
        let ask = || {
            let (scrapes, made) = (scrapes.clone(), made.clone());
            tokio::spawn(async move {
                let before = made.load(SeqCst);
                let make = || {
                    std::thread::sleep(Duration::from_millis(2)); // sleep: length of a scrape
                    (made.fetch_add(1, SeqCst) + 1).to_string()
                };
                let text = scrapes.text(Exposition::OpenMetrics, make).await;
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
}
