//! Some of a kernel's blocks, and no others.

use super::cut::StopKind;
use super::driver::calls as driver;
use super::kernels::Kernel;
use super::launch::{KernelLaunch, PLAIN};
use super::{builder, fitting};
use crate::driver::calls;
use crate::stops;
use reef_ptx::variant::{Launch, Launched, Slice, slices};
use reef_ptx::{Module, kernels};
use std::time::Duration;

/// Parts into which a grid is cut, about.
const PARTS: u32 = 8;

/// Variant of a kernel in the current context, which ends with this.
#[derive(Debug)]
pub(crate) struct Part {
    module: usize,
    variant: usize,
    parameters: Vec<usize>,
    slices: Vec<Slice>,
}

impl Part {
    /// Builds one for launches like this.
    ///
    /// # Errors
    ///
    /// The reason for which its blocks don't run by parts.
    pub(crate) fn of(kernel: &Kernel, of: &KernelLaunch) -> Result<Self, String> {
        let capability = calls::device().and_then(calls::capability);
        let capability = capability.ok_or("its device is not known")?;
        let wave = Duration::from_secs(1);
        let (duration, slice) = (PARTS * wave, wave);
        let cut = Launched { grid: of.grid, wave: 1, duration, slice, most: 240 };
        let slices = slices(&cut)?;
        let (variant, _) = builder::read(&kernel.code, &kernel.name, capability, StopKind::Never)?;
        let (module, built) = builder::load(&variant, &kernel.name)?;
        let parameters = built.parameters.clone();
        let part = Self { module, variant: built.function, parameters, slices };
        fitting::adapt(fitting::function(kernel, of.function)?, &built)?;
        Ok(part)
    }

    /// Number of parts.
    pub(crate) fn count(&self) -> usize {
        self.slices.len()
    }

    /// Launches the first `count` parts. Returns the driver's code.
    pub(crate) fn launch_slices(&self, of: &KernelLaunch, count: usize) -> u32 {
        let copy = of.copy(self.variant, &self.parameters);
        let launch = |slice: &Slice| {
            let own = Launch { offset: slice.offset, grid: of.grid, ..PLAIN };
            copy.launch_blocks(of.stream.0, slice.blocks, &own)
        };
        self.slices[..count].iter().map(launch).find(|code| *code != 0).unwrap_or(0)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // SAFETY: a module of ours, whose launches have ended: each check waits for them.
        let _ = unsafe { driver::unload(self.module) };
    }
}

/// Launches the whole kernel once more. Returns the driver's code.
pub(crate) fn launch_whole(of: &KernelLaunch) -> u32 {
    // SAFETY: what the program has just launched.
    unsafe {
        stops::driver::launch(of.function, of.stream.0, of.grid, of.block, of.shared, of.params)
    }
}

/// Offset and bytes of each parameter of a kernel.
///
/// # Errors
///
/// The driver doesn't say.
pub(crate) fn parameters(kernel: &Kernel, handle: usize) -> Result<Vec<(usize, usize)>, String> {
    let function = fitting::function(kernel, handle)?;
    let mut all = Vec::new();
    loop {
        let (mut offset, mut bytes) = (0, 0);
        match driver::parameter(function, all.len(), &mut offset, &mut bytes) {
            Some(0) => all.push((offset, bytes)),
            Some(_) => return Ok(all),
            None => return Err("the driver doesn't say its parameters".into()),
        }
    }
}

/// Verdict of its text on running again.
pub(crate) fn verdict(kernel: &Kernel) -> String {
    let read = || {
        let loaded = kernel.code.as_ref().as_ref().ok()?;
        let capability = calls::device().and_then(calls::capability)?;
        let text = loaded.text(capability).ok()?;
        let module = Module::read(&text).ok()?;
        let found = kernels(&module).find(|one| one.name() == kernel.name)?;
        Some(found.verdict().rerun.name().to_owned())
    };
    read().unwrap_or_else(|| "no PTX".into())
}
