//! The result of a step that may fail.

use std::error::Error;

pub(crate) type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;
