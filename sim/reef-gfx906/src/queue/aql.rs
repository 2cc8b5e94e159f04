//! The packet processor of a compute queue: packets of 64 bytes, taken up in order.
//!
//! A packet stays in the ring until it is complete, and the read index passes it only when all
//! before it are. Those without the barrier bit may run at the same time as the ones before them.

use super::ring::Ring;
use super::signal;
use crate::access::{u32_at, u64_at};
use crate::clock::Clock;
use crate::dispatch::launch::Launch;
use crate::events::Events;
use crate::memory::View;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Release};

const PACKET: u64 = 64;
/// Maximum of launches of one queue that run at the same time.
const IN_FLIGHT: usize = 8;
const BARRIER: u16 = 1 << 8;

/// Packet types.
mod kind {
    pub(super) const VENDOR: u16 = 0;
    pub(super) const INVALID: u16 = 1;
    pub(super) const DISPATCH: u16 = 2;
    pub(super) const BARRIER_AND: u16 = 3;
    pub(super) const BARRIER_OR: u16 = 5;
}

/// Formats of vendor packets.
mod format {
    /// Commands for the packet processor itself; what the runtime sends is about caches.
    pub(super) const COMMANDS: u8 = 1;
    pub(super) const BARRIER_VALUE: u8 = 2;
}

/// Condition that a barrier packet waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    All([u64; 5]),
    Any([u64; 5]),
    Value { signal: u64, value: i64, mask: i64, comparison: u32 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Waits(Condition),
    Runs(u64),
    Finished { good: bool },
    Complete,
}

#[derive(Debug)]
struct InFlight {
    progress: Progress,
    completion: u64,
    start: u64,
}

/// State of a queue's packet processor.
#[derive(Debug, Default)]
pub(crate) struct Aql {
    in_flight: VecDeque<InFlight>,
    /// Index of the oldest packet in flight.
    oldest: u64,
    /// Packets are given back undone.
    pub(crate) failed: bool,
}

impl Aql {
    /// A processor for a ring that may have been used before.
    pub(crate) fn starting_at(ring: &Ring) -> Self {
        Self { oldest: ring.read.load(Acquire), ..Self::default() }
    }

    /// Takes up the next packet if it may start. A launch that it asks for gets the number `id`.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the packet; it counts as failed.
    pub(crate) fn take_up(
        &mut self,
        ring: &Ring,
        view: &View<'_>,
        id: u64,
    ) -> Result<Option<Work>, String> {
        let index = self.oldest + self.in_flight.len() as u64;
        if index >= ring.write.load(Acquire) || self.is_blocked() {
            return Ok(None);
        }
        let at = ring.base + index * PACKET % ring.bytes;
        let Ok(header) = view.word16(at) else {
            // Said once: a queue that has failed takes nothing up from there.
            return if self.failed {
                Ok(None)
            } else {
                Err(format!("ring at {at:#x}: not mapped"))
            };
        };
        let header = header.load(Acquire);
        let waits = header & BARRIER != 0 && !self.in_flight.is_empty();
        if header & 0xff == kind::INVALID || waits {
            return Ok(None);
        }
        let packet = view.bytes(at).map_err(|bad| bad.to_string())?;
        self.start(header & 0xff, at, &packet, view, id)
    }

    fn is_blocked(&self) -> bool {
        self.in_flight.len() >= IN_FLIGHT
            || self.in_flight.iter().any(|packet| matches!(packet.progress, Progress::Waits(_)))
    }

    fn start(
        &mut self,
        kind: u16,
        at: u64,
        packet: &[u8; 64],
        view: &View<'_>,
        id: u64,
    ) -> Result<Option<Work>, String> {
        let taken = if self.failed {
            Ok((Progress::Finished { good: false }, Work::Other))
        } else {
            begin(kind, at, packet, view, id)
        };
        let failed = (Progress::Finished { good: false }, Work::Other);
        let (progress, result) = match taken {
            Ok((progress, taken)) => (progress, Ok(Some(taken))),
            Err(why) => (failed.0, Err(why)),
        };
        let completion = u64_at(packet, 56);
        self.in_flight.push_back(InFlight { progress, completion, start: Clock::Host.now() });
        result
    }

