//! Actions: the additional work of a hooked call.
//!
//! *In*: a typed call and the real one. *Out*: the real one's result. *Invariant*: the real call is
//! made exactly once, by the calling thread; if our work fails, it is made all the same. A graph is
//! instantiated a second time without gates if the driver refuses it with gates, and a real-time
//! program's allocation is made a second time if the daemon has freed memory for it. An allocation
//! that would exceed a limit isn't made.
//!
//! All hooks end in these functions. Further treatment of calls, such as remote execution, belongs
//! here and not into the hooks.

pub(crate) mod context_memory;
pub(crate) mod copy;
pub(crate) mod ipc;
pub(crate) mod launch;
pub(crate) mod memory;
pub(crate) mod memory_handles;
pub(crate) mod memory_request;
pub(crate) mod modules;
pub(crate) mod pageable;
pub(crate) mod pools;
pub(crate) mod primary;
pub(crate) mod reserve;
pub(crate) mod sync;
