//! Snapshots of stopped networks and queues: files from which another process continues, exact to
//! the block.
//!
//! A preempted queue is [parked](reef_core::VirtualQueue::park): its commands are left, and the
//! blocks of the first of them. With the contents of the memory that they use this is all of its
//! state. The commands themselves are not stored: a network makes them again, and digests say that
//! they are the same.
//!
//! ```text
//! VirtualQueue::park ──► Parked ┐
//! Network ─────► Work ──────────┴─► write(folder) ──► network.reef
//!                                                          │ open: everything is checked
//! Network ─────► Work ──► Snapshot::restore ◄──────────────┘
//!                                └──► Parked ──► VirtualQueue::enable_parked
//! ```
//!
//! ```
//! use reef_op::Operators;
//! use reef_core::{Config, Submitter, VirtualQueue};
//! use reef_models::{Model, Network};
//! use reef_snapshot::{Result, Snapshot, Work, write};
//! use std::path::Path;
//!
//! /// Stops an inference wherever it is, and writes it to a folder.
//! fn stop<D: Operators>(
//!     (device, model, network): (&D, &Model, &Network<D>),
//!     (submitter, queue): (Submitter<D>, VirtualQueue<D>),
//!     folder: &Path,
//! ) -> Result<()> {
//!     queue.preempt(true)?;
//!     let parked = queue.park(submitter).map_err(|(error, ..)| error)?;
//!     let work = Work::of_network(device, model, network);
//!     write(folder, &work, &parked, serde_json::Value::Null).map(drop)
//! }
//!
//! /// Finishes it, in any process.
//! fn finish<D: Operators>(
//!     (device, model, network): (&D, &Model, &Network<D>),
//!     folder: &Path,
//! ) -> Result<()> {
//!     let mut snapshot = Snapshot::open(folder)?;
//!     let parked = snapshot.restore(&Work::of_network(device, model, network))?;
//!     let (_, queue) = VirtualQueue::enable_parked(device, Config::default(), parked)?;
//!     Ok(queue.finish()?)
//! }
//! ```
//!
//! The format stands in [`mod@format`].

#![forbid(unsafe_code)]

mod archive;
mod digest;
mod error;
pub mod format;
mod state;

pub use archive::{ARCHIVE_FILE, Archive, ArchiveWriter, Regions};
pub use digest::Digest;
pub use error::{Error, Result};
pub use format::file::{FILE, Snapshot, Written};
pub use format::manifest::{Manifest, Position};
pub use state::work::{Region, Work, plan};
pub use state::write::write;
