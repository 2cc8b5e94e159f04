//! Sessions of Rust programs in another process.
//!
//! ```text
//! living origins ──▶ events ─┐
//! memory ────────▶ pieces ───┼─▶ another server, or a file ──▶ events, pieces, state ──▶ session
//! lanes, records ──▶ state ──┘
//! ```
//!
//! Events and memory that no command writes go while the session runs. Then it stands still: its
//! work ends or is taken back, and the rest goes.
//!
//! *In*: a session, or what another server or a file has of one. *Out*: the same session at one
//! server. *Invariant*: a session that is made has the same names, the same bytes and the same
//! progress, and its device gives the client the same answers, or it is not made.

mod copy;
pub(super) mod incoming;
mod make;
pub(super) mod source;
mod state;

pub use copy::restore;
