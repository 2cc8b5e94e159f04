//! Commands: the entries of a virtual queue.

use crate::backend::resources::Profile;
use crate::backend::types::Backend;
use std::fmt;
use std::sync::Arc;

/// Sizes of a grid or block in x, y, z.
///
/// ```
/// use reef_core::{Cells, Device, Dim3};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let grid: Dim3 = Cells::new(&device, 4)?.launch(7, 0).grid();
/// assert_eq!(grid, [4, 1, 1]);
/// # Ok::<(), reef_core::Error>(())
/// ```
pub type Dim3 = [u32; 3];

/// Kernel arguments, 8 bytes each, stored in place so that submitting doesn't allocate.
///
/// ```
/// use reef_core::Args;
///
/// let args = Args::new(&[0x7f00_0000, 7]);
/// assert_eq!(args.words(), [0x7f00_0000, 7]);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Args {
    words: [u64; Args::MAX],
    len: u8,
}

impl Args {
    /// Upper bound of words that fit in place.
    pub const MAX: usize = 8;

    /// Copies `words`.
    ///
    /// # Panics
    ///
    /// If there are more than [`Args::MAX`].
    pub fn new(words: &[u64]) -> Self {
        assert!(words.len() <= Self::MAX, "{} argument words, most is {}", words.len(), Self::MAX);
        let mut args = Self { len: words.len() as u8, ..Self::default() };
        args.words[..words.len()].copy_from_slice(words);
        args
    }

    /// The words in order.
    pub fn words(&self) -> &[u64] {
        &self.words[..usize::from(self.len)]
    }
}

/// A kernel with its grid and arguments, ready to run any number of times.
///
/// ```
/// use reef_core::{Args, Device, Launch};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let (kernel, cells) = (device.kernel("append")?, device.alloc(4 * 8)?);
/// let args = Args::new(&[device.address(&cells), 7, 0]);
/// // SAFETY: `append` takes the address of a cell for each block, a value and a round count. The
/// // launch keeps the cells, and nothing else touches them.
/// let launch = unsafe { Launch::<Cpu>::new(kernel, [4, 1, 1], [32, 1, 1], args) };
/// assert_eq!(launch.keep(vec![cells]).blocks(), 4);
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Launch<B: Backend> {
    kernel: B::Kernel,
    grid: Dim3,
    block: Dim3,
    args: Args,
    /// Memory that the arguments point to; kept until the last copy of this launch is gone.
    keep: Option<Arc<Vec<B::Buffer>>>,
    profile: Option<Arc<Profile>>,
}

/// Handle that keeps the memory of a [`Launch`], and gives no access to it. Cloning is cheap.
///
/// ```
/// use reef_core::{Cells, Device};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let launch = Cells::new(&device, 4)?.launch(7, 0);
/// let memory = launch.memory();
/// drop(launch); // the cells are still there
/// drop(memory); // now they are not
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct MemoryHandle<B: Backend>(#[allow(dead_code)] Option<Arc<Vec<B::Buffer>>>);

impl<B: Backend> Launch<B> {
    /// Binds a kernel to its arguments.
    ///
    /// This is where trust is stated once; submitting and scheduling a `Launch` is safe.
    ///
    /// # Safety
    ///
    /// * `args` match the kernel's parameters in number, order and meaning.
    /// * Memory they point to stays valid until the last run of this launch has finished; see
    ///   [`keep`](Self::keep).
    /// * Blocks of one launch may run at the same time, in any order, on any thread.
    /// * From the first submission until the last run has ended, nothing else writes what it reads
    ///   and nothing else touches what it writes: no launch on another queue, copy, fill,
    ///   [`Device::write`] or [`Device::read`]. They are all safe to call, so such memory is not
    ///   handed to code that could do so at a wrong time. Exempt is what the kernel touches by
    ///   atomics of 32 bits, as `append` does on the software device, and what only a GPU sees:
    ///   there a race gives torn values, and nothing worse.
    ///
    /// [`Device::write`]: crate::Device::write
    /// [`Device::read`]: crate::Device::read
    ///
    /// # Panics
    ///
    /// If the grid has 2³² blocks or more.
    #[allow(unsafe_code)]
    pub unsafe fn new(kernel: B::Kernel, grid: Dim3, block: Dim3, args: Args) -> Self {
        let blocks: u128 = grid.iter().map(|&n| u128::from(n)).product();
        assert!(blocks <= u128::from(u32::MAX), "a grid of {blocks} blocks, most is {}", u32::MAX);
        Self { kernel, grid, block, args, keep: None, profile: None }
    }

    /// Ties the life of `buffers` to this launch and its copies.
    #[must_use]
    pub fn keep(mut self, buffers: Vec<B::Buffer>) -> Self {
        self.keep = Some(Arc::new(buffers));
        self
    }

    /// Handle that keeps the memory of [`keep`](Self::keep). Queues hold it while the launch runs.
    pub fn memory(&self) -> MemoryHandle<B> {
        MemoryHandle(self.keep.clone())
    }

    /// Attaches a measured profile, with which padding can plan.
    #[must_use]
    pub fn with_profile(mut self, profile: Arc<Profile>) -> Self {
        self.profile = Some(profile);
        self
    }

    /// The kernel.
    pub fn kernel(&self) -> &B::Kernel {
        &self.kernel
    }

    /// Blocks in the grid.
    pub fn blocks(&self) -> u32 {
        self.grid.iter().fold(1, |blocks: u32, &n| blocks.saturating_mul(n))
    }

    /// Blocks in x, y, z.
    pub fn grid(&self) -> Dim3 {
        self.grid
    }

    /// Threads of a block in x, y, z.
    pub fn block(&self) -> Dim3 {
        self.block
    }

    /// The arguments.
    pub fn args(&self) -> &Args {
        &self.args
    }

    /// The measured profile, if there is one.
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_deref()
    }
}

