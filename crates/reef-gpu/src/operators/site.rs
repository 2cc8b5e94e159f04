//! Operands of an operator, checked, and the launch of one of its kernels.

use super::element::Element;
use super::operand::{Operand, check_offset};
use super::pack;
use super::params::Params;
use crate::code::kernel::Kernel;
use crate::code::loaded::Builds;
use crate::driver::buffer::Buffer;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::launch::blit::MAX_CHOSEN_BLOCKS;
use reef_core::{Args, Error, Launch, Result};
use reef_op::rounding::{Rounded, Rounding};
use reef_op::{Op, Operands, Storage};

/// An operator with its operands, checked.
#[derive(Debug)]
pub(super) struct BoundOp<'a, V: Vendor> {
    pub(super) gpu: &'a Gpu<V>,
    pub(super) element: Element,
    pub(super) input: Operand,
    /// A residual or factor.
    pub(super) second: Option<Operand>,
    pub(super) output: Operand,
    pub(super) weights: u64,
    pub(super) bias: u64,
    pub(super) scratch: Option<&'a Storage<'a, Gpu<V>>>,
    pub(super) rounded: Rounded,
    /// Buffers that the launches keep alive.
    buffers: Vec<Buffer<V>>,
}

impl<'a, V: Vendor> BoundOp<'a, V> {
    pub(super) fn new(
        gpu: &'a Gpu<V>,
        op: &Op,
        operands: &'a Operands<'_, Gpu<V>>,
    ) -> Result<Self> {
        op.check()?;
        let element = Element::of(gpu);
        let operand = |storage, tensor: &_| Operand::new(storage, *tensor, element);
        let scratch = operands.scratch.as_ref();
        scratch.map_or(Ok(()), check_offset)?;
        let second = op.second().unwrap_or(op.output());
        let storages =
            [Some(&operands.input), operands.residual.as_ref(), Some(&operands.output), scratch];
        let mut buffers: Vec<_> =
            storages.into_iter().flatten().map(|s| s.buffer.clone()).collect();
        buffers.extend(operands.constants.cloned());
        buffers.iter().try_for_each(|buffer| buffer.check_device(gpu.context()))?;
        let [weights, bias] = constants(op, element, operands.constants)?;
        Ok(Self {
            gpu,
            element,
            input: operand(&operands.input, op.input())?,
            second: operands.residual.as_ref().map(|s| operand(s, second)).transpose()?,
            output: operand(&operands.output, op.output())?,
            weights,
            bias,
            scratch,
            rounded: operands.rounded,
            buffers,
        })
    }

    /// Without what these kernels don't round.
    pub(super) fn rounding(self, allowed: Rounding) -> Self {
        Self { rounded: self.rounded.within(allowed), ..self }
    }

    /// Buffers that its launches keep alive.
    pub(super) fn buffers(&self) -> &[Buffer<V>] {
        &self.buffers
    }

    /// View for a kernel that changes the output in its place.
    pub(super) fn of_output(&self) -> Self {
        Self { input: self.output, second: None, buffers: self.buffers.clone(), ..*self }
    }

    /// One of the kernels that exist for both kinds of elements.
    pub(super) fn launch<P: Params>(
        &self,
        name: &str,
        blocks: u32,
        threads: u32,
        params: &P,
    ) -> Result<Launch<Gpu<V>>> {
        let name = format!("{name}_{}", self.element.suffix());
        self.launch_exactly(&name, blocks, threads, 0, params)
    }

    pub(super) fn launch_exactly<P: Params>(
        &self,
        name: &str,
        blocks: u32,
        threads: u32,
        shared: u32,
        params: &P,
    ) -> Result<Launch<Gpu<V>>> {
        self.launch_of(self.gpu.network()?, name, blocks, threads, shared, params)
    }

    /// Launch of a kernel of any source that ships with the backend.
    pub(super) fn launch_of<P: Params>(
        &self,
        builds: &Builds<V>,
        name: &str,
        blocks: u32,
        threads: u32,
        shared: u32,
        params: &P,
    ) -> Result<Launch<Gpu<V>>> {
        let kernel = Kernel::preemptible(builds, name, shared, &params.words())?;
        // SAFETY: the kernel's parameter is bound to it; operands were checked to lie inside their
        // buffers, which the device reaches, and blocks write disjoint parts of the output.
        let launch =
            unsafe { Launch::new(kernel, [blocks, 1, 1], [threads, 1, 1], Args::default()) };
        Ok(launch.keep(self.buffers.clone()))
    }
}

impl<V: Vendor> Gpu<V> {
    /// A kernel of kernels/network.cu with its parameter.
    pub(crate) fn network_kernel(
        &self,
        name: &str,
        shared: u32,
        params: &[u64],
    ) -> Result<Kernel<V>> {
        Kernel::preemptible(self.network()?, name, shared, params)
    }
}

/// Addresses of the packed weights and biases, or zeros if there are none.
fn constants<V: Vendor>(op: &Op, element: Element, buffer: Option<&Buffer<V>>) -> Result<[u64; 2]> {
    let [weights, bytes] = pack::layout(op, element)?;
    let have = buffer.map_or(0, Buffer::bytes);
    match buffer {
        Some(buffer) if have >= bytes => Ok([buffer.address(), buffer.address() + weights as u64]),
        None if bytes == 0 => Ok([0; 2]),
        _ => Err(Error::invalid(
            "constants",
            format!("must have at least {bytes} bytes, got {have}"),
        )),
    }
}

/// Blocks of `threads` for `count` items, most of which loop if there are many.
pub(super) fn blocks(count: u64, threads: u32) -> u32 {
    count.div_ceil(u64::from(threads)).clamp(1, MAX_CHOSEN_BLOCKS.into()) as u32
}
