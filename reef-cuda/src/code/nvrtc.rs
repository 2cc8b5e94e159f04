//! NVIDIA's run-time compiler, which turns CUDA C++ into code for one kind of GPU.
//!
//! The library is opened when something has to be compiled, at most once per process. The images that
//! ship with the crate need none of it: only kernels of a user's own do. Codes are plain integers,
//! because newer libraries have codes that we don't know.

use libloading::Library;
use reef_core::{Error, Result};
use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int};
use std::fmt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

/// The names that a dynamic linker knows it by, newest first. The last of 11.x kept 11.2's name.
const LIBRARIES: [&str; 4] =
    ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"];
/// `NVRTC_ERROR_INVALID_OPTION`, `NVRTC_ERROR_COMPILATION`: the program is at fault, and the log says how.
const FAULTS_OF_THE_PROGRAM: [u32; 2] = [5, 6];

/// `nvrtcProgram`.
type Handle = *mut std::ffi::c_void;
type Strings = *const *const c_char;
type GetSize = unsafe extern "C" fn(Handle, *mut usize) -> u32;
type GetBytes = unsafe extern "C" fn(Handle, *mut c_char) -> u32;

/// What to compile for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Machine code for a compute capability (90 is 9.0), which the driver only has to load.
    Cubin(u32),
    /// NVIDIA's assembly, which the driver compiles for any GPU of at least this capability.
    Ptx(u32),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Cubin(arch) => write!(f, "sm_{arch}"),
            Self::Ptx(arch) => write!(f, "compute_{arch}"),
        }
    }
}

/// A source with everything that decides what it compiles to, except the compiler.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program<'a> {
    /// Stands in messages of the compiler, before the line.
    pub name: &'a str,
    pub source: &'a str,
    /// What `#include "NAME"` finds: name and text. Nothing else can be included.
    pub headers: &'a [(&'a str, &'a str)],
    pub options: &'a [&'a str],
    pub target: Target,
}

/// The options that every kernel is compiled with.
pub(crate) fn options(guarded: bool) -> [&'static str; 2] {
    ["--std=c++17", if guarded { "-DREEF_GUARDED=1" } else { "-DREEF_GUARDED=0" }]
}

/// The opened library.
pub(crate) struct Nvrtc {
    version: (u32, u32),
    error_string: unsafe extern "C" fn(u32) -> *const c_char,
    count_archs: unsafe extern "C" fn(*mut c_int) -> u32,
    get_archs: unsafe extern "C" fn(*mut c_int) -> u32,
    create: unsafe extern "C" fn(
        *mut Handle,
        *const c_char,
        *const c_char,
        c_int,
        Strings,
        Strings,
    ) -> u32,
    destroy: unsafe extern "C" fn(*mut Handle) -> u32,
    compile: unsafe extern "C" fn(Handle, c_int, Strings) -> u32,
    log: (GetSize, GetBytes),
    ptx: (GetSize, GetBytes),
    cubin: (GetSize, GetBytes),
    /// Keeps the functions above mapped.
    _library: Library,
}

