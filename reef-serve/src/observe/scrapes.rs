//! The metrics' text, made once for all who wait for it.
//!
//! Making it takes locks that requests take as well. So a thread of usual priority makes it, which
//! a thread that stands back would keep others waiting for, and rests then for many times as long.
//! Who asks meanwhile waits, and gets what was made after it had asked.

use crate::observe::exposition::Exposition;
use bytes::Bytes;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// How much longer than the making is the rest: about a twentieth of a processor is for metrics at
/// most.
const RESTS: u32 = 20;

/// The last text.
#[derive(Debug, Default)]
pub(crate) struct Scrapes(Mutex<Option<Last>>);

#[derive(Debug)]
struct Last {
    began: Instant,
    rested: Instant,
    /// As [`Exposition::EACH`].
    texts: [Bytes; 2],
}

impl Scrapes {
    /// The text in a format, no older than this call. `make` gives it as OpenMetrics.
    pub(crate) async fn text(&self, format: Exposition, make: impl FnOnce() -> String) -> Bytes {
        let asked = Instant::now();
        let mut last = self.0.lock().await; // in the order in which they came
        if let Some(last) = last.as_ref().filter(|last| last.began > asked) {
            return last.text(format);
        }
        if let Some(last) = last.as_ref() {
            sleep_until(last.rested).await;
        }
        last.insert(Last::make(make)).text(format)
    }
}

impl Last {
    fn make(make: impl FnOnce() -> String) -> Self {
        let began = Instant::now();
        let text = make();
        let texts = Exposition::EACH.map(|format| format.write(text.clone()).into());
        let rest = began.elapsed().saturating_mul(RESTS).min(Duration::from_secs(1));
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
    async fn many_who_wait_share_a_text_that_is_new_to_each() {
        let (scrapes, made) = (Arc::new(Scrapes::default()), Arc::new(AtomicU32::new(0)));
        let ask = || {
            let (scrapes, made) = (scrapes.clone(), made.clone());
            tokio::spawn(async move {
                let before = made.load(SeqCst);
                let make = || {
                    std::thread::sleep(Duration::from_millis(2));
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
        // Two each time; a thread that gets no processor may let a rest go by.
        assert!(made.load(SeqCst) <= 20, "{} for 200", made.load(SeqCst));
    }
}
