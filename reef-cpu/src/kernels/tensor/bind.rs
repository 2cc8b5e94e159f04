//! Operations on tensors of any rank and type: the loops that define them, a range of outputs at a time.
//!
//! A block computes its range into memory of its own, looks whether to stop all along, and copies the range to the
//! output in one go. Products of matrices, formulas and folds of singles have kernels of their own.

use super::formula::Vectors;
use super::matrices::Matrices;
use super::rows::Rows;
use super::sums::Sums;
use crate::kernel::{Block, Kernel, Outcome};
use crate::kernels::place::{Place, grid};
use crate::kernels::stop_token::StopToken;
use crate::memory::Buffer;
use reef_core::tensor::{Array, Brain, Element, Half, Spec, TensorOp, Truth, Values};
use reef_core::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Steps of a loop that a block makes at most, if its outputs can be divided so: some hundred microseconds.
const STEPS: usize = 256 * 1024;
/// Outputs of a block at most: they are copied at once.
const OUTPUTS: usize = 16 * 1024;
/// Blocks that an operation is cut into if it is large enough for that many.
const BLOCKS: usize = 8;
/// Steps for which a block of its own pays.
const LEAST_STEPS: usize = 16 * 1024;

pub(crate) fn bind(op: &Arc<TensorOp>, inputs: &[Place], output: &Place) -> Result<(Kernel, u32)> {
    op.check()?;
    if inputs.len() != op.inputs.len() {
        let text =
            format!("cpu: {} inputs for {}, {} wanted", inputs.len(), op.name(), op.inputs.len());
        return Err(Error::Invalid(text));
    }
    let inputs = inputs.iter().zip(&op.inputs).map(|(place, spec)| Dense::new(place, spec));
    let bound = Bound {
        inputs: inputs.collect::<Result<_>>()?,
        output: Dense::new(output, &op.output)?,
        outputs: outputs_of_a_block(op),
        op: op.clone(),
    };
    bound.check_apart()?;
    if let Some(matrices) = Matrices::of(op) {
        let blocks = grid(matrices.blocks())?;
        return Ok((
            Kernel::new(op.name(), move |block, _| bound.multiply(&matrices, block)),
            blocks,
        ));
    }
    if let Some(vectors) = Vectors::of(op) {
        let blocks = grid(op.output.elements().div_ceil(vectors.outputs))?;
        return Ok((
            Kernel::new(op.name(), move |block, _| bound.run_formula(&vectors, block)),
            blocks,
        ));
    }
    if let Some(rows) = Rows::of(op) {
        let blocks = grid(op.output.elements().div_ceil(rows.outputs))?;
        let run = move |block: &mut Block<'_>| {
            bound.run_singles(rows.outputs, block, |[input], first, to, stop| {
                rows.compute(input, first, to, stop)
            })
        };
        return Ok((Kernel::new(op.name(), move |block, _| run(block)), blocks));
    }
    let blocks = grid(op.output.elements().div_ceil(bound.outputs))?;
    if let Some(sums) = Sums::of(op) {
        let run = move |block: &mut Block<'_>| {
            bound.run_singles(bound.outputs, block, |inputs: [_; 2], first, to, stop| {
                sums.compute(inputs, first, to, stop)
            })
        };
        return Ok((Kernel::new(op.name(), move |block, _| run(block)), blocks));
    }
    Ok((Kernel::new(op.name(), move |block, _| bound.run(block)), blocks))
}

/// How many outputs one block computes: whole groups.
fn outputs_of_a_block(op: &TensorOp) -> usize {
    let (elements, cost, grain) = (op.output.elements(), op.cost().max(1), op.grain().max(1));
    let most = (STEPS / cost).clamp(1, OUTPUTS);
    let even = elements.div_ceil(BLOCKS).max(LEAST_STEPS / cost).max(1);
    most.min(even).next_multiple_of(grain)
}

/// A dense tensor in memory, which was checked to hold it.
#[derive(Debug)]
struct Dense {
    buffer: Buffer,
    offset: usize,
    spec: Spec,
}