impl Nvrtc {
    /// The library of this process.
    ///
    /// # Errors
    ///
    /// `NotFound`, saying what was tried. The answer stays for the life of the process.
    pub(crate) fn get() -> Result<&'static Self> {
        static NVRTC: OnceLock<Result<Nvrtc>> = OnceLock::new();
        NVRTC.get_or_init(Self::search).as_ref().map_err(Clone::clone)
    }

    /// A path that was asked for is the only one tried, so that a wrong one shows.
    fn search() -> Result<Self> {
        if let Some(path) = variable("REEF_NVRTC") {
            return Self::open(Path::new(&path));
        }
        let places = places();
        places.iter().find_map(|place| Self::open(Path::new(place)).ok()).ok_or_else(|| {
            let places: Vec<_> = places.iter().map(|place| place.to_string_lossy()).collect();
            Error::NotFound(format!("no NVRTC (tried $REEF_NVRTC, {})", places.join(", ")))
        })
    }

    /// Opens the library of this path or name.
    ///
    /// # Errors
    ///
    /// `NotFound` if it can't be opened or is older than 11.2.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        // SAFETY: the library's initialisers are meant to be run by whoever opens it.
        let library = unsafe { Library::new(path) }
            .map_err(|error| Error::NotFound(format!("no NVRTC at {}: {error}", path.display())))?;
        // SAFETY: the signatures are those of nvrtc.h, unchanged since CUDA 11.2.
        unsafe {
            let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> u32 =
                symbol(&library, "nvrtcVersion")?;
            Ok(Self {
                version: pair(version)?,
                error_string: symbol(&library, "nvrtcGetErrorString")?,
                count_archs: symbol(&library, "nvrtcGetNumSupportedArchs")?,
                get_archs: symbol(&library, "nvrtcGetSupportedArchs")?,
                create: symbol(&library, "nvrtcCreateProgram")?,
                destroy: symbol(&library, "nvrtcDestroyProgram")?,
                compile: symbol(&library, "nvrtcCompileProgram")?,
                log: getters(&library, ["nvrtcGetProgramLogSize", "nvrtcGetProgramLog"])?,
                ptx: getters(&library, ["nvrtcGetPTXSize", "nvrtcGetPTX"])?,
                cubin: getters(&library, ["nvrtcGetCUBINSize", "nvrtcGetCUBIN"])?,
                _library: library,
            })
        }
    }

    /// Major and minor.
    pub(crate) fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The compute capabilities that it compiles for (90 is 9.0), rising.
    pub(crate) fn archs(&self) -> Result<Vec<u32>> {
        let mut count = 0;
        // SAFETY: the pointer is valid for the call.
        self.check("nvrtcGetNumSupportedArchs", unsafe { (self.count_archs)(&mut count) })?;
        let mut archs = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: there is room for as many as the call before has counted.
        self.check("nvrtcGetSupportedArchs", unsafe { (self.get_archs)(archs.as_mut_ptr()) })?;
        Ok(archs.into_iter().filter_map(|arch| arch.try_into().ok()).collect())
    }

    /// The program's code: a CUBIN, or PTX that ends with a NUL. Takes as long as compiling takes.
    ///
    /// # Errors
    ///
    /// `Invalid` with the compiler's messages if the program or an option is wrong; `Driver`.
    pub(crate) fn compile(&self, program: &Program) -> Result<Vec<u8>> {
        let unit = Unit::new(self, program)?;
        unit.compile(program)?;
        match program.target {
            Target::Cubin(_) => unit.bytes(["nvrtcGetCUBINSize", "nvrtcGetCUBIN"], self.cubin),
            Target::Ptx(_) => unit.bytes(["nvrtcGetPTXSize", "nvrtcGetPTX"], self.ptx),
        }
    }

    fn check(&self, call: &'static str, code: u32) -> Result<()> {
        match code {
            0 => Ok(()),
            _ => Err(Error::Driver { backend: "cuda", call, name: self.error(code), code }),
        }
    }

    fn error(&self, code: u32) -> String {
        // SAFETY: the library answers any number with a text that lives as long as it does.
        unsafe { CStr::from_ptr((self.error_string)(code)) }.to_string_lossy().into_owned()
    }
}

/// A program inside the library, gone when dropped.
struct Unit<'a> {
    nvrtc: &'a Nvrtc,
    handle: Handle,
}

impl<'a> Unit<'a> {
    fn new(nvrtc: &'a Nvrtc, program: &Program) -> Result<Self> {
        let (name, source) = (text(program.name)?, text(program.source)?);
        let names = Texts::new(program.headers.iter().map(|(name, _)| *name))?;
        let headers = Texts::new(program.headers.iter().map(|(_, text)| *text))?;
        let mut handle = null_mut();
        // SAFETY: all texts end with a NUL and outlive the call, which copies them; the two arrays
        // have the length we say.
        nvrtc.check("nvrtcCreateProgram", unsafe {
            (nvrtc.create)(
                &mut handle,
                source.as_ptr(),
                name.as_ptr(),
                headers.count(),
                headers.as_ptr(),
                names.as_ptr(),
            )
        })?;
        Ok(Self { nvrtc, handle })
    }

    fn compile(&self, program: &Program) -> Result<()> {
        let target = format!("--gpu-architecture={}", program.target);
        let options = program.options.iter().copied().chain([target.as_str()]);
        let options = Texts::new(options)?;
        // SAFETY: the handle is live, and the array has the length we say.
        match unsafe { (self.nvrtc.compile)(self.handle, options.count(), options.as_ptr()) } {
            0 => Ok(()),
            code => Err(self.failure(code, program)),
        }
    }

    #[cold]
    fn failure(&self, code: u32, program: &Program) -> Error {
        let (call, error) = ("nvrtcCompileProgram", self.nvrtc.error(code));
        let log = self.bytes(["nvrtcGetProgramLogSize", "nvrtcGetProgramLog"], self.nvrtc.log);
        let log = String::from_utf8_lossy(&log.unwrap_or_default()).into_owned();
        let log = log.trim_end_matches(['\0', '\n']);
        if FAULTS_OF_THE_PROGRAM.contains(&code) {
            Error::Invalid(format!("{} for {}: {error}\n{log}", program.name, program.target))
        } else {
            Error::Driver { backend: "cuda", call, name: format!("{error} {log}"), code }
        }
    }

