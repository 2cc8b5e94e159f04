//! Kernels, and where their parameters lie.

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
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut numbers =
            bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes")));
        if numbers.next() != Some(0) {
            return Self { layout: None, len: 0 };
        }
        let mut layout = Vec::new();
        while let (Some(offset), Some(size)) = (numbers.next(), numbers.next()) {
            layout.push((offset, size));
        }
        let ends = layout.iter().map(|(offset, size)| offset.saturating_add(*size) as usize);
        let len = ends.max().unwrap_or(0);
        Self { layout: Some(layout), len }
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
