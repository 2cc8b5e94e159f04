//! Program with a part of a device's time, on a simulated clock.

use super::super::super::{AccountsFile, Slot, Usage, Wait, WaitTimeout, WorkState};
use super::super::Policy;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;

pub(in super::super) const MICROSECOND: u64 = 1_000;
pub(in super::super) const MILLISECOND: u64 = 1_000_000;
/// A step of the simulation.
pub(super) const STEP: u64 = 10 * MICROSECOND;
/// Intervals between polls of the watchdog and of a waiting thread, and longest sleep of a thread
/// whose process has no work. Each sleep takes up to [`MAX_OVERSLEEP`] longer.
const POLL_INTERVAL: u64 = 1_000 * MICROSECOND;
const RETRY_INTERVAL: u64 = 100 * MICROSECOND;
const MAX_SLEEP: u64 = 2_000 * MICROSECOND;
/// Time from the begin of a wait in which a thread with work in flight polls without sleeping.
const SPIN: u64 = 50 * MICROSECOND;
const MAX_OVERSLEEP: u64 = 120 * MICROSECOND;
/// Run-ahead in time and in launches, and launches for each mark.
const MAX_TIME_AHEAD: u64 = 20 * MILLISECOND;
const MAX_AHEAD: u64 = 128;
const MARK_EVERY: u64 = 64;
/// Capacity of the driver's queue, in launches.
const DRIVER: u64 = 1_024;
/// Time from the end of work that a thread waits for to its next launch.
const RETURN: u64 = 20 * MICROSECOND;

/// Behaviour of a program.
#[derive(Clone, Debug)]
pub(in super::super) struct Plan {
    pub(in super::super) job: &'static str,
    /// Per cent; 0: without a limit.
    pub(in super::super) part: u32,
    pub(in super::super) policy: Policy,
    /// Duration of its kernels, and launches that it waits for at once; 0: it never waits.
    pub(in super::super) kernel: u64,
    pub(in super::super) batch: u64,
    /// Time that it computes between a wait and the next launch.
    pub(in super::super) thinks: u64,
    /// Additional time of its first launch after a wait for its part.
    pub(in super::super) wakes: u64,
    /// Time for which it exists, and time for which it is stopped.
    pub(in super::super) lives: Range<u64>,
    pub(in super::super) stopped: Range<u64>,
}

impl Plan {
    pub(in super::super) fn new(job: &'static str, part: u32, kernel: u64, batch: u64) -> Self {
        let (policy, thinks, wakes) = (Policy::Hard, RETURN, 0);
        let kernel = kernel * MICROSECOND;
        Self { job, part, policy, kernel, batch, thinks, wakes, lives: 0..u64::MAX, stopped: 0..0 }
    }
}

/// Program that launches kernels of one length whenever it may, and waits after each batch.
pub(super) struct Program {
    pub(super) plan: Plan,
    slot: Slot,
    usage: Usage,
    /// Kernels that were launched, and that ran; what is left of the next.
    pub(super) launched: u64,
    pub(super) done: u64,
    left: u64,
    /// Marks that the device hasn't come to, and the last that it came to or that the program
    /// waited for.
    marks: VecDeque<u64>,
    known: u64,
    polls: u64,
    random: u64,
    /// Time until which its thread sleeps.
    sleeps: u64,
    /// Set once the end of its batch was seen.
    waited: bool,
    /// Time since which its next launch waits for its part.
    waits_since: Option<u64>,
    timeout: WaitTimeout,
    wait: Wait,
    pub(super) ran: u64,
}

impl Program {
    pub(super) fn new(folder: &Path, plan: Plan) -> Self {
        let file = AccountsFile::open(folder, b"sixteen bytes id").unwrap();
        let part = (plan.part > 0).then_some(plan.part * 10_000);
        let slot = Slot::join(file, plan.job, None, part).unwrap();
        let [launched, done, known, polls, sleeps, ran] = [0; 6];
        let random = 0x9E37_79B9_7F4A_7C15 ^ plan.kernel;
        let (usage, marks, left, waited) = (Usage::new(), VecDeque::new(), plan.kernel, false);
        Self {
            plan,
            slot,
            usage,
            launched,
            done,
            left,
            marks,
            known,
            polls,
            random,
            sleeps,
            waited,
            waits_since: None,
            timeout: WaitTimeout::new(),
            wait: Wait::default(),
            ran,
        }
    }