    /// A launch is over.
    pub(crate) fn finish(&mut self, launch: u64, good: bool) {
        let runs = |packet: &&mut InFlight| packet.progress == Progress::Runs(launch);
        if let Some(packet) = self.in_flight.iter_mut().find(runs) {
            packet.progress = Progress::Finished { good };
        }
    }

    /// Looks what barriers wait for, sets the signals of what has finished, and gives packets back.
    ///
    /// # Errors
    ///
    /// Names a signal that can't be reached; its packet counts as complete.
    pub(crate) fn settle(
        &mut self,
        ring: &Ring,
        view: &View<'_>,
        events: &Events,
    ) -> Result<(), String> {
        let mut result = Ok(());
        for packet in &mut self.in_flight {
            if let Err(why) = packet.settle(view, events) {
                result = Err(why);
            }
        }
        while self.in_flight.front().is_some_and(|packet| packet.progress == Progress::Complete) {
            self.give_back(ring, view);
        }
        result
    }

    fn give_back(&mut self, ring: &Ring, view: &View<'_>) {
        self.in_flight.pop_front();
        if let Ok(header) = view.word16(ring.base + self.oldest * PACKET % ring.bytes) {
            header.store(kind::INVALID, Release);
        }
        self.oldest += 1;
        ring.read.store(self.oldest, Release);
    }
}

/// Work that was begun for a packet.
#[derive(Debug)]
pub(crate) enum Work {
    Launch(Box<Launch>),
    Other,
}

impl InFlight {
    fn settle(&mut self, view: &View<'_>, events: &Events) -> Result<(), String> {
        if let Progress::Waits(condition) = self.progress {
            match condition.holds(view) {
                Ok(false) => {}
                Ok(true) => self.progress = Progress::Finished { good: true },
                Err(why) => {
                    self.progress = Progress::Finished { good: false };
                    return Err(why);
                }
            }
        }
        if let Progress::Finished { good } = self.progress {
            self.progress = Progress::Complete;
            signal::complete(view, events, self.completion, self.start, good)
                .map_err(|bad| format!("completion signal {bad}"))?;
        }
        Ok(())
    }
}

fn begin(
    kind: u16,
    at: u64,
    packet: &[u8; 64],
    view: &View<'_>,
    id: u64,
) -> Result<(Progress, Work), String> {
    let signals = || [8, 16, 24, 32, 40].map(|field| u64_at(packet, field));
    let progress = match kind {
        kind::DISPATCH => {
            let launch = Launch::read(id, at, view)?;
            return Ok((Progress::Runs(id), Work::Launch(Box::new(launch))));
        }
        kind::BARRIER_AND => Progress::Waits(Condition::All(signals())),
        kind::BARRIER_OR => Progress::Waits(Condition::Any(signals())),
        kind::VENDOR => vendor(packet)?,
        other => return Err(format!("packet of unknown type {other}")),
    };
    Ok((progress, Work::Other))
}

fn vendor(packet: &[u8; 64]) -> Result<Progress, String> {
    match packet[2] {
        format::COMMANDS => Ok(Progress::Finished { good: true }),
        format::BARRIER_VALUE => Ok(Progress::Waits(Condition::Value {
            signal: u64_at(packet, 8),
            value: u64_at(packet, 16) as i64,
            mask: u64_at(packet, 24) as i64,
            comparison: u32_at(packet, 32),
        })),
        other => Err(format!("vendor packet of unknown format {other}")),
    }
}

impl Condition {
    /// A failed signal counts as set: a packet that waits for it must not wait for ever.
    fn holds(&self, view: &View<'_>) -> Result<bool, String> {
        let signal = |at| signal::value(view, at).map_err(|bad| format!("signal {bad}"));
        let done = |at: &u64| signal(*at).map(|value| value <= 0);
        let named = |signals: &[u64; 5]| -> Result<Vec<bool>, String> {
            signals.iter().filter(|&&at| at != 0).map(done).collect()
        };
        Ok(match self {
            Self::All(signals) => named(signals)?.iter().all(|&done| done),
            Self::Any(signals) => {
                let named = named(signals)?;
                named.is_empty() || named.contains(&true)
            }
            Self::Value { signal: at, value, mask, comparison } => {
                let seen = signal(*at)? & mask;
                match comparison {
                    0 => seen == *value,
                    1 => seen != *value,
                    2 => seen < *value,
                    _ => seen >= *value,
                }
            }
        })
    }
}
