//! The device's state, and each thing that changes it.
//!
//! A launch is broken into workgroups; `place` puts them on units, the highest priority first; a
//! worker picks one, lets it run for a while without the lock, and brings it back. A workgroup that
//! is being run is nowhere else, so what ends a launch in the meantime only marks it (`ending`).

use super::group::{Group, Ran, Turn, ready};
use super::hardware_queue::{HardwareQueue, Processor};
use super::residents::{Order, Residents};
use super::trace::Trace;
use crate::clock::Clock;
use crate::dispatch::launch::Launch;
use crate::dispatch::unit::{Reservation, Unit};
use crate::events::Events;
use crate::isa::wave::poisoned;
use crate::memory::Memory;
use crate::queue::aql::Work;
use crate::settings::{Counters, Outcome, Record, Settings};
use std::collections::BTreeMap;

/// A launch that is not over.
#[derive(Debug)]
pub(super) struct Running {
    launch: Launch,
    queue: u32,
    /// The next workgroup to be placed.
    next: u32,
    /// Workgroups on units.
    resident: u32,
    /// Steps that count against the budget.
    spent: u64,
    /// Why no more of it shall run.
    ending: Option<Outcome>,
}

impl Running {
    fn is_over(&self) -> bool {
        self.resident == 0 && (self.ending.is_some() || self.next == self.launch.total())
    }

    fn has_more(&self) -> bool {
        self.ending.is_none() && self.next < self.launch.total()
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) settings: Settings,
    pub(super) units: Vec<Unit>,
    pub(super) queues: BTreeMap<u32, HardwareQueue>,
    pub(super) launches: BTreeMap<u64, Running>,
    pub(super) residents: Residents,
    /// Workgroups of queues that the host has stopped.
    pub(super) parked: Vec<Group>,
    pub(super) trace: Trace,
    pub(super) counters: Counters,
    pub(super) last_fault: String,
    pub(super) held: bool,
    /// Something was freed or launched since workgroups were placed.
    pub(super) unplaced: bool,
    /// Turns in a row in which workgroups only looked and slept.
    pub(super) sleepy: usize,
}

