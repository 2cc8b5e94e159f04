//! A CUDA driver that is made of functions: what tests of reef-shim run on where there is no GPU.
//!
//! It plays what the shim meets: streams that run in any order that their dependencies allow (a
//! seeded choice, `REEF_FAKE_SEED`), legacy and per-thread default streams, events, waits and
//! writes of memory words, memory of streams, graphs by capture or by node, a queue whose end
//! blocks inside the driver (`REEF_FAKE_QUEUE`), kernels and events of a length
//! (`REEF_FAKE_KERNEL_NS`, `REEF_FAKE_EVENT_NS`; or none of all that, `REEF_FAKE_INSTANT`), and
//! `cuGetProcAddress` by name, version and flag. Every other driver function is there and answers
//! 801 (not supported).
//!
//! Small allocations and arrays share blocks of 2 MiB, as with the driver. With
//! `REEF_FAKE_BLOCKS=0` small allocations take their own bytes alone.
//!
//! Objects end as with the driver: a destroyed stream runs what it has, a context takes its
//! streams and registrations along, a primary context lives while it is retained, and handles come
//! back. Calls that name what has ended are counted (`reef_fake_misuses`), and a stream that uses
//! memory of the dead is an error for good (700). Contexts and streams have numbers, unless
//! `REEF_FAKE_IDS` is 0.
//!
//! Kernels are known by their names: `mix(p, v)`: `*p = *p × K + v`, which shows order;
//! `add(p, v)`: `*p += v`; `join(p, q)`: `*p = *p × K + *q`.

mod api;
mod engine;
