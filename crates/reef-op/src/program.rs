//! Networks whose kernels come as source: a device compiles these and makes the launches of one
//! inference.
//!
//! In: sources, and calls of their kernels with the number of bytes that each argument points to.
//! Out: launches.
//!
//! Invariant: a launch gets memory of its own device, with the number of bytes behind each pointer
//! that its call states. [`Program::trusted`] takes on trust, once, that the kernels use no more of
//! it.

use crate::op::operators::Operators;
pub use crate::op::source::{Call, Program, ProgramText, SourceFile};
use reef_core::{Args, Error, Launch, Result};
use std::sync::Arc;

/// A program on a device: compiled and loaded, for any number of instances.
#[derive(Debug)]
pub struct LoadedProgram<D: Operators> {
    device: D,
    program: Program,
    /// Of each call.
    kernels: Vec<D::Kernel>,
    /// Regions of this program have it.
    token: Arc<()>,
}

/// Memory of a loaded program's device.
#[derive(Debug)]
pub struct Region<D: Operators> {
    buffer: D::Buffer,
    bytes: usize,
    token: Arc<()>,
}

/// A part of a region, from a byte on.
#[derive(Debug)]
pub struct RegionPart<'a, D: Operators> {
    /// The region.
    pub region: &'a Region<D>,
    /// Start of the part, in bytes.
    pub offset: usize,
}

impl<D: Operators> Region<D> {
    /// The memory, for copies from and to it.
    pub fn buffer(&self) -> &D::Buffer {
        &self.buffer
    }
}

impl<D: Operators> LoadedProgram<D> {
    /// Compiles the sources for `device`, or takes what was compiled before, and loads them.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Operators::program_kernels`].
    pub fn load(device: &D, program: Program) -> Result<Self> {
        let kernels = device.program_kernels(&program)?;
        let (have, want) = (kernels.len(), program.calls().len());
        if have != want {
            return Err(Error::invalid(
                "kernels",
                format!("must be one for each of {want} calls, got {have}"),
            ));
        }
        Ok(Self { device: device.clone(), program, kernels, token: Arc::default() })
    }

    /// The device that has it.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Zeroed memory for arguments of its calls.
    ///
    /// # Errors
    ///
    /// Returns an error of the device.
    pub fn alloc(&self, bytes: usize) -> Result<Region<D>> {
        Ok(Region { buffer: self.device.alloc(bytes)?, bytes, token: self.token.clone() })
    }

    /// The launches of one inference, with these arguments for each call. They keep the memory.
    ///
    /// # Errors
    ///
    /// `Invalid` if arguments are too few or too short, or of another program; `Unsupported` if a
    /// call has more than [`Args::MAX`].
    pub fn launches(&self, arguments: &[Vec<RegionPart<'_, D>>]) -> Result<Vec<Launch<D>>> {
        let calls = self.program.calls();
        if arguments.len() != calls.len() {
            let (have, want) = (arguments.len(), calls.len());
            return Err(Error::invalid(
                "arguments",
                format!("must be those of {want} calls, got {have}"),
            ));
        }
        let calls = calls.iter().zip(&self.kernels).zip(arguments);
        calls.map(|((call, kernel), parts)| self.launch(call, kernel, parts)).collect()
    }

    #[allow(unsafe_code)]
    fn launch(
        &self,
        call: &Call,
        kernel: &D::Kernel,
        parts: &[RegionPart<'_, D>],
    ) -> Result<Launch<D>> {
        self.check(call, parts)?;
        let word = |part: &RegionPart<'_, D>| {
            self.device.address(&part.region.buffer) + part.offset as u64
        };
        let words: Vec<u64> = parts.iter().map(word).collect();
        // SAFETY: `check` found each part inside its region. Kernels touch no more than that, and
        // blocks don't need each other: `Program::trusted` demands it. `keep` holds the memory
        // until the last run has ended, and only a GPU sees it.
        let launch =
            unsafe { Launch::new(kernel.clone(), call.grid, call.block, Args::new(&words)) };
        Ok(launch.keep(parts.iter().map(|part| part.region.buffer.clone()).collect()))
    }

    fn check(&self, call: &Call, parts: &[RegionPart<'_, D>]) -> Result<()> {
        let (name, given, want) = (&call.kernel, parts.len(), call.args.len());
        if want > Args::MAX {
            let what = format!("kernel {name} has {want} arguments, most is {}", Args::MAX);
            return Err(Error::Unsupported { backend: D::NAME, what });
        }
        if given != want {
            return Err(Error::invalid(
                format!("kernel {name}"),
                format!("must have {want} arguments, got {given}"),
            ));
        }
        let blocks: u128 = call.grid.iter().map(|&n| u128::from(n)).product();
        if blocks > u128::from(u32::MAX) {
            return Err(Error::invalid(
                format!("kernel {name}"),
                format!("must have at most {} blocks, got {blocks}", u32::MAX),
            ));
        }
        let fits = |(part, &bytes): (&RegionPart<'_, D>, &usize)| self.holds(part, bytes);
        match parts.iter().zip(&call.args).position(|given| !fits(given)) {
            Some(at) => Err(Error::invalid(
                format!("kernel {name}"),
                format!("argument {at} must be of this program, with {} bytes", call.args[at]),
            )),
            None => Ok(()),
        }
    }

    fn holds(&self, part: &RegionPart<'_, D>, bytes: usize) -> bool {
        let end = part.offset.checked_add(bytes);
        Arc::ptr_eq(&part.region.token, &self.token)
            && end.is_some_and(|end| end <= part.region.bytes)
    }
}
