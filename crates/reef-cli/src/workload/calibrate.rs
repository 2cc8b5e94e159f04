//! Number of rounds of `append` for a block of a given time, on a device that is full of such
//! blocks.

use anyhow::{Result, bail};
use reef::{Device, DeviceInfo, Priority, Stopwatch, testing::Cells};
use std::time::Duration;

/// Blocks of a kernel, for each unit.
const PER_UNIT: u32 = 8;
/// A measurement much longer than what launching adds to it.
const LONG: Duration = Duration::from_millis(4);
/// Rounds after which a kernel that is still not long must be broken.
const MAX_ROUNDS: u64 = 1 << 40;
/// Corrections of the number of rounds: clocks change, and others disturb.
const TRIES: usize = 4;
/// Relative error at which a block's time is close enough.
const CLOSE: f64 = 0.03;
/// Times each kernel is measured.
const REPEATS: usize = 3;

/// Time of one round.
pub(crate) struct Calibration {
    /// Time of a block's round, in nanoseconds.
    round: f64,
    /// Blocks of each unit that run one after the other.
    waves: u32,
}

/// Cells for a grid that fills the device: with eight blocks resident on a unit no thread is free.
#[cfg(feature = "bench")]
pub(crate) fn cells<D: Device>(device: &D) -> Result<Cells<D>> {
    cells_of(device, PER_UNIT)
}

/// Cells for a grid that fills the device with blocks that all run at the same time.
pub(crate) fn wave<D: Device>(device: &D) -> Result<Cells<D>> {
    cells_of(device, resident(&device.info()))
}

fn cells_of<D: Device>(device: &D, per_unit: u32) -> Result<Cells<D>> {
    let info = device.info();
    Ok(Cells::new(device, per_unit * info.units)?.threads(threads(info.threads_per_unit)))
}

/// Blocks of such a grid that run on a unit at the same time.
fn resident(info: &DeviceInfo) -> u32 {
    let fit = info.threads_per_unit / threads(info.threads_per_unit);
    info.blocks_per_unit.min(fit).clamp(1, PER_UNIT)
}

fn threads(per_unit: u32) -> u32 {
    match per_unit / PER_UNIT {
        small @ 0..32 => small.max(1),
        large => (large / 32 * 32).min(1024),
    }
}

impl Calibration {
    /// Measures kernels of more and more rounds, until what launching adds doesn't matter.
    pub(crate) fn new<D: Device>(device: &D) -> Result<Self> {
        let waves = PER_UNIT.div_ceil(resident(&device.info()));
        let mut watch = Watch::new(device)?;
        let empty = watch.kernel(0)?;
        let mut rounds = 64;
        loop {
            let whole = watch.kernel(rounds)?;
            if whole > LONG && whole > 10 * empty {
                let each = (whole - empty).as_nanos() as f64;
                return Ok(Self { round: each / rounds as f64 / f64::from(waves), waves });
            }
            rounds *= 2;
            if rounds > MAX_ROUNDS {
                bail!("{}: {rounds} rounds of `append` take no time", D::NAME);
            }
        }
    }

    /// Rounds for a block of `time`, and what such a block takes when it is measured.
    pub(crate) fn rounds<D: Device>(&self, device: &D, time: Duration) -> Result<(u64, Duration)> {
        let mut watch = Watch::new(device)?;
        let empty = watch.kernel(0)?;
        let mut rounds = time.as_nanos() as f64 / self.round;
        let mut tries = 0;
        loop {
            let whole = watch.kernel(rounds.round() as u64)?;
            let reached = whole.saturating_sub(empty) / self.waves;
            let ratio = time.as_secs_f64() / reached.as_secs_f64().max(1e-9);
            tries += 1;
            if tries == TRIES || time.is_zero() || (ratio - 1.0).abs() < CLOSE {
                return Ok((rounds.round() as u64, reached));
            }
            rounds *= ratio.clamp(0.1, 10.0);
        }
    }
}

/// Times kernels that fill the device.
struct Watch<D: Device> {
    cells: Cells<D>,
    stopwatch: Stopwatch<D>,
}

impl<D: Device> Watch<D> {
    fn new(device: &D) -> Result<Self> {
        let queue = device.queue(Priority::BestEffort, None)?;
        Ok(Self { cells: cells_of(device, PER_UNIT)?, stopwatch: Stopwatch::new(device, queue)? })
    }

    fn kernel(&mut self, rounds: u64) -> Result<Duration> {
        Ok(self.stopwatch.min_time(REPEATS, [&self.cells.launch(1, rounds)])?)
    }
}
