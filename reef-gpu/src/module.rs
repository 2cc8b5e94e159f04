//! Code on the device: what ships with the backend, and what users bring.

use crate::Gpu;
use crate::context::Context;
use crate::handles::cloned;
use crate::image::Build;
use crate::kernel::Kernel;
use crate::vendor::Vendor;
use reef_core::{Error, Result};
use std::sync::Arc;

/// Code on the device.
#[derive(Debug)]
pub(crate) struct Code<V: Vendor> {
    raw: V::Code,
    context: Arc<Context<V>>,
}

impl<V: Vendor> Code<V> {
    /// Loads what ships, what was compiled, or what was checked.
    fn load(context: &Arc<Context<V>>, image: &[u8]) -> Result<Arc<Self>> {
        let raw = context.call().load_code(image)?;
        Ok(Arc::new(Self { raw, context: context.clone() }))
    }

    pub(crate) fn context(&self) -> &Arc<Context<V>> {
        &self.context
    }

    pub(crate) fn function(&self, name: &str) -> Result<V::Function> {
        let function = self.context.call().function(self.raw, name)?;
        function.ok_or_else(|| {
            Error::NotFound(format!("{}: no kernel {name:?} in this module", V::NAME))
        })
    }
}

impl<V: Vendor> Drop for Code<V> {
    fn drop(&mut self) {
        if let Some(call) = self.context.call_to_free() {
            call.unload_code(self.raw); // kernels keep it for as long as they are there
        }
    }
}

/// Both builds of a source: see kernels/README.md.
#[derive(Debug)]
pub(crate) struct Builds<V: Vendor> {
    pub(crate) plain: Arc<Code<V>>,
    pub(crate) guarded: Arc<Code<V>>,
}

impl<V: Vendor> Builds<V> {
    /// Of a source that ships with the backend.
    pub(crate) fn shipped(context: &Arc<Context<V>>, name: &str) -> Result<Self> {
        Self::of(context, |build| context.vendor.shipped(name, build))
    }

    /// Of a user's source.
    fn compiled(context: &Arc<Context<V>>, source: &str) -> Result<Self> {
        Self::of(context, |build| context.vendor.compile(source, build))
    }

    fn of(context: &Arc<Context<V>>, code: impl Fn(Build) -> Result<Vec<u8>>) -> Result<Self> {
        let load = |build| Code::load(context, &code(build)?);
        Ok(Self { plain: load(Build::Plain)?, guarded: load(Build::Guarded)? })
    }
}

/// Kernels that a user brings.
#[derive(Debug)]
pub struct Module<V: Vendor>(Arc<Brought<V>>);

cloned!(Module);

#[derive(Debug)]
enum Brought<V: Vendor> {
    /// As they are, without a guard.
    Foreign(Arc<Code<V>>),
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
            Brought::Foreign(code) => Kernel::foreign(code, name),
            Brought::Preemptible(builds) => Kernel::preemptible(builds, name, 0, &[]),
        }
    }
}

impl<V: Vendor> Gpu<V> {
    /// Loads somebody's kernels as they are: a CUBIN, a fatbin or PTX on NVIDIA devices, a code object or
    /// a bundle of some on AMD's.
    ///
    /// They have no guard, so they can't be stopped once they are launched: queues at a level deeper
    /// than `HostQueue` refuse them, unless the device was opened with `gates=N`.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is none of these; the driver's.
    pub fn load(&self, image: &[u8]) -> Result<Module<V>> {
        let image = self.context().vendor.check_image(image)?;
        Ok(Module(Arc::new(Brought::Foreign(Code::load(self.context(), &image)?))))
    }

    /// Compiles a source whose kernels follow the contract of kernels/README.md, so that they can be
    /// stopped. Needs the vendor's run-time compiler the first time; what it made is kept on disk.
    ///
    /// # Errors
    ///
    /// `NotFound` without the compiler, `Invalid` with its messages.
    pub fn compile(&self, source: &str) -> Result<Module<V>> {
        let builds = Builds::compiled(self.context(), source)?;
        Ok(Module(Arc::new(Brought::Preemptible(builds))))
    }
}
