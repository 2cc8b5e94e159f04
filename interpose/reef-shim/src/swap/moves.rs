//! Departure of a program's memory to the host, and its return.

use super::allocations::{self, Allocation};
use super::calls::{self, Refused};
use super::copies::{Direction, Range, copy};
use super::host::HostMemory;
use crate::driver::calls as driver;
use crate::driver::pause::{self, Pause};
use crate::driver::state::Inside;
use crate::guest::capture;
use reef_guest::swap::Moved;
use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Interval between polls of open captures.
const CAPTURE_INTERVAL: Duration = Duration::from_millis(1);

/// Memory that is off the device. The program's calls wait until it is dropped.
#[derive(Debug)]
pub(super) struct Swapped {
    allocations: Vec<Allocation>,
    host: HostMemory,
    _pause: Pause,
}

/// Has the program wait, and moves its memory to the host. Blocks.
///
/// # Errors
///
/// In words; the program goes on.
pub(super) fn leave(timeout: Duration) -> Result<(Swapped, Moved), String> {
    let begin = Instant::now();
    let pause = settle(begin + timeout).ok_or_else(|| {
        format!("its calls, captures or work did not end within {} s", timeout.as_secs_f64())
    })?;
    let begin = Instant::now();
    let mut allocations = allocations::all();
    let host = HostMemory::new(allocations.iter().map(|one| one.bytes).sum())?;
    copy_all(&allocations, &host, Direction::ToHost).map_err(|refused| refused.to_string())?;
    allocations.iter_mut().for_each(Allocation::leave);
    allocations::note(&allocations);
    let moved = moved(&allocations, begin);
    Ok((Swapped { allocations, host, _pause: pause }, moved))
}

/// Has calls wait and ends work and captures. `None`: not until the deadline.
fn settle(deadline: Instant) -> Option<Pause> {
    loop {
        let pause = pause::begin(deadline)?;
        if !capture::is_any_open() {
            return drain(deadline).then_some(pause);
        }
        drop(pause);
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(CAPTURE_INTERVAL);
    }
}

/// Waits for the work of all contexts that have memory. Returns false at the deadline: then a
/// thread waits on, which does nothing else.
fn drain(deadline: Instant) -> bool {
    let mut contexts: Vec<usize> = allocations::all().iter().map(|one| one.context).collect();
    contexts.sort_unstable();
    contexts.dedup();
    let (ended, end) = channel();
    let waits = crate::thread::spawn("reef-drain", move || {
        let wait = |context: &usize| driver::in_context(*context, calls::synchronize) == Some(0);
        let _ = ended.send(contexts.iter().all(wait));
    });
    let left = deadline.saturating_duration_since(Instant::now());
    waits.is_ok() && end.recv_timeout(left).unwrap_or(false)
}

impl Swapped {
    /// Moves the memory back, and has the program go on. Blocks.
    ///
    /// # Errors
    ///
    /// In words, with the memory, which is on the host as before.
    pub(super) fn come_back(mut self) -> Result<Moved, (Box<Self>, String)> {
        let begin = Instant::now();
        let taken = self.allocations.iter_mut().try_for_each(Allocation::take);
        let back =
            taken.and_then(|()| copy_all(&self.allocations, &self.host, Direction::ToDevice));
        if let Err(refused) = back {
            let there = self.allocations.iter_mut().filter(|one| one.handle != 0);
            there.for_each(Allocation::leave);
            return Err((Box::new(self), format!("its memory does not return: {refused}")));
        }
        allocations::note(&self.allocations);
        Ok(moved(&self.allocations, begin))
    }
}

/// Copies all of it, context by context.
fn copy_all(
    allocations: &[Allocation],
    host: &HostMemory,
    direction: Direction,
) -> Result<(), Refused> {
    let mut contexts: BTreeMap<usize, Vec<Range>> = BTreeMap::new();
    let mut position = 0;
    for one in allocations {
        let range = Range { device: one.at, host: position, bytes: one.bytes };
        contexts.entry(one.context).or_default().push(range);
        position += one.bytes;
    }
    contexts.iter().try_for_each(|(context, ranges)| copy(*context, ranges, host, direction))
}

fn moved(allocations: &[Allocation], begin: Instant) -> Moved {
    let _inside = Inside::always();
    let mut devices: BTreeMap<i32, u64> = BTreeMap::new();
    for one in allocations {
        *devices.entry(one.ordinal).or_default() += one.bytes as u64;
    }
    let uuid = |(ordinal, bytes)| Some((driver::uuid(ordinal)?, bytes));
    let devices = devices.into_iter().filter_map(uuid).collect();
    Moved { devices, seconds: begin.elapsed().as_secs_f64() }
}
