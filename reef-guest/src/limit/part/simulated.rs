//! A device that slices its time between programs, and programs with parts of it, on a simulated clock.

use super::super::{BooksFile, Seat, Seen, Usage};
use super::Policy;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub(super) const MICROSECOND: u64 = 1_000;
pub(super) const MILLISECOND: u64 = 1_000_000;
/// A step of the simulation.
const STEP: u64 = 10 * MICROSECOND;
/// From one look of the keeper to the next, and of a thread that waits; and the longest sleep of one whose process has
/// no work. Each takes up to [`LAZY`] longer.
const LOOK: u64 = 1_000 * MICROSECOND;
const GLANCE: u64 = 100 * MICROSECOND;
const NAP: u64 = 2_000 * MICROSECOND;
const LAZY: u64 = 120 * MICROSECOND;
/// How much may be launched ahead, in time and in launches, and how many launches a mark is good for.
const AHEAD: u64 = 20 * MILLISECOND;
const MOST_AHEAD: u64 = 128;
const MARK_EVERY: u64 = 64;
/// How many launches the driver takes.
const DRIVER: u64 = 1_024;
/// How an H200 turns between processes: after so long, or at once if one has nothing to do, and it takes so long
/// (measured, driver 580: a block beside kernels of another process waits for 1.34 ms, beside an idle one 0.17).
const SLICE: u64 = 1_200 * MICROSECOND;
const SWITCH: u64 = 150 * MICROSECOND;
/// From the end of the work that a thread waits for to its next launch.
const RETURN: u64 = 20 * MICROSECOND;

/// What a program does.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) job: &'static str,
    /// Per cent; 0: without a limit.
    pub(super) part: u32,
    pub(super) policy: Policy,
    /// How long its kernels take, and for how many launches it waits at once; 0: it never waits.
    pub(super) kernel: u64,
    pub(super) batch: u64,
    /// What it does between a wait and the next launch.
    pub(super) thinks: u64,
    /// When it is there, and when it is stopped.
    pub(super) lives: Range<u64>,
    pub(super) stopped: Range<u64>,
}

impl Plan {
    pub(super) fn new(job: &'static str, part: u32, kernel: u64, batch: u64) -> Self {
        let (policy, thinks) = (Policy::Hard, RETURN);
        let kernel = kernel * MICROSECOND;
        Self { job, part, policy, kernel, batch, thinks, lives: 0..u64::MAX, stopped: 0..0 }
    }
}

/// A program that launches kernels of one length whenever it may, and waits for each so many.
struct Program {
    plan: Plan,
    seat: Seat,
    usage: Usage,
    /// Kernels that were launched, and that ran; what is left of the next.
    launched: u64,
    done: u64,
    left: u64,
    /// Marks that the device hasn't come to, and the last that it came to or that the program waited for.
    marks: VecDeque<u64>,
    known: u64,
    looks: u64,
    random: u64,
    /// Its thread does nothing until then.
    sleeps: u64,
    /// The end of its batch was seen.
    waited: bool,
    ran: u64,
}

impl Program {
    fn new(folder: &Path, plan: Plan) -> Self {
        let file = BooksFile::open(folder, b"sixteen bytes id").unwrap();
        let part = (plan.part > 0).then_some(plan.part * 10_000);
        let seat = Seat::join(file, plan.job, None, part).unwrap();
        let [launched, done, known, looks, sleeps, ran] = [0; 6];
        let random = 0x9E37_79B9_7F4A_7C15 ^ plan.kernel;
        let (usage, marks, left, waited) = (Usage::new(), VecDeque::new(), plan.kernel, false);
        Self {
            plan,
            seat,
            usage,
            launched,
            done,
            left,
            marks,
            known,
            looks,
            random,
            sleeps,
            waited,
            ran,
        }
    }

    fn works(&self) -> bool {
        self.done < self.launched
    }

    fn look(&self, now: u64, seen: Seen) {
        let account = self.seat.account();
        let ran = self.usage.look(now, seen, account.others());
        if ran > 0 {
            account.ran(now, ran, self.plan.policy);
        }
        account.looked(now, seen, self.plan.policy);
    }

    fn seen(&self) -> Seen {
        if self.known == self.launched { Seen::Ended } else { Seen::Working }
    }

    fn mark(&mut self) {
        if self.marks.back().copied().unwrap_or(self.known) != self.launched {
            self.marks.push_back(self.launched);
        }
    }

    /// The device has a step for it.
    fn run(&mut self) {
        let mut given = STEP;
        while given > 0 && self.works() {
            let part = given.min(self.left);
            (given, self.left, self.ran) = (given - part, self.left - part, self.ran + part);
            if self.left == 0 {
                (self.left, self.done) = (self.plan.kernel, self.done + 1);
            }
        }
        while self.marks.front().is_some_and(|mark| *mark <= self.done) {
            self.known = self.known.max(self.marks.pop_front().unwrap());
        }
    }

