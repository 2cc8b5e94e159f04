//! Launches with typed arguments.

use crate::backend::command::{Args, Dim3, Launch};
use crate::backend::device::Device;

/// A launch in the making: a kernel, its grid and its arguments, one after the other.
///
/// Made by [`Launch::builder`].
///
/// ```
/// use reef_core::{Device, Launch};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let cells = device.alloc(64 * 8)?;
/// let append = Launch::builder(&device, device.kernel("append")?).grid([64, 1, 1]);
/// // SAFETY: `append` takes the address of a cell for each block, a value and a round count.
/// let launch = unsafe { append.arg(&cells).arg(7u64).arg(0u64).build() };
/// assert_eq!((launch.blocks(), launch.args().words().len()), (64, 3));
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LaunchBuilder<'a, D: Device> {
    device: &'a D,
    kernel: D::Kernel,
    grid: Dim3,
    block: Dim3,
    words: [u64; Args::MAX],
    len: usize,
    keep: Vec<D::Buffer>,
}

impl<D: Device> Launch<D> {
    /// A launch of `kernel` on `device`: one block of one thread without arguments, until more is
    /// said.
    ///
    /// ```no_run
    /// # use reef_core::{Device, Launch, Result};
    /// # fn f<D: Device>(device: &D) -> Result<()> {
    /// let cells = device.alloc(64 * 8)?;
    /// let append = Launch::builder(device, device.kernel("append")?);
    /// let append = append.grid([64, 1, 1]).block([32, 1, 1]).arg(&cells).arg(7u64).arg(0u64);
    /// // SAFETY: `append` takes the address of a cell for each block, a value and a round count.
    /// let launch = unsafe { append.build() };
    /// # let _ = launch; Ok(()) }
    /// ```
    pub fn builder(device: &D, kernel: D::Kernel) -> LaunchBuilder<'_, D> {
        let (grid, block, words) = ([1; 3], [1; 3], [0; Args::MAX]);
        LaunchBuilder { device, kernel, grid, block, words, len: 0, keep: Vec::new() }
    }
}

impl<D: Device> LaunchBuilder<'_, D> {
    /// Blocks in x, y, z.
    #[must_use]
    pub fn grid(mut self, grid: Dim3) -> Self {
        self.grid = grid;
        self
    }

    /// Threads of a block in x, y, z.
    #[must_use]
    pub fn block(mut self, block: Dim3) -> Self {
        self.block = block;
        self
    }

    /// The next argument: a number, or a buffer, whose address it is. The launch keeps the buffer.
    ///
    /// # Panics
    ///
    /// If there are more than [`Args::MAX`].
    #[must_use]
    pub fn arg(mut self, arg: impl Arg<D>) -> Self {
        assert!(self.len < Args::MAX, "more than {} arguments", Args::MAX);
        self.words[self.len] = arg.word(self.device);
        self.len += 1;
        self.keep.extend(arg.buffer());
        self
    }

    /// The launch.
    ///
    /// # Safety
    ///
    /// As [`Launch::new`], but that memory of buffers that were given as arguments is kept.
    ///
    /// # Panics
    ///
    /// As [`Launch::new`].
    #[allow(unsafe_code)]
    pub unsafe fn build(self) -> Launch<D> {
        let args = Args::new(&self.words[..self.len]);
        // SAFETY: what `new` asks for is what this asks for, and `keep` holds the buffers.
        unsafe { Launch::new(self.kernel, self.grid, self.block, args) }.keep(self.keep)
    }
}

/// Argument of a kernel: a number, or a buffer of device `D`.
///
/// ```
/// use reef_core::{Arg, Device};
/// use reef_cpu::Cpu;
///
/// /// Two numbers that a kernel takes in one word.
/// struct Size(u32, u32);
///
/// impl<D: Device> Arg<D> for Size {
///     fn word(&self, _device: &D) -> u64 {
///         u64::from(self.0) | (u64::from(self.1) << 32)
///     }
/// }
///
/// let device = Cpu::open(0, "units=1")?;
/// assert_eq!(Size(2, 1).word(&device), 0x1_0000_0002);
/// # Ok::<(), reef_core::Error>(())
/// ```
pub trait Arg<D: Device> {
    /// The word that the kernel gets. A number of 32 bits is its lower half.
    fn word(&self, device: &D) -> u64;

    /// The memory that the word points to.
    fn buffer(&self) -> Option<D::Buffer> {
        None
    }
}

impl<D: Device> Arg<D> for &D::Buffer {
    fn word(&self, device: &D) -> u64 {
        device.address(self)
    }

    fn buffer(&self) -> Option<D::Buffer> {
        Some((*self).clone())
    }
}

macro_rules! numbers {
    ($($number:ty: $word:expr),+ $(,)?) => {
        $(impl<D: Device> Arg<D> for $number {
            fn word(&self, _: &D) -> u64 {
                let word: fn($number) -> u64 = $word;
                word(*self)
            }
        })+
    };
}

numbers! {
    u32: u64::from,
    u64: |number| number,
    usize: |number| number as u64,
    i32: |number| u64::from(number.cast_unsigned()),
    i64: i64::cast_unsigned,
    f32: |number| u64::from(number.to_bits()),
    f64: f64::to_bits,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fake::Fake;

    #[test]
    #[allow(unsafe_code)]
    fn arguments_become_words_in_order_and_buffers_are_kept() {
        let fake = Fake::default();
        let launch = Launch::builder(&fake, ()).grid([2, 3, 1]).block([32, 1, 1]);
        let launch = launch.arg(&()).arg(3u32).arg(-1i32).arg(-1i64).arg(1.0f32).arg(0.5f64);
        // SAFETY: the fake device runs nothing.
        let launch = unsafe { launch.arg(7usize).build() };
        let ones = u64::from(u32::MAX);
        let want = [0, 3, ones, u64::MAX, 0x3f80_0000, 0.5f64.to_bits(), 7];
        assert_eq!(launch.args().words(), want);
        assert_eq!((launch.blocks(), launch.block()), (6, [32, 1, 1]));
        assert_eq!(format!("{:?}", launch.memory()), "MemoryHandle(Some([()]))", "the one buffer");
    }

    #[test]
    #[should_panic(expected = "more than 8 arguments")]
    fn a_ninth_argument_is_refused() {
        let fake = Fake::default();
        let nine = Launch::builder(&fake, ());
        let _ = (0..9u32).fold(nine, LaunchBuilder::arg);
    }
}
