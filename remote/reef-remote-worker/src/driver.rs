//! The driver's functions, by name.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use reef_cuda_abi::codes::NOT_FOUND;
use reef_guest::library_path::candidates;
use reef_remote_calls::{CALLS, Call, DeviceFacts, Facts};
use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};

/// Highest number of a device's attribute that is asked for.
const LAST_ATTRIBUTE: u32 = 160;
/// Highest code of an error.
const LAST_ERROR: u32 = 999;

/// Attributes that a program elsewhere must find to be zero: managed memory, host memory at one
/// address with the device's, handles for other processes.
const WITHHELD: [u32; 15] = [19, 83, 88, 89, 91, 100, 101, 103, 104, 105, 116, 119, 124, 125, 132];

/// Function of the driver. Zero: the driver doesn't have it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function(usize);

impl Function {
    /// Calls it.
    ///
    /// # Safety
    ///
    /// `args` are what the function of this name wants: addresses may be used as it does.
    pub(crate) unsafe fn call<const N: usize>(self, args: [usize; N]) -> u32 {
        type Any = unsafe extern "C" fn(
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
        ) -> u32;
        if self.0 == 0 {
            return NOT_FOUND;
        }
        let mut all = [0; 12];
        all[..N].copy_from_slice(&args);
        let [a, b, c, d, e, f, g, h, i, j, k, l] = all;
        // SAFETY: the address of a function of the driver, whose arguments are all integers or
        // addresses. The caller removes them from the stack, so a function may have fewer.
        // `# Safety` demands that addresses may be used as the function does.
        unsafe {
            let call = std::mem::transmute::<usize, Any>(self.0);
            call(a, b, c, d, e, f, g, h, i, j, k, l)
        }
    }
}

macro_rules! functions {
    ($($field:ident = $name:ident;)*) => {
        /// Functions that are called other than by the table.
        #[derive(Debug)]
        pub(crate) struct Functions {
            $(pub(crate) $field: Function,)*
        }

        impl Functions {
            fn of(library: &Library) -> Self {
                Self {
                    $($field: find(library, CStr::from_bytes_with_nul(
                        concat!(stringify!($name), "\0").as_bytes()).expect("it ends with a zero")),)*
                }
            }
        }
    };
}

functions! {
    init = cuInit;
    version = cuDriverGetVersion;
    device_count = cuDeviceGetCount;
    device_name = cuDeviceGetName;
    device_uuid = cuDeviceGetUuid_v2;
    device_memory = cuDeviceTotalMem_v2;
    device_pci = cuDeviceGetPCIBusId;
    device_attribute = cuDeviceGetAttribute;
    error_name = cuGetErrorName;
    error_text = cuGetErrorString;
    set_context = cuCtxSetCurrent;
    context_device = cuCtxGetDevice;
    address_reserve = cuMemAddressReserve;
    address_free = cuMemAddressFree;
    mem_create = cuMemCreate;
    mem_release = cuMemRelease;
    mem_map = cuMemMap;
    mem_unmap = cuMemUnmap;
    mem_set_access = cuMemSetAccess;
    exchange_capture_mode = cuThreadExchangeStreamCaptureMode;
    launch = cuLaunchKernel;
    launch_ex = cuLaunchKernelEx;
    launch_cooperative = cuLaunchCooperativeKernel;
    launch_host = cuLaunchHostFunc;
    to_device = cuMemcpyHtoDAsync_v2;
    to_host = cuMemcpyDtoHAsync_v2;
    host_alloc = cuMemHostAlloc;
    host_free = cuMemFreeHost;
    load_module = cuModuleLoadDataEx;
    load_library = cuLibraryLoadData;
    link = cuLinkCreate_v2;
    link_add = cuLinkAddData_v2;
    link_complete = cuLinkComplete;
    link_end = cuLinkDestroy;
    module_function = cuModuleGetFunction;
    library_kernel = cuLibraryGetKernel;
    add_kernel_node = cuGraphAddKernelNode_v2;
    set_kernel_node = cuGraphKernelNodeSetParams_v2;
    set_exec_kernel_node = cuGraphExecKernelNodeSetParams_v2;
    add_copy_node = cuGraphAddMemcpyNode;
    set_copy_node = cuGraphMemcpyNodeSetParams;
    set_exec_copy_node = cuGraphExecMemcpyNodeSetParams;
}

fn find(library: &Library, name: &CStr) -> Function {
    // SAFETY: it is used as an address alone.
    let found = unsafe { library.get::<usize>(name.to_bytes_with_nul()) };
    Function(found.map_or(0, |symbol| symbol.as_raw_ptr() as usize))
}

/// An open driver.
#[derive(Debug)]
pub(crate) struct Driver {
    table: Vec<Function>,
    pub(crate) functions: Functions,
    /// Never closed: threads of the driver's run in it.
    _library: std::mem::ManuallyDrop<Library>,
}

