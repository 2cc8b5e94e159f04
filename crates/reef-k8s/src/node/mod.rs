//! State of a node, and the edits of containers on it.
//!
//! *In*: paths of the node ([`Node`](paths::Node)), the kernel module's list of GPUs, the daemon's
//! socket. *Out*: GPUs with their health; variables, mounts and device nodes as plain values, and
//! as files of the Container Device Interface; the kernel's limit of a container's memory. What the
//! daemon has found to be wrong is logged.
//! *Invariant*: nothing is kept between two polls but which GPUs there were, and what was wrong.

pub(crate) mod cdi;
pub(crate) mod daemon;
pub(crate) mod dmem;
pub(crate) mod edits;
pub(crate) mod gpu;
pub(crate) mod paths;
pub(crate) mod state;
pub(crate) mod violations;
