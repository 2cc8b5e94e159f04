//! Kernels in nodes of graphs: those that are known to be long, and the slices that stand for them.
//!
//! A kernel is measured outside of graphs, where it is launched before the capture.

use super::cut::{MAX_NODE_SLICES, Measured};
use super::driver::calls as driver;
use super::kernels::{self, Kernel};
use super::launch::{KernelLaunch, may_be_held, step};
use super::shape::{Plan, ShapeKey, State};
use crate::driver::calls::{self, Stream};
use crate::guest::tree::branch::Branch;
use crate::settings::may_slice;
use crate::stops::sliced_stream::LaunchCopy;
use reef_ptx::variant::{Launch, Slice};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum wait of an instantiation for variants that are being built. The graph may be launched
/// for hours, and its kernels would stay whole; a compiler takes 0.1 s for most.
const MAX_WAIT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Kernel of a node, as the program has given it to the driver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeLaunch {
    pub(crate) function: usize,
    /// Context in which a library's kernel runs; 0 if the driver doesn't say.
    pub(crate) context: usize,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    /// Null if they are packed.
    pub(crate) params: *mut *mut c_void,
    /// True if it has no attributes that its blocks could see, and overlaps with no other node.
    pub(crate) is_simple: bool,
}

/// Function, grid, block and shared memory of a launch.
type Key = (usize, [u32; 3], [u32; 3], u32);

impl NodeLaunch {
    fn key(&self) -> Key {
        (function_of(self.function), self.grid, self.block, self.shared)
    }
}

/// Long kernels of a context, by what launches them.
#[derive(Debug)]
pub(crate) struct LongKernels {
    branch: &'static Branch,
    known: HashMap<Key, LongKernel>,
}

#[derive(Clone, Debug)]
struct LongKernel {
    kernel: Arc<Kernel>,
    handle: usize,
    shape: ShapeKey,
}

/// Slices that stand for a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeSlices {
    of: LongKernel,
    key: Key,
    context: usize,
    plan: Arc<Plan>,
    all: Arc<[Slice]>,
}

impl LongKernels {
    /// Returns those of a context, which is current, and those that are being measured. The driver
    /// isn't asked: other threads may unload any of them that the graph doesn't have.
    pub(crate) fn of(branch: &'static Branch) -> Self {
        let mut known = HashMap::new();
        if may_slice() && may_be_held(branch.context.device) {
            for (handle, kernel) in kernels::by_handles() {
                for (function, shape) in long_shapes(&kernel, branch.context.name()) {
                    let key = (function, shape.grid, shape.block, shape.shared);
                    known.insert(key, LongKernel { kernel: kernel.clone(), handle, shape });
                }
            }
        }
        Self { branch, known }
    }

