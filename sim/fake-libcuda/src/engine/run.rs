//! The device: a thread that takes one operation after the other, any of those that may run.

use super::blocks::{self, Launched};
use super::op::{Op, passes, take_effect};
use super::settings::setting;
use super::world::{CHANGED, Entry, World, world};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Once};
use std::time::{Duration, Instant};

/// Operation that may run now: a stream's first entry, and the node of it if it is a graph.
type Choice = (u64, Option<usize>);

/// This process is a child of the one that started the device.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn in_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// Returns whether the device was started by this process's parent. Then nothing works here, as
/// with the driver.
pub(crate) fn is_lost() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// `REEF_FAKE_INSTANT`: operations take effect when they are given, so that calls cost next to
/// nothing. There is no thread, which would slow callers down.
pub(crate) fn is_instant() -> bool {
    static IS_INSTANT: LazyLock<bool> = LazyLock::new(|| setting("REEF_FAKE_INSTANT", 0) != 0);
    *IS_INSTANT
}

/// Starts the device, once.
pub(crate) fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        world().seed = setting("REEF_FAKE_SEED", 1);
        // SAFETY: a function that touches an atomic alone.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        let lengths = ["REEF_FAKE_KERNEL_NS", "REEF_FAKE_COPY_NS", "REEF_FAKE_EVENT_NS"]
            .map(|name| Duration::from_nanos(setting(name, 0)));
        super::checkpoint::start();
        if is_instant() {
            return;
        }
        std::thread::spawn(move || {
            loop {
                step(lengths);
            }
        });
    });
}

/// Runs one operation, or waits a moment for one that may run. Kernels, copies and fills, and
/// events take so long.
fn step([kernel, copy, event]: [Duration; 3]) {
    let mut world = world();
    // After a fault nothing runs any more.
    let choices = if world.is_faulty { Vec::new() } else { choices(&world) };
    if choices.is_empty() {
        world.rests += 1;
        // Words may change without our doing.
        drop(CHANGED.wait_timeout(world, Duration::from_micros(50)));
        return;
    }
    world.ran += 1;
    world.seed =
        world.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let (stream, node) = choices[(world.seed >> 33) as usize % choices.len()];
    let Some(op) = op_of(&world, (stream, node)) else { return };
    // A word that a stream writes is seen together with its end: no call asks the stream between
    // the two.
    let launched = match op {
        Op::Blocks(number) => world.launched.get(&number).cloned(),
        _ => None,
    };
    let together = if let Op::Write(..) = op {
        Some(world)
    } else {
        drop(world);
        None
    };
    match op {
        Op::Kernel(..) => busy(kernel),
        Op::Blocks(number) => {
            if let Some(launched) = &launched
                && has_more_blocks((stream, number), launched, kernel)
            {
                return;
            }
        }
        Op::Copy { .. } | Op::Fill { .. } => busy(copy),
        Op::Record { .. } => busy(event),
        _ => {}
    }
    let is_lost = together.as_ref().is_some_and(|world| !has_memory(world, &op));
    if !is_lost {
        // SAFETY: the driver demands that a program keeps what an operation names until it has run.
        // A write's word was just checked.
        unsafe { take_effect(&op) };
    }
    let mut world = together.unwrap_or_else(super::world::world);
    world.is_faulty |= is_lost || !has_memory(&world, &op);
    finish(&mut world, (stream, node), &op);
}

/// Runs some blocks of a launch. Returns whether others are left.
fn has_more_blocks(entry: (u64, u64), launched: &Launched, kernel: Duration) -> bool {
    let from = world().begun.remove(&entry);
    if from.is_none() {
        busy(kernel);
    }
    let (next, nanos) = blocks::run(launched, from.unwrap_or(0));
    let mut world = world();
    world.block_nanos += nanos + if from.is_none() { kernel.as_nanos() as u64 } else { 0 };
    if let Some(next) = next {
        world.begun.insert(entry, next);
    }
    next.is_some()
}

fn busy(length: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// All that may run.
fn choices(world: &World) -> Vec<Choice> {
    let mut choices = Vec::new();
    for (&name, stream) in &world.streams {
        let Some(first) = stream.queue.front() else { continue };
        if !is_in_turn(world, name, first.number) {
            continue;
        }
        match &first.run {
            Some(run) if !run.is_done() => {
                let ready = run.ready().filter(|(_, op)| is_ready(world, op));
                choices.extend(ready.map(|(node, _)| (name, Some(node))));
            }
            _ if is_ready(world, &first.op) => choices.push((name, None)),
            _ => {}
        }
    }
    choices
}

/// Returns whether the legacy default stream's order lets this entry run.
fn is_in_turn(world: &World, name: u64, number: u64) -> bool {
    let is_legacy = |name: u64| name & 0xf == 1;
    let Some(stream) = world.streams.get(&name) else { return true };
    let waits_for = |other: u64, of: &super::world::Stream| {
        let is_related = of.context == stream.context && other != name;
        is_related
            && ((is_legacy(name) && of.is_blocking) || (is_legacy(other) && stream.is_blocking))
    };
    world
        .streams
        .iter()
        .filter(|(other, of)| waits_for(**other, of))
        .all(|(_, of)| of.queue.front().is_none_or(|first| first.number > number))
}

fn is_ready(world: &World, op: &Op) -> bool {
    match *op {
        Op::Wait { .. } if !has_memory(world, op) => true, // and is a fault
        Op::Wait { at, value, flags } => passes(at, value, flags),
        Op::WaitFor { event, times } => {
            world.events.get(&event).is_none_or(|event| event.is_reached(times))
        }
        _ => true,
    }
}

/// Returns whether the word that an operation waits for or writes is there.
fn has_memory(world: &World, op: &Op) -> bool {
    match *op {
        Op::Wait { at, .. } | Op::Write(at, _) => world.is_visible(at, None),
        _ => true,
    }
}

fn op_of(world: &World, choice: Choice) -> Option<Op> {
    let (stream, node) = choice;
    let first = world.streams.get(&stream)?.queue.front()?;
    match (node, &first.run) {
        (Some(node), Some(run)) => run.ready().find(|(at, _)| *at == node).map(|(_, op)| *op),
        _ => Some(first.op),
    }
}

/// Notes the end of an operation that takes effect when it is given.
pub(crate) fn end_at_once(op: &Op) {
    if matches!(op, Op::Record { .. } | Op::Free(_) | Op::Leave(..)) {
        end(&mut world(), op);
    }
}

/// Notes what an operation's end means for others.
fn end(world: &mut World, op: &Op) {
    match *op {
        Op::Record { event, times } => {
            world.note_time(event);
            world.recorded(event, times);
        }
        Op::Free(at) => {
            world.free(at);
        }
        Op::Leave(pool, number) => world.left_pool(pool, number),
        _ => {}
    }
}

fn finish(world: &mut World, choice: Choice, op: &Op) {
    let (stream, node) = choice;
    end(world, op);
    let Some(queue) = world.streams.get_mut(&stream).map(|stream| &mut stream.queue) else {
        return;
    };
    let Some(first) = queue.front_mut() else { return };
    let is_over = match (node, &mut first.run) {
        (Some(node), Some(run)) => {
            run.finish(node);
            run.is_done()
        }
        _ => true,
    };
    if let Some(Entry { op: Op::Graph(exec), .. }) = is_over.then(|| queue.pop_front()).flatten() {
        world.graph_memory.end(exec);
    }
    world.drop_if_over(stream);
    CHANGED.notify_all();
}
