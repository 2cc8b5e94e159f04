//! Record and replay of a program's calls.
//!
//! A program that runs a network makes the same calls for each inference. After three repetitions
//! the sequence becomes a *template* that both ends have. From then on a call travels as its
//! difference from the template, and most calls have none.
//!
//! ```text
//! program ──Op──▶ Player ──calls as they are, definitions, records──▶ Templates ──Op──▶ driver
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `server` | templates at the server, and the operations of a record |
//! | `player` | one thread of the program: follows a template, or records |
//! | `trie` | templates of the thread, which share beginnings |
//! | `economics` | limits of recording and replaying where they save nothing |
//! | `numbers` | numbers of templates, and their bytes, for all threads of a session |
//! | `segment` | operations up to a wait, as bytes: a recording, or a template |
//! | `period` | search for repetition |
//! | `advance` | format of a record |
//! | `fingerprint`, `op`, `error` | hash of an operation without its words; an operation; errors |
//!
//! *In*: operations that the program does not wait for, and the waits between them. *Out*: the same
//! operations at the server, in the same order, byte for byte. *Invariant*: the server makes no
//! operation that the program has not issued. This is compression, not speculation, so a
//! divergence has nothing to undo.
//!
//! Nothing here calls a driver or has a socket.
//!
//! # Source
//!
//! The idea that an inference is a static sequence of calls is RRTO's (arXiv 2507.21739). Search,
//! template and format are of this project.

#![forbid(unsafe_code)]

mod advance;
mod economics;
mod error;
mod fingerprint;
mod numbers;
mod op;
mod period;
mod player;
mod segment;
mod server;
mod trie;

pub use error::Malformed;
pub use numbers::{MAX_TEMPLATES, MAX_TOTAL_LEN, Numbers};
pub use op::Op;
pub use player::{Growth, Line, Player};
pub use segment::{MAX_LEN, MAX_OPS};
pub use server::Templates;

/// Text of the formats. Two ends must have the same one.
pub const FORMAT: &str = concat!(include_str!("advance.rs"), include_str!("segment.rs"));
