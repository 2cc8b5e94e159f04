//! Functions of HIP 5.2 to 6, loaded by name.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::ptr::{null, null_mut, without_provenance_mut};
use std::sync::atomic::AtomicPtr;

/// `hipErrorNotReady`.
pub(crate) const NOT_READY: u32 = 600;
const NON_BLOCKING: c_uint = 1;
const NAMES: [&str; 2] = ["libamdhip64.so.5", "libamdhip64.so.6"];

type Handle = *mut c_void;

/// A stream; the null stream is [`Stream::NULL`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream(pub(crate) Handle);
/// A kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function(pub(crate) Handle);
/// An event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event(pub(crate) Handle);

// SAFETY: HIP takes its handles from any thread.
unsafe impl Send for Stream {}
// SAFETY: HIP takes its handles from any thread.
unsafe impl Sync for Function {}
// SAFETY: HIP takes its handles from any thread.
unsafe impl Send for Function {}

impl Stream {
    pub(crate) const NULL: Self = Self(null_mut());
}

/// AMD's runtime.
pub(crate) struct Hip {
    library: ManuallyDrop<Library>,
}

macro_rules! call {
    ($hip:expr, $name:ident($($argument:expr => $type:ty),*)) => {{
        let function: unsafe extern "C" fn($($type),*) -> u32 = $hip.symbol(stringify!($name));
        // SAFETY: the types are those of HIP's header, and pointers point to what they say.
        unsafe { function($($argument),*) }
    }};
}

macro_rules! good {
    ($hip:expr, $name:ident($($argument:tt)*)) => {{
        let code = call!($hip, $name($($argument)*));
        assert_eq!(code, 0, "{}: error {code}", stringify!($name));
    }};
}

impl Hip {
    pub(crate) fn load() -> Result<Self, String> {
        // SAFETY: AMD's library; its initializers need nothing of ours.
        let open = |name: &&str| unsafe { Library::open(Some(*name), RTLD_NOW | RTLD_LOCAL) }.ok();
        let library = NAMES.iter().find_map(open).ok_or(format!("none of {NAMES:?}"))?;
        let hip = Self { library: ManuallyDrop::new(library) };
        good!(hip, hipInit(0 => c_uint));
        Ok(hip)
    }

    fn symbol<T: Copy>(&self, name: &str) -> T {
        let name = CString::new(name).expect("names have no 0");
        // SAFETY: this method is private, and each use gives the type that HIP's header has for the
        // name.
        let symbol = unsafe { self.library.get::<T>(name.as_bytes_with_nul()) };
        *symbol.expect("HIP has had it since 5.2")
    }

    pub(crate) fn devices(&self) -> i32 {
        let mut count = 0;
        good!(self, hipGetDeviceCount(&mut count => *mut c_int));
        count
    }

    pub(crate) fn attribute(&self, attribute: c_int) -> i32 {
        let mut value = 0;
        good!(self, hipDeviceGetAttribute(&mut value => *mut c_int, attribute => c_int, 0 => c_int));
        value
    }

    pub(crate) fn device_name(&self) -> String {
        let mut name = [0; 256];
        good!(self, hipDeviceGetName(name.as_mut_ptr() => *mut c_char, 256 => c_int, 0 => c_int));
        // SAFETY: HIP ends the name with a 0.
        unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned()
    }

    /// Free and all bytes of device memory.
    pub(crate) fn memory(&self) -> (usize, usize) {
        let (mut free, mut all) = (0, 0);
        good!(self, hipMemGetInfo(&mut free => *mut usize, &mut all => *mut usize));
        (free, all)
    }

    pub(crate) fn malloc(&self, bytes: usize) -> *mut c_void {
        let mut at = null_mut();
        good!(self, hipMalloc(&mut at => *mut *mut c_void, bytes => usize));
        at
    }

    /// As the runtime answers, for memory that may not be there.
    pub(crate) fn try_malloc(&self, bytes: usize) -> Result<*mut c_void, u32> {
        let mut at = null_mut();
        match call!(self, hipMalloc(&mut at => *mut *mut c_void, bytes => usize)) {
            0 => Ok(at),
            code => Err(code),
        }
    }

    pub(crate) fn free(&self, at: *mut c_void) {
        good!(self, hipFree(at => *mut c_void));
    }

    pub(crate) fn host_malloc(&self, bytes: usize) -> *mut c_void {
        let mut at = null_mut();
        let mapped_and_coherent = 2 | 0x4000_0000;
        good!(self, hipHostMalloc(&mut at => *mut *mut c_void, bytes => usize, mapped_and_coherent => c_uint));
        at
    }

    pub(crate) fn host_free(&self, at: *mut c_void) {
        good!(self, hipHostFree(at => *mut c_void));
    }

