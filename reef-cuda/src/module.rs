//! Code on the device: what ships with the crate, and what users bring.

use crate::code::image;
use crate::code::source::compile_user;
use crate::context::Context;
use crate::handles::{Code, Function, Stream};
use cudarc::driver::sys::{
    CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig,
};
use reef_core::Result;
use reef_gpu::{Build, FunctionFacts, LaunchConfig, Modules, Start};
use std::ffi::{CString, c_int, c_uint, c_void};

/// `CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`
const STATIC_SHARED: c_uint = 1;
/// `CU_FUNC_ATTRIBUTE_NUM_REGS`
const REGISTERS: c_uint = 4;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
const DYNAMIC_SHARED: c_uint = 8;
/// `CUDA_ERROR_NOT_FOUND`
const NO_SUCH_NAME: u32 = 500;

/// Lets a launch start while the one before it runs: programmatic stream serialization.
fn early() -> CUlaunchAttribute {
    CUlaunchAttribute {
        id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        pad: [0; 4],
        value: CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
    }
}

impl Modules for Context {
    type Code = Code;
    type Function = Function;

    fn shipped(&self, name: &str, build: Build) -> Result<Vec<u8>> {
        image::find(name, build, self.own.capability)
    }

    fn taking_turns(&self, name: &str) -> Result<Option<Vec<u8>>> {
        image::find_turns(name, self.own.capability)
    }

    fn compile(&self, source: &str, build: Build) -> Result<Vec<u8>> {
        compile_user(source, self.own.capability, build)
    }

    fn check_image(&self, image: &[u8]) -> Result<Vec<u8>> {
        image::check(image)
    }

    unsafe fn load_code(&self, image: &[u8]) -> Result<Code> {
        let image = image::check(image)?; // from a file or a compiler: the driver is told no length
        self.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: all that the image's headers name lies inside, and PTX ends with a NUL.
        unsafe { self.driver.cuModuleLoadData(&mut raw, image.as_ptr().cast()) }?;
        Ok(Code(raw))
    }

    unsafe fn unload_code(&self, code: Code) {
        if self.bind().is_ok() {
            // SAFETY: loaded once, and no work uses it any more.
            let _ = unsafe { self.driver.cuModuleUnload(code.0) };
        }
    }

    unsafe fn function(&self, code: Code, name: &str) -> Result<Option<Function>> {
        let Ok(name) = CString::new(name) else { return Ok(None) };
        self.bind()?;
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded, the name ends with a NUL.
        match unsafe { (self.driver.cuModuleGetFunction)(&mut function, code.0, name.as_ptr()) } {
            NO_SUCH_NAME => Ok(None),
            raw => self.driver.check("cuModuleGetFunction", raw).map(|()| Some(Function(function))),
        }
    }

    unsafe fn function_facts(&self, function: Function) -> Result<FunctionFacts> {
        self.bind()?;
        Ok(FunctionFacts {
            registers: self.attribute(function, REGISTERS)?,
            shared: self.attribute(function, STATIC_SHARED)?,
            parameters: self.parameter_sizes(function),
        })
    }

    unsafe fn reserve_shared(&self, function: Function, bytes: u32) -> Result<()> {
        self.bind()?;
        // SAFETY: the function is loaded.
        unsafe { self.driver.cuFuncSetAttribute(function.0, DYNAMIC_SHARED, bytes as c_int) }
    }

    unsafe fn launch(
        &self,
        stream: Stream,
        function: Function,
        config: &LaunchConfig,
        params: &mut [*mut c_void],
    ) -> Result<()> {
        self.bind()?;
        let LaunchConfig { start, shared, .. } = *config;
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (config.grid, config.block);
        if start == Start::Early {
            let mut attribute = early();
            let config = CUlaunchConfig {
                gridDimX: grid_x,
                gridDimY: grid_y,
                gridDimZ: grid_z,
                blockDimX: block_x,
                blockDimY: block_y,
                blockDimZ: block_z,
                sharedMemBytes: shared,
                hStream: stream.0,
                attrs: &mut attribute,
                numAttrs: 1,
            };
            let (params, extra) = (params.as_mut_ptr(), std::ptr::null_mut());
            // SAFETY: the stream is open, the function is loaded, and the parameters are its own:
            // `Modules::launch` demands it. The driver copies the configuration and the parameters
            // before it returns.
            return unsafe { self.driver.cuLaunchKernelEx(&config, function.0, params, extra) };
        }
        // SAFETY: the stream is open, the function is loaded, and the parameters are its own:
        // `Modules::launch` demands it. The driver copies the parameters before it returns.
        unsafe {
            self.driver.cuLaunchKernel(
                function.0,
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                shared,
                stream.0,
                params.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        }
    }
}

impl Context {
    fn attribute(&self, function: Function, which: c_uint) -> Result<u32> {
        let mut value = 0;
        // SAFETY: the pointer is valid for the call, the function is loaded.
        unsafe { self.driver.cuFuncGetAttribute(&mut value, which, function.0) }?;
        Ok(value as u32)
    }

    /// Bytes of each parameter of a kernel; `None`: this driver can't tell.
    fn parameter_sizes(&self, function: Function) -> Option<Vec<usize>> {
        let info = self.driver.cuFuncGetParamInfo?;
        let (mut offset, mut size, mut sizes) = (0, 0, Vec::new());
        // SAFETY: the pointers are valid for the call, the function is loaded.
        while unsafe { info(function.0, sizes.len(), &mut offset, &mut size) } == 0 {
            sizes.push(size);
        }
        Some(sizes)
    }
}
