//! The other compiler that the sources are written for: hiprtc of HIP 5.2, which compiles what
//! users bring. It needs no GPU.

use crate::error::Result;
use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;

/// HIP 5; from 7 on, hiprtc is a library of its own.
const LIBRARY: &str = "libamdhip64.so.5";

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Handle,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> u32;
type Compile = unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> u32;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> u32;
type Bytes = unsafe extern "C" fn(Handle, *mut c_char) -> u32;
type Destroy = unsafe extern "C" fn(*mut Handle) -> u32;

/// Something that a program has: the calls for its size and for its bytes.
struct Output {
    size: Size,
    bytes: Bytes,
}

struct Hiprtc {
    create: Create,
    compile: Compile,
    log: Output,
    code: Output,
    destroy: Destroy,
    /// Two compilations at once crash, even of programs that have nothing to do with each other.
    turn: Mutex<()>,
    _library: Library,
}

impl Hiprtc {
    fn open() -> Result<Self, libloading::Error> {
        // SAFETY: the library's start-up has no preconditions; the types are those of hiprtc.h.
        unsafe {
            let library = Library::new(LIBRARY)?;
            Ok(Self {
                create: *library.get(b"hiprtcCreateProgram")?,
                compile: *library.get(b"hiprtcCompileProgram")?,
                log: Output {
                    size: *library.get(b"hiprtcGetProgramLogSize")?,
                    bytes: *library.get(b"hiprtcGetProgramLog")?,
                },
                code: Output {
                    size: *library.get(b"hiprtcGetCodeSize")?,
                    bytes: *library.get(b"hiprtcGetCode")?,
                },
                destroy: *library.get(b"hiprtcDestroyProgram")?,
                turn: Mutex::new(()),
                _library: library,
            })
        }
    }

    /// A code object for gfx906. The headers are names and texts of what the source includes.
    fn compile(
        &self,
        source: &str,
        headers: &[(String, String)],
        guarded: bool,
    ) -> Result<Vec<u8>> {
        let text = CString::new(source)?;
        let names = Texts::new(headers.iter().map(|(name, _)| name.as_str()))?;
        let texts = Texts::new(headers.iter().map(|(_, text)| text.as_str()))?;
        let guard = format!("-DREEF_GUARDED={}", u8::from(guarded));
        let options = ["--offload-arch=gfx906", "-std=c++17", "-O3", "-Wno-pass-failed", &guard];
        let options = Texts::new(options)?;
        let _turn = self.turn.lock().expect("no test panics with it");
        let mut program = null_mut();
        // SAFETY: all texts end with a NUL and live for the calls; the program is destroyed once.
        unsafe {
            let count = names.pointers.len().try_into()?;
            let (texts, names) = (texts.pointers.as_ptr(), names.pointers.as_ptr());
            let code =
                (self.create)(&mut program, text.as_ptr(), c"k.cu".as_ptr(), count, texts, names);
            assert_eq!(code, 0, "hiprtcCreateProgram");
            let count = options.pointers.len().try_into()?;
            let code = (self.compile)(program, count, options.pointers.as_ptr());
            let made = match code {
                0 => Ok(self.bytes(program, &self.code)),
                _ => Err(self.bytes(program, &self.log)),
            };
            (self.destroy)(&mut program);
            made.map_err(|log| {
                let log = String::from_utf8_lossy(&log);
                format!("hiprtcCompileProgram: code {code}\n{log}").into()
            })
        }
    }

    /// # Safety
    ///
    /// The program lives.
    unsafe fn bytes(&self, program: Handle, output: &Output) -> Vec<u8> {
        let mut length = 0;
        // SAFETY: the program lives: `bytes` demands it. The buffer is as long as the library says.
        unsafe {
            assert_eq!((output.size)(program, &mut length), 0);
            let mut buffer = vec![0; length];
            assert_eq!((output.bytes)(program, buffer.as_mut_ptr().cast()), 0);
            buffer
        }
    }
}

