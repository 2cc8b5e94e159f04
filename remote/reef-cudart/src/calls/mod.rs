//! The runtime's functions.
//!
//! *In*: arguments as `cuda_runtime_api.h` has them. *Out*: codes as `driver_types.h` has them.
//! *Invariant*: each function is exported under the runtime's name, leaves its code as the thread's
//! last error, and calls the driver in the program's own context if there is one.

mod code;
mod device;
mod export;
mod memory;
mod order;
