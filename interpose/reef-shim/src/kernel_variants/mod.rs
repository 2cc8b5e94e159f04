//! Variants: long kernels of best-effort programs are launched in slices.
//!
//! *In*: code that the program loads, look-ups of its kernels, and launches. *Out*: a launch, or
//! slices of it with a gate before each. *Invariant*: slices are launched by the program's own
//! thread, within its call, and no other work gets between them; the program's handles, modules
//! and results are those of the plain kernel.
//!
//! 1. `images` keeps the PTX of loaded code, `kernels` the names of its kernels.
//! 2. Launches of a kernel with one grid are measured by events while real-time work is there
//!    (`driver::timing`).
//! 3. A kernel that takes 0.5 ms twice gets a variant from the thread of `builder`. The driver
//!    compiles it there.
//! 4. `fitting` compares it with the kernel, and `cut` cuts the launch.
//! 5. From then on each launch is sliced (`launch`), unless slices turn out to take much longer.
//!    Slices of blocks that take 50 µs or more can be [stopped](crate::stops).
//!
//! `part` runs some of a kernel's blocks alone, for a check of kernels that run again.
//!
//! Whatever is not certain stays plain, and the report has the reason. Nothing of this is done
//! without `REEF_SLICES=1`, in a real-time program, or while no real-time work was there for a
//! minute.

mod builder;
mod cut;
mod driver;
mod fitting;
pub(crate) mod images;
pub(crate) mod kernels;
pub(crate) mod launch;
pub(crate) mod nodes;
pub(crate) mod part;
mod report;
mod shape;
