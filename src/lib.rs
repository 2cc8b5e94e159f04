//! Microsecond-scale preemption for accelerator kernels, on CUDA, HIP or the CPU.
//!
//! A [`Dispatcher`] shares one device between clients of two classes. A real-time task starts at
//! once, also on a device full of best-effort work, which is stopped and loses nothing:
//!
//! ```
//! use reef::cpu::Cpu;
//! use reef::models::Model;
//! use reef::prelude::*;
//!
//! let device = Cpu::open(0, "units=2")?;
//! let weights = Model::open("resnet18").input_size(32).read()?.weights(&device)?;
//! let (rt, be) = (weights.network()?, weights.network()?);
//!
//! let dispatcher = Dispatcher::start(&device, Reef::default())?;
//! let mut background = dispatcher.best_effort(ClientConfig::default())?;
//! let last = background.submit(&be.inference())?; // returns at once
//! let timing = dispatcher.real_time()?.run(&Task::new(rt.inference())?)?;
//! println!("started after {:?}, took {:?}", timing.delay, timing.total);
//! background.wait(last)?; // each block has taken effect once
//! # Ok::<(), reef::models::Error>(())
//! ```
//!
//! | you want | start at |
//! |---|---|
//! | two models on one device | [`Dispatcher`], [`RtClient`], [`BeClient`] |
//! | a network by name, from ONNX or safetensors | [`models`] |
//! | one preemptible queue | [`VirtualQueue`] |
//! | a policy of your own | [`scheduler::Scheduler`] |
//! | several devices | [`cluster::Cluster`] |
//!
//! Code is written once, generic over [`Device`], and the device is picked by name at run time:
//!
//! ```
//! struct Describe;
//!
//! impl reef::Visit for Describe {
//!     type Output = String;
//!     fn visit<D: reef::op::Operators>(self, device: D) -> String {
//!         format!("{}: {} units", D::NAME, device.info().units)
//!     }
//! }
//!
//! println!("{}", reef::with_device("cpu:0?units=2", Describe)?);
//! # Ok::<(), reef::Error>(())
//! ```
//!
//! [`with_devices`] opens several, and a [`cluster::Cluster`] places clients on them.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod backends;
pub mod cluster;
mod devices;
mod name;
mod open;
#[cfg(feature = "perfetto")]
pub mod perfetto;

/// The example in the README is a test, and so are those of the book's pages for Rust.
#[cfg(all(doctest, feature = "cpu", feature = "models"))]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/rust/tutorial.md")]
#[doc = include_str!("../docs/rust/scheduler.md")]
struct Readme;

pub use backends::{BACKENDS, Backends, BuiltIn, Visit, Visited, with_device_of};
pub use devices::{AUTO, VisitAll};
pub use name::DeviceName;
pub use open::{auto_device, devices, with_device, with_devices};
pub use reef_core::{
    Account, Arg, Args, Backend, BeClient, Blocks, Caps, Checkpoint, Class, ClientConfig,
    Colocation, Command, Device, DeviceInfo, Dispatcher, Error, Event, Group, HostMemory,
    InvalidArgument, Launch, LaunchBuilder, Neighbours, NoGraph, Parked, PreemptLevel, Preemptor,
    Priority, Queue, Rate, Result, RtClient, Seq, Span, Stats, Stopwatch, Submitter, Task, Ticket,
    Timing, Usage, VirtualQueue, did_you_mean, did_you_mean_in, dkp, scheduler, words,
};
pub use reef_op as op;
pub use reef_op::{program, rounding, tensor};

/// Names of a program that shares a device: `use reef::prelude::*;`.
pub mod prelude {
    pub use reef_core::scheduler::Reef;
    pub use reef_core::{BeClient, ClientConfig, Device, Dispatcher, RtClient, Task, VirtualQueue};
}

/// Commands of a queue other than launches, and what they are made of.
pub mod command {
    pub use reef_core::{Copy, Dim3, Fill, HostFn, MemoryHandle};
}

/// Settings of a virtual queue, and what a backend's own queue is made of.
pub mod queue {
    pub use reef_core::{Config, Drained, issue};
}

/// Work whose effect shows whether each block ran once.
pub mod testing {
    pub use reef_core::{Cells, appended};
}

#[cfg(feature = "cpu")]
pub use reef_cpu as cpu;
#[cfg(feature = "cuda")]
pub use reef_cuda as cuda;
#[cfg(feature = "hip")]
pub use reef_hip as hip;
#[cfg(feature = "models")]
pub use reef_models as models;
#[cfg(feature = "remote")]
pub use reef_remote as remote;

/// Compilers of device code that were there when this was built: pairs of a backend that is
/// compiled in, `cuda` or `hip`, and the compiler's path.
pub fn kernel_compilers() -> Vec<(&'static str, &'static str)> {
    [("cuda", env!("REEF_CUDA_COMPILER")), ("hip", env!("REEF_HIP_COMPILER"))]
        .into_iter()
        .filter(|(_, path)| !path.is_empty())
        .collect()
}
