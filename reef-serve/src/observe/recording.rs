//! One trace, from its begin to the events that show it.

use super::guests::Guests;
use super::tracer::{MAX_NOTED, Request};
use crate::class::Class;
use crate::engine::node::Node;
use crate::error::Result;
use crate::observe::observer::Observer;
use reef::Span;
use reef::perfetto::{self, Track};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The group of tracks that shows the first device.
const DEVICE: u32 = 1;
/// The group that shows the second device; the third comes behind it.
const SECOND_DEVICE: u32 = 4;
/// The group that shows the instances.
const LANES: u32 = 2;

/// A trace that is being taken; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Recording {
    observer: Arc<Observer>,
    devices: Vec<OfDevice>,
    begin: Instant,
    guests: Guests,
}

impl Recording {
    /// Begins.
    ///
    /// # Errors
    ///
    /// `Exists` if there is one already.
    pub(crate) fn start(observer: &Arc<Observer>, nodes: &[Arc<Node>]) -> Result<Self> {
        observer.tracer.begin()?;
        nodes.iter().for_each(|node| node.engine.set_trace(true));
        let begin = Instant::now(); // and the devices' clocks, with nothing between
        let devices = nodes.iter().map(|node| OfDevice::new(node.clone())).collect();
        let guests = Guests::new(observer.guests.lock().clone());
        Ok(Self { observer: observer.clone(), devices, begin, guests })
    }

    /// Takes what the devices have noted meanwhile; one that has noted enough notes no more.
    pub(crate) fn collect(&mut self) {
        self.devices.iter_mut().for_each(OfDevice::collect);
        self.guests.look();
    }

    /// Ends it, and writes what happened as JSON.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let requests = self.observer.tracer.stop();
        self.collect();
        let mut text = Vec::new();
        let guests = std::mem::take(&mut self.guests).finish();
        let devices = self.devices.iter().flat_map(OfDevice::events);
        let events = devices.chain(instances(&requests, self.begin)).chain(guests);
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

/// What one device has noted; it notes nothing more when this is dropped.
#[derive(Debug)]
struct OfDevice {
    node: Arc<Node>,
    /// The device's clock at the begin.
    clock: Duration,
    spans: Vec<Span>,
    preemptions: Vec<Duration>,
}

impl OfDevice {
    /// Of one that has begun to note.
    fn new(node: Arc<Node>) -> Self {
        let clock = node.clock();
        Self { node, clock, spans: Vec::new(), preemptions: Vec::new() }
    }

    fn collect(&mut self) {
        let noted = self.node.engine.take_trace();
        let room = MAX_NOTED.saturating_sub(self.spans.len());
        if noted.spans.len() > room {
            self.node.engine.set_trace(false);
        }
        self.spans.extend(noted.spans.into_iter().take(room));
        self.preemptions.extend(noted.preemptions);
    }

    /// Its group of tracks: the units, and behind them one for preemptions.
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

impl Drop for OfDevice {
    fn drop(&mut self) {
        self.node.engine.set_trace(false);
        drop(self.node.engine.take_trace()); // the trace has ended
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

/// A request: how long it waited, how long it ran, and with what it spent that time. Nothing if it
/// ended before `begin`: requests are noted a moment before that.
pub(super) fn shown(request: &Request, id: usize, begin: Instant) -> Vec<Value> {
    let Request { instance, model, class, client, phases, outcome, end } = request;
    if *end <= begin {
        return Vec::new();
    }
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