    pub(super) fn works(&self) -> bool {
        self.done < self.launched
    }

    fn poll(&self, now: u64, seen: WorkState) {
        let account = self.slot.account();
        let ran = self.usage.poll(now, seen, account.other_workers(now));
        if ran > 0 {
            account.charge(now, ran, self.plan.policy);
        }
        account.note_poll(now, seen, self.plan.policy);
    }

    fn state(&self) -> WorkState {
        if self.known == self.launched { WorkState::Ended } else { WorkState::Working }
    }

    fn mark(&mut self) {
        if self.marks.back().copied().unwrap_or(self.known) != self.launched {
            self.marks.push_back(self.launched);
        }
    }

    /// The device has a step for it.
    pub(super) fn run(&mut self) {
        let mut given = STEP;
        while given > 0 && self.works() {
            let part = given.min(self.left);
            (given, self.left, self.ran) = (given - part, self.left - part, self.ran + part);
            if self.left == 0 {
                (self.left, self.done) = (self.plan.kernel, self.done + 1);
            }
        }
    }

    /// The device comes to the marks behind what has ended.
    pub(super) fn reach_marks(&mut self) {
        while self.marks.front().is_some_and(|mark| *mark <= self.done) {
            self.known = self.known.max(self.marks.pop_front().unwrap());
        }
    }

    /// Its thread goes on: a launch takes half a step.
    pub(super) fn go_on(&mut self, now: u64) {
        for _ in 0..2 {
            if now < self.sleeps {
                return;
            }
            let (batch, is_new) = (self.plan.batch, !self.waited && self.launched > 0);
            if batch > 0 && is_new && self.launched.is_multiple_of(batch) {
                if self.works() {
                    return;
                }
                self.known = self.launched;
                self.poll(now, WorkState::EndedNow);
                (self.waited, self.sleeps) = (true, now + self.plan.thinks);
                return;
            }
            self.launch(now);
        }
    }

    fn launch(&mut self, now: u64) {
        let account = self.slot.account();
        if self.plan.part == 0 {
            let is_room = self.launched - self.done < DRIVER;
            self.launched += u64::from(is_room);
            self.waited &= !is_room;
            return;
        }
        let delay = account.wait_for_turn(now, self.plan.policy).as_nanos() as u64;
        let flight = (self.launched - self.known).saturating_sub(1);
        let is_ahead = flight * self.plan.kernel >= MAX_TIME_AHEAD || flight >= MAX_AHEAD;
        if is_ahead || delay > 0 {
            self.mark();
            let gap = self.usage.waits(now);
            account.charge(now, gap, self.plan.policy);
            self.poll(now, self.state());
            if !self.passes(now) {
                let since = *self.waits_since.get_or_insert(now);
                let is_working = self.state() == WorkState::Working;
                if is_working && now - since < SPIN {
                    self.sleeps = now + 1;
                } else {
                    let most = if is_working { RETRY_INTERVAL } else { MAX_SLEEP };
                    self.sleeps = now + delay.clamp(RETRY_INTERVAL, most) + self.oversleep();
                }
                return;
            }
        } else {
            self.timeout.note_paid();
        }
        self.wait = Wait::default();
        if self.usage.launched(|| now) {
            account.note_work();
        }
        self.launched += 1;
        self.waited = false;
        if self.waits_since.take().is_some() {
            self.sleeps = now + self.plan.wakes;
        }
        if self.launched.is_multiple_of(MARK_EVERY) {
            self.mark();
        }
    }

    /// Returns whether a launch passes that has to wait.
    fn passes(&mut self, now: u64) -> bool {
        let (account, progress) = (self.slot.account(), self.launched + self.known);
        let obstacle = account.obstacle(self.plan.policy, self.state(), progress as u32);
        self.timeout.is_over(&mut self.wait, now, obstacle)
    }

    fn oversleep(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % MAX_OVERSLEEP
    }

    pub(super) fn keep(&mut self, now: u64) {
        if now >= self.polls {
            self.polls = now + POLL_INTERVAL + self.oversleep();
            self.poll(now, self.state());
            self.mark();
        }
    }
}
