//! One trace, from its begin to the events that show it.

use super::guests::Guests;
use super::tracer::{MAX_NOTED, Request};
use crate::class::Class;
use crate::engine::api::Engine;
use crate::error::Result;
use crate::observe::observer::Observer;
use reef::Span;
use reef::perfetto::{self, Track};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The group of tracks that shows the device.
const DEVICE: u32 = 1;
/// The group that shows the instances.
const LANES: u32 = 2;
/// The track of the device that shows preemptions; units come behind it.
const PREEMPTIONS: Track = Track { process: DEVICE, thread: u32::MAX };

/// A trace that is being taken; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Recording {
    observer: Arc<Observer>,
    engine: Arc<dyn Engine>,
    begin: Instant,
    /// The device's clock then.
    clock: Duration,
    spans: Vec<Span>,
    preemptions: Vec<Duration>,
    guests: Guests,
}

impl Recording {
    /// Begins.
    ///
    /// # Errors
    ///
    /// `Exists` if there is one already.
    pub(crate) fn start(observer: &Arc<Observer>, engine: &Arc<dyn Engine>) -> Result<Self> {
        observer.tracer.begin()?;
        engine.set_trace(true);
        let (observer, engine) = (observer.clone(), engine.clone());
        let (begin, clock) = (Instant::now(), engine.clock());
        let guests = Guests::new(observer.guests.lock().clone());
        let (spans, preemptions) = (Vec::new(), Vec::new());
        Ok(Self { observer, engine, begin, clock, spans, preemptions, guests })
    }

    /// Takes what the device has noted meanwhile; when that is enough it notes no more.
    pub(crate) fn collect(&mut self) {
        let noted = self.engine.take_trace();
        let room = MAX_NOTED.saturating_sub(self.spans.len());
        if noted.spans.len() > room {
            self.engine.set_trace(false);
        }
        self.spans.extend(noted.spans.into_iter().take(room));
        self.preemptions.extend(noted.preemptions);
        self.guests.look();
    }

    /// Ends it, and writes what happened as JSON.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let requests = self.observer.tracer.stop();
        self.collect();
        let mut text = Vec::new();
        let guests = std::mem::take(&mut self.guests).finish();
        let events = self.device().chain(instances(&requests, self.begin)).chain(guests);
        perfetto::write(&mut text, events).expect("a vector takes any bytes");
        text
    }

    fn device(&self) -> impl Iterator<Item = Value> {
        let names = [
            perfetto::process(DEVICE, &self.engine.name()),
            perfetto::thread(PREEMPTIONS, "preemptions"),
        ];
        let preemptions = self.preemptions.iter();
        let preemptions = preemptions.map(|&at| at.saturating_sub(self.clock));
        let preemptions = preemptions.map(|at| perfetto::instant(PREEMPTIONS, "preemption", at));
        let blocks = perfetto::blocks(DEVICE, &self.spans, self.clock);
        names.into_iter().chain(preemptions).chain(blocks)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.engine.set_trace(false);
        drop(self.engine.take_trace()); // the trace has ended
        self.observer.tracer.end();
    }
}

/// A track for each instance.
fn instances(requests: &[Request], begin: Instant) -> impl Iterator<Item = Value> {
    let instances: BTreeMap<u32, &str> =
        requests.iter().map(|request| (request.instance.number, &*request.instance.name)).collect();
    let names =
        instances.into_iter().map(|(instance, name)| perfetto::thread(track(instance), name));
    let events = requests.iter().enumerate();
    let events = events.flat_map(move |(id, request)| shown(request, id, begin));
    [perfetto::process(LANES, "lanes")].into_iter().chain(names).chain(events)
}

fn track(instance: u32) -> Track {
    Track { process: LANES, thread: instance }
}

/// A request: how long it waited, how long it ran, and with what it spent that time.
pub(super) fn shown(request: &Request, id: usize, begin: Instant) -> Vec<Value> {
    let Request { instance, model, class, client, phases, outcome, end } = request;
    let track = track(instance.number);
    // What began before the trace did is shown from there on.
    let since = |before: Duration| {
        end.checked_sub(before).map_or(Duration::ZERO, |at| at.saturating_duration_since(begin))
    };
    let running = phases.total() - phases.queue;
    let [arrived, started, infer, output, ended] =
        [phases.total(), running, phases.infer + phases.output, phases.output, Duration::ZERO]
            .map(since);
    let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
    let args = json!({
        "class": class.name(),
        "client": client.to_string(),
        "queue_us": micros(phases.queue),
        "run_us": micros(running),
        "start_us": phases.delay.map(micros),
        "outcome": outcome,
    });
    let colour = match (*outcome, class) {
        ("ok", Class::RealTime) => "good",
        ("ok", Class::BestEffort) => "generic_work",
        _ => "terrible",
    };
    let mut whole =
        perfetto::slice(track, (class.name(), model), (started, ended - started), &args);
    whole["cname"] = colour.into();
    let mut events: Vec<Value> = if phases.queue.is_zero() {
        Vec::new()
    } else {
        perfetto::overlapping(track, "queue", id, arrived, started).into()
    };
    events.push(whole);
    for (name, from, to) in
        [("input", started, infer), ("infer", infer, output), ("output", output, ended)]
    {
        if to > from {
            let part = (class.name(), name);
            events.push(perfetto::slice(track, part, (from, to - from), &Value::Null));
        }
    }
    events
}
