//! Work of any length whose effect shows whether each block ran once, on every device.
//!
//! The kernel is `append`, which every device has: see [`Device::kernel`].

use crate::backend::command::{Args, Command, Launch};
use crate::backend::device::Device;
use crate::backend::error::Result;

/// An array of cells on a device, one for each block of the launches that write them.
///
/// Launches on the same cells must not run at the same time: order is what the cells show.
///
/// ```
/// use reef_core::{Cells, Config, Device, VirtualQueue, appended};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let cells = Cells::new(&device, 4)?;
/// let (mut submitter, _queue) = VirtualQueue::enable(&device, Config::default())?;
/// submitter.submit_blocking(cells.append(7, 0))?;
/// let last = submitter.submit_blocking(cells.append(8, 0))?;
/// submitter.wait(last)?;
/// assert_eq!(cells.read()?, [appended([7, 8]); 4]);
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Cells<D: Device> {
    device: D,
    buffer: D::Buffer,
    kernel: D::Kernel,
    len: u32,
    threads: u32,
}

impl<D: Device> Cells<D> {
    /// Allocates `len` cells, all 0.
    ///
    /// # Errors
    ///
    /// Returns an error of the device.
    pub fn new(device: &D, len: u32) -> Result<Self> {
        Self::within(device, device.alloc(len as usize * size_of::<u64>())?, len)
    }

    /// Cells in the host's memory, which it can look at while kernels run.
    ///
    /// # Errors
    ///
    /// Returns an error of the device.
    pub fn on_host(device: &D, len: u32) -> Result<Self> {
        Self::within(device, device.alloc_host(len as usize * size_of::<u64>())?, len)
    }

    fn within(device: &D, buffer: D::Buffer, len: u32) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            buffer,
            kernel: device.kernel("append")?,
            len,
            threads: 32,
        })
    }

    /// Gives each block this many threads: 32 if this isn't called.
    #[must_use]
    pub fn threads(mut self, threads: u32) -> Self {
        self.threads = threads;
        self
    }

    /// The memory of the cells.
    pub fn buffer(&self) -> &D::Buffer {
        &self.buffer
    }

    /// Appends `value` to each cell, after a number of rounds of waiting.
    #[allow(unsafe_code)]
    pub fn launch(&self, value: u64, rounds: u64) -> Launch<D> {
        let args = Args::new(&[self.device.address(&self.buffer), value, rounds]);
        let (grid, block) = ([self.len, 1, 1], [self.threads, 1, 1]);
        // SAFETY: `append` takes these three words, there is a cell for each block, and the launch
        // keeps them.
        let launch = unsafe { Launch::new(self.kernel.clone(), grid, block, args) };
        launch.keep(vec![self.buffer.clone()])
    }

    /// [`launch`](Self::launch) as a command.
    pub fn append(&self, value: u64, rounds: u64) -> Command<D> {
        Command::Launch(self.launch(value, rounds))
    }

    /// Returns the values of the cells. Blocks; unordered with queues.
    ///
    /// # Errors
    ///
    /// Returns an error of the device.
    pub fn read(&self) -> Result<Vec<u64>> {
        let mut bytes = vec![0; self.len as usize * size_of::<u64>()];
        self.device.read(&self.buffer, 0, &mut bytes)?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().map(|&word| u64::from_ne_bytes(word)).collect())
    }

    /// Makes all cells 0 again. Blocks; unordered with queues.
    ///
    /// # Errors
    ///
    /// Returns an error of the device.
    pub fn clear(&self) -> Result<()> {
        self.device.write(&self.buffer, 0, &vec![0; self.len as usize * size_of::<u64>()])
    }
}

/// Returns the value of a cell after `values` were appended to it, one after the other.
///
/// A value that is lost, doubled or out of order gives another result.
///
/// ```
/// use reef_core::appended;
///
/// assert_eq!(appended([7, 8]), 7 * 3 + 8);
/// ```
pub fn appended(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(0, |cell: u64, value| cell.wrapping_mul(3).wrapping_add(value))
}
