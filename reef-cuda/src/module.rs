//! Code on the device: what ships with the crate, and what users bring.

use crate::Cuda;
use crate::context::Context;
use crate::driver::BACKEND;
use crate::image::Build;
use crate::kernel::Kernel;
use crate::source::compile_user;
use crate::stream::Function;
use cudarc::driver::sys::*;
use reef_core::{Error, Result};
use std::borrow::Cow;
use std::ffi::CString;
use std::sync::Arc;

/// Code on the device.
#[derive(Debug)]
pub(crate) struct Code {
    raw: CUmodule,
    context: Arc<Context>,
}

// SAFETY: a handle that the driver lets any thread use.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Code {
    /// Loads a CUBIN, a fatbin, or PTX that ends with a NUL.
    pub(crate) fn load(context: &Arc<Context>, image: &[u8]) -> Result<Arc<Self>> {
        context.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the image is complete, as far as its own headers tell.
        unsafe { context.driver.cuModuleLoadData(&mut raw, image.as_ptr().cast()) }?;
        Ok(Arc::new(Self { raw, context: context.clone() }))
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn function(&self, name: &str) -> Result<Function> {
        let missing = || Error::NotFound(format!("{BACKEND}: no kernel {name:?} in this module"));
        let text = CString::new(name).map_err(|_| missing())?;
        let mut function = std::ptr::null_mut();
        self.context.bind()?;
        let driver = self.context.driver;
        // SAFETY: the module is loaded, the name ends with a NUL.
        match unsafe { (driver.cuModuleGetFunction)(&mut function, self.raw, text.as_ptr()) } {
            NO_SUCH_NAME => Err(missing()),
            code => driver.check("cuModuleGetFunction", code).map(|()| Function(function)),
        }
    }
}

/// `CUDA_ERROR_NOT_FOUND`
const NO_SUCH_NAME: u32 = 500;

impl Drop for Code {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: loaded once; kernels keep it for as long as they are there.
            let _ = unsafe { self.context.driver.cuModuleUnload(self.raw) };
        }
    }
}

/// Both builds of a source: see kernels/README.md.
#[derive(Debug, Clone)]
pub(crate) struct Builds {
    pub(crate) plain: Arc<Code>,
    pub(crate) guarded: Arc<Code>,
}

/// Kernels that a user brings.
#[derive(Debug, Clone)]
pub struct Module {
    plain: Arc<Code>,
    guarded: Option<Arc<Code>>,
}

impl Module {
    /// The kernel of this name, as it stands in the code (`extern "C"`, or mangled).
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none.
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        match &self.guarded {
            None => Kernel::foreign(&self.plain, name),
            Some(guarded) => {
                let (plain, guarded) = (self.plain.clone(), guarded.clone());
                Kernel::preemptible(&Builds { plain, guarded }, name, 0, &[])
            }
        }
    }
}

impl Cuda {
    /// Loads somebody's kernels as they are: a CUBIN, a fatbin, or PTX.
    ///
    /// They have no guard, so they can't be stopped once they are launched: queues at a level deeper
    /// than `HostQueue` refuse them.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is none of these; the driver's.
    pub fn load(&self, image: &[u8]) -> Result<Module> {
        let known = [b"\x7fELF".as_slice(), b"\x50\xed\x55\xba", b"//", b".v"];
        if !known.iter().any(|start| image.starts_with(start)) {
            let text = format!("{BACKEND}: this is neither a CUBIN nor a fatbin nor PTX");
            return Err(Error::Invalid(text));
        }
        let mut image = Cow::Borrowed(image);
        if image[0] != 0x7f && image[0] != 0x50 && image.last() != Some(&0) {
            image.to_mut().push(0); // text ends with a NUL
        }
        Ok(Module { plain: Code::load(self.context(), &image)?, guarded: None })
    }

    /// Compiles CUDA C++ whose kernels follow the contract of kernels/README.md, so that they can be
    /// stopped. Needs NVRTC the first time; what it made is kept on disk.
    ///
    /// # Errors
    ///
    /// `NotFound` without NVRTC, `Invalid` with the compiler's messages.
    pub fn compile(&self, source: &str) -> Result<Module> {
        let capability = self.facts().capability;
        let build = |build| Code::load(self.context(), &compile_user(source, capability, build)?);
        Ok(Module { plain: build(Build::Plain)?, guarded: Some(build(Build::Guarded)?) })
    }
}
