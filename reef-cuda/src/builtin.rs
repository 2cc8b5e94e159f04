//! Kernels that every CUDA device has: kernels/builtin.cu.

use crate::driver::BACKEND;
use crate::kernel::Kernel;
use crate::module::Builds;
use crate::stream::Function;
use reef_core::{Error, Result};

/// Loaded when the device is opened.
#[derive(Debug)]
pub(crate) struct Builtin {
    public: [Kernel; 3],
    pub(crate) copy: Kernel,
    pub(crate) fill: Kernel,
    pub(crate) stamp: Function,
    pub(crate) store: Function,
    pub(crate) report: Function,
}

impl Builtin {
    pub(crate) fn load(builds: &Builds) -> Result<Self> {
        let kernel = |name| Kernel::preemptible(builds, name, 0, &[]);
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
    pub(crate) fn kernel(&self, name: &str) -> Result<Kernel> {
        let found = self.public.iter().find(|kernel| kernel.name() == name);
        found.cloned().ok_or_else(|| {
            let have: Vec<_> = self.public.iter().map(Kernel::name).collect();
            let have = have.join(", ");
            Error::NotFound(format!("{BACKEND}: no kernel {name:?} (have: {have})"))
        })
    }
}
