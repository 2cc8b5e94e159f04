//! Kernels of a graph that stand for one of the program's: slices of its variant, with a gate
//! before each. After an update to what these slices don't fit, the last one is the whole kernel,
//! and the others do nothing.

use super::calls::{self, KernelParams};
use super::shape::{Kind, Node, Shape};
use crate::kernel_variants::nodes::{LongKernels, NodeLaunch, NodeSlices};
use crate::stops::sliced_stream::LaunchCopy;
use std::ffi::c_void;
use std::sync::Arc;

/// Maximum number of slices of a graph, those of its child graphs included.
pub(super) const MAX_SLICES: usize = 2000;

#[derive(Clone, Debug)]
pub(super) struct SlicedNode {
    pub(super) slices: NodeSlices,
    /// Nodes of the clone. The last one is that of the program's node.
    pub(super) nodes: Vec<usize>,
    /// `None`: not known after an update by a graph.
    pub(super) kernels: Option<Kernels>,
}

/// Kernels that the nodes of a [`SlicedNode`] launch.
#[derive(Clone, Debug)]
pub(super) enum Kernels {
    Slices(Arc<LaunchCopy>),
    /// The last one launches the whole kernel, and the others do nothing.
    Whole,
}

/// Kernels with the slices that they are, or would be.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    slices: &'a NodeSlices,
    pub(super) kernels: Kernels,
}

impl SlicedNode {
    /// Returns what its nodes launch.
    pub(super) fn parts(&self) -> Option<Parts<'_>> {
        Some(Parts { slices: &self.slices, kernels: self.kernels.clone()? })
    }
}

impl Parts<'_> {
    pub(super) fn of<'a>(slices: &'a NodeSlices, launch: &NodeLaunch) -> Parts<'a> {
        let copy = slices.fit(launch).then(|| Arc::new(slices.copy(launch)));
        Parts { slices, kernels: copy.map_or(Kernels::Whole, Kernels::Slices) }
    }

    /// Returns whether these are slices.
    pub(super) fn are_slices(&self) -> bool {
        matches!(self.kernels, Kernels::Slices(_))
    }

    /// Calls `call` with the parameters of a part, of which there is an address each. `None`: it is
    /// the program's own kernel.
    pub(super) fn with<T>(&self, at: usize, call: impl FnOnce(&KernelParams) -> T) -> Option<T> {
        let Kernels::Slices(copy) = &self.kernels else {
            let function = self.slices.nothing();
            let is_last = at + 1 == self.slices.count();
            return (!is_last).then(|| call(&KernelParams { function, ..KernelParams::default() }));
        };
        let (grid, own) = self.slices.slice(at);
        let (function, block, shared) = (copy.variant, copy.block, copy.shared);
        let with = |params: *mut *mut c_void| {
            call(&KernelParams { function, grid, block, shared, params, ..Default::default() })
        };
        Some(copy.with_params(&own, with))
    }
}

impl KernelParams {
    /// Reads parameters of the program's at this address, without fields of later versions if
    /// `is_first`.
    ///
    /// # Safety
    ///
    /// They are there.
    pub(super) unsafe fn read(at: usize, is_first: bool) -> Self {
        let at = at as *const Self;
        let of_first = Self::default();
        // SAFETY: `# Safety` demands readable parameters of this version. Fields are read one by
        // one, and those of later versions only if they are there.
        unsafe {
            let read = Self {
                function: (&raw const (*at).function).read(),
                grid: (&raw const (*at).grid).read(),
                block: (&raw const (*at).block).read(),
                shared: (&raw const (*at).shared).read(),
                params: (&raw const (*at).params).read(),
                ..of_first
            };
            if is_first {
                return read;
            }
            let (kernel, context) = (&raw const (*at).kernel, &raw const (*at).context);
            Self { kernel: kernel.read(), context: context.read(), ..read }
        }
    }

    /// Returns the kernel that these parameters launch.
    pub(super) fn launch(&self, is_simple: bool) -> NodeLaunch {
        let Self { grid, block, shared, params, context, .. } = *self;
        let function = if self.function == 0 { self.kernel } else { self.function };
        NodeLaunch { function, context, grid, block, shared, params, is_simple }
    }
}

impl Node {
    /// Returns the kernel of a node, if it is a long one.
    pub(super) fn long_launch(&self, long: &LongKernels) -> Option<NodeLaunch> {
        long.has(&calls::kernel(self.handle)?.launch(true)).then(|| self.launch())?
    }

    pub(super) fn launch(&self) -> Option<NodeLaunch> {
        let is_apart = !self.overlaps && !self.is_overlapped;
        let is_simple = is_apart && !calls::has_blocks_together(self.handle);
        Some(calls::kernel(self.handle)?.launch(is_simple))
    }
}

/// Returns the launches of long kernels that a graph has, those of its child graphs included.
pub(super) fn long_launches(shape: &Shape, long: &LongKernels) -> Vec<NodeLaunch> {
    let mut launches = Vec::new();
    add_launches(shape, long, &mut launches);
    launches
}

fn add_launches(shape: &Shape, long: &LongKernels, launches: &mut Vec<NodeLaunch>) {
    for node in &shape.nodes {
        match &node.kind {
            Kind::Kernel(_) => launches.extend(node.long_launch(long)),
            Kind::Child(inner) => add_launches(inner, long, launches),
            Kind::Gate | Kind::Other => {}
        }
    }
}
