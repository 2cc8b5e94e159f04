//! Memory of the device that a launch's parameters name: all of each allocation.

use crate::driver::calls::{calls, pointer_attribute};
use crate::driver::names;
use crate::driver::slots::real;
use crate::kernel_variants::launch::KernelLaunch;
use crate::swap::allocations::whole;
use reef_cuda_abi::codes::NOT_FOUND;
use reef_cuda_abi::memory_types::{ATTRIBUTE, DEVICE};
use std::ffi::c_void;

calls! {
    range = cuMemGetAddressRange_v2(base: &mut usize, bytes: &mut usize, at: usize);
    synchronize = cuCtxSynchronize();
}

calls! {
    unsafe:
    /// # Safety
    ///
    /// Both ranges live.
    to_host = cuMemcpyDtoH_v2(to: *mut c_void, from: usize, bytes: usize);
    /// # Safety
    ///
    /// Both ranges live.
    to_device = cuMemcpyHtoD_v2(to: usize, from: *const c_void, bytes: usize);
}

/// Bytes that are copied for a launch at most.
const MAX_BYTES: usize = 1 << 30;

/// An allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    at: usize,
    bytes: usize,
    /// First parameter that names it.
    parameter: usize,
}

/// Byte in which two contents differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// Parameter that names the allocation.
    pub(super) parameter: usize,
    /// Byte of the allocation.
    pub(super) byte: usize,
}

/// Allocations of a launch.
#[derive(Debug)]
pub(super) struct Memory(Vec<Range>);

/// Contents of a launch's memory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contents(Vec<Vec<u8>>);

impl Memory {
    /// Finds the allocations that are named by a launch's parameters, whose offsets and bytes these
    /// are.
    ///
    /// # Errors
    ///
    /// There is none, or they are too large.
    pub(super) fn of(of: &KernelLaunch, parameters: &[(usize, usize)]) -> Result<Self, String> {
        if of.params.is_null() {
            return Err("it has no parameters".into());
        }
        let mut ranges: Vec<Range> = Vec::new();
        for (parameter, &(offset, bytes)) in parameters.iter().enumerate() {
            // An address lies at a multiple of eight among the parameters.
            for at in
                (offset.next_multiple_of(8) - offset..).step_by(8).take_while(|at| at + 8 <= bytes)
            {
                // SAFETY: cuLaunchKernel demands an address of each parameter of the program, with
                // as many bytes as the kernel takes. `at + 8 <= bytes`.
                let word = unsafe {
                    (*of.params.add(parameter))
                        .cast::<u8>()
                        .add(at)
                        .cast::<usize>()
                        .read_unaligned()
                };
                if let Some((at, bytes)) = allocation(word)
                    && ranges.iter().all(|range| range.at != at)
                {
                    ranges.push(Range { at, bytes, parameter });
                }
            }
        }
        let bytes: usize = ranges.iter().map(|range| range.bytes).sum();
        match bytes {
            0 => Err("its parameters name no memory of the device".into()),
            1..=MAX_BYTES => Ok(Self(ranges)),
            _ => Err(format!(
                "its memory has {} MiB, and {} are copied at most",
                bytes >> 20,
                MAX_BYTES >> 20
            )),
        }
    }

    /// Copies the contents to the host, when the device is idle.
    pub(super) fn read(&self) -> Result<Contents, u32> {
        let all = self.0.iter().map(|range| {
            let mut bytes = vec![0_u8; range.bytes];
            // SAFETY: the driver has just said that this is an allocation; a vector of its size.
            check(unsafe { to_host(bytes.as_mut_ptr().cast(), range.at, range.bytes) })?;
            Ok(bytes)
        });
        all.collect::<Result<_, _>>().map(Contents)
    }

    /// Puts contents back, when the device is idle.
    pub(super) fn write(&self, contents: &Contents) -> Result<(), u32> {
        self.0.iter().zip(&contents.0).try_for_each(|(range, bytes)| {
            // SAFETY: the driver has said that `range` is an allocation of `range.bytes` bytes, and
            // `read` has made a vector of that size for it.
            check(unsafe { to_device(range.at, bytes.as_ptr().cast(), range.bytes) })
        })
    }

    /// Finds the first byte in which two contents differ.
    pub(super) fn difference(&self, a: &Contents, b: &Contents) -> Option<Difference> {
        let both = a.0.iter().zip(&b.0);
        self.0.iter().zip(both).filter(|(_, (a, b))| a != b).find_map(|(range, (a, b))| {
            let byte = a.iter().zip(b).position(|(a, b)| a != b)?;
            Some(Difference { parameter: range.parameter, byte })
        })
    }
}

/// Waits until the context is idle.
pub(super) fn wait() -> Result<(), u32> {
    check(synchronize())
}

fn check(code: Option<u32>) -> Result<(), u32> {
    match code {
        Some(0) => Ok(()),
        code => Err(code.unwrap_or(NOT_FOUND)),
    }
}

/// First byte and size of the device's allocation at an address.
fn allocation(address: usize) -> Option<(usize, usize)> {
    let (mut at, mut bytes, mut kind) = (0, 0, 0);
    let is_device = address != 0
        && pointer_attribute(&mut kind, ATTRIBUTE, address) == Some(0)
        && kind == DEVICE
        && range(&mut at, &mut bytes, address) == Some(0);
    is_device.then(|| whole(address).unwrap_or((at, bytes)))
}
