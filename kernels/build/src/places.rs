//! Folders of the repository.

use std::env;
use std::path::{Path, PathBuf};

/// Folders that sources come from and images go to.
pub(crate) struct Places {
    /// Root of the repository.
    pub(crate) root: PathBuf,
    /// Folder of made and fetched files.
    pub(crate) target: PathBuf,
}

impl Places {
    pub(crate) fn find() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
        Self { root, target }
    }

    pub(crate) fn sources(&self) -> PathBuf {
        self.root.join("kernels")
    }
}
