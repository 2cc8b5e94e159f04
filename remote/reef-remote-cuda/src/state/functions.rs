//! Kernels, and where their parameters lie.

use reef_cuda_abi::codes::DEVICE_UNAVAILABLE;
use reef_remote_calls::read_layout;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, RwLock};

/// A kernel.
#[derive(Debug)]
pub(crate) struct Function {
    /// Offset and size of each parameter. `None`: the server's driver doesn't tell.
    pub(crate) layout: Option<Vec<(u32, u32)>>,
    /// Bytes up to the end of the last parameter.
    pub(crate) len: usize,
}

impl Function {
    /// Reads what the worker says: a code, then pairs.
    ///
    /// # Errors
    ///
    /// `DEVICE_UNAVAILABLE` for parameters that no kernel has.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, u32> {
        match bytes.strip_prefix(&[0_u8; 4]) {
            None => Ok(Self { layout: None, len: 0 }),
            Some(pairs) => {
                let (layout, len) = read_layout(pairs).ok_or(DEVICE_UNAVAILABLE)?;
                Ok(Self { layout: Some(layout), len })
            }
        }
    }
}

/// Kernels by the numbers that the program has as their handles.
#[derive(Debug, Default)]
pub(crate) struct Functions(RwLock<HashMap<u64, Arc<Function>>>);

impl Functions {
    /// Returns the ones of this process.
    pub(crate) fn all() -> &'static Self {
        static ALL: OnceLock<Functions> = OnceLock::new();
        ALL.get_or_init(Self::default)
    }

    pub(crate) fn get(&self, id: u64) -> Option<Arc<Function>> {
        let all = self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        all.get(&id).cloned()
    }

    pub(crate) fn insert(&self, id: u64, function: Function) {
        let mut all = self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        all.insert(id, Arc::new(function));
    }
}
