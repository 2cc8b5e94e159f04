//! The history, and the streams of its viewers.
//!
//! Streams have slots by the rule of [`reef_guest::slots`]: a viewer that reads nothing for
//! [`UNREAD_TIMEOUT`] gives its slot to one that needs it. A viewer that is slow misses states and
//! gets the newest one; at most one waits for it here.

use super::history::History;
use super::render;
use super::sample::Sample;
use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use crate::server::Server;
use bytes::Bytes;
use parking_lot::Mutex;
use reef_guest::slots::{Activity, SlotShares, Slots, Timeouts};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_stream::Stream;

/// Maximum number of streams, and of those of one holder.
const MAX_STREAMS: usize = 64;
const MAX_OF_HOLDER: usize = 8;

/// Time after which an unread stream gives its slot to another.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Upper bound of the length of a state, which a stream is charged for.
pub(super) const MAX_EVENT_BYTES: usize = 256 << 10;

/// Interval of samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// The history and its viewers.
#[derive(Debug)]
pub(crate) struct Feed {
    history: Mutex<History>,
    /// Text of the current state, if it is written already. Locked before the history.
    written: Mutex<Option<Arc<str>>>,
    viewers: Mutex<Viewers>,
}

#[derive(Debug)]
struct Viewers {
    slots: Slots<Principal, ()>,
    /// The number of each slot, and its stream. `None` once the daemon ends.
    streams: Option<Vec<(u64, Sender<Bytes>)>>,
}

const READING: Timeouts =
    Timeouts { activity: Activity::Resting, yields: Some(UNREAD_TIMEOUT), ends: None };

impl Feed {
    pub(crate) fn new() -> Arc<Self> {
        let slots = Slots::new(SlotShares::with_owner(MAX_STREAMS, MAX_OF_HOLDER));
        let viewers = Viewers { slots, streams: Some(Vec::new()) };
        let (history, written) = (Mutex::default(), Mutex::default());
        Arc::new(Self { history, written, viewers: Mutex::new(viewers) })
    }

