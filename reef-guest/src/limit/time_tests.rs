//! Programs with parts of a device's time, on a simulated clock.

use super::super::{BooksFile, Seat, Seen, Usage};
use super::*;
use std::collections::VecDeque;
use std::path::Path;

const MICROSECOND: u64 = 1_000;
/// A step of the simulation.
const STEP: u64 = 10 * MICROSECOND;
/// From one look of the keeper to the next, and of a thread that waits: what a sleep of 1 and 0.1 ms takes.
const LOOK: u64 = 1_060 * MICROSECOND;
const GLANCE: u64 = 160 * MICROSECOND;
/// How much may be launched ahead.
const AHEAD: u64 = 20_000 * MICROSECOND;
/// How the device turns between programs.
const SLICE: u64 = 2_000 * MICROSECOND;

/// A program that launches kernels of one length whenever it may, and waits for each so many.
struct Program {
    seat: Seat,
    usage: Usage,
    kernel: u64,
    batch: u64,
    /// Kernels that were launched, and that ran; what is left of the next.
    launched: u64,
    done: u64,
    left: u64,
    /// Marks that the device hasn't come to, and the last that it came to or that the program waited for.
    marks: VecDeque<u64>,
    known: u64,
    looked: u64,
    /// Since when its thread has waited for its part.
    waits: Option<u64>,
    ran: u64,
}

impl Program {
    fn new(folder: &Path, name: &str, part: u32, kernel: u64, batch: u64) -> Self {
        let file = BooksFile::open(folder, b"sixteen bytes id").unwrap();
        let seat = Seat::join(file, name, None, Some(part)).unwrap();
        let [launched, done, known, looked, ran] = [0; 5];
        let (usage, marks, left, waits) = (Usage::new(), VecDeque::new(), kernel, None);
        Self { seat, usage, kernel, batch, launched, done, left, marks, known, looked, waits, ran }
    }

    fn works(&self) -> bool {
        self.done < self.launched
    }

    fn look(&self, now: u64, seen: Seen, policy: Policy) {
        let ran = self.usage.look(now, seen, self.seat.account().others());
        self.seat.account().works(seen == Seen::Working);
        if ran > 0 {
            self.seat.account().ran(now, ran, policy);
        }
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
                (self.left, self.done) = (self.kernel, self.done + 1);
            }
        }
        while self.marks.front().is_some_and(|mark| *mark <= self.done) {
            self.known = self.known.max(self.marks.pop_front().unwrap());
        }
    }

    /// Its thread goes on: a launch takes half a step.
    fn go_on(&mut self, now: u64, policy: Policy) {
        if self.waits.is_some_and(|since| now < since + GLANCE) {
            return;
        }
        for _ in 0..2 {
            if self.launched > 0 && self.launched.is_multiple_of(self.batch) {
                if self.works() {
                    return;
                }
                if self.known != self.launched {
                    self.known = self.launched;
                    self.look(now, Seen::EndedNow, policy);
                }
            }
            let is_ahead = (self.launched - self.known).saturating_sub(1) * self.kernel >= AHEAD;
            if is_ahead || !self.seat.account().wait(now, policy).is_zero() {
                self.mark();
                self.look(now, self.seen(), policy);
                self.waits = Some(now);
                return;
            }
            self.waits = None;
            if self.usage.launched(|| now) {
                self.seat.account().works(true);
            }
            self.launched += 1;
        }
    }

    fn keep(&mut self, now: u64, policy: Policy) {
        if now >= self.looked + LOOK {
            self.looked = now;
            self.look(now, self.seen(), policy);
            self.mark();
        }
    }
}

/// Which parts of the time programs had in seconds 1 to 11: name, percent, microseconds of a kernel, kernels a batch.
fn parts(name: &str, all: &[(&str, u32, u64, u64)], policy: Policy) -> Vec<f64> {
    let folder = std::env::temp_dir().join(format!("reef-time-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder); // of a test that was killed
    let new = |&(name, percent, kernel, batch): &(&str, u32, u64, u64)| {
        Program::new(&folder, name, percent * 10_000, kernel * MICROSECOND, batch)
    };
    let mut programs: Vec<_> = all.iter().map(new).collect();
    let (mut turn, mut turned) = (0, 0);
    for step in 0..11_000_000 * MICROSECOND / STEP {
        let now = 7_000_000 * MICROSECOND + step * STEP;
        if step == 1_000_000 * MICROSECOND / STEP {
            programs.iter_mut().for_each(|program| program.ran = 0);
        }
        if now >= turned + SLICE || !programs[turn].works() {
            (turn, turned) = ((turn + 1) % programs.len(), now);
        }
        programs[turn].run();
        for program in &mut programs {
            program.go_on(now, policy);
            program.keep(now, policy);
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    programs.iter().map(|program| program.ran as f64 / 1e8).collect()
}

#[test]
fn a_program_has_its_part_of_the_time_within_three_points() {
    for percent in [10, 30, 50, 70, 100] {
        let ahead = [10, 300, 1_000, 9_000, 150_000].map(|kernel| (kernel, 0));
        // The first of these waits for each 0.56 ms of work.
        let waiting = [(28, 20), (300, 1), (1_000, 30), (9_000, 1)];
        for (kernel, batch) in ahead.into_iter().chain(waiting) {
            let part = parts("one", &[("a", percent, kernel, batch)], Policy::Hard)[0];
            let off = (part - f64::from(percent)).abs();
            // Waiting for each batch leaves gaps, which nobody uses without a limit either.
            let gaps = if percent == 100 && batch > 0 { 6.0 } else { 0.0 };
            assert!(off <= 3.0 + gaps, "{percent} %, {batch} kernels of {kernel} us: {part}");
        }
    }
}

#[test]
fn two_programs_have_their_parts_of_the_time() {
    // The last one waits for each 0.56 ms of work, as a loop of PyTorch did that had 39 and 46 % on an H200 (2026-11-23).
    let kernels =
        [(100, 100, 0), (100, 5_000, 0), (5_000, 100, 0), (3_000, 3_000, 0), (28, 28, 20)];
    for (a, b, batch) in kernels {
        let all = [("a", 30, a, batch), ("b", 70, b, batch)];
        for policy in [Policy::Hard, Policy::WorkConserving] {
            let had = parts("two", &all, policy);
            let off = [(had[0] - 30.0).abs(), (had[1] - 70.0).abs()];
            assert!(off[0] <= 3.0 && off[1] <= 7.0, "{a}, {b} us, {batch}, {policy:?}: {had:?}");
        }
    }
}

#[test]
fn a_work_conserving_part_is_all_of_it_while_nobody_else_wants_it() {
    assert!(parts("soft", &[("a", 10, 1_000, 0)], Policy::WorkConserving)[0] > 97.0);
}
