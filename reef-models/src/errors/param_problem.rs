//! Faults of a parameter file.

use crate::graph::schedule::ElementType;
use crate::memory::budget::Exhausted;

/// Fault of a parameter file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// It doesn't begin with `TVM_MODEL_PARAMS`.
    #[error("no parameter file: begins with {0:?}")]
    Magic(String),
    /// It would take more memory than its reader was given.
    #[error(transparent)]
    Memory(#[from] Exhausted),
    /// It ends inside an entry.
    #[error("ends inside {inside}: {need} bytes needed at byte {at}, {have} there")]
    Truncated {
        /// Part that is cut.
        inside: String,
        /// Byte at which it begins.
        at: usize,
        /// Bytes it takes.
        need: u64,
        /// Bytes that are left.
        have: usize,
    },
    /// Bytes follow the last entry.
    #[error("{0} bytes after the last entry")]
    Trailing(usize),
    /// The file has no entries.
    #[error("0 entries")]
    NoEntries,
    /// An entry has no values.
    #[error("\"{0}\" has 0 values")]
    NoValues(String),
    /// A name of more bytes than REEF reads.
    #[error("name of {length} bytes at byte {at}, most is 255")]
    NameTooLong {
        /// Byte at which it begins; 0 when writing.
        at: usize,
        /// Bytes seen before the search ended.
        length: usize,
    },
    /// A name that is empty, holds a 0, or isn't UTF-8.
    #[error("unusable name {0:?}")]
    Name(String),
    /// Two entries of one name.
    #[error("two entries \"{0}\"")]
    Twice(String),
    /// The graph has no parameter of this name.
    #[error("\"{0}\" is no parameter of the graph")]
    Unknown(String),
    /// Another number of values than the graph's storage holds.
    #[error("\"{name}\" has {given} values, its storage {want}")]
    Size {
        /// Name of the parameter.
        name: String,
        /// Values in the file.
        given: usize,
        /// Elements of the storage.
        want: usize,
    },
    /// The format holds only 32-bit floats, the storage holds something else.
    #[error("\"{name}\" is a float, its storage {want:?}")]
    Type {
        /// Name of the parameter.
        name: String,
        /// Elements of the storage.
        want: ElementType,
    },
}
