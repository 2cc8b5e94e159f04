//! AMD's run-time compiler, which turns HIP C++ into code for one kind of GPU. It needs no GPU.
//!
//! It is part of the runtime library in HIP 5 and 6 and a library of its own from 7 on, opened when
//! something has to be compiled, at most once per process. The images that ship with the crate need none
//! of it: only kernels of a user's own do. Codes are plain integers, because newer libraries have codes
//! that we don't know.

use crate::driver::{BACKEND, Handle, in_rocm, library};
use libloading::Library;
use parking_lot::Mutex;
use reef_core::{Error, Result};
use reef_gpu::cache::Program;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

/// Names of the library where it is one of its own, newest first.
const LIBRARIES: [&str; 3] = ["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so"];
/// `HIPRTC_ERROR_INVALID_OPTION`, `HIPRTC_ERROR_COMPILATION`: the program is at fault, and the log says how.
const FAULTS_OF_THE_PROGRAM: [u32; 2] = [5, 6];

type Strings = *const *const c_char;
type GetSize = unsafe extern "C" fn(Handle, *mut usize) -> u32;
type GetBytes = unsafe extern "C" fn(Handle, *mut c_char) -> u32;

/// The opened library.
pub(crate) struct Hiprtc {
    error_string: unsafe extern "C" fn(u32) -> *const c_char,
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
    code: (GetSize, GetBytes),
    /// HIP 5.2 crashes when two programs are compiled at once, whatever they are.
    turn: Mutex<()>,
    /// Keeps the functions above mapped.
    _library: Library,
}

impl Hiprtc {
    /// The library of this process.
    ///
    /// # Errors
    ///
    /// `NotFound`, saying what was tried. The answer stays for the life of the process.
    pub(crate) fn get() -> Result<&'static Self> {
        static HIPRTC: OnceLock<Result<Hiprtc>> = OnceLock::new();
        HIPRTC.get_or_init(Self::search).as_ref().map_err(Clone::clone)
    }

    /// The compiler must not be newer than the runtime, which might not load what it makes: so the
    /// runtime's own comes first.
    fn search() -> Result<Self> {
        if let Ok(Ok(own)) = library().map(Self::resolve) {
            return Ok(own);
        }
        let places = in_rocm(&LIBRARIES);
        // SAFETY: the library's initialisers are meant to be run by whoever opens it.
        let mut found = places.iter().filter_map(|place| unsafe { Library::new(place) }.ok());
        found.find_map(|library| Self::resolve(library).ok()).ok_or_else(|| {
            let places: Vec<_> = places.iter().map(|place| place.to_string_lossy()).collect();
            let places = places.join(", ");
            Error::NotFound(format!("no hipRTC (tried the HIP runtime, {places})"))
        })
    }

    fn resolve(library: Library) -> Result<Self> {
        // SAFETY: the signatures are those of hiprtc.h, unchanged since HIP 5.
        unsafe {
            Ok(Self {
                error_string: symbol(&library, "hiprtcGetErrorString")?,
                create: symbol(&library, "hiprtcCreateProgram")?,
                destroy: symbol(&library, "hiprtcDestroyProgram")?,
                compile: symbol(&library, "hiprtcCompileProgram")?,
                log: (
                    symbol(&library, "hiprtcGetProgramLogSize")?,
                    symbol(&library, "hiprtcGetProgramLog")?,
                ),
                code: (symbol(&library, "hiprtcGetCodeSize")?, symbol(&library, "hiprtcGetCode")?),
                turn: Mutex::new(()),
                _library: library,
            })
        }
    }

    /// The program's code object. Takes as long as compiling takes.
    ///
    /// # Errors
    ///
    /// `Invalid` with the compiler's messages if the program or an option is wrong; `Driver`.
    pub(crate) fn compile(&self, program: &Program<'_>) -> Result<Vec<u8>> {
        let _turn = self.turn.lock();
        let unit = Unit::new(self, program)?;
        unit.compile(program)?;
        unit.bytes(["hiprtcGetCodeSize", "hiprtcGetCode"], self.code)
    }

    fn check(&self, call: &'static str, code: u32) -> Result<()> {
        match code {
            0 => Ok(()),
            _ => Err(Error::Driver { backend: BACKEND, call, name: self.error(code), code }),
        }
    }

    fn error(&self, code: u32) -> String {
        // SAFETY: the library answers any number with a text that lives as long as it does.
        unsafe { CStr::from_ptr((self.error_string)(code)) }.to_string_lossy().into_owned()
    }
}

/// A program inside the library, gone when dropped.
struct Unit<'a> {
    hiprtc: &'a Hiprtc,
    handle: Handle,
}

