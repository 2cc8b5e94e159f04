//! AMD's run-time compiler, which turns HIP C++ into code for one kind of GPU. It needs no GPU.
//!
//! It is part of the runtime library in HIP 5 and 6 and a library of its own from 7 on, opened when
//! something has to be compiled, at most once per process. The images that ship with the crate need
//! none of it: only kernels of a user's own do.

use crate::driver::{BACKEND, in_rocm, library};
use libloading::Library;
use parking_lot::Mutex;
use reef_core::{Error, Result};
use reef_gpu::cache::Program;
use reef_gpu::{Compiler, CompilerCalls};
use std::sync::OnceLock;

/// Names of the library where it is one of its own, newest first.
const LIBRARIES: [&str; 3] = ["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so"];
const CODE: &str = "hiprtcGetCode";
const CALLS: CompilerCalls = CompilerCalls {
    backend: BACKEND,
    library: "hipRTC",
    error_string: "hiprtcGetErrorString",
    create: "hiprtcCreateProgram",
    destroy: "hiprtcDestroyProgram",
    compile: "hiprtcCompileProgram",
    log: ["hiprtcGetProgramLogSize", "hiprtcGetProgramLog"],
    outputs: &[["hiprtcGetCodeSize", CODE]],
};

/// The opened library.
pub(crate) struct Hiprtc {
    compiler: Compiler,
    /// HIP 5.2 crashes when two programs are compiled at once, whatever they are.
    turn: Mutex<()>,
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
        // SAFETY: the library's initialisers are meant to be run when it is opened.
        let mut found = places.iter().filter_map(|place| unsafe { Library::new(place) }.ok());
        found.find_map(|library| Self::resolve(library).ok()).ok_or_else(|| {
            let places: Vec<_> = places.iter().map(|place| place.to_string_lossy()).collect();
            let places = places.join(", ");
            Error::NotFound(format!("no hipRTC (tried the HIP runtime, {places})"))
        })
    }

    fn resolve(library: Library) -> Result<Self> {
        // SAFETY: the signatures are those of hiprtc.h, unchanged since HIP 5.
        let compiler = unsafe { Compiler::new(library, &CALLS) }?;
        Ok(Self { compiler, turn: Mutex::new(()) })
    }

    /// The program's code object. Takes as long as compiling takes.
    ///
    /// # Errors
    ///
    /// `Invalid` with the compiler's messages if the program or an option is wrong; `Driver`.
    pub(crate) fn compile(&self, program: &Program<'_>) -> Result<Vec<u8>> {
        let _turn = self.turn.lock();
        self.compiler.compile(program, CODE)
    }
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
                reef_conformance::skip(&text);
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
        let Error::Invalid(source) = error else { panic!("{error:?}") };
        let log = source.reason;
        assert!(log.contains(":2:") && log.contains("identifier 'cel'"), "{log}");
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
}