impl Dense {
    fn new(place: &Place, spec: &Spec) -> Result<Self> {
        place.check(spec.bytes())?;
        Ok(Self { buffer: place.buffer.clone(), offset: place.offset, spec: spec.clone() })
    }

    fn start(&self) -> *mut u8 {
        self.buffer.as_ptr().wrapping_add(self.offset)
    }

    fn addresses(&self) -> Range<usize> {
        let start = self.start().addr();
        start..start + self.spec.bytes()
    }

    /// All its elements.
    ///
    /// # Safety
    ///
    /// Nobody writes them while the values live.
    unsafe fn values(&self) -> Values<'_> {
        let len = self.spec.elements();
        macro_rules! slice {
            ($variant:ident, $kind:ty) => {
                // SAFETY: `new` found as many elements inside the buffer, which is initialised; the offset is aligned,
                // and each of these types has a value for all bits. The caller answers for writers.
                Values::$variant(unsafe { std::slice::from_raw_parts(self.start().cast::<$kind>(), len) })
            };
        }
        match self.spec.element {
            Element::F32 => slice!(F32, f32),
            Element::F16 => slice!(F16, Half),
            Element::BF16 => slice!(BF16, Brain),
            Element::F64 => slice!(F64, f64),
            Element::I64 => slice!(I64, i64),
            Element::I32 => slice!(I32, i32),
            Element::I16 => slice!(I16, i16),
            Element::I8 => slice!(I8, i8),
            Element::U64 => slice!(U64, u64),
            Element::U32 => slice!(U32, u32),
            Element::U16 => slice!(U16, u16),
            Element::U8 => slice!(U8, u8),
            Element::Bool => slice!(Bool, Truth),
        }
    }

    /// All its elements, which are singles.
    ///
    /// # Safety
    ///
    /// As [`values`](Self::values).
    unsafe fn singles(&self) -> &[f32] {
        assert_eq!(self.spec.element, Element::F32, "singles");
        // SAFETY: `new` found as many elements inside the buffer, aligned; the caller answers for writers.
        unsafe { std::slice::from_raw_parts(self.start().cast::<f32>(), self.spec.elements()) }
    }

    /// Elements of `range`, which are singles.
    ///
    /// # Safety
    ///
    /// Nobody else reads or writes them while the slice lives.
    #[expect(
        clippy::mut_from_ref,
        reason = "the memory is the buffer's, and the caller answers for it"
    )]
    unsafe fn singles_mut(&self, range: Range<usize>) -> &mut [f32] {
        let inside = range.start <= range.end && range.end <= self.spec.elements();
        assert!(inside && self.spec.element == Element::F32, "{range:?} of {}", self.spec);
        // SAFETY: inside of the buffer, as was just checked, and aligned; the caller answers for others.
        unsafe {
            let start = self.start().cast::<f32>().wrapping_add(range.start);
            std::slice::from_raw_parts_mut(start, range.len())
        }
    }

    /// Copies `array` over the elements from `first` on.
    ///
    /// # Safety
    ///
    /// Nobody else reads or writes them meanwhile.
    unsafe fn write(&self, first: usize, array: &Array) {
        let size = self.spec.element.bytes();
        assert!(
            array.element() == self.spec.element && first + array.len() <= self.spec.elements()
        );
        macro_rules! copy {
            ($($variant:ident)*) => {
                match array {
                    // SAFETY: the range is inside the tensor, as was just checked, and apart from the array's own
                    // memory. The caller answers for others.
                    $(Array::$variant(from) => unsafe {
                        let to = self.start().wrapping_add(first * size);
                        std::ptr::copy_nonoverlapping(from.as_ptr().cast::<u8>(), to, from.len() * size);
                    },)*
                }
            };
        }
        copy!(F32 F16 BF16 F64 I64 I32 I16 I8 U64 U32 U16 U8 Bool);
    }
}

/// An operation with its operands.
#[derive(Debug)]
struct Bound {
    op: Arc<TensorOp>,
    inputs: Vec<Dense>,
    output: Dense,
    /// Of one block.
    outputs: usize,
}

