//! `libcuda.so.1` for unmodified programs: the real driver, with gates and marks in between.
//!
//! Every driver function of CUDA 11.8 to 13.5 is exported. Most are a jump into the real driver
//! (`driver`); some are `hooks`, which give a call to `actions`: there a best-effort `guest`'s
//! launch gets a gate before it, and a real-time guest's launch first holds the best-effort guests
//! of the same device. The program's own thread then calls the real driver, in the program's order,
//! so streams, events, graphs and errors stay the driver's.
//!
//! Nothing happens when the library is loaded. Without `$REEF_GUESTS` (a daemon's socket) every
//! call is passed on as it is; any failure in here ends in the same. Limits of memory and time
//! (`limit`) are independent of that: they need no daemon, and a failure there ends in refused
//! allocations, and in refused launches if the time is limited.
//!
//! The program itself may begin and end real-time `phases`, by C symbols.
//!
//! Long kernels of best-effort guests may be launched in slices (`variants`), whose blocks leave
//! while the guest is held (`stops`).
//!
//! A check runs kernels again, to see whether they may (`rerun`).
//!
//! A `profile` counts and times calls, with or without the rest.
//!
//! x86-64 Linux alone: elsewhere the library is empty.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod actions;
mod catch_panics;
mod driver;
mod explain;
mod graph_gates;
mod guest;
mod hooks;
mod kernel_variants;
mod limit;
mod order;
mod phases;
mod profile;
mod rerun;
mod settings;
mod stops;
mod swap;
mod thread;
