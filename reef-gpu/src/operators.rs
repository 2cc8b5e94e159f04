//! Turns operations of networks into launches of kernels/network.cu.
//!
//! A native tensor lies pixel after pixel, each with all its channels (NHWC), as 32-bit floats or, with
//! `precision=fp16`, 16-bit ones. Storages have room for 32-bit floats either way. What the tiles of
//! `convolution` don't fit (groups, odd alignment, planes) goes to simple kernels that take any layout.

mod convolution;
mod element;
mod map;
mod operand;
mod pack;
mod params;
mod pointwise;
mod pool;
mod tile;
mod tune;

use crate::kernel::Kernel;
use crate::own::FEW_BLOCKS;
use crate::vendor::Vendor;
use crate::{Buffer, Gpu};
pub(crate) use tune::Chosen;

use element::Element;
use operand::Operand;
use params::Params;
use reef_core::op::{Op, Operands, Operators, Scratch, Storage};
use reef_core::{Args, Error, Launch, Result};

impl<V: Vendor> Operators for Gpu<V> {
    fn pack(&self, op: &Op, weights: &[f32], bias: &[f32]) -> Result<Buffer<V>> {
        let bytes = pack::pack(op, Element::of(self), weights, bias)?;
        let buffer = Buffer::device(self.context(), bytes.len())?;
        buffer.write(0, &bytes)?;
        Ok(buffer)
    }

    fn scratch(&self, op: &Op) -> Scratch {
        match op {
            Op::Conv2d(op) => convolution::scratch(self, op),
            _ => Scratch::default(),
        }
    }

    fn operator(&self, op: &Op, operands: &Operands<'_, Self>) -> Result<Vec<Launch<Self>>> {
        let site = Site::new(self, op, operands)?;
        match op {
            Op::Conv2d(op) => convolution::build(&site, op),
            Op::Pool2d(op) => pool::build(&site, op),
            Op::ScaleShift(op) => map::scale_shift(&site, op),
            Op::Linear(op) => map::linear(&site, op),
            Op::Activate(op) => pointwise::activate(&site, op),
            Op::Multiply(op) => pointwise::multiply(&site, op),
        }
    }
}

/// What an operator works on, checked.
#[derive(Debug)]
struct Site<'a, V: Vendor> {
    gpu: &'a Gpu<V>,
    element: Element,
    input: Operand,
    /// A residual or factor.
    second: Option<Operand>,
    output: Operand,
    weights: u64,
    bias: u64,
    scratch: Option<&'a Storage<'a, Gpu<V>>>,
    /// What the launches keep alive.
    buffers: Vec<Buffer<V>>,
}

impl<'a, V: Vendor> Site<'a, V> {
    fn new(gpu: &'a Gpu<V>, op: &Op, operands: &'a Operands<'_, Gpu<V>>) -> Result<Self> {
        let element = Element::of(gpu);
        let operand = |storage, tensor: &_| Operand::new(storage, *tensor, element);
        let scratch = operands.scratch.as_ref();
        let second = op.second().unwrap_or(op.output());
        let storages =
            [Some(&operands.input), operands.residual.as_ref(), Some(&operands.output), scratch];
        let mut buffers: Vec<_> =
            storages.into_iter().flatten().map(|s| s.buffer.clone()).collect();
        buffers.extend(operands.constants.cloned());
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
            buffers,
        })
    }

    /// One of the kernels that exist for both kinds of elements.
    fn launch<P: Params>(
        &self,
        name: &str,
        blocks: u32,
        threads: u32,
        params: &P,
    ) -> Result<Launch<Gpu<V>>> {
        let name = format!("{name}_{}", self.element.suffix());
        self.launch_exactly(&name, blocks, threads, 0, params)
    }

    fn launch_exactly<P: Params>(
        &self,
        name: &str,
        blocks: u32,
        threads: u32,
        shared: u32,
        params: &P,
    ) -> Result<Launch<Gpu<V>>> {
        let kernel = self.gpu.network_kernel(name, shared, &params.words())?;
        // SAFETY: the kernel's parameter is bound to it; operands were checked to lie inside their
        // buffers, and blocks write disjoint parts of the output.
        let launch =
            unsafe { Launch::new(kernel, [blocks, 1, 1], [threads, 1, 1], Args::default()) };
        Ok(launch.keep(self.buffers.clone()))
    }
}

impl<V: Vendor> Gpu<V> {
    /// A kernel of kernels/network.cu with its parameter.
    fn network_kernel(&self, name: &str, shared: u32, params: &[u64]) -> Result<Kernel<V>> {
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
        _ => Err(invalid(format!("{have} bytes of constants, {bytes} needed"))),
    }
}

/// Blocks of `threads` for `count` items, most of which loop if there are many.
fn blocks(count: u64, threads: u32) -> u32 {
    count.div_ceil(u64::from(threads)).clamp(1, FEW_BLOCKS.into()) as u32
}

fn invalid(what: impl std::fmt::Display) -> Error {
    Error::Invalid(what.to_string())
}