/// A copy between two buffers of one device, each in device or pinned host memory.
///
/// ```
/// use reef_core::{Command, Config, Copy, Device, VirtualQueue};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let (from, to) = (device.alloc(8)?, device.alloc_host(8)?);
/// device.write(&from, 0, &[1, 2, 3, 4])?;
/// let (from_offset, to_offset, bytes) = (0, 4, 4);
/// let copy = Copy { from, from_offset, to: to.clone(), to_offset, bytes, to_host: true };
/// let (mut submitter, _queue) = VirtualQueue::enable(&device, Config::default())?;
/// let at = submitter.submit_blocking(Command::Copy(copy))?;
/// submitter.wait(at)?;
/// let mut read = [0; 8];
/// device.read(&to, 0, &mut read)?;
/// assert_eq!(read, [0, 0, 0, 0, 1, 2, 3, 4]);
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Copy<B: Backend> {
    /// Source.
    pub from: B::Buffer,
    /// First byte in the source.
    pub from_offset: usize,
    /// Destination.
    pub to: B::Buffer,
    /// First byte in the destination.
    pub to_offset: usize,
    /// Length in bytes.
    pub bytes: usize,
    /// The destination is read by the host, so the copy can't be undone.
    pub to_host: bool,
}

/// Setting each 32-bit word of a part of a buffer.
///
/// ```
/// use reef_core::{Command, Config, Device, Fill, VirtualQueue};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let buffer = device.alloc(8)?;
/// let fill = Fill { buffer: buffer.clone(), offset: 4, bytes: 4, word: 0x0101_0101 };
/// let (mut submitter, _queue) = VirtualQueue::enable(&device, Config::default())?;
/// let at = submitter.submit_blocking(Command::Fill(fill))?;
/// submitter.wait(at)?;
/// let mut read = [0; 8];
/// device.read(&buffer, 0, &mut read)?;
/// assert_eq!(read, [0, 0, 0, 0, 1, 1, 1, 1]);
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Fill<B: Backend> {
    /// Destination.
    pub buffer: B::Buffer,
    /// First byte.
    pub offset: usize,
    /// Length in bytes, a multiple of 4.
    pub bytes: usize,
    /// The value of each word.
    pub word: u32,
}

/// Host code that runs in queue order.
///
/// ```
/// use reef_core::{Command, Config, Device, HostFn, VirtualQueue};
/// use reef_cpu::Cpu;
/// use std::sync::Arc;
///
/// let device = Cpu::open(0, "units=1")?;
/// let (mut submitter, _queue) = VirtualQueue::enable(&device, Config::default())?;
/// let say: HostFn = Arc::new(|| println!("all earlier commands have finished"));
/// let at = submitter.submit_blocking(Command::Host(say))?;
/// submitter.wait(at)?;
/// # Ok::<(), reef_core::Error>(())
/// ```
pub type HostFn = Arc<dyn Fn() + Send + Sync>;

/// One entry of a queue.
///
/// ```
/// use reef_core::{Cells, Command, Config, Device, Fill, VirtualQueue, appended};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let cells = Cells::new(&device, 4)?;
/// let clear = Fill { buffer: cells.buffer().clone(), offset: 0, bytes: 32, word: 0 };
/// let (mut submitter, _queue) = VirtualQueue::enable(&device, Config::default())?;
/// for command in [cells.append(7, 0), Command::Fill(clear), cells.append(8, 0)] {
///     let at = submitter.submit_blocking(command)?;
///     submitter.wait(at)?;
/// }
/// assert_eq!(cells.read()?, [appended([8]); 4], "the 7 was cleared");
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Clone)]
pub enum Command<B: Backend> {
    /// Run a kernel.
    Launch(Launch<B>),
    /// Run several commands at once.
    Graph(B::Graph),
    /// Copy memory.
    Copy(Copy<B>),
    /// Fill memory.
    Fill(Fill<B>),
    /// Let an event be reached after all earlier commands have finished.
    Record(B::Event),
    /// Run nothing later until an event has been reached.
    Wait(B::Event),
    /// Run host code after all earlier commands have finished.
    Host(HostFn),
}

impl<B: Backend> Command<B> {
    /// Returns whether it can't be undone: it starts after all earlier commands have finished, and
    /// later ones start after it has.
    pub(crate) fn is_barrier(&self) -> bool {
        match self {
            Self::Launch(_) | Self::Graph(_) | Self::Fill(_) => false,
            Self::Copy(copy) => copy.to_host,
            Self::Record(_) | Self::Wait(_) | Self::Host(_) => true,
        }
    }
}

impl<B: Backend> fmt::Debug for Command<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Launch(launch) => f.debug_tuple("Launch").field(launch).finish(),
            Self::Graph(graph) => f.debug_tuple("Graph").field(graph).finish(),
            Self::Copy(copy) => f.debug_tuple("Copy").field(copy).finish(),
            Self::Fill(fill) => f.debug_tuple("Fill").field(fill).finish(),
            Self::Record(event) => f.debug_tuple("Record").field(event).finish(),
            Self::Wait(event) => f.debug_tuple("Wait").field(event).finish(),
            Self::Host(_) => f.write_str("Host(..)"),
        }
    }
}
