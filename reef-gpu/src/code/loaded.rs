//! Images on the device: what ships with the backend, and what was compiled or checked.

use crate::driver::context::Context;
use crate::vendor::calls::Vendor;
use crate::vendor::image::Build;
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
    ///
    /// # Safety
    ///
    /// As of [`Modules::load_code`](crate::vendor::calls::Modules::load_code).
    pub(crate) unsafe fn load(context: &Arc<Context<V>>, image: &[u8]) -> Result<Arc<Self>> {
        // SAFETY: the caller's promise.
        let raw = unsafe { context.call().load_code(image) }?;
        Ok(Arc::new(Self { raw, context: context.clone() }))
    }

    pub(crate) fn context(&self) -> &Arc<Context<V>> {
        &self.context
    }

    pub(crate) fn function(&self, name: &str) -> Result<V::Function> {
        // SAFETY: the code is loaded for as long as this is there.
        let function = unsafe { self.context.call().function(self.raw, name) }?;
        function.ok_or_else(|| {
            Error::NotFound(format!("{}: no kernel {name:?} in this module", V::NAME))
        })
    }
}

impl<V: Vendor> Drop for Code<V> {
    fn drop(&mut self) {
        if let Some(call) = self.context.call_to_free() {
            // SAFETY: loaded once; kernels keep this for as long as they are there.
            unsafe { call.unload_code(self.raw) };
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
    pub(crate) fn compiled(context: &Arc<Context<V>>, source: &str) -> Result<Self> {
        Self::of(context, |build| context.vendor.compile(source, build))
    }

    fn of(context: &Arc<Context<V>>, code: impl Fn(Build) -> Result<Vec<u8>>) -> Result<Self> {
        // SAFETY: both callers give what `shipped` or `compile` made.
        let load = |build| unsafe { Code::load(context, &code(build)?) };
        Ok(Self { plain: load(Build::Plain)?, guarded: load(Build::Guarded)? })
    }
}