    /// Eight bytes that the command processor can wait for.
    pub(crate) fn signal_malloc(&self) -> *mut c_void {
        let mut at = null_mut();
        good!(self, hipExtMallocWithFlags(&mut at => *mut *mut c_void, 8 => usize, 2 => c_uint));
        at
    }

    pub(crate) fn host_register(&self, at: *mut c_void, bytes: usize) -> *mut c_void {
        good!(self, hipHostRegister(at => *mut c_void, bytes => usize, 0 => c_uint));
        let mut device = null_mut();
        good!(self, hipHostGetDevicePointer(&mut device => *mut *mut c_void, at => *mut c_void, 0 => c_uint));
        device
    }

    /// Copies and waits; HIP finds out which way.
    pub(crate) fn copy(&self, to: *mut c_void, from: *const c_void, bytes: usize) {
        good!(self, hipMemcpy(to => *mut c_void, from => *const c_void, bytes => usize, 4 => c_uint));
    }

    pub(crate) fn copy_async(
        &self,
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        stream: Stream,
    ) {
        good!(self, hipMemcpyAsync(to => *mut c_void, from => *const c_void, bytes => usize, 4 => c_uint, stream.0 => Handle));
    }

    /// Copies rectangles of `width` bytes × `height` from rows of `from.1` bytes to rows of `to.1`.
    pub(crate) fn copy_2d(
        &self,
        to: (*mut c_void, usize),
        from: (*const c_void, usize),
        width: usize,
        height: usize,
    ) {
        good!(self, hipMemcpy2D(to.0 => *mut c_void, to.1 => usize, from.0 => *const c_void, from.1 => usize, width => usize, height => usize, 4 => c_uint));
    }

    pub(crate) fn fill(&self, at: *mut c_void, byte: i32, bytes: usize, stream: Stream) {
        good!(self, hipMemsetAsync(at => *mut c_void, byte => c_int, bytes => usize, stream.0 => Handle));
    }

    /// Lowest and highest.
    pub(crate) fn priorities(&self) -> (i32, i32) {
        let (mut low, mut high) = (0, 0);
        good!(self, hipDeviceGetStreamPriorityRange(&mut low => *mut c_int, &mut high => *mut c_int));
        (low, high)
    }

    pub(crate) fn stream(&self, priority: i32) -> Stream {
        let mut stream = null_mut();
        good!(self, hipStreamCreateWithPriority(&mut stream => *mut Handle, NON_BLOCKING => c_uint, priority => c_int));
        Stream(stream)
    }

    pub(crate) fn masked_stream(&self, mask: &[u32]) -> Stream {
        let mut stream = null_mut();
        good!(self, hipExtStreamCreateWithCUMask(&mut stream => *mut Handle, mask.len() as c_uint => c_uint, mask.as_ptr() => *const c_uint));
        Stream(stream)
    }

    pub(crate) fn destroy(&self, stream: Stream) {
        good!(self, hipStreamDestroy(stream.0 => Handle));
    }

    pub(crate) fn synchronize(&self, stream: Stream) {
        good!(self, hipStreamSynchronize(stream.0 => Handle));
    }

    pub(crate) fn synchronize_all(&self) {
        good!(self, hipDeviceSynchronize());
    }

    /// 0 or [`NOT_READY`].
    pub(crate) fn query(&self, stream: Stream) -> u32 {
        call!(self, hipStreamQuery(stream.0 => Handle))
    }

    pub(crate) fn event(&self) -> Event {
        let mut event = null_mut();
        good!(self, hipEventCreateWithFlags(&mut event => *mut Handle, 0 => c_uint));
        Event(event)
    }

    pub(crate) fn record(&self, event: Event, stream: Stream) {
        good!(self, hipEventRecord(event.0 => Handle, stream.0 => Handle));
    }

    pub(crate) fn wait_event(&self, stream: Stream, event: Event) {
        good!(self, hipStreamWaitEvent(stream.0 => Handle, event.0 => Handle, 0 => c_uint));
    }

    pub(crate) fn synchronize_event(&self, event: Event) {
        good!(self, hipEventSynchronize(event.0 => Handle));
    }

    pub(crate) fn elapsed_millis(&self, from: Event, to: Event) -> f32 {
        let mut millis = -1.0;
        good!(self, hipEventElapsedTime(&mut millis => *mut f32, from.0 => Handle, to.0 => Handle));
        millis
    }

    /// Holds a stream until the word is at least `value`.
    pub(crate) fn wait_value(&self, stream: Stream, word: *mut c_void, value: u32) {
        good!(self, hipStreamWaitValue32(stream.0 => Handle, word => *mut c_void, value => c_uint, 0 => c_uint, u32::MAX => c_uint));
    }

    pub(crate) fn write_value(&self, stream: Stream, word: *mut c_void, value: u32) {
        good!(self, hipStreamWriteValue32(stream.0 => Handle, word => *mut c_void, value => c_uint, 0 => c_uint));
    }

