//! A vendor's run-time compiler, NVRTC or hipRTC: the same functions under two names, in a library
//! that is opened when something has to be compiled.

use crate::hal::cache::Program;
use crate::hal::compiler_calls::{CompilerCalls, Functions, Output};
use libloading::Library;
use reef_core::{Error, Result};

/// A run-time compiler, as long as its library stays mapped.
#[derive(Debug)]
pub struct Compiler {
    functions: Functions,
    library: Library,
}

impl Compiler {
    /// Finds the functions in a library that was opened.
    ///
    /// # Errors
    ///
    /// `NotFound` names the first that is missing.
    ///
    /// # Safety
    ///
    /// The functions of these names have the signatures of nvrtc.h and hiprtc.h, which agree.
    pub unsafe fn new(library: Library, calls: &'static CompilerCalls) -> Result<Self> {
        // SAFETY: each field of `Functions` has the type of its function in nvrtc.h and hiprtc.h,
        // as `new` demands of the library's. The library is kept next to them, so it stays mapped.
        let functions = unsafe {
            Functions {
                calls,
                error_string: symbol(&library, calls, calls.error_string)?,
                create: symbol(&library, calls, calls.create)?,
                destroy: symbol(&library, calls, calls.destroy)?,
                compile: symbol(&library, calls, calls.compile)?,
                log: output(&library, calls, calls.log)?,
                outputs: calls
                    .outputs
                    .iter()
                    .map(|names| output(&library, calls, *names))
                    .collect::<Result<_>>()?,
            }
        };
        Ok(Self { functions, library })
    }

    /// Another function of the library, which must not outlive this.
    ///
    /// # Errors
    ///
    /// `NotFound` if it is missing.
    ///
    /// # Safety
    ///
    /// `T` is the type of the function of this name.
    pub unsafe fn symbol<T: Copy>(&self, name: &'static str) -> Result<T> {
        // SAFETY: `T` is the type of the function of this name: this method demands it.
        unsafe { symbol(&self.library, self.functions.calls, name) }
    }

    /// Compiles a program, and gives what the call `output` gives of it, one of
    /// [`CompilerCalls::outputs`]. Takes as long as compiling takes.
    ///
    /// # Errors
    ///
    /// `Invalid` with the compiler's messages if the program or an option is wrong; `NotFound` for
    /// another call; `Driver`.
    pub fn compile(&self, program: &Program<'_>, output: &str) -> Result<Vec<u8>> {
        self.functions.run(program, output)
    }

    /// Checks the code that a call of the library has returned.
    ///
    /// # Errors
    ///
    /// `Driver` unless it is 0.
    pub fn check(&self, call: &'static str, code: u32) -> Result<()> {
        self.functions.check(call, code)
    }
}

/// # Safety
///
/// `T` is the function's type.
unsafe fn symbol<T: Copy>(library: &Library, calls: &CompilerCalls, name: &str) -> Result<T> {
    // SAFETY: `T` is the function's type, a pointer that may be copied: `symbol` demands it.
    unsafe { library.get::<T>(name.as_bytes()) }
        .map(|symbol| *symbol)
        .map_err(|_| Error::NotFound(format!("{} has no {name}", calls.library)))
}

/// # Safety
///
/// They are calls that take a program, and give a size, and fill as many bytes.
unsafe fn output(
    library: &Library,
    of: &CompilerCalls,
    calls: [&'static str; 2],
) -> Result<Output> {
    // SAFETY: the two calls give a size and fill as many bytes, as the types of `Output` say:
    // `output` demands it.
    unsafe {
        let (size, get) = (symbol(library, of, calls[0])?, symbol(library, of, calls[1])?);
        Ok(Output { calls, size, get })
    }
}
