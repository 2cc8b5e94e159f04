//! Launches of one kernel with one grid: measured, then sliced or not.
//!
//! | state | next |
//! |---|---|
//! | measured | `Short` or `Long` after two measurements |
//! | `Short` | measured again after 256 launches |
//! | `Long` | `Ready` when the variant is built; `Long` with a simpler one, or `Plain`, if it doesn't fit |
//! | `Ready` | `Long` with a simpler variant, or `Plain`, if slices take longer than they may |

use super::builder::Order;
use super::cut::Measured;
use super::driver::timing::Timing;
use crate::stops::sliced_stream::Group;
use crate::stops::stop_context::StopContext;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Shape of a launch, and the context in which it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ShapeKey {
    /// Number of the context, which no other one gets.
    pub(super) context: u64,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared: u32,
}

/// State of a shape.
#[derive(Debug)]
pub(super) struct Shape {
    /// Function of the kernel in the context.
    pub(super) function: usize,
    pub(super) state: State,
    /// Duration of the plain kernel.
    pub(super) plain: Timing,
    /// Launches in this state.
    pub(super) launches: u64,
    pub(super) nodes: NodeCounts,
}

/// Nodes of graphs that launch a kernel with one grid.
#[derive(Debug, Default)]
pub(super) struct NodeCounts {
    /// Nodes in slices, and the number of slices of the last one.
    pub(super) sliced: u64,
    pub(super) slices: usize,
    /// Whole ones, by reason.
    pub(super) whole: BTreeMap<String, u64>,
}

#[derive(Debug)]
pub(super) enum State {
    Measured,
    Short,
    /// A variant is being built.
    Long(Arc<Order>),
    /// Launched in this way, of this variant.
    Ready(Arc<Plan>, Arc<Order>),
    /// Long, and launched as it is.
    Plain(String),
}

/// Way in which launches of a shape are sliced.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) variant: usize,
    /// Kernel that does nothing.
    pub(super) nothing: usize,
    /// Bytes of each of the kernel's own parameters.
    pub(super) parameters: Vec<usize>,
    pub(super) groups: Vec<Group>,
    /// Launch that is cut into slices in graphs. `None`: it can't be.
    pub(super) in_graph: Option<Measured>,
    /// If its blocks can leave.
    pub(super) guard: Option<Guard>,
    /// Duration of the plain kernel.
    pub(super) plain: Duration,
    /// Launches that were sliced.
    pub(super) launches: AtomicU64,
    /// Duration of all slices of a launch.
    pub(super) sliced: std::sync::Mutex<Timing>,
}

/// Stops of a launch whose blocks can leave.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) stop_context: &'static StopContext,
    /// True if blocks that run can leave, too.
    pub(super) has_preemption_points: bool,
    /// Stop words so far. Blocks may have ended before they read one.
    pub(super) count: Arc<AtomicU64>,
}

impl Shape {
    pub(super) fn new(function: usize) -> Self {
        let (plain, nodes) = (Timing::default(), NodeCounts::default());
        Self { function, state: State::Measured, plain, launches: 0, nodes }
    }

    /// Has it measured again.
    pub(super) fn begin_again(&mut self) {
        let nodes = std::mem::take(&mut self.nodes);
        *self = Self { nodes, ..Self::new(self.function) };
    }
}
