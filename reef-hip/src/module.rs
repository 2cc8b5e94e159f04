//! Code on the device: what ships with the crate, and what users bring.

use crate::bundle::unbundle;
use crate::context::Context;
use crate::driver::{BACKEND, Handle, NO_SUCH_NAME};
use crate::elf::CodeObject;
pub(crate) use crate::elf::Kernels;
use reef_core::{Error, Result};
use reef_gpu::FunctionFacts;
use std::ffi::{CString, c_uint};

/// Loaded code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(Handle);

// SAFETY: a handle that the runtime lets any thread use.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

/// A function of loaded code.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    pub(crate) raw: Handle,
    code: Code,
    /// Its place in what the code says of its kernels.
    kernel: Option<usize>,
}

// SAFETY: as above.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Context {
    /// What a user brought, as one code object for this device.
    pub(crate) fn check(&self, image: &[u8]) -> Result<Vec<u8>> {
        let code = unbundle(image, &self.device.target)?;
        CodeObject::parse(code)?.check(&self.device.target, self.device.runtime)?;
        Ok(code.to_vec())
    }

    pub(crate) fn load(&self, image: &[u8]) -> Result<Code> {
        let kernels = CodeObject::parse(image)?.kernels();
        self.bind()?;
        let mut module = std::ptr::null_mut();
        // SAFETY: the image is whole, as its own headers tell.
        unsafe { self.driver.hipModuleLoadData(&mut module, image.as_ptr().cast()) }?;
        self.loaded.lock().insert(Code(module), kernels);
        Ok(Code(module))
    }

    /// Doesn't wait for other work.
    pub(crate) fn unload(&self, code: Code) {
        self.loaded.lock().remove(&code);
        if self.bind().is_ok() {
            // SAFETY: loaded once, and nobody uses it any more.
            let _ = unsafe { self.driver.hipModuleUnload(code.0) };
        }
    }

    pub(crate) fn find(&self, code: Code, name: &str) -> Result<Option<Function>> {
        let Ok(text) = CString::new(name) else { return Ok(None) };
        self.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the module is loaded, the name ends with a NUL.
        match unsafe { (self.driver.hipModuleGetFunction)(&mut raw, code.0, text.as_ptr()) } {
            NO_SUCH_NAME => return Ok(None),
            status => self.driver.check("hipModuleGetFunction", status)?,
        }
        let loaded = self.loaded.lock();
        let kernels = loaded.get(&code).map_or(&[][..], Vec::as_slice);
        let kernel = kernels.iter().position(|kernel| kernel.name == name);
        Ok(Some(Function { raw, code, kernel }))
    }

    pub(crate) fn facts_of(&self, function: Function) -> Result<FunctionFacts> {
        /// `HIP_FUNC_ATTRIBUTE_NUM_REGS`
        const REGISTERS: c_uint = 4;
        Ok(FunctionFacts {
            registers: self.attribute(function, REGISTERS)?,
            shared: self.static_shared(function)?,
            parameters: self.parameters(function),
        })
    }

    fn parameters(&self, function: Function) -> Option<Vec<usize>> {
        let loaded = self.loaded.lock();
        Some(loaded.get(&function.code)?.get(function.kernel?)?.parameters())
    }

    fn static_shared(&self, function: Function) -> Result<u32> {
        /// `HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`
        const SHARED: c_uint = 1;
        self.attribute(function, SHARED)
    }

    fn attribute(&self, function: Function, attribute: c_uint) -> Result<u32> {
        self.bind()?;
        let mut value = 0;
        // SAFETY: the function is loaded, and the pointer is valid for the call.
        unsafe { self.driver.hipFuncGetAttribute(&mut value, attribute, function.raw) }?;
        Ok(value as u32)
    }

    /// Nothing has to be asked for in advance here; but there is a most.
    pub(crate) fn check_shared(&self, function: Function, bytes: u32) -> Result<()> {
        let (own, most) = (self.static_shared(function)?, self.device.shared_per_block);
        if own.checked_add(bytes).is_none_or(|sum| sum > most) {
            let text = format!("{BACKEND}: {own} + {bytes} bytes of shared memory, most is {most}");
            return Err(Error::Invalid(text));
        }
        Ok(())
    }
}
