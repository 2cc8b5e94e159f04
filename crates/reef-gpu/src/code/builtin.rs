//! Kernels that every device has: kernels/builtin.cu.

use crate::code::kernel::Kernel;
use crate::code::loaded::Builds;
use crate::hal::calls::Vendor;
use reef_core::{Error, Result};

/// Loaded when the device is opened.
#[derive(Debug)]
pub(crate) struct Builtin<V: Vendor> {
    public: [Kernel<V>; 3],
    pub(crate) copy: Kernel<V>,
    pub(crate) fill: Kernel<V>,
    pub(crate) stamp: V::Function,
    pub(crate) store: V::Function,
    pub(crate) report: V::Function,
}

impl<V: Vendor> Builtin<V> {
    pub(crate) fn load(builds: &Builds<V>) -> Result<Self> {
        let kernel = |name| Kernel::noting(builds, name);
        Ok(Self {
            public: [kernel("append")?, kernel("add")?, kernel("multiply")?],
            copy: kernel("copy")?,
            fill: kernel("fill")?,
            stamp: builds.plain.function("stamp")?,
            store: builds.plain.function("store")?,
            report: builds.plain.function("report")?,
        })
    }

    /// One that users may launch.
    pub(crate) fn kernel(&self, name: &str) -> Result<Kernel<V>> {
        let found = self.public.iter().find(|kernel| kernel.name() == name);
        found.cloned().ok_or_else(|| {
            let have: Vec<_> = self.public.iter().map(Kernel::name).collect();
            let have = have.join(", ");
            Error::NotFound(format!("{}: no kernel {name:?} (have: {have})", V::NAME))
        })
    }
}