impl Driver {
    /// Opens the named library, or the first one that is found as `reef-shim` does, and starts it.
    ///
    /// # Errors
    ///
    /// There is none, or no device, with the reason.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, String> {
        let tried = match path {
            Some(path) => vec![path.to_owned()],
            None => candidates("libcuda.so.1", std::env::var_os("REEF_CUDA")),
        };
        let library = tried.iter().find_map(open_library);
        let text = || {
            let tried: Vec<_> = tried.iter().map(|path| path.display().to_string()).collect();
            format!("no CUDA driver at the server (tried {})", tried.join(", "))
        };
        let library = library.ok_or_else(text)?;
        let table = CALLS.iter().map(|spec| find(&library, spec.name)).collect();
        let functions = Functions::of(&library);
        let driver = Self { table, functions, _library: std::mem::ManuallyDrop::new(library) };
        // SAFETY: a number.
        match unsafe { driver.functions.init.call([0]) } {
            0 => Ok(driver),
            code => Err(format!("cuInit at the server: code {code}")),
        }
    }

    /// Returns a function of the table.
    pub(crate) fn table(&self, call: usize) -> Function {
        self.table[call]
    }

    /// Returns a function of the table by its name.
    pub(crate) fn of(&self, call: Call) -> Function {
        self.table(call as usize)
    }

    /// Makes a context current in the calling thread.
    pub(crate) fn set_context(&self, context: usize) -> u32 {
        // SAFETY: null or a context of the driver's.
        unsafe { self.functions.set_context.call([context]) }
    }

    /// Allows the calling thread every call while streams are captured.
    pub(crate) fn relax_captures(&self) {
        let mut mode = 2_u32; // CU_STREAM_CAPTURE_MODE_RELAXED
        // SAFETY: a place for a number.
        unsafe { self.functions.exchange_capture_mode.call([&raw mut mode as usize]) };
    }

    /// Returns whether kernels of a device may read and write all memory of this process.
    pub(crate) fn kernels_reach_the_host(&self) -> bool {
        const PAGEABLE_MEMORY_ACCESS: usize = 88;
        let (mut count, ask) = (0_i32, self.functions.device_attribute);
        // SAFETY: a place for a number.
        unsafe { self.functions.device_count.call([&raw mut count as usize]) };
        (0..count as usize).any(|device| {
            let mut value = 0_i32;
            let place = &raw mut value as usize;
            // SAFETY: `place` is the address of `value`, a local `i32`; the other arguments are
            // numbers.
            let code = unsafe { ask.call([place, PAGEABLE_MEMORY_ACCESS, device]) };
            code == 0 && value != 0
        })
    }

    /// Returns facts about all devices.
    ///
    /// # Errors
    ///
    /// The driver's code for the number of devices.
    pub(crate) fn facts(&self) -> Result<Facts, String> {
        let (mut version, mut count) = (0_i32, 0_i32);
        // SAFETY: places for numbers.
        unsafe { self.functions.version.call([&raw mut version as usize]) };
        // SAFETY: the argument is the address of `count`, a local `i32`.
        match unsafe { self.functions.device_count.call([&raw mut count as usize]) } {
            0 => {}
            code => return Err(format!("cuDeviceGetCount at the server: code {code}")),
        }
        let devices = (0..count).map(|device| self.device(device as usize)).collect();
        let errors = (0..=LAST_ERROR).filter_map(|code| self.error(code)).collect();
        Ok(Facts { version, devices, window: None, errors })
    }

    fn device(&self, device: usize) -> DeviceFacts {
        let names = &self.functions;
        let (mut name, mut pci, mut uuid) = ([0_u8; 256], [0_u8; 32], [0_u8; 16]);
        let mut memory = 0_u64;
        // SAFETY: places of these sizes.
        unsafe {
            names.device_name.call([name.as_mut_ptr() as usize, 255, device]);
            names.device_pci.call([pci.as_mut_ptr() as usize, 31, device]);
            names.device_uuid.call([uuid.as_mut_ptr() as usize, device]);
            names.device_memory.call([&raw mut memory as usize, device]);
        }
        let attribute = |attribute: u32| {
            let (mut value, at) = (0_i32, attribute as usize);
            // SAFETY: a place for a number.
            let code =
                unsafe { names.device_attribute.call([&raw mut value as usize, at, device]) };
            let value = if WITHHELD.contains(&attribute) { 0 } else { value };
            (code == 0).then_some((attribute, value))
        };
        let attributes = (1..=LAST_ATTRIBUTE).filter_map(attribute).collect();
        DeviceFacts { name: text(&name), uuid, memory, pci: text(&pci), attributes }
    }

    fn error(&self, code: u32) -> Option<(u32, String, String)> {
        let ask = |function: Function| {
            let mut at = 0_usize;
            // SAFETY: a place for an address.
            let found = unsafe { function.call([code as usize, &raw mut at as usize]) };
            if found != 0 || at == 0 {
                return None;
            }
            // SAFETY: a text of the driver's, which lives as long as it does.
            let text = unsafe { CStr::from_ptr(at as *const c_char) };
            Some(text.to_string_lossy().into_owned())
        };
        let name = ask(self.functions.error_name)?;
        Some((code, name, ask(self.functions.error_text).unwrap_or_default()))
    }
}

fn text(bytes: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

fn open_library(path: &PathBuf) -> Option<Library> {
    // SAFETY: the driver's initialisers are what every CUDA program runs.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.ok()?;
    (find(&library, c"cuInit").0 != 0).then_some(library)
}
