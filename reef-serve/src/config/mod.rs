//! What the daemon can be told: one TOML file, overridden by the environment and by flags.
//!
//! Every key has a default, so an empty file is a whole configuration. A key that there is not is an
//! error that names it, wherever it came from.

pub(crate) mod settings;
pub(crate) mod sources;

pub use settings::{Config, Limits, Listen, Memory, Models, Times, Tls};
pub use sources::{SET, from_sources};