    /// Compiles for gfx906 with the runtime's own compiler.
    pub(crate) fn compile(&self, source: &str) -> Module<'_> {
        let code = self.code_object(source);
        let mut module = null_mut();
        good!(self, hipModuleLoadData(&mut module => *mut Handle, code.as_ptr().cast() => *const c_void));
        Module { hip: self, module: AtomicPtr::new(module) }
    }

    fn code_object(&self, source: &str) -> Vec<u8> {
        let source = CString::new(source).expect("sources have no 0");
        let mut program: Handle = null_mut();
        good!(self, hiprtcCreateProgram(&mut program => *mut Handle, source.as_ptr() => *const c_char, null() => *const c_char, 0 => c_int, null() => *const c_void, null() => *const c_void));
        let options = [c"--offload-arch=gfx906".as_ptr(), c"-O3".as_ptr()];
        let code = call!(self, hiprtcCompileProgram(program => Handle, 2 => c_int, options.as_ptr() => *const *const c_char));
        assert_eq!(code, 0, "hiprtcCompileProgram: {}", self.compile_log(program));
        let mut bytes = 0;
        good!(self, hiprtcGetCodeSize(program => Handle, &mut bytes => *mut usize));
        let mut object = vec![0u8; bytes];
        good!(self, hiprtcGetCode(program => Handle, object.as_mut_ptr().cast() => *mut c_char));
        good!(self, hiprtcDestroyProgram(&mut program => *mut Handle));
        object
    }

    fn compile_log(&self, program: Handle) -> String {
        let mut bytes = 0;
        good!(self, hiprtcGetProgramLogSize(program => Handle, &mut bytes => *mut usize));
        let mut log = vec![0u8; bytes];
        good!(self, hiprtcGetProgramLog(program => Handle, log.as_mut_ptr().cast() => *mut c_char));
        String::from_utf8_lossy(&log).into_owned()
    }

    pub(crate) fn launch(
        &self,
        function: Function,
        grid: [u32; 3],
        block: [u32; 3],
        stream: Stream,
        arguments: &[&dyn Argument],
    ) {
        let mut arguments: Vec<*mut c_void> = arguments.iter().map(|a| a.place()).collect();
        let [gx, gy, gz] = grid;
        let [bx, by, bz] = block;
        good!(self, hipModuleLaunchKernel(function.0 => Handle, gx => c_uint, gy => c_uint, gz => c_uint,
            bx => c_uint, by => c_uint, bz => c_uint, 0 => c_uint, stream.0 => Handle,
            arguments.as_mut_ptr() => *mut *mut c_void, null_mut() => *mut *mut c_void));
    }

    /// As [`launch`](Self::launch), with the arguments in one block of memory.
    pub(crate) fn launch_packed(
        &self,
        function: Function,
        grid: u32,
        block: u32,
        stream: Stream,
        arguments: &mut [u8],
    ) {
        let mut bytes = arguments.len();
        let mut extra: [*mut c_void; 5] = [
            without_provenance_mut(1),
            arguments.as_mut_ptr().cast(),
            without_provenance_mut(2),
            (&raw mut bytes).cast(),
            without_provenance_mut(3),
        ];
        good!(self, hipModuleLaunchKernel(function.0 => Handle, grid => c_uint, 1 => c_uint, 1 => c_uint,
            block => c_uint, 1 => c_uint, 1 => c_uint, 0 => c_uint, stream.0 => Handle,
            null_mut() => *mut *mut c_void, extra.as_mut_ptr() => *mut *mut c_void));
    }

    /// Blocks of `block` threads that fit on a unit.
    pub(crate) fn occupancy(&self, function: Function, block: i32) -> i32 {
        let mut blocks = 0;
        good!(self, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks => *mut c_int, function.0 => Handle, block => c_int, 0 => usize));
        blocks
    }
}

/// A value that a kernel gets.
pub(crate) trait Argument {
    fn place(&self) -> *mut c_void;
}

macro_rules! argument {
    ($($type:ty)*) => {$(
        impl Argument for $type {
            fn place(&self) -> *mut c_void {
                (&raw const *self).cast_mut().cast()
            }
        }
    )*};
}
argument! { u32 i32 u64 *mut c_void }

/// Loaded code.
pub(crate) struct Module<'a> {
    hip: &'a Hip,
    module: AtomicPtr<c_void>,
}

impl Module<'_> {
    pub(crate) fn function(&self, name: &str) -> Function {
        let name = CString::new(name).expect("names have no 0");
        let mut function = null_mut();
        let module = self.module.load(std::sync::atomic::Ordering::Relaxed);
        good!(self.hip, hipModuleGetFunction(&mut function => *mut Handle, module => Handle, name.as_ptr() => *const c_char));
        Function(function)
    }

    pub(crate) fn unload(self) {
        let module = self.module.into_inner();
        good!(self.hip, hipModuleUnload(module => Handle));
    }
}
