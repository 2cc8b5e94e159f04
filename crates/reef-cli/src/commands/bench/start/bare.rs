//! One bare launch: time of the device and its driver for a kernel of one block, with nothing of
//! ours around it.

use anyhow::{Result, bail};
use reef::{
    Device, Priority, Queue, Seq,
    testing::{Cells, appended},
};
use std::time::{Duration, Instant};

/// A launch that is not seen for so long is lost.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A stream of the highest priority, and the kernel of the real-time rows, which here writes to the
/// host's memory.
pub(super) struct Bare<D: Device> {
    device: D,
    queue: D::Queue,
    cells: Cells<D>,
    runs: u64,
    /// Content of the cell after the next launch.
    next: u64,
}

impl<D: Device> Bare<D> {
    pub(super) fn new(device: &D) -> Result<Self> {
        let queue = device.queue(Priority::RealTime, None)?;
        let cells = Cells::on_host(device, 1)?;
        Ok(Self { device: device.clone(), queue, cells, runs: 0, next: appended([1]) })
    }

    /// Time from the call that launches until the host sees what the block wrote.
    ///
    /// # Errors
    ///
    /// The device's, or that nothing is to be seen.
    pub(super) fn launch(&mut self) -> Result<Duration> {
        let launch = self.cells.launch(1, 0);
        let mut seen = [0; 8];
        let begin = Instant::now();
        self.queue.launch(Seq(self.runs), &launch, None)?;
        while u64::from_ne_bytes(seen) != self.next {
            std::hint::spin_loop();
            self.device.read(self.cells.buffer(), 0, &mut seen)?;
            if begin.elapsed() > TIMEOUT {
                bail!("a bare launch has not been seen for {TIMEOUT:?}");
            }
        }
        let time = begin.elapsed();
        self.runs += 1;
        self.next = self.next.wrapping_mul(3).wrapping_add(1);
        while self.queue.completed()? < Seq(self.runs) {
            std::hint::spin_loop(); // so that it keeps nothing
        }
        Ok(time)
    }
}
