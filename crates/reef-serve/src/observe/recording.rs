//! Recording of one trace, from its begin to its events.

use super::guests::Guests;
use super::tracer::{MAX_REQUESTS, Request};
use crate::class::Class;
use crate::engine::node::Node;
use crate::error::Result;
use crate::observe::observer::Observer;
use crate::residency::facts::Move;
use reef::Span;
use reef::perfetto::{self, Track};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Process number of the first device's tracks.
const DEVICE: u32 = 1;
/// Process number of the second device's tracks; the others follow.
const SECOND_DEVICE: u32 = 4;
/// Process number of the instances' tracks.
const INSTANCES: u32 = 2;
/// Tracks of moves of models on demand, after those of all instances: of departures, which may
/// overlap with returns, and of returns.
const MOVES: [Track; 2] = [
    Track { process: INSTANCES, thread: u32::MAX - 1 },
    Track { process: INSTANCES, thread: u32::MAX },
];

/// A trace in progress; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Recording {
    observer: Arc<Observer>,
    devices: Vec<DeviceRecording>,
    begin: Instant,
    guests: Guests,
}

impl Recording {
    /// Begins a trace.
    ///
    /// # Errors
    ///
    /// `Exists` if another one is in progress.
    pub(crate) fn start(observer: &Arc<Observer>, nodes: &[Arc<Node>]) -> Result<Self> {
        observer.tracer.begin()?;
        nodes.iter().for_each(|node| node.engine.set_trace(true));
        let begin = Instant::now(); // directly before the devices' clocks are read
        let devices = nodes.iter().map(|node| DeviceRecording::new(node.clone())).collect();
        let (registry, own) = observer.guests.lock().clone();
        let guests = Guests::new(registry, own);
        Ok(Self { observer: observer.clone(), devices, begin, guests })
    }

    /// Collects the spans of the devices so far. A device stops recording once it has the maximum.
    pub(crate) fn collect(&mut self) {
        self.devices.iter_mut().for_each(DeviceRecording::collect);
        self.guests.poll();
    }

    /// Ends the trace, and returns its events as JSON.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let requests = self.observer.tracer.stop();
        self.collect();
        let mut text = Vec::new();
        let guests = std::mem::take(&mut self.guests).finish();
        let devices = self.devices.iter().flat_map(DeviceRecording::events);
        let moves = self.observer.residents.get().map(|all| all.moves_since(self.begin));
        let moves = move_events(&moves.unwrap_or_default(), self.begin);
        let events = devices.chain(instances(&requests, self.begin)).chain(moves).chain(guests);
        perfetto::write(&mut text, events).expect("a vector takes any bytes");
        text
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.devices.clear();
        self.observer.tracer.end();
    }
}

/// Trace of one device, which stops recording when this is dropped.
#[derive(Debug)]
struct DeviceRecording {
    node: Arc<Node>,
    /// Time of the device's clock at the begin.
    clock: Duration,
    spans: Vec<Span>,
    preemptions: Vec<Duration>,
}

impl DeviceRecording {
    /// Wraps a device whose recording has begun.
    fn new(node: Arc<Node>) -> Self {
        let clock = node.clock();
        Self { node, clock, spans: Vec::new(), preemptions: Vec::new() }
    }

    fn collect(&mut self) {
        let trace = self.node.engine.take_trace();
        let room = MAX_REQUESTS.saturating_sub(self.spans.len());
        if trace.spans.len() > room {
            self.node.engine.set_trace(false);
        }
        self.spans.extend(trace.spans.into_iter().take(room));
        self.preemptions.extend(trace.preemptions);
    }

    /// Returns its tracks: one for each unit, then one for preemptions.
    fn events(&self) -> impl Iterator<Item = Value> {
        let process = match self.node.index as u32 {
            0 => DEVICE,
            index => SECOND_DEVICE + index - 1,
        };
        let track = Track { process, thread: u32::MAX };
        let name = format!("{} ({})", self.node.engine.name(), self.node.name);
        let names = [perfetto::process(process, &name), perfetto::thread(track, "preemptions")];
        let preemptions = self.preemptions.iter();
        let preemptions = preemptions.map(|&at| at.saturating_sub(self.clock));
        let preemptions = preemptions.map(move |at| perfetto::instant(track, "preemption", at));
        let blocks = perfetto::blocks(process, &self.spans, self.clock);
        names.into_iter().chain(preemptions).chain(blocks)
    }
}

impl Drop for DeviceRecording {
    fn drop(&mut self) {
        self.node.engine.set_trace(false);
        drop(self.node.engine.take_trace()); // the trace has ended
    }
}

/// Returns a track for each instance.
fn instances(requests: &[Request], begin: Instant) -> impl Iterator<Item = Value> {
    let instances: BTreeMap<u32, &str> =
        requests.iter().map(|request| (request.instance.number, &*request.instance.name)).collect();
    let names =
        instances.into_iter().map(|(instance, name)| perfetto::thread(track(instance), name));
    let events = requests.iter().enumerate();
    let events = events.flat_map(move |(id, request)| request_events(request, id, begin));
    [perfetto::process(INSTANCES, "lanes")].into_iter().chain(names).chain(events)
}

/// Returns the departures and the returns of models on demand. One that began before the trace is
/// shown from the begin of the trace.
pub(super) fn move_events(moves: &[Move], begin: Instant) -> Vec<Value> {
    if moves.is_empty() {
        return Vec::new();
    }
    let names = MOVES.iter().zip(["departures", "returns"]);
    let mut events: Vec<Value> =
        names.map(|(track, name)| perfetto::thread(*track, name)).collect();
    for Move { title, is_return, begin: from, end, is_done } in moves {
        let from = from.saturating_duration_since(begin);
        let time = end.saturating_duration_since(begin).saturating_sub(from);
        let args = json!({ "outcome": if *is_done { "ok" } else { "refused" } });
        let track = MOVES[usize::from(*is_return)];
        events.push(perfetto::slice(track, "move", title, from, time, &args));
    }
    events
}

fn track(instance: u32) -> Track {
    Track { process: INSTANCES, thread: instance }
}

/// Returns the events of a request: queue, run and its phases. Returns none if it ended before
/// `begin`, because requests are recorded a moment earlier.
pub(super) fn request_events(request: &Request, id: usize, begin: Instant) -> Vec<Value> {
    let Request { instance, model, class, client, phases, outcome, end } = request;
    if *end <= begin {
        return Vec::new();
    }
    let track = track(instance.number);
    // A phase that began before the trace is shown from the begin of the trace.
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
    let mut whole = perfetto::slice(track, class.name(), model, started, ended - started, &args);
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
            let args = Value::Null;
            events.push(perfetto::slice(track, class.name(), name, from, to - from, &args));
        }
    }
    events
}
