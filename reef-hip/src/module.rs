//! Code on the device: what ships with the crate, and what users bring.

use crate::code::bundle::unbundle;
use crate::code::elf::CodeObject;
use crate::code::image;
use crate::code::source::compile_user;
use crate::context::Context;
use crate::handles::{Code, Function, Stream};
use reef_core::{Error, Result};
use reef_gpu::{Build, FunctionFacts, LaunchConfig, Modules};
use std::ffi::{CString, c_uint, c_void};

/// `HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`
pub(crate) const STATIC_SHARED: c_uint = 1;
/// `HIP_FUNC_ATTRIBUTE_NUM_REGS`
pub(crate) const REGISTERS: c_uint = 4;
/// `hipErrorNotFound`
pub(crate) const NO_SUCH_NAME: u32 = 500;

impl Modules for Context {
    type Code = Code;
    type Function = Function;

    fn shipped(&self, name: &str, build: Build) -> Result<Vec<u8>> {
        image::find(name, build, &self.device.target)
    }

    fn taking_turns(&self, name: &str) -> Result<Option<Vec<u8>>> {
        image::find_turns(name, &self.device.target)
    }

    fn compile(&self, source: &str, build: Build) -> Result<Vec<u8>> {
        compile_user(source, &self.device.target, self.device.runtime, build)
    }

    /// Returns the user's image as one code object for this device.
    fn check_image(&self, image: &[u8]) -> Result<Vec<u8>> {
        let code = unbundle(image, &self.device.target)?;
        CodeObject::parse(code)?.check(&self.device.target, self.device.runtime)?;
        Ok(code.to_vec())
    }

    unsafe fn load_code(&self, image: &[u8]) -> Result<Code> {
        let kernels = CodeObject::parse(image)?.kernels();
        self.bind()?;
        let mut module = std::ptr::null_mut();
        // SAFETY: the image is whole, as far as its own headers tell.
        unsafe { self.driver.hipModuleLoadData(&mut module, image.as_ptr().cast()) }?;
        self.loaded.lock().insert(Code(module), kernels);
        Ok(Code(module))
    }

    /// Unloads code. Doesn't wait for other work.
    unsafe fn unload_code(&self, code: Code) {
        self.loaded.lock().remove(&code);
        if self.bind().is_ok() {
            // SAFETY: loaded once, and no work uses it any more.
            let _ = unsafe { self.driver.hipModuleUnload(code.0) };
        }
    }

    unsafe fn function(&self, code: Code, name: &str) -> Result<Option<Function>> {
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

    unsafe fn function_facts(&self, function: Function) -> Result<FunctionFacts> {
        Ok(FunctionFacts {
            registers: self.attribute(function, REGISTERS)?,
            shared: self.attribute(function, STATIC_SHARED)?,
            parameters: self.parameters(function),
        })
    }

    /// Nothing has to be asked for in advance here; but there is a most.
    unsafe fn reserve_shared(&self, function: Function, bytes: u32) -> Result<()> {
        let own = self.attribute(function, STATIC_SHARED)?;
        let most = self.device.shared_per_block;
        if own.checked_add(bytes).is_none_or(|sum| sum > most) {
            return Err(Error::invalid(
                "shared memory",
                format!("must be at most {most} bytes, got {own} + {bytes}"),
            ));
        }
        Ok(())
    }

    unsafe fn launch(
        &self,
        stream: Stream,
        function: Function,
        config: &LaunchConfig,
        params: &mut [*mut c_void],
    ) -> Result<()> {
        self.bind()?;
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (config.grid, config.block);
        // SAFETY: the stream is open, the function is loaded, and the parameters are its own:
        // `Modules::launch` demands it. The runtime copies the parameters before it returns. They
        // are never null, even if there are none: HIP 5 crashes if this and what follows are.
        unsafe {
            self.driver.hipModuleLaunchKernel(
                function.raw,
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                config.shared,
                stream.0,
                params.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        }
    }
}

impl Context {
    fn parameters(&self, function: Function) -> Option<Vec<usize>> {
        let loaded = self.loaded.lock();
        Some(loaded.get(&function.code)?.get(function.kernel?)?.parameters())
    }

    fn attribute(&self, function: Function, which: c_uint) -> Result<u32> {
        self.bind()?;
        let mut value = 0;
        // SAFETY: the function is loaded, and the pointer is valid for the call.
        unsafe { self.driver.hipFuncGetAttribute(&mut value, which, function.raw) }?;
        Ok(value as u32)
    }
}