    fn bytes(&self, calls: [&'static str; 2], (size, get): (GetSize, GetBytes)) -> Result<Vec<u8>> {
        let mut length = 0;
        // SAFETY: the handle is live, and the pointer valid for the call.
        self.nvrtc.check(calls[0], unsafe { size(self.handle, &mut length) })?;
        let mut bytes = vec![0; length];
        // SAFETY: the buffer is as long as the call before has said.
        self.nvrtc.check(calls[1], unsafe { get(self.handle, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

impl Drop for Unit<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and isn't used afterwards.
        unsafe { (self.nvrtc.destroy)(&mut self.handle) };
    }
}

/// Texts as C has them: an array of pointers, valid while this lives.
struct Texts {
    pointers: Vec<*const c_char>,
    /// What the pointers point to.
    _texts: Vec<CString>,
}

impl Texts {
    fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self> {
        let texts = texts.map(text).collect::<Result<Vec<_>>>()?;
        Ok(Self { pointers: texts.iter().map(|text| text.as_ptr()).collect(), _texts: texts })
    }

    fn count(&self) -> c_int {
        self.pointers.len().try_into().expect("a few options or headers")
    }

    fn as_ptr(&self) -> Strings {
        if self.pointers.is_empty() { null() } else { self.pointers.as_ptr() }
    }
}

fn text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|error| {
        Error::Invalid(format!("a NUL at byte {} of a source", error.nul_position()))
    })
}

/// Where the library may be, in the order of trying.
fn places() -> Vec<OsString> {
    let toolkits = [variable("CUDA_HOME"), Some("/usr/local/cuda".into())];
    let in_toolkits = toolkits
        .into_iter()
        .flatten()
        .map(|root| Path::new(&root).join("lib64").join("libnvrtc.so").into_os_string());
    LIBRARIES.iter().map(OsString::from).chain(in_toolkits).collect()
}

fn variable(name: impl AsRef<OsStr>) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// # Safety
///
/// `T` is the function's type.
unsafe fn symbol<T: Copy>(library: &Library, name: &'static str) -> Result<T> {
    // SAFETY: the caller's promise.
    unsafe { library.get::<T>(name.as_bytes()) }
        .map(|symbol| *symbol)
        .map_err(|_| Error::NotFound(format!("NVRTC has no {name} (11.2 or later is needed)")))
}

/// # Safety
///
/// The names are those of a function that gives a size and of one that fills as many bytes.
unsafe fn getters(library: &Library, names: [&'static str; 2]) -> Result<(GetSize, GetBytes)> {
    // SAFETY: the caller's promise.
    unsafe { Ok((symbol(library, names[0])?, symbol(library, names[1])?)) }
}

/// # Safety
///
/// The function is `nvrtcVersion`.
unsafe fn pair(version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> u32) -> Result<(u32, u32)> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the pointers are valid for the call.
    match unsafe { version(&mut major, &mut minor) } {
        0 => Ok((major.unsigned_abs(), minor.unsigned_abs())),
        code => {
            Err(Error::Driver { backend: "cuda", call: "nvrtcVersion", name: String::new(), code })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: &str = "#include \"three.h\"\n\
        extern \"C\" __global__ void step(int *cell) { *cell = *cell * THREE + ADD; }\n";

    fn program(source: &str, target: Target) -> Program<'_> {
        let headers = &[("three.h", "#define THREE 3\n")];
        Program { name: "step.cu", source, headers, options: &["-DADD=1"], target }
    }

    /// The library, or `None`, said aloud.
    fn nvrtc() -> Option<&'static Nvrtc> {
        match Nvrtc::get() {
            Ok(nvrtc) => Some(nvrtc),
            Err(Error::NotFound(text)) => {
                assert!(text.contains("no NVRTC"), "{text}");
                eprintln!("skipped: {text}");
                None
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn compiles_to_machine_code_and_to_ptx() {
        let Some(nvrtc) = nvrtc() else { return };
        let newest = *nvrtc.archs().unwrap().last().unwrap();
        let cubin = nvrtc.compile(&program(STEP, Target::Cubin(newest))).unwrap();
        assert_eq!(cubin[..4], *b"\x7fELF");
        let ptx = nvrtc.compile(&program(STEP, Target::Ptx(newest))).unwrap();
        assert_eq!(ptx.last(), Some(&0));
        assert!(String::from_utf8(ptx).unwrap().contains(".visible .entry step("));
    }

    #[test]
    fn a_wrong_source_is_answered_with_its_line() {
        let Some(nvrtc) = nvrtc() else { return };
        let newest = *nvrtc.archs().unwrap().last().unwrap();
        let wrong = "extern \"C\" __global__ void step(int *cell) {\n  *cel = 1;\n}\n";
        let error = nvrtc.compile(&program(wrong, Target::Cubin(newest))).unwrap_err();
        let Error::Invalid(text) = error else { panic!("{error:?}") };
        assert!(text.contains("step.cu(2)") && text.contains("\"cel\" is undefined"), "{text}");
    }

    #[test]
    fn an_unknown_option_is_named() {
        let Some(nvrtc) = nvrtc() else { return };
        let mut program = program(STEP, Target::Ptx(80));
        program.options = &["--no-such-option"];
        let error = nvrtc.compile(&program).unwrap_err();
        assert!(
            matches!(&error, Error::Invalid(text) if text.contains("no-such-option")),
            "{error}"
        );
    }

    #[test]
    fn a_nul_in_a_source_is_refused() {
        let error = text("one\0two").unwrap_err();
        assert_eq!(error, Error::invalid("a NUL at byte 3 of a source"));
    }

    #[test]
    fn a_path_without_a_library_is_named() {
        let Err(error) = Nvrtc::open(Path::new("/nonexistent/libnvrtc.so")) else { panic!() };
        assert!(
            matches!(&error, Error::NotFound(text) if text.contains("/nonexistent/libnvrtc.so")),
            "{error}"
        );
    }
}
