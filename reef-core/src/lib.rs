//! Preemptive scheduling of accelerator work, independent of the accelerator.

#![deny(unsafe_code)]

mod command;
mod device;
pub mod dkp;
mod error;
pub mod op;

pub use command::{Args, Command, Copy, Dim3, Fill, HostFn, Launch};
pub use device::{
    Device, DeviceInfo, Event, PreemptLevel, Preemptor, Priority, Queue, Record, Seq, Stopped,
};
pub use error::{Error, Result};
