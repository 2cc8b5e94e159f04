//! Calls of a run-time compiler, and one program on its way through it.
//!
//! Codes are plain integers, because newer libraries have codes that we don't know.

use crate::hal::cache::Program;
use reef_core::{Error, Result};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// `…_ERROR_INVALID_OPTION`, `…_ERROR_COMPILATION`: the program is at fault, and the log says how.
const FAULTS_OF_THE_PROGRAM: [u32; 2] = [5, 6];

/// `nvrtcProgram`, `hiprtcProgram`.
type Handle = *mut c_void;
type Strings = *const *const c_char;

/// A vendor's names of the functions.
#[derive(Debug)]
pub struct CompilerCalls {
    /// Stands in errors of the library.
    pub backend: &'static str,
    /// Stands in the error if a function is missing: the library, and the oldest version that has
    /// all.
    pub library: &'static str,
    /// `nvrtcGetErrorString`.
    pub error_string: &'static str,
    /// `nvrtcCreateProgram`.
    pub create: &'static str,
    /// `nvrtcDestroyProgram`.
    pub destroy: &'static str,
    /// `nvrtcCompileProgram`.
    pub compile: &'static str,
    /// `nvrtcGetProgramLogSize`, `nvrtcGetProgramLog`.
    pub log: [&'static str; 2],
    /// Calls for the outputs of a compiled program, such as `["nvrtcGetPTXSize", "nvrtcGetPTX"]`.
    pub outputs: &'static [[&'static str; 2]],
}

/// Something that a program has: two calls, for its size and for its bytes.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) calls: [&'static str; 2],
    pub(super) size: unsafe extern "C" fn(Handle, *mut usize) -> u32,
    pub(super) get: unsafe extern "C" fn(Handle, *mut c_char) -> u32,
}

/// Functions of the library, as nvrtc.h and hiprtc.h declare them.
#[derive(Debug)]
pub(super) struct Functions {
    pub(super) calls: &'static CompilerCalls,
    pub(super) error_string: unsafe extern "C" fn(u32) -> *const c_char,
    pub(super) create: unsafe extern "C" fn(
        *mut Handle,
        *const c_char,
        *const c_char,
        c_int,
        Strings,
        Strings,
    ) -> u32,
    pub(super) destroy: unsafe extern "C" fn(*mut Handle) -> u32,
    pub(super) compile: unsafe extern "C" fn(Handle, c_int, Strings) -> u32,
    pub(super) log: Output,
    pub(super) outputs: Vec<Output>,
}

impl Functions {
    pub(super) fn run(&self, program: &Program<'_>, output: &str) -> Result<Vec<u8>> {
        let output =
            self.outputs.iter().find(|known| known.calls[1] == output).ok_or_else(|| {
                Error::NotFound(format!("{} gives no {output}", self.calls.library))
            })?;
        let unit = Unit::new(self, program)?;
        unit.compile(program)?;
        unit.bytes(output)
    }

    pub(super) fn check(&self, call: &'static str, code: u32) -> Result<()> {
        match code {
            0 => Ok(()),
            _ => {
                let name = self.error(code);
                Err(Error::Driver { backend: self.calls.backend, call, name, code })
            }
        }
    }

    fn error(&self, code: u32) -> String {
        // SAFETY: the library answers any number with a text that lives as long as it does.
        unsafe { CStr::from_ptr((self.error_string)(code)) }.to_string_lossy().into_owned()
    }
}

/// A program inside the library, gone when dropped.
struct Unit<'a> {
    functions: &'a Functions,
    handle: Handle,
}

impl<'a> Unit<'a> {
    fn new(functions: &'a Functions, program: &Program<'_>) -> Result<Self> {
        let (name, source) = (text(program.name)?, text(program.source)?);
        let names = Texts::new(program.headers.iter().map(|(name, _)| *name))?;
        let headers = Texts::new(program.headers.iter().map(|(_, text)| *text))?;
        let mut handle = null_mut();
        // SAFETY: all texts end with a NUL and outlive the call, which copies them; the two arrays
        // have the length we say.
        functions.check(functions.calls.create, unsafe {
            (functions.create)(
                &mut handle,
                source.as_ptr(),
                name.as_ptr(),
                headers.count(),
                headers.as_ptr(),
                names.as_ptr(),
            )
        })?;
        Ok(Self { functions, handle })
    }

    fn compile(&self, program: &Program<'_>) -> Result<()> {
        let options = Texts::new(program.options.iter().copied())?;
        // SAFETY: the handle is live, and the array has the length we say.
        match unsafe { (self.functions.compile)(self.handle, options.count(), options.as_ptr()) } {
            0 => Ok(()),
            code => Err(self.failure(code, program)),
        }
    }

    #[cold]
    fn failure(&self, code: u32, program: &Program<'_>) -> Error {
        let Functions { calls, log, .. } = self.functions;
        let error = self.functions.error(code);
        let log = String::from_utf8_lossy(&self.bytes(log).unwrap_or_default()).into_owned();
        let log = log.trim_end_matches(['\0', '\n']);
        if FAULTS_OF_THE_PROGRAM.contains(&code) {
            let options = program.options.join(" ");
            let argument = format!("{} ({options})", program.name);
            return Error::invalid(argument, format!("{error}\n{log}"));
        }
        let name = format!("{error} {log}");
        Error::Driver { backend: calls.backend, call: calls.compile, name, code }
    }

