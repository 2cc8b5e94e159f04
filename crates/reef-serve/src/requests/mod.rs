//! One inference on its way: its tensors, and its queue.
//!
//! - **In**: inferences that have been checked against their model.
//! - **Out**: each of them once, to an instance of its class, the most urgent first.
//! - **Invariant**: a queue holds at most as many requests as configured. Host memory of a client
//!   is read and written with calls that can fail, never mapped; its device memory is accessed by
//!   the device alone, and by a process that answers its requests.

pub(crate) mod batch;
pub(crate) mod buffer_pool;
pub(crate) mod call;
pub(crate) mod device_memory;
pub(crate) mod job;
pub(crate) mod queue;
pub(crate) mod region_memory;
pub(crate) mod regions;
pub(crate) mod serial_work;
pub(crate) mod shared_memory;
pub(crate) mod worker_pool;
