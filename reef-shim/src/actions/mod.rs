//! Direct mode: what a hooked call does besides itself.
//!
//! *In*: a typed call and the real one. *Out*: the real one's result. *Invariant*: the real call is
//! made exactly once, by the calling thread; if anything of ours fails, it is made all the same. A
//! graph is instantiated a second time, as it is, if the driver doesn't take it with gates. An
//! allocation that would pass a limit isn't made at all.
//!
//! These functions are the sinks of all hooks: what else should happen to calls (another machine)
//! belongs here, not into the hooks.

pub(crate) mod context_memory;
pub(crate) mod copy;
pub(crate) mod graph;
pub(crate) mod graph_memory;
pub(crate) mod launch;
pub(crate) mod memory;
pub(crate) mod memory_handles;
pub(crate) mod modules;
pub(crate) mod pools;
pub(crate) mod reserve;
pub(crate) mod sync;