    /// Its thread goes on: a launch takes half a step.
    fn go_on(&mut self, now: u64) {
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
                self.look(now, Seen::EndedNow);
                (self.waited, self.sleeps) = (true, now + self.plan.thinks);
                return;
            }
            self.launch(now);
        }
    }

    fn launch(&mut self, now: u64) {
        let account = self.seat.account();
        if self.plan.part == 0 {
            let is_room = self.launched - self.done < DRIVER;
            self.launched += u64::from(is_room);
            self.waited &= !is_room;
            return;
        }
        let delay = account.wait_for_turn(now, self.plan.policy).as_nanos() as u64;
        let flight = (self.launched - self.known).saturating_sub(1);
        let is_ahead = flight * self.plan.kernel >= AHEAD || flight >= MOST_AHEAD;
        if is_ahead || delay > 0 {
            self.mark();
            let gap = self.usage.waits(now);
            account.ran(now, gap, self.plan.policy);
            self.look(now, self.seen());
            let most = if self.works() { GLANCE } else { NAP };
            self.sleeps = now + delay.clamp(GLANCE, most) + self.lazy();
            return;
        }
        if self.usage.launched(|| now) {
            account.works();
        }
        self.launched += 1;
        self.waited = false;
        if self.launched.is_multiple_of(MARK_EVERY) {
            self.mark();
        }
    }

    fn lazy(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % LAZY
    }

    fn keep(&mut self, now: u64) {
        if now >= self.looks {
            self.looks = now + LOOK + self.lazy();
            self.look(now, self.seen());
            self.mark();
        }
    }
}

/// Programs on a device, and their books.
pub(super) struct Fleet {
    folder: PathBuf,
    plans: Vec<Plan>,
    programs: Vec<Option<Program>>,
    /// Which of them the device works for, since when, and until when it only turns to it.
    at: usize,
    since: u64,
    ready: u64,
    pub(super) now: u64,
    begin: u64,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Fleet {
    pub(super) fn new(plans: Vec<Plan>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = (std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(format!("reef-time-{}-{}", number.0, number.1));
        let _ = std::fs::remove_dir_all(&folder); // of a test that was killed
        let programs = plans.iter().map(|_| None).collect();
        let begin = 7_000_000 * MICROSECOND;
        Self { folder, plans, programs, at: 0, since: 0, ready: 0, now: begin, begin }
    }

    /// Goes on for so many nanoseconds; returns how many of them the device worked for each program.
    pub(super) fn go_on(&mut self, nanos: u64) -> Vec<u64> {
        self.programs.iter_mut().flatten().for_each(|program| program.ran = 0);
        let until = self.now + nanos;
        while self.now < until {
            self.now += STEP;
            self.come_and_go();
            self.run();
            let (now, time) = (self.now, self.now - self.begin);
            for program in self.programs.iter_mut().flatten() {
                if !program.plan.stopped.contains(&time) {
                    program.go_on(now);
                    program.keep(now);
                }
            }
        }
        self.programs.iter().map(|program| program.as_ref().map_or(0, |it| it.ran)).collect()
    }

    fn come_and_go(&mut self) {
        let time = self.now - self.begin;
        for (plan, program) in self.plans.iter().zip(&mut self.programs) {
            match (plan.lives.contains(&time), &program) {
                (true, None) => *program = Some(Program::new(&self.folder, plan.clone())),
                // As if it were killed: it is in the books until they are reclaimed, a second later.
                (false, Some(_)) if time > plan.lives.end + 1_000 * MILLISECOND => *program = None,
                (false, Some(it)) if it.plan.stopped.end == 0 => {
                    let it = program.as_mut().unwrap();
                    (it.plan.stopped, it.launched) = (0..u64::MAX, it.done);
                }
                _ => {}
            }
        }
    }

    /// A step of the device.
    fn run(&mut self) {
        let works = |program: &Option<Program>| program.as_ref().is_some_and(Program::works);
        let count = self.programs.len();
        let is_over = self.now >= self.since + SLICE || !works(&self.programs[self.at]);
        let mut others = (1..count).map(|step| (self.at + step) % count);
        if is_over && let Some(next) = others.find(|next| works(&self.programs[*next])) {
            (self.at, self.ready) = (next, self.now + SWITCH);
            self.since = self.ready;
        }
        if self.now >= self.ready {
            self.programs[self.at].iter_mut().for_each(Program::run);
        }
    }
}

/// The throughput that programs had in seconds 2 to 12, in per cent of what each has without a limit and alone.
pub(super) fn parts(plans: Vec<Plan>) -> Vec<f64> {
    let alone = |plan: &Plan| {
        let mut fleet = Fleet::new(vec![Plan { part: 0, ..plan.clone() }]);
        fleet.go_on(200 * MILLISECOND);
        fleet.go_on(1_000 * MILLISECOND)[0] as f64
    };
    let alone: Vec<_> = plans.iter().map(alone).collect();
    let mut fleet = Fleet::new(plans);
    fleet.go_on(2_000 * MILLISECOND);
    let ran = fleet.go_on(10_000 * MILLISECOND);
    ran.iter().zip(alone).map(|(ran, alone)| *ran as f64 / 10.0 / alone * 100.0).collect()
}