impl<'a> Unit<'a> {
    fn new(hiprtc: &'a Hiprtc, program: &Program<'_>) -> Result<Self> {
        let (name, source) = (text(program.name)?, text(program.source)?);
        let names = Texts::new(program.headers.iter().map(|(name, _)| *name))?;
        let headers = Texts::new(program.headers.iter().map(|(_, text)| *text))?;
        let mut handle = null_mut();
        // SAFETY: all texts end with a NUL and outlive the call, which copies them; the two arrays
        // have the length we say.
        hiprtc.check("hiprtcCreateProgram", unsafe {
            (hiprtc.create)(
                &mut handle,
                source.as_ptr(),
                name.as_ptr(),
                headers.count(),
                headers.as_ptr(),
                names.as_ptr(),
            )
        })?;
        Ok(Self { hiprtc, handle })
    }

    fn compile(&self, program: &Program<'_>) -> Result<()> {
        let options = Texts::new(program.options.iter().copied())?;
        // SAFETY: the handle is live, and the array has the length we say.
        match unsafe { (self.hiprtc.compile)(self.handle, options.count(), options.as_ptr()) } {
            0 => Ok(()),
            code => Err(self.failure(code, program)),
        }
    }

    #[cold]
    fn failure(&self, code: u32, program: &Program<'_>) -> Error {
        let (call, error) = ("hiprtcCompileProgram", self.hiprtc.error(code));
        let log = self.bytes(["hiprtcGetProgramLogSize", "hiprtcGetProgramLog"], self.hiprtc.log);
        let log = String::from_utf8_lossy(&log.unwrap_or_default()).into_owned();
        let log = log.trim_end_matches(['\0', '\n']);
        if FAULTS_OF_THE_PROGRAM.contains(&code) {
            Error::Invalid(format!("{}: {error}\n{log}", program.name))
        } else {
            Error::Driver { backend: BACKEND, call, name: format!("{error} {log}"), code }
        }
    }

    fn bytes(&self, calls: [&'static str; 2], (size, get): (GetSize, GetBytes)) -> Result<Vec<u8>> {
        let mut length = 0;
        // SAFETY: the handle is live, and the pointer valid for the call.
        self.hiprtc.check(calls[0], unsafe { size(self.handle, &mut length) })?;
        let mut bytes = vec![0; length];
        // SAFETY: the buffer is as long as the call before has said.
        self.hiprtc.check(calls[1], unsafe { get(self.handle, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

impl Drop for Unit<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and isn't used afterwards.
        unsafe { (self.hiprtc.destroy)(&mut self.handle) };
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

/// # Safety
///
/// `T` is the function's type.
unsafe fn symbol<T: Copy>(library: &Library, name: &'static str) -> Result<T> {
    // SAFETY: the caller's promise.
    unsafe { library.get::<T>(name.as_bytes()) }
        .map(|symbol| *symbol)
        .map_err(|_| Error::NotFound(format!("this library has no {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::elf::CodeObject;

    const STEP: &str = "#include \"three.h\"\n\
        extern \"C\" __global__ void step(int *cell) { *cell = *cell * THREE + ADD; }\n";

    fn program(source: &str) -> Program<'_> {
        let (headers, options) =
            (&[("three.h", "#define THREE 3\n")], &["-DADD=1", "--offload-arch=gfx906"]);
        Program { name: "step.hip", source, headers, options }
    }

    /// The library, or `None`, said aloud.
    fn hiprtc() -> Option<&'static Hiprtc> {
        match Hiprtc::get() {
            Ok(hiprtc) => Some(hiprtc),
            Err(Error::NotFound(text)) => {
                assert!(text.contains("no hipRTC"), "{text}");
                eprintln!("skipped: {text}");
                None
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_source_becomes_a_code_object_that_says_what_it_takes() {
        let Some(hiprtc) = hiprtc() else { return };
        let code = hiprtc.compile(&program(STEP)).unwrap();
        let kernels = CodeObject::parse(&code).unwrap().kernels();
        let found: Vec<_> = kernels.iter().map(|k| (k.name.as_str(), k.parameters())).collect();
        assert_eq!(found, [("step", vec![8])]);
    }

    #[test]
    fn a_wrong_source_is_answered_with_its_line() {
        let Some(hiprtc) = hiprtc() else { return };
        let wrong = "extern \"C\" __global__ void step(int *cell) {\n  *cel = 1;\n}\n";
        let error = hiprtc.compile(&program(wrong)).unwrap_err();
        let Error::Invalid(text) = error else { panic!("{error:?}") };
        assert!(text.contains(":2:") && text.contains("identifier 'cel'"), "{text}");
    }

    #[test]
    fn programs_compiled_at_once_take_turns() {
        let Some(hiprtc) = hiprtc() else { return };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| hiprtc.compile(&program(STEP)).unwrap());
            }
        });
    }

    #[test]
    fn a_nul_in_a_source_is_refused() {
        let error = text("one\0two").unwrap_err();
        assert_eq!(error, Error::invalid("a NUL at byte 3 of a source"));
    }
}
