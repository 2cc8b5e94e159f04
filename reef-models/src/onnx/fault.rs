//! What is wrong with a file, and where.

use crate::errors::error::Error;

/// What is wrong, in words that follow the name of a node or a tensor.
pub(super) type Result<T> = std::result::Result<T, String>;

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) at: String,
    pub(super) why: String,
}

impl Fault {
    pub(super) fn at_node(name: &str, op: &str, why: String) -> Self {
        Self { at: format!("node {name:?} ({op})"), why }
    }

    pub(super) fn at_input(name: &str, why: String) -> Self {
        Self { at: format!("input {name:?}"), why }
    }

    pub(super) fn of_graph(why: String) -> Self {
        Self { at: "graph".into(), why }
    }

    /// As an error of `file`.
    pub(super) fn of(self, file: String) -> Error {
        Error::Onnx { file, at: self.at, why: self.why }
    }
}