    fn bytes(&self, output: &Output) -> Result<Vec<u8>> {
        let [size, get] = output.calls;
        let mut length = 0;
        // SAFETY: the handle is live, and the pointer valid for the call.
        self.functions.check(size, unsafe { (output.size)(self.handle, &mut length) })?;
        let mut bytes = vec![0; length];
        // SAFETY: the buffer is as long as the call before has said.
        let code = unsafe { (output.get)(self.handle, bytes.as_mut_ptr().cast()) };
        self.functions.check(get, code)?;
        Ok(bytes)
    }
}

impl Drop for Unit<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and isn't used afterwards.
        unsafe { (self.functions.destroy)(&mut self.handle) };
    }
}

/// Texts as C has them: an array of pointers, valid while this lives.
struct Texts {
    pointers: Vec<*const c_char>,
    /// Owners of the texts that the pointers point to.
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
        let at = error.nul_position();
        Error::invalid("source", format!("cannot have a NUL, got one at byte {at}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        /// Programs that the library below has.
        static LIVE: Cell<i32> = const { Cell::new(0) };
    }

    const CALLS: CompilerCalls = CompilerCalls {
        backend: "test",
        library: "rtc",
        error_string: "rtcGetErrorString",
        create: "rtcCreateProgram",
        destroy: "rtcDestroyProgram",
        compile: "rtcCompileProgram",
        log: ["rtcGetProgramLogSize", "rtcGetProgramLog"],
        outputs: &[["rtcGetCodeSize", "rtcGetCode"]],
    };

    /// A program's handle says which code `rtcCompileProgram` returns: the first digit in its
    /// source.
    unsafe extern "C" fn create(
        handle: *mut Handle,
        source: *const c_char,
        _: *const c_char,
        headers: c_int,
        _: Strings,
        _: Strings,
    ) -> u32 {
        assert_eq!(headers, 1);
        // SAFETY: the tests below pass a text of at least one letter.
        let digit = unsafe { *source.cast::<u8>() } - b'0';
        LIVE.set(LIVE.get() + 1);
        // SAFETY: `Unit::new` passes a place for it.
        unsafe { handle.write(std::ptr::without_provenance_mut(digit.into())) };
        0
    }

    unsafe extern "C" fn destroy(_: *mut Handle) -> u32 {
        LIVE.set(LIVE.get() - 1);
        0
    }

    unsafe extern "C" fn compile(handle: Handle, options: c_int, _: Strings) -> u32 {
        assert_eq!(options, 2);
        handle.addr() as u32
    }

    unsafe extern "C" fn error_string(_: u32) -> *const c_char {
        c"WRONG".as_ptr()
    }

    unsafe extern "C" fn size(_: Handle, size: *mut usize) -> u32 {
        // SAFETY: `Unit::bytes` passes a place for it.
        unsafe { size.write(5) };
        0
    }

    unsafe extern "C" fn get(_: Handle, bytes: *mut c_char) -> u32 {
        // SAFETY: `Unit::bytes` passes as much as `size` has said.
        unsafe { bytes.cast::<[u8; 5]>().write(*b"seen\0") };
        0
    }

    fn functions() -> Functions {
        let both = |calls| Output { calls, size, get };
        let (log, outputs) = (both(CALLS.log), CALLS.outputs.iter().map(|o| both(*o)).collect());
        Functions { calls: &CALLS, error_string, create, destroy, compile, log, outputs }
    }

    fn run(source: &str) -> Result<Vec<u8>> {
        let (headers, options) = (&[("h.h", "")], &["-O3", "--arch=x"]);
        let program = Program { name: "a.cu", source, headers, options };
        let done = functions().run(&program, "rtcGetCode");
        assert_eq!(LIVE.get(), 0, "every program is destroyed");
        done
    }

    #[test]
    fn a_program_becomes_its_output() {
        assert_eq!(run("0").unwrap(), b"seen\0");
    }

    #[test]
    fn faulty_program_gets_the_log_and_failing_compiler_its_code() {
        for digit in ["5", "6"] {
            let error = run(digit).unwrap_err();
            assert_eq!(error, Error::invalid("a.cu (-O3 --arch=x)", "WRONG\nseen"));
        }
        let error = run("7").unwrap_err().to_string();
        assert_eq!(error, "test: rtcCompileProgram: WRONG seen (code 7)");
    }

    #[test]
    fn an_output_that_it_does_not_have_is_refused() {
        let program = Program { name: "a.cu", source: "0", headers: &[], options: &[] };
        let error = functions().run(&program, "rtcGetPTX").unwrap_err();
        assert_eq!(error, Error::NotFound("rtc gives no rtcGetPTX".into()));
    }

    #[test]
    fn a_nul_in_a_source_is_refused() {
        let error = run("0\0").unwrap_err();
        assert_eq!(error, Error::invalid("source", "cannot have a NUL, got one at byte 1"));
    }
}
