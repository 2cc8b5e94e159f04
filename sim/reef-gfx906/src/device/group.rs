//! A workgroup on a compute unit.

use crate::dispatch::unit::Reservation;
use crate::isa::wave::{Fault, Memory, Pause, Wave};

/// Cost of a sleep, in instructions: without it a launch that waits would never use up its budget.
const SLEEP: u64 = 64;
/// Maximum of rounds from barrier to barrier before others have their turn.
const ROUNDS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Ready,
    AtBarrier,
    Ended,
}

/// One workgroup, between two turns.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) launch: u64,
    pub(crate) queue: u32,
    pub(crate) unit: usize,
    pub(crate) reservation: Reservation,
    /// Its number in the trace.
    pub(crate) record: u64,
    /// Its number in the launch.
    pub(crate) index: u32,
    /// Waves, from [`ready`].
    pub(super) waves: Vec<(Wave, Progress)>,
    /// Shared memory.
    pub(super) lds: Vec<u8>,
}

/// Waves that have not begun.
pub(super) fn ready(waves: Vec<Wave>) -> Vec<(Wave, Progress)> {
    waves.into_iter().map(|wave| (wave, Progress::Ready)).collect()
}

/// Waves that run in a turn, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Each wave, at most this number of instructions at a time.
    All(u32),
    /// One of the waves that can, counted modulo their number, for `steps` instructions.
    One { choice: u32, steps: u32 },
}

/// Result of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) steps: u64,
    /// Steps that count against the launch's budget.
    pub(crate) spent: u64,
    /// Waves only looked, and went to sleep again.
    pub(crate) slept: bool,
    pub(crate) worked: bool,
    pub(crate) ended: bool,
    pub(crate) fault: Option<Fault>,
}

impl Group {
    /// Address of the instruction that the first wave which has not ended would run next.
    pub(crate) fn pc(&self) -> u64 {
        let live = self.waves.iter().find(|(_, progress)| *progress != Progress::Ended);
        live.map_or(0, |(wave, _)| wave.pc())
    }

    /// Lets waves run.
    pub(crate) fn run(&mut self, turn: Turn, memory: &dyn Memory) -> Ran {
        let mut ran = Ran::default();
        let result = match turn {
            Turn::All(steps) => self.run_all(steps, memory, &mut ran),
            Turn::One { choice, steps } => self.run_one(choice, steps, memory, &mut ran),
        };
        ran.fault = result.err();
        ran.slept &= !ran.worked;
        ran.ended = self.waves.iter().all(|(_, progress)| *progress == Progress::Ended);
        ran
    }

    fn run_all(&mut self, steps: u32, memory: &dyn Memory, ran: &mut Ran) -> Result<(), Fault> {
        for _ in 0..ROUNDS {
            for index in 0..self.waves.len() {
                if self.waves[index].1 == Progress::Ready {
                    self.run_wave(index, steps, memory, ran)?;
                }
            }
            if !self.pass_barrier() || ran.steps > u64::from(steps) * 4 {
                break;
            }
        }
        Ok(())
    }

    fn run_one(
        &mut self,
        choice: u32,
        steps: u32,
        memory: &dyn Memory,
        ran: &mut Ran,
    ) -> Result<(), Fault> {
        let ready = |(index, (_, progress)): (usize, &(Wave, Progress))| {
            (*progress == Progress::Ready).then_some(index)
        };
        let ready: Vec<usize> = self.waves.iter().enumerate().filter_map(ready).collect();
        if let Some(&index) = ready.get(choice as usize % ready.len().max(1)) {
            self.run_wave(index, steps, memory, ran)?;
        }
        self.pass_barrier();
        Ok(())
    }

    fn run_wave(
        &mut self,
        index: usize,
        steps: u32,
        memory: &dyn Memory,
        ran: &mut Ran,
    ) -> Result<(), Fault> {
        let (wave, progress) = &mut self.waves[index];
        let before = wave.executed();
        let pause = wave.run(&mut self.lds, memory, steps);
        let executed = wave.executed() - before;
        ran.steps += executed;
        ran.spent += executed;
        match pause? {
            Pause::Steps => ran.worked = true,
            Pause::Sleep => {
                ran.spent += SLEEP;
                ran.slept = true;
            }
            Pause::Barrier => *progress = Progress::AtBarrier,
            Pause::Ended => {
                *progress = Progress::Ended;
                ran.worked = true;
            }
        }
        Ok(())
    }

    /// Lets all waves go on once each that has not ended waits; whether they do.
    fn pass_barrier(&mut self) -> bool {
        if self.waves.iter().any(|(_, progress)| *progress == Progress::Ready) {
            return false;
        }
        let waiting =
            self.waves.iter_mut().filter(|(_, progress)| *progress == Progress::AtBarrier);
        waiting.map(|(_, progress)| *progress = Progress::Ready).count() > 0
    }
}
