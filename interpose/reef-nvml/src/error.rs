//! Errors of the library.

use std::fmt;

/// Why something isn't known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The library is missing or can't be opened, with the loader's reason.
    Absent(String),
    /// The library doesn't have a function.
    Function(&'static str),
    /// The library refused a call.
    Call {
        /// The function.
        function: &'static str,
        /// `nvmlReturn_t`.
        code: u32,
        /// The code in the library's words.
        text: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(why) => write!(out, "nvml: {why}"),
            Self::Function(name) => write!(out, "nvml: {name} isn't in this driver's library"),
            Self::Call { function, code, text } => {
                write!(out, "nvml: {function}: {text} (code {code})")
            }
        }
    }
}

impl std::error::Error for Error {}