impl State {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            units: vec![Unit::default(); settings.units as usize],
            queues: BTreeMap::new(),
            launches: BTreeMap::new(),
            residents: Residents::new(Order::of(&settings), settings.slice),
            parked: Vec::new(),
            trace: Trace::new(settings.trace),
            counters: Counters::default(),
            last_fault: String::new(),
            held: false,
            unplaced: false,
            sleepy: 0,
        }
    }

    /// Clock that waves read as time.
    pub(super) fn clock(&self) -> Clock {
        match self.settings.workers {
            0 => Clock::Steps(self.counters.steps),
            _ => Clock::Host,
        }
    }

    /// Processes packets and places workgroups; whether there was anything to do.
    pub(super) fn advance(&mut self, memory: &Memory, events: &Events) -> bool {
        let ids: Vec<u32> = self.queues.keys().copied().collect();
        let before = self.counters.packets;
        for id in ids {
            if let Err(why) = self.process(id, memory, events) {
                self.fail_queue(id, &why);
            }
        }
        if std::mem::take(&mut self.unplaced) {
            self.place(memory);
        }
        self.counters.packets != before
    }

    /// Processes packets of one queue.
    fn process(&mut self, id: u32, memory: &Memory, events: &Events) -> Result<(), String> {
        let view = memory.view(self.clock());
        let Some(queue) = self.queues.get_mut(&id).filter(|queue| queue.active) else {
            return Ok(());
        };
        match &mut queue.processor {
            Processor::Copy(_) if self.held => {}
            Processor::Copy(sdma) => {
                self.counters.packets += sdma.advance(&queue.ring, &view, events)? as u64;
            }
            Processor::Compute(aql) => {
                aql.settle(&queue.ring, &view, events)?;
                while !self.held {
                    let number = self.counters.launches + 1;
                    let Some(taken) = aql.take_up(&queue.ring, &view, number)? else { break };
                    self.counters.packets += 1;
                    if let Work::Launch(launch) = taken {
                        self.counters.launches = number;
                        self.unplaced = true;
                        self.launches.insert(number, Running::new(*launch, id));
                    }
                    aql.settle(&queue.ring, &view, events)?;
                }
            }
        }
        Ok(())
    }

    /// Puts workgroups on units: those of higher priority first, those of equal priority in turn.
    /// Where one waits for room, no lower priority gets it.
    fn place(&mut self, memory: &Memory) {
        let mut reserved = 0;
        for priority in (-3..=3).rev() {
            let mut waiting: Vec<u32> = self
                .queues
                .iter()
                .filter(|(_, queue)| queue.active && queue.priority == priority)
                .map(|(&id, _)| id)
                .collect();
            let mut full = 0;
            while !waiting.is_empty() {
                waiting.retain(|&id| match self.next_of(id) {
                    None => false,
                    Some(launch) => {
                        let placed = self.place_one(launch, reserved, memory);
                        if !placed {
                            full |= self.queues[&id].mask;
                        }
                        placed
                    }
                });
            }
            reserved |= full;
        }
    }

    /// The oldest launch of a queue that has workgroups to be placed.
    fn next_of(&self, queue: u32) -> Option<u64> {
        let mut launches = self.launches.iter();
        launches
            .find(|(_, running)| running.queue == queue && running.has_more())
            .map(|(&id, _)| id)
    }

    /// Places the next workgroup of a launch on the unit with the fewest waves; false if it fits
    /// nowhere.
    fn place_one(&mut self, id: u64, reserved: u64, memory: &Memory) -> bool {
        let running = &self.launches[&id];
        let need = running.launch.need();
        let queue = &self.queues[&running.queue];
        let allowed = queue.mask & !reserved;
        let taken = (0..self.units.len())
            .filter(|unit| allowed >> unit & 1 != 0)
            .filter_map(|unit| {
                let mut after = self.units[unit];
                after.take(need).map(|reservation| (unit, after, reservation))
            })
            .min_by_key(|&(unit, after, _)| (after.waves(), unit));
        let Some((unit, after, reservation)) = taken else { return false };
        self.units[unit] = after;
        self.settle_in(id, unit, reservation, memory);
        true
    }

    fn settle_in(&mut self, id: u64, unit: usize, reservation: Reservation, memory: &Memory) {
        let running = self.launches.get_mut(&id).expect("it was chosen by its number");
        let priority = self.queues[&running.queue].priority;
        let index = running.next;
        let place = running.launch.place(index);
        let record = self.trace.begin(Record {
            launch: id,
            kernel: running.launch.kernel,
            start: self.counters.steps,
            end: 0,
            steps: 0,
            queue: running.queue,
            priority,
            unit: unit as u32,
            group: place,
            groups: running.launch.groups(),
            outcome: Outcome::Running,
        });
        running.next += 1;
        running.resident += 1;
        self.counters.groups += 1;
        let group = Group {
            launch: id,
            index,
            queue: running.queue,
            unit,
            reservation,
            record,
            waves: ready(running.launch.waves(place, memory.code())),
            lds: poisoned(running.launch.lds_bytes()),
        };
        self.residents.push(priority, group);
    }

    /// Takes out the workgroup that runs next.
    pub(super) fn pick(&mut self) -> Option<(Group, Turn)> {
        self.residents.pick()
    }

    /// Takes back a workgroup that has run.
    pub(super) fn put_back(&mut self, group: Group, ran: Ran) {
        self.counters.steps += ran.steps;
        self.trace.ran(group.record, ran.steps);
        self.sleepy = if ran.slept { self.sleepy + 1 } else { 0 };
        let running = self.launches.get_mut(&group.launch).expect("a workgroup of it is out");
        running.spent += ran.spent;
        let hung = running.spent > self.settings.step_budget;
        if let Some(ending) = running.ending {
            self.remove(&group, ending);
        } else if let Some(fault) = ran.fault {
            let why = format!("{:#x}: {}: {}", fault.pc, fault.instruction, fault.why);
            self.fail_launch(&group, &why);
        } else if ran.ended {
            self.remove(&group, Outcome::Ended);
        } else if hung {
            let budget = self.settings.step_budget;
            self.fail_launch(&group, &format!("{:#x}: more than {budget} steps", group.pc()));
        } else {
            self.keep(group);
        }
    }

    fn keep(&mut self, group: Group) {
        let queue = &self.queues[&group.queue];
        if queue.active {
            self.residents.push(queue.priority, group)
        } else {
            self.parked.push(group)
        }
    }

    /// A workgroup is no longer on its unit.
    fn remove(&mut self, group: &Group, outcome: Outcome) {
        self.units[group.unit].release(group.reservation);
        self.trace.end(group.record, self.counters.steps, outcome);
        self.unplaced = true;
        let running = self.launches.get_mut(&group.launch).expect("a workgroup of it was resident");
        running.resident -= 1;
        self.finish(group.launch);
    }

    /// Tells the queue if a launch is over.
    fn finish(&mut self, id: u64) {
        let Some(running) = self.launches.get(&id).filter(|running| running.is_over()) else {
            return;
        };
        let good = running.ending.is_none();
        if let Some(queue) = self.queues.get_mut(&running.queue)
            && let Processor::Compute(aql) = &mut queue.processor
        {
            aql.finish(id, good);
        }
        self.launches.remove(&id);
    }

    /// A workgroup had a fault: its launch ends, and its queue is in error.
    fn fail_launch(&mut self, group: &Group, why: &str) {
        let Group { launch, queue, index, unit, .. } = *group;
        let why = format!("launch {launch}, workgroup {index}, unit {unit}: {why}");
        self.fail_queue(queue, &why);
        self.remove(group, Outcome::Faulted);
    }

    /// All launches of a queue end, and those to come fail.
    fn fail_queue(&mut self, id: u32, why: &str) {
        self.counters.faults += 1;
        self.last_fault = format!("queue {id}: {why}");
        if let Some(queue) = self.queues.get_mut(&id) {
            queue.fail();
        }
        self.end_launches(id, Outcome::Faulted);
    }

    /// Ends all launches of a queue. Workgroups that are being run are removed when they come back.
    pub(super) fn end_launches(&mut self, queue: u32, ending: Outcome) {
        let launches = self.launches.iter_mut().filter(|(_, running)| running.queue == queue);
        let ids: Vec<u64> = launches
            .map(|(&id, running)| {
                running.ending = Some(ending);
                id
            })
            .collect();
        let mut gone = self.residents.remove(|group| group.queue == queue);
        gone.extend(self.parked.extract_if(.., |group| group.queue == queue));
        for group in gone {
            self.remove(&group, ending);
        }
        ids.into_iter().for_each(|id| self.finish(id));
    }

    /// Returns whether a workgroup of the queue is on a unit or being run.
    pub(super) fn is_running(&self, queue: u32) -> bool {
        self.launches.values().any(|running| running.queue == queue)
    }

    /// The host stops a queue, or lets it go on.
    pub(super) fn set_active(&mut self, id: u32, active: bool) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.active = active;
        let priority = queue.priority;
        if active {
            for group in self.parked.extract_if(.., |group| group.queue == id) {
                self.residents.push(priority, group);
            }
        } else {
            self.parked.extend(self.residents.remove(|group| group.queue == id));
        }
        self.unplaced = true;
    }

    /// Every unit's workgroups, resident or parked or being run.
    pub(super) fn resident(&self) -> u64 {
        self.launches.values().map(|running| u64::from(running.resident)).sum()
    }
}

impl Running {
    fn new(launch: Launch, queue: u32) -> Self {
        Self { launch, queue, next: 0, resident: 0, spent: 0, ending: None }
    }
}