/// Texts as C takes them.
struct Texts {
    pointers: Vec<*const c_char>,
    _owned: Vec<CString>,
}

impl Texts {
    fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let owned = texts.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { pointers: owned.iter().map(|text| text.as_ptr()).collect(), _owned: owned })
    }
}

mod tests {
    use super::*;
    use crate::amd::{clang::Clang, code_object, image::Image, lint};
    use crate::places::Places;
    use crate::sources::{BUILDS, of_all_gpus, with_ending};
    use std::sync::LazyLock;

    /// The kernel of kernels/README.md, with what only HIP's headers have.
    const SCALE: &str = r#"
        #include "reef.h"
        extern "C" __global__ void scale(reef::Guard guard, float *data, double factor) {
            REEF_CLAIM(block, guard);
            unsigned at = block.index * blockDim.x + threadIdx.x;
            float value = __fmul_rn(data[at], (float)factor);
            REEF_PREEMPTION_POINT(block);
            data[at] = value;
        }"#;

    fn open() -> Option<&'static Hiprtc> {
        static OPENED: LazyLock<Result<Hiprtc, libloading::Error>> = LazyLock::new(Hiprtc::open);
        let opened = OPENED.as_ref();
        opened.inspect_err(|error| println!("skipped: no hiprtc of HIP 5: {error}")).ok()
    }

    fn headers() -> Vec<(String, String)> {
        let headers = with_ending(&Places::find().sources(), ".h").unwrap();
        headers.into_iter().map(|(name, text)| (name + ".h", text)).collect()
    }

    /// Faults that the rules find in this code, loads of the live word included where there is a
    /// disassembler.
    fn faults(source: &str, build: &'static str, code: Vec<u8>) -> Vec<String> {
        let kernels = code_object::kernels(&code).unwrap();
        let Ok(clang) = Clang::find() else {
            println!("skipped: looks are not followed without llvm-objdump-19");
            return kernels.iter().flat_map(lint::excesses).collect();
        };
        let file = std::env::temp_dir()
            .join(format!("reef-hiprtc-{}-{source}-{build}", std::process::id()));
        std::fs::write(&file, &code).unwrap();
        let instructions = clang.disassemble(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        lint::faults(&Image { source: source.into(), build, code, kernels, instructions })
    }

    #[test]
    fn every_source_compiles_with_hiprtc_too() {
        let Some(hiprtc) = open() else { return };
        for (source, text) in of_all_gpus(&Places::find().sources()).unwrap() {
            for (build, guarded) in BUILDS {
                let code = hiprtc.compile(&text, &headers(), guarded).unwrap();
                let mut faults = faults(&source, build, code);
                // Of its clang 15, which keeps more loads of a tile under way than there are
                // registers and more masks of a strip than scalar ones, and is not told to leave
                // constants in the loop of formulas as ours is (`OPTIONS_OF_TENSOR`).
                faults.retain(|fault| {
                    let excused = [".conv_", ".depthwise_5x5_", ".map_f32", ".map_f64"];
                    !(excused.iter().any(|kernel| fault.contains(kernel))
                        && (fault.contains("spilled") || fault.contains("private")))
                });
                assert_eq!(faults, [""; 0]);
            }
        }
    }

    #[test]
    fn a_users_kernel_needs_reef_h_alone() {
        let Some(hiprtc) = open() else { return };
        let alone: Vec<_> = headers().into_iter().filter(|(name, _)| name == "reef.h").collect();
        for (build, guarded) in BUILDS {
            let code = hiprtc.compile(SCALE, &alone, guarded).unwrap();
            assert_eq!(faults("user", build, code), [""; 0]);
        }
    }

    #[test]
    fn a_wrong_source_is_answered_with_its_line() {
        let Some(hiprtc) = open() else { return };
        let error = hiprtc.compile("\nnonsense", &[], true).unwrap_err().to_string();
        assert!(error.contains(":2:1: error"), "{error}");
    }
}
