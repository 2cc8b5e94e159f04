//! Unmodified programs in a trace: a track for each, with the spans in which it was paused or
//! paused others, and its launch rate.

use super::tracer::MAX_REQUESTS;
use reef::perfetto::{self, Track};
use reef_guest::page::{Class, Time};
use reef_guest::registry::{GuestView, History, Registry};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Duration;

/// Process number of their tracks.
const GUESTS: u32 = 3;

/// Guests of a trace, from its begin on.
#[derive(Debug, Default)]
pub(super) struct Guests {
    registry: Weak<Registry>,
    /// Guest numbers of the daemon, which has tracks of its own.
    own: Vec<u32>,
    begin: Option<Time>,
    known: BTreeMap<u32, GuestState>,
    events: Vec<Value>,
}

/// State of a guest at the last poll.
#[derive(Debug)]
struct GuestState {
    ended: u64,
    launches: u64,
    at: Time,
    is_real_time: bool,
    since: Option<Time>,
}

impl Guests {
    pub(super) fn new(registry: Weak<Registry>, own: Vec<u32>) -> Self {
        let mut guests = Self { registry, own, begin: Some(Time::now()), ..Self::default() };
        guests.poll();
        guests
    }

    /// Records the spans since the last poll. Must be called often, because a page keeps only its
    /// last spans.
    pub(super) fn poll(&mut self) {
        let Some(registry) = self.registry.upgrade() else { return };
        let (mut histories, now) = (registry.histories(), Time::now());
        histories.retain(|one| !self.own.contains(&one.guest.who.guest));
        for history in &histories {
            if self.events.len() < MAX_REQUESTS {
                self.note(history, now);
            }
        }
        let is_there = |number| histories.iter().any(|one| one.guest.who.guest == number);
        let missing = |number: &u32| !is_there(*number);
        let gone: Vec<u32> = self.known.keys().copied().filter(missing).collect();
        for number in gone {
            self.known.remove(&number);
            self.events.push(perfetto::instant(track(number), "left", self.since_begin(now)));
        }
    }

    fn note(&mut self, history: &History, now: Time) {
        let History { guest, ended, since, .. } = history;
        let number = guest.who.guest;
        let launches = guest.kernels.saturating_add(guest.graphs);
        let is_real_time = guest.who.class == Class::RealTime;
        let known = GuestState { ended: *ended, launches, at: now, is_real_time, since: *since };
        let Some(before) = self.known.insert(number, known) else {
            return self.add_guest(history);
        };
        let new = usize::try_from(ended.saturating_sub(before.ended)).unwrap_or(usize::MAX);
        let known = history.spans.len();
        for &span in &history.spans[known - new.min(known)..] {
            self.span(number, is_real_time, span, now);
        }
        let seconds = now.0.saturating_sub(before.at.0) as f64 / 1e9;
        let rate = launches.saturating_sub(before.launches) as f64 / seconds.max(1e-6);
        self.events.push(counter(number, self.since_begin(before.at), rate));
    }

    /// Adds a guest that is new to this trace.
    fn add_guest(&mut self, history: &History) {
        let number = history.guest.who.guest;
        self.events.push(perfetto::thread(track(number), &name(&history.guest)));
        if self.begin.is_some_and(|begin| history.joined > begin) {
            let at = self.since_begin(history.joined);
            self.events.push(perfetto::instant(track(number), "joined", at));
        }
    }

    /// Adds a span unless it is impossible: guests write spans themselves.
    fn span(&mut self, number: u32, is_real_time: bool, span: (Time, Time), now: Time) {
        let (begin, end) = span;
        let trace = self.begin.unwrap_or(now);
        if begin > end || end > now || end < trace {
            return;
        }
        let (from, to) = (self.since_begin(begin), self.since_begin(end));
        let (class, name) = if is_real_time { ("rt", "holds") } else { ("be", "held") };
        let slice = perfetto::slice(track(number), class, name, from, to - from, &Value::Null);
        self.events.push(slice);
    }

    /// Returns the time since the begin of the trace; earlier times are 0.
    fn since_begin(&self, at: Time) -> Duration {
        let begin = self.begin.map_or(0, |begin| begin.0);
        Duration::from_nanos(at.0.saturating_sub(begin))
    }

    /// Returns all events. Open spans end now.
    pub(super) fn finish(mut self) -> impl Iterator<Item = Value> {
        self.poll();
        let now = Time::now();
        let open: Vec<_> = self
            .known
            .iter()
            .map(|(number, known)| (*number, known.is_real_time, known.since))
            .collect();
        for (number, is_real_time, since) in open {
            since.into_iter().for_each(|since| self.span(number, is_real_time, (since, now), now));
        }
        let group = (!self.events.is_empty()).then(|| perfetto::process(GUESTS, "guests"));
        group.into_iter().chain(self.events)
    }
}

fn track(number: u32) -> Track {
    Track { process: GUESTS, thread: number }
}

fn name(guest: &GuestView) -> String {
    let GuestView { who, job, .. } = guest;
    let job = if job.is_empty() { String::new() } else { format!(", job {job}") };
    format!("guest {} {}, pid {}{job}", who.guest, who.class, who.pid)
}

/// Returns an event with the launches per second from this time on.
fn counter(number: u32, at: Duration, rate: f64) -> Value {
    let (name, at) = (format!("launches/s of guest {number}"), at.as_nanos() as f64 / 1e3);
    json!({ "ph": "C", "name": name, "pid": GUESTS, "tid": number, "ts": at, "args": { "launches/s": rate } })
}
