//! NVIDIA's run-time compiler, which turns CUDA C++ into code for one kind of GPU.
//!
//! The library is opened when something has to be compiled, at most once per process. The images
//! that ship with the crate need none of it: only kernels of a user's own do.

use libloading::Library;
use reef_core::{Error, Result};
use reef_gpu::{Compiler, CompilerCalls, cache};
use std::ffi::{OsStr, OsString, c_int};
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

/// The names that a dynamic linker knows it by, newest first. The last of 11.x kept 11.2's name.
const LIBRARIES: [&str; 4] =
    ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"];
const CUBIN: &str = "nvrtcGetCUBIN";
const PTX: &str = "nvrtcGetPTX";
const CALLS: CompilerCalls = CompilerCalls {
    backend: "cuda",
    library: "NVRTC (11.2 or later is needed)",
    error_string: "nvrtcGetErrorString",
    create: "nvrtcCreateProgram",
    destroy: "nvrtcDestroyProgram",
    compile: "nvrtcCompileProgram",
    log: ["nvrtcGetProgramLogSize", "nvrtcGetProgramLog"],
    outputs: &[["nvrtcGetCUBINSize", CUBIN], ["nvrtcGetPTXSize", PTX]],
};

/// Target of a compilation.
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
    /// Name and text of each file that `#include "NAME"` finds. Nothing else can be included.
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
    /// The compute capabilities that it compiles for (90 is 9.0), rising.
    archs: Vec<u32>,
    compiler: Compiler,
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
        // SAFETY: the library's initialisers are meant to be run when it is opened.
        let library = unsafe { Library::new(path) }
            .map_err(|error| Error::NotFound(format!("no NVRTC at {}: {error}", path.display())))?;
        // SAFETY: the signatures are those of nvrtc.h, unchanged since CUDA 11.2.
        let compiler = unsafe { Compiler::new(library, &CALLS) }?;
        Ok(Self { version: version(&compiler)?, archs: archs(&compiler)?, compiler })
    }

    /// Major and minor.
    pub(crate) fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The compute capabilities that it compiles for (90 is 9.0), rising.
    pub(crate) fn archs(&self) -> &[u32] {
        &self.archs
    }

    /// The program's code: a CUBIN, or PTX that ends with a NUL. Takes as long as compiling takes.
    ///
    /// # Errors
    ///
    /// `Invalid` with the compiler's messages if the program or an option is wrong; `Driver`.
    pub(crate) fn compile(&self, program: &Program) -> Result<Vec<u8>> {
        let &Program { name, source, headers, options, target } = program;
        let architecture = format!("--gpu-architecture={target}");
        let options: Vec<_> = options.iter().copied().chain([architecture.as_str()]).collect();
        let program = cache::Program { name, source, headers, options: &options };
        let output = match target {
            Target::Cubin(_) => CUBIN,
            Target::Ptx(_) => PTX,
        };
        self.compiler.compile(&program, output)
    }
}

fn version(compiler: &Compiler) -> Result<(u32, u32)> {
    type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> u32;
    let (call, mut major, mut minor) = ("nvrtcVersion", 0, 0);
    // SAFETY: the function is of this type.
    let get = unsafe { compiler.symbol::<Version>(call) }?;
    // SAFETY: the pointers are valid for the call.
    compiler.check(call, unsafe { get(&mut major, &mut minor) })?;
    Ok((major.unsigned_abs(), minor.unsigned_abs()))
}

fn archs(compiler: &Compiler) -> Result<Vec<u32>> {
    type Get = unsafe extern "C" fn(*mut c_int) -> u32;
    let calls = ["nvrtcGetNumSupportedArchs", "nvrtcGetSupportedArchs"];
    // SAFETY: the functions are of this type.
    let (count, get) =
        unsafe { (compiler.symbol::<Get>(calls[0])?, compiler.symbol::<Get>(calls[1])?) };
    let mut number = 0;
    // SAFETY: the pointer is valid for the call.
    compiler.check(calls[0], unsafe { count(&mut number) })?;
    let mut archs = vec![0; usize::try_from(number).unwrap_or(0)];
    // SAFETY: there is room for as many as the call before has counted.
    compiler.check(calls[1], unsafe { get(archs.as_mut_ptr()) })?;
    Ok(archs.into_iter().filter_map(|arch| arch.try_into().ok()).collect())
}

/// Paths and names of the library, in the order of trying.
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
        let newest = *nvrtc.archs().last().unwrap();
        let cubin = nvrtc.compile(&program(STEP, Target::Cubin(newest))).unwrap();
        assert_eq!(cubin[..4], *b"\x7fELF");
        let ptx = nvrtc.compile(&program(STEP, Target::Ptx(newest))).unwrap();
        assert_eq!(ptx.last(), Some(&0));
        assert!(String::from_utf8(ptx).unwrap().contains(".visible .entry step("));
    }

    #[test]
    fn a_wrong_source_is_answered_with_its_line() {
        let Some(nvrtc) = nvrtc() else { return };
        let newest = *nvrtc.archs().last().unwrap();
        let wrong = "extern \"C\" __global__ void step(int *cell) {\n  *cel = 1;\n}\n";
        let error = nvrtc.compile(&program(wrong, Target::Cubin(newest))).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("step.cu(2)") && text.contains("\"cel\" is undefined"), "{text}");
    }

    #[test]
    fn unknown_compiler_option_is_an_error_with_its_name() {
        let Some(nvrtc) = nvrtc() else { return };
        let mut program = program(STEP, Target::Ptx(80));
        program.options = &["--no-such-option"];
        let error = nvrtc.compile(&program).unwrap_err();
        assert!(
            matches!(&error, Error::Invalid(_)) && error.to_string().contains("no-such-option"),
            "{error}"
        );
    }

    #[test]
    fn path_without_a_library_is_an_error_with_the_path() {
        let Err(error) = Nvrtc::open(Path::new("/nonexistent/libnvrtc.so")) else { panic!() };
        assert!(
            matches!(&error, Error::NotFound(text) if text.contains("/nonexistent/libnvrtc.so")),
            "{error}"
        );
    }
}
