//! What the GPU backends do alike: devices, queues that can be stopped, graphs and networks, on top
//! of what each vendor's driver does ([`Vendor`]).
//!
//! A backend implements [`Vendor`] for its open device; [`Gpu`] of that is its `Device`.

mod code;
mod device;
mod driver;
mod gpu;
mod launch;
mod operators;
mod preempt;
mod tuning;
mod vendor;

pub use code::kernel::Kernel;
pub use code::module::Module;
pub use driver::buffer::Buffer;
pub use driver::event::Event;
pub use gpu::Gpu;
pub use launch::checkpoint::Checkpoint;
pub use launch::graph::Graph;
pub use launch::queue::hardware_queue::Queue;
pub use preempt::preemptor::Preemptor;
pub use tuning::{Tuning, observe_tuning};
pub use vendor::cache;
pub use vendor::calls::{Graphs, Memory, Modules, Start, StreamKind, Streams, Vendor};
pub use vendor::compiler::Compiler;
pub use vendor::compiler_calls::CompilerCalls;
pub use vendor::facts::{Facts, FunctionFacts, GateSignal, TickRate};
pub use vendor::free_list::{FreeList, place};
pub use vendor::header::{HIP_FLAVOUR_H, REEF_H};
pub use vendor::image::{Build, unpack};
pub use vendor::options::{Options, Precision};