    /// Returns whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Waits until the variants of these kernels are built, while real-time work is there.
    pub(crate) fn wait_for(&self, nodes: &[NodeLaunch]) {
        let used: Vec<_> =
            nodes.iter().filter(|node| node.is_simple).filter_map(|node| self.find(node)).collect();
        let begin = Instant::now();
        while used.iter().any(|it| it.is_being_built())
            && begin.elapsed() < MAX_WAIT
            && may_be_held(self.branch.context.device)
        {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns the number of slices that each of these nodes may have, so that all of them have no
    /// more than `most`.
    pub(crate) fn share(&self, nodes: &[NodeLaunch], most: usize) -> u32 {
        let slices = |node, each| self.cut(node, each, most)?.ok();
        let fits = |each: &u32| {
            let all = nodes.iter().filter_map(|node| slices(node, *each));
            all.map(|slices| slices.count()).sum::<usize>() <= most
        };
        let mut all = (1..MAX_NODE_SLICES / 2).map(|parts| MAX_NODE_SLICES / parts);
        all.find(fits).unwrap_or(2)
    }

    /// Returns slices for a node, not more than `each`, nor than `left`. The report has the reason
    /// if a long kernel gets none.
    pub(crate) fn slices(&self, node: &NodeLaunch, each: u32, left: usize) -> Option<NodeSlices> {
        let cut = self.cut(node, each, left)?;
        cut.inspect_err(|why| self.find(node).into_iter().for_each(|of| of.refuse(why))).ok()
    }

    /// Returns slices for a node, or the reason for which it is whole. `None`: it is whole outside
    /// of graphs, too.
    fn cut(&self, node: &NodeLaunch, each: u32, left: usize) -> Option<Result<NodeSlices, String>> {
        let (of, context) = (self.find(node)?.clone(), self.branch.context.handle());
        let plan = of.plan(node, is_in(context, node))?;
        let cut = plan.and_then(|(plan, measured)| {
            let all: Arc<[_]> = measured.node_slices(each)?.into();
            if all.len() > left {
                return Err("the graph has too many slices".into());
            }
            Ok(NodeSlices { of, key: node.key(), context, plan, all })
        });
        Some(cut)
    }

    /// Returns whether a node's kernel is one of them.
    pub(crate) fn has(&self, node: &NodeLaunch) -> bool {
        self.find(node).is_some()
    }

    fn find(&self, node: &NodeLaunch) -> Option<&LongKernel> {
        self.known.get(&node.key())
    }
}

/// Returns whether a node's kernel, which is known in a context, runs there. A function is of one
/// context, whichever the node names; a library's kernel may run in any.
fn is_in(context: usize, node: &NodeLaunch) -> bool {
    !is_of_library(node.function) || node.context == context
}

fn is_of_library(handle: usize) -> bool {
    kernels::find(handle).is_some_and(|kernel| kernel.is_of_library)
}

/// Returns the function of a kernel in the current context, or the handle itself.
fn function_of(handle: usize) -> usize {
    let mut function = handle;
    if is_of_library(handle) {
        // An error leaves the handle, which no node has.
        let find = || driver::function_of(&mut function, handle);
        let _ = calls::with_relaxed_capture(find);
    }
    function
}

/// Returns the shapes of a kernel that may be long, and its function in a context.
fn long_shapes(kernel: &Kernel, context: u64) -> Vec<(usize, ShapeKey)> {
    let shapes = kernel.shapes();
    let of_context = shapes.iter().filter(|(key, _)| key.context == context);
    let long = of_context.filter(|(_, shape)| !matches!(shape.state, State::Short));
    long.map(|(key, shape)| (shape.function, *key)).collect()
}

impl LongKernel {
    /// Returns the plan for a node and what is cut, or the reason for which it is whole. `None`: it
    /// is whole outside of graphs, too.
    fn plan(
        &self,
        node: &NodeLaunch,
        is_here: bool,
    ) -> Option<Result<(Arc<Plan>, Measured), String>> {
        let mut shapes = self.kernel.shapes();
        let shape = shapes.get_mut(&self.shape)?;
        step(shape, &self.kernel, self.handle, &self.shape);
        let plan = match &shape.state {
            State::Ready(plan, _) => plan,
            State::Long(_) => return Some(Err("its variant was not built yet".into())),
            State::Measured | State::Short | State::Plain(_) => return None,
        };
        Some(match plan.in_graph {
            None => Err("it can't be cut".into()),
            Some(_) if !is_here => Err("its node may be of another context".into()),
            Some(_) if !node.is_simple => Err("it has attributes or overlaps".into()),
            Some(_) if node.params.is_null() && !plan.parameters.is_empty() => {
                Err("its parameters are packed".into())
            }
            Some(measured) => Ok((plan.clone(), measured)),
        })
    }

    /// Notes a node that is whole, for the report.
    fn refuse(&self, why: &str) {
        let mut shapes = self.kernel.shapes();
        let Some(shape) = shapes.get_mut(&self.shape) else { return };
        *shape.nodes.whole.entry(why.into()).or_default() += 1;
    }

    /// Returns whether its variant is being built, once it has taken its next step.
    fn is_being_built(&self) -> bool {
        let mut shapes = self.kernel.shapes();
        let Some(shape) = shapes.get_mut(&self.shape) else { return false };
        step(shape, &self.kernel, self.handle, &self.shape);
        matches!(shape.state, State::Long(_))
    }

    /// Returns whether its handle still names it: its module may have ended.
    fn is_there(&self) -> bool {
        kernels::find(self.handle).is_some_and(|known| Arc::ptr_eq(&known, &self.kernel))
    }
}

impl NodeSlices {
    /// Returns the number of slices.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Notes a node that has these slices, for the report.
    pub(crate) fn note(&self) {
        let mut shapes = self.of.kernel.shapes();
        let Some(shape) = shapes.get_mut(&self.of.shape) else { return };
        shape.nodes.sliced += 1;
        shape.nodes.slices = self.count();
    }

    /// Returns whether these slices stand for a node, too, as only its parameters are others.
    pub(crate) fn fit(&self, node: &NodeLaunch) -> bool {
        let has_params = !node.params.is_null() || self.plan.parameters.is_empty();
        let is_same = node.key() == self.key && is_in(self.context, node) && self.of.is_there();
        node.is_simple && has_params && is_same
    }

    /// Copies the parameters of a node that these slices fit.
    pub(crate) fn copy(&self, node: &NodeLaunch) -> LaunchCopy {
        let NodeLaunch { function, grid, block, shared, params, .. } = *node;
        let stream = Stream(0); // of none
        let launch =
            KernelLaunch { function, grid, block, shared, stream, params, is_simple: true };
        launch.copy(self.plan.variant, &self.plan.parameters)
    }

    /// Returns the blocks of a slice, and the variant's own parameter for it.
    pub(crate) fn slice(&self, at: usize) -> ([u32; 3], Launch) {
        let slice = &self.all[at];
        (slice.blocks, self.plan.own(slice, self.key.1))
    }

    /// Returns a kernel that does nothing and has no parameters.
    pub(crate) fn nothing(&self) -> usize {
        self.plan.nothing
    }
}
