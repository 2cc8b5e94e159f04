//! Device that slices its time between programs, on a simulated clock.

use super::program::{MICROSECOND, MILLISECOND, Plan, Program, STEP};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Time slice of an H200 for a process with work, and time of a switch to another process
/// (measured, driver 580: a block next to kernels of another process waits for 1.34 ms, next to an
/// idle one for 0.17 ms).
const SLICE: u64 = 1_200 * MICROSECOND;
const SWITCH: u64 = 150 * MICROSECOND;
/// Programs on a device, and their accounts file.
pub(in super::super) struct Fleet {
    folder: PathBuf,
    plans: Vec<Plan>,
    programs: Vec<Option<Program>>,
    /// Program that the device works for, the start of its slice, and the end of the switch to it.
    at: usize,
    since: u64,
    ready: u64,
    pub(in super::super) now: u64,
    begin: u64,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Fleet {
    pub(in super::super) fn new(plans: Vec<Plan>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = (std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(format!("reef-time-{}-{}", number.0, number.1));
        let _ = std::fs::remove_dir_all(&folder); // of a test that was killed
        let programs = plans.iter().map(|_| None).collect();
        let begin = 7_000_000 * MICROSECOND;
        Self { folder, plans, programs, at: 0, since: 0, ready: 0, now: begin, begin }
    }

    /// Simulates `nanos` nanoseconds. Returns the device time of each program among them.
    pub(in super::super) fn go_on(&mut self, nanos: u64) -> Vec<u64> {
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
                // As if it were killed: its slot is reclaimed a second later.
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
        self.programs.iter_mut().flatten().for_each(Program::reach_marks);
    }
}

/// Returns the throughput of each program in seconds 2 to 12, in per cent of its throughput alone
/// and without a limit.
pub(in super::super) fn parts(plans: Vec<Plan>) -> Vec<f64> {
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