impl Bound {
    /// Blocks write their parts of the output while others read, so nothing that is read may lie in it.
    fn check_apart(&self) -> Result<()> {
        let written = self.output.addresses();
        let meets = |read: &Dense| {
            let read = read.addresses();
            read.start.max(written.start) < read.end.min(written.end)
        };
        match self.inputs.iter().any(meets) {
            true => Err(Error::Invalid("cpu: the output overlaps what is read".into())),
            false => Ok(()),
        }
    }

    /// As [`run`](Self::run), of products of matrices.
    fn multiply(&self, matrices: &Matrices, block: &mut Block<'_>) -> Outcome {
        let (stop, index) = (StopToken::of(block), block.index as usize);
        let order = [matrices.left, 1 - matrices.left];
        // SAFETY: as in `run`.
        let inputs = order.map(|input| unsafe { self.inputs[input].singles() });
        let scratch = block.scratch(matrices.scratch());
        if !matrices.compute(index, inputs, scratch, stop) {
            return Outcome::Stopped;
        }
        matrices.commit(index, scratch, |first, sums| {
            let to = self.output.start().cast::<f32>();
            assert!(first + sums.len() <= self.output.spec.elements(), "outputs are inside");
            // SAFETY: inside of the output, which overlaps nothing that is read; blocks write disjoint elements.
            unsafe { std::ptr::copy_nonoverlapping(sums.as_ptr(), to.add(first), sums.len()) };
        });
        Outcome::Done
    }

    /// As [`run`](Self::run), of formulas of singles.
    fn run_formula(&self, vectors: &Vectors, block: &mut Block<'_>) -> Outcome {
        if StopToken::of(block).seen() {
            return Outcome::Stopped;
        }
        let range = self.range(block, vectors.outputs);
        // SAFETY: as in `run`.
        let inputs: Vec<_> = self.inputs.iter().map(|input| unsafe { input.singles() }).collect();
        // SAFETY: blocks write disjoint ranges of the output, which overlaps nothing that is read.
        let to = unsafe { self.output.singles_mut(range.clone()) };
        vectors.compute(&inputs, range.start, block.scratch(vectors.scratch()), to);
        Outcome::Done
    }

    /// As [`run`](Self::run), of the first `N` inputs, which are singles: `make` fills memory with the outputs from the
    /// first one on, unless it was stopped.
    fn run_singles<const N: usize>(
        &self,
        outputs: usize,
        block: &mut Block<'_>,
        make: impl FnOnce([&[f32]; N], usize, &mut [f32], StopToken<'_>) -> bool,
    ) -> Outcome {
        let (stop, range) = (StopToken::of(block), self.range(block, outputs));
        // SAFETY: as in `run`.
        let inputs = std::array::from_fn(|k| unsafe { self.inputs[k].singles() });
        let made = block.scratch(range.len());
        if !make(inputs, range.start, made, stop) {
            return Outcome::Stopped;
        }
        // SAFETY: blocks write disjoint ranges of the output, which overlaps nothing that is read.
        unsafe { self.output.singles_mut(range) }.copy_from_slice(made);
        Outcome::Done
    }

    /// The outputs of a block, if each makes as many as said.
    fn range(&self, block: &Block<'_>, outputs: usize) -> Range<usize> {
        let first = block.index as usize * outputs;
        first..self.output.spec.elements().min(first + outputs)
    }

    fn run(&self, block: &mut Block<'_>) -> Outcome {
        let (stop, range) = (StopToken::of(block), self.range(block, self.outputs));
        // SAFETY: the block has borrowed the buffers, and no block of this launch writes what is read.
        let inputs: Vec<_> = self.inputs.iter().map(|input| unsafe { input.values() }).collect();
        let outputs = self.op.compute_checked(&inputs, range.clone(), &|| stop.seen());
        let Some(outputs) = outputs.filter(|_| !stop.seen()) else { return Outcome::Stopped };
        // SAFETY: blocks write disjoint ranges of the output, which overlaps nothing that is read.
        unsafe { self.output.write(range.start, &outputs) };
        Outcome::Done
    }
}

#[cfg(test)]
mod tests;
