//! Launches of an operation whose operands were checked.

use super::bound::{BoundTensors, SHARED, THREADS};
use super::plan::{Plan, TensorParams};
use crate::code::guard::MAX_BLOCKS;
use crate::code::kernel::Kernel;
use crate::driver::buffer::Buffer;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::params::Params;
use reef_core::{Args, Launch, Result};

/// A launch's blocks, the threads of each, and bytes of their dynamic shared memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub(super) blocks: usize,
    pub(super) threads: u32,
    pub(super) shared: usize,
}

impl<V: Vendor> BoundTensors<'_, V> {
    /// The launch of `blocks` blocks of kernel `name`, with `shared` bytes of dynamic shared
    /// memory.
    pub(super) fn launch(
        &self,
        name: &str,
        blocks: usize,
        shared: usize,
        plan: &Plan,
    ) -> Result<Launch<Gpu<V>>> {
        self.launch_next_to(name, blocks, [shared, 0], plan)
    }

    /// Launches a kernel that brings the plan to shared memory, after what else it has there.
    pub(super) fn launch_near(
        &self,
        name: &str,
        blocks: usize,
        shared: usize,
        plan: &Plan,
    ) -> Result<Launch<Gpu<V>>> {
        let words = plan.len() as usize;
        let has_room = shared + size_of::<u32>() * words <= SHARED;
        self.launch_next_to(name, blocks, [shared, if has_room { words } else { 0 }], plan)
    }

    /// `shared`: bytes, and words behind them for the plan.
    fn launch_next_to(
        &self,
        name: &str,
        blocks: usize,
        [at, words]: [usize; 2],
        plan: &Plan,
    ) -> Result<Launch<Gpu<V>>> {
        let params = |plan| TensorParams {
            output: self.output(),
            plan,
            count: self.count() as u32,
            element: self.op.output.element as u32,
            words: words as u32,
            at: at as u32,
        };
        let shared = at + size_of::<u32>() * words;
        self.launch_with(name, Grid { blocks, threads: THREADS as u32, shared }, plan, params)
    }

    /// The launch of kernel `name` with what `params` makes of the plan's address.
    pub(super) fn launch_with<P: Params>(
        &self,
        name: &str,
        grid: Grid,
        plan: &Plan,
        params: impl FnOnce(u64) -> P,
    ) -> Result<Launch<Gpu<V>>> {
        let words = self.words(plan)?;
        self.launch_keeping(name, grid, &params(words.address()), [words])
    }

    /// A plan in the device's memory.
    pub(super) fn words(&self, plan: &Plan) -> Result<Buffer<V>> {
        let bytes = plan.bytes();
        let words = Buffer::device(self.gpu().context(), bytes.len())?;
        words.write(0, &bytes)?;
        Ok(words)
    }

    /// The launch of a kernel that takes no words of memory but `more`.
    pub(super) fn launch_keeping<P: Params>(
        &self,
        name: &str,
        grid: Grid,
        params: &P,
        more: impl IntoIterator<Item = Buffer<V>>,
    ) -> Result<Launch<Gpu<V>>> {
        let shared = grid.shared as u32;
        let kernel = Kernel::preemptible(self.gpu().tensor()?, name, shared, &params.words())?;
        self.launch_kernel(kernel, grid, more)
    }

    /// The launch of a kernel whose parameter is bound to it.
    pub(super) fn launch_kernel(
        &self,
        kernel: Kernel<V>,
        grid: Grid,
        more: impl IntoIterator<Item = Buffer<V>>,
    ) -> Result<Launch<Gpu<V>>> {
        let blocks = u32::try_from(grid.blocks).ok().filter(|blocks| *blocks <= MAX_BLOCKS);
        let blocks = blocks.ok_or_else(|| self.refused("more blocks than a launch has"))?;
        let threads = [grid.threads, 1, 1];
        // SAFETY: the kernel's parameter is bound to it; operands were checked to lie inside their
        // buffers and what the plan names inside of them; blocks write disjoint parts of the
        // output.
        let launch = unsafe { Launch::new(kernel, [blocks, 1, 1], threads, Args::default()) };
        Ok(launch.keep(self.buffers().chain(more).collect()))
    }
}
