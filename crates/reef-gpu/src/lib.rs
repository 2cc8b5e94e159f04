//! Common part of the GPU backends: devices, queues that can be stopped, graphs and networks, on
//! top of the calls of each vendor's driver ([`Vendor`]).
//!
//! A backend implements [`Vendor`] for its open device; [`Gpu`] of that is its `Device`.

mod code;
mod device;
mod driver;
mod gpu;
mod hal;
mod launch;
mod operators;
mod preempt;
mod tuning;

pub use code::kernel::Kernel;
pub use code::module::Module;
pub use driver::buffer::Buffer;
pub use driver::event::Event;
pub use gpu::Gpu;
pub use hal::cache;
pub use hal::calls::{Graphs, LaunchConfig, Memory, Modules, Start, Vendor};
pub use hal::compiler::Compiler;
pub use hal::compiler_calls::CompilerCalls;
pub use hal::errors::{driver_error, with_asked};
pub use hal::facts::{Facts, FunctionFacts, GateSignal, TickRate};
pub use hal::free_list::{FreeList, place};
pub use hal::image::{Build, HIP_FLAVOUR_H, REEF_H, ShippedImages, find_image, find_turns, unpack};
pub use hal::options::{ColocationMode, Options, Precision};
pub use hal::streams::{PaddedParts, PaddedStreams, Padding, Reset, StreamKind, Streams};
pub use hal::table::symbols;
pub use launch::checkpoint::Checkpoint;
pub use launch::graph::Graph;
pub use launch::queue::hardware_queue::Queue;
pub use preempt::preemptor::Preemptor;
pub use tuning::{Tuning, observe_tuning};