    /// Takes a sample each second, and sends it to all viewers, until it is closed.
    pub(crate) async fn run(self: Arc<Self>, server: Arc<Server>) {
        while self.viewers.lock().streams.is_some() {
            let (feed, server) = (self.clone(), server.clone());
            let add = move || feed.add(Sample::take(&server)); // reads /proc of each guest
            let _ = tokio::task::spawn_blocking(add).await; // a panic has already been printed
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Ends all streams, and refuses new ones.
    pub(crate) fn close(&self) {
        self.viewers.lock().streams = None;
    }

    fn add(&self, sample: Sample) {
        self.history.lock().add(sample);
        *self.written.lock() = None;
        if self.has_viewers() {
            self.publish(&event(&self.state()), Instant::now());
        }
    }

    fn has_viewers(&self) -> bool {
        self.viewers.lock().streams.iter().any(|streams| !streams.is_empty())
    }

    /// Returns the changing part of the page. It is written once for each sample, however many
    /// clients ask.
    pub(super) fn state(&self) -> Arc<str> {
        let mut written = self.written.lock();
        written.get_or_insert_with(|| render::state(&self.history.lock()).into()).clone()
    }

    fn publish(&self, event: &Bytes, now: Instant) {
        let Viewers { slots, streams } = &mut *self.viewers.lock();
        let Some(streams) = streams else { return };
        streams.retain(|(number, _)| slots.has(*number)); // others took the slot
        for (number, stream) in streams {
            if stream.try_send(event.clone()).is_ok() {
                slots.set(*number, READING, now);
            }
        }
    }

    /// Opens a stream, which begins with the current state.
    ///
    /// # Errors
    ///
    /// `Exhausted` if all streams that `principal` may have are in use; `Unavailable` once the
    /// daemon ends.
    pub(super) fn view(self: &Arc<Self>, principal: &Principal) -> Result<Viewer> {
        let first = event(&self.state());
        let Viewers { slots, streams } = &mut *self.viewers.lock();
        let ended = || Error::Unavailable("the daemon is shutting down".into());
        let streams = streams.as_mut().ok_or_else(ended)?;
        let (holder, standing) = (principal.clone(), principal.standing());
        let number = slots.enter(holder, standing, READING, (), Instant::now());
        let number =
            number.map_err(|(full, ())| Error::Exhausted(full.text("page streams", principal)))?;
        let (stream, events) = channel(1);
        stream.try_send(first).expect("it is empty");
        streams.push((number, stream));
        Ok(Viewer { feed: self.clone(), number, events })
    }
}

/// Returns a state, which has no line breaks, as an event.
fn event(state: &str) -> Bytes {
    format!("data: {state}\n\n").into()
}

/// Stream of events of one viewer.
#[derive(Debug)]
pub(super) struct Viewer {
    feed: Arc<Feed>,
    number: u64,
    events: Receiver<Bytes>,
}

impl Stream for Viewer {
    type Item = std::result::Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_recv(cx).map(|event| event.map(Ok))
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let Viewers { slots, streams } = &mut *self.feed.viewers.lock();
        slots.remove(self.number);
        streams.iter_mut().for_each(|streams| streams.retain(|(number, _)| *number != self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::tests::sample;
    use super::*;
    use crate::observe::latency::Latencies;

    /// Returns the events that are there, and whether the stream has ended.
    fn read(viewer: &mut Viewer) -> (usize, bool) {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut count = 0;
        loop {
            match Pin::new(&mut *viewer).poll_next(&mut cx) {
                Poll::Ready(Some(_)) => count += 1,
                Poll::Ready(None) => return (count, true),
                Poll::Pending => return (count, false),
            }
        }
    }

    fn token(name: &str) -> Principal {
        Principal::Token(name.into())
    }

    #[test]
    fn slow_viewer_gets_the_newest_states_and_delays_no_other() {
        let feed = Feed::new();
        let mut slow = feed.view(&token("slow")).unwrap();
        let mut quick = feed.view(&token("quick")).unwrap();
        assert_eq!(read(&mut quick), (1, false), "the current state at once");
        let latencies = Latencies::default();
        for at in 0..100 {
            feed.add(sample(at, "trainer", &latencies));
            assert_eq!(read(&mut quick), (1, false));
        }
        assert_eq!(read(&mut slow), (1, false), "no more than one waited");
        feed.add(sample(100, "trainer", &latencies));
        assert_eq!(read(&mut slow), (1, false), "it goes on");
    }

    #[test]
    fn state_is_written_once_for_each_sample() {
        let (feed, latencies) = (Feed::new(), Latencies::default());
        feed.add(sample(0, "trainer", &latencies));
        let first = feed.state();
        assert!(Arc::ptr_eq(&first, &feed.state()));
        feed.add(sample(1, "other", &latencies));
        let next = feed.state();
        assert!(next.contains("other") && *next != *first, "{next}");
    }

    #[test]
    fn holder_has_a_bounded_number_of_streams() {
        let feed = Feed::new();
        let mut own: Vec<_> =
            (0..MAX_OF_HOLDER).map(|_| feed.view(&token("ci")).unwrap()).collect();
        let said = feed.view(&token("ci")).unwrap_err();
        let want = "page streams of token ci must be at most 8: all are in use";
        assert_eq!(said, Error::Exhausted(want.into()));
        feed.view(&token("other")).unwrap();
        own.pop();
        own.push(feed.view(&token("ci")).unwrap());
        let far = Instant::now() + UNREAD_TIMEOUT;
        feed.publish(&Bytes::new(), far); // nothing fits: no stream was read
        assert!(own.iter_mut().all(|viewer| !read(viewer).1));
    }

    #[test]
    fn unread_stream_gives_its_place_to_another() {
        let feed = Feed::new();
        let mut own: Vec<_> =
            (0..MAX_OF_HOLDER).map(|_| feed.view(&token("ci")).unwrap()).collect();
        own[1..].iter_mut().for_each(|viewer| assert_eq!(read(viewer), (1, false)));
        let late = Instant::now() + UNREAD_TIMEOUT;
        feed.publish(&Bytes::from_static(b"x"), late); // all but the first are read
        let (holder, standing) = (token("ci"), token("ci").standing());
        let newcomer = feed.viewers.lock().slots.enter(holder, standing, READING, (), late);
        newcomer.expect("the unread one's slot");
        feed.publish(&Bytes::from_static(b"y"), late);
        assert_eq!(read(&mut own[0]), (1, true), "its stream has ended");
        assert!(own[1..].iter_mut().all(|viewer| !read(viewer).1));
    }

    #[test]
    fn streams_end_with_the_daemon() {
        let feed = Feed::new();
        let mut viewer = feed.view(&token("ci")).unwrap();
        feed.close();
        assert_eq!(read(&mut viewer), (1, true));
        assert!(matches!(feed.view(&token("ci")), Err(Error::Unavailable(_))));
    }
}
