//! Kernels that users bring.

use crate::code::kernel::Kernel;
use crate::code::loaded::{Builds, Code};
use crate::driver::handles::cloned;
use crate::hal::calls::Vendor;
use reef_core::Result;
use std::sync::Arc;

/// Kernels that a user brings.
#[derive(Debug)]
pub struct Module<V: Vendor>(pub(crate) Arc<ModuleKind<V>>);

cloned!(Module);

/// Origin of the kernels.
#[derive(Debug)]
pub(crate) enum ModuleKind<V: Vendor> {
    /// As they are, without a guard.
    Opaque(Arc<Code<V>>),
    Preemptible(Builds<V>),
}

impl<V: Vendor> Module<V> {
    /// The kernel of this name, as it stands in the code (`extern "C"`, or mangled).
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none.
    pub fn kernel(&self, name: &str) -> Result<Kernel<V>> {
        match &*self.0 {
            ModuleKind::Opaque(code) => Kernel::opaque(code, name),
            ModuleKind::Preemptible(builds) => Kernel::preemptible(builds, name, 0, &[]),
        }
    }
}
