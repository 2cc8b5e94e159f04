//! The configuration: one TOML file, overridden by the environment and by flags.
//!
//! - **In**: a file, environment variables, pairs of key and value.
//! - **Out**: a [`Config`] that has been checked.
//! - **Invariant**: every key has a default, so an empty file is a whole configuration; an unknown
//!   key is an error that names it, for each source.

pub(crate) mod guests;
pub(crate) mod limits;
pub(crate) mod listen;
pub(crate) mod live;
pub(crate) mod rights;
pub(crate) mod settings;
pub(crate) mod sources;
pub(crate) mod users;

pub use guests::Guests;
pub use limits::{Limits, Memory, Times};
pub use listen::{Listen, Tls};
pub use rights::{OverBudget, RealTime, Right, Rights};
pub use settings::{Config, Models};
pub use sources::{SET, from_sources};
pub use users::Users;
