//! Tensors as blocks read and write them.

use crate::kernels::blocks::operand_layout::OperandMemory;
use crate::memory::buffer::Buffer;
use reef_core::Result;
use reef_op::tensor::{Array, Brain, Element, Half, Spec, Truth, Values};
use std::ops::Range;

/// A dense tensor in memory, which was checked to hold it.
#[derive(Debug, Clone)]
pub(super) struct Dense {
    buffer: Buffer,
    offset: usize,
    pub(super) spec: Spec,
    /// Number of elements, kept because blocks read it often.
    elements: usize,
}

impl Dense {
    pub(super) fn new(place: &OperandMemory, spec: &Spec) -> Result<Self> {
        place.check(spec.bytes())?;
        let (buffer, elements) = (place.buffer.clone(), spec.elements());
        Ok(Self { buffer, offset: place.offset, spec: spec.clone(), elements })
    }

    fn start(&self) -> *mut u8 {
        self.buffer.as_ptr().wrapping_add(self.offset)
    }

    pub(super) fn addresses(&self) -> Range<usize> {
        let start = self.start().addr();
        start..start + self.spec.bytes()
    }

    /// All its elements.
    ///
    /// # Safety
    ///
    /// No other thread writes them while the values live.
    pub(super) unsafe fn values(&self) -> Values<'_> {
        let len = self.elements;
        macro_rules! slice {
            ($variant:ident, $kind:ty) => {
                // SAFETY: `new` found as many elements inside the buffer, which is initialised; the
                // offset is aligned, and each of these types has a value for all bits. No other
                // thread writes them while the values live: `values` demands it.
                Values::$variant(unsafe {
                    std::slice::from_raw_parts(self.start().cast::<$kind>(), len)
                })
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
    /// Like [`values`](Self::values).
    pub(super) unsafe fn singles(&self) -> &[f32] {
        assert_eq!(self.spec.element, Element::F32, "singles");
        // SAFETY: `new` found as many elements inside the buffer, aligned. No other thread writes
        // them while the slice lives: `singles` demands it.
        unsafe { std::slice::from_raw_parts(self.start().cast::<f32>(), self.elements) }
    }

    /// Elements of `range`, which are singles.
    ///
    /// # Safety
    ///
    /// No other thread reads or writes them while the slice lives.
    #[expect(
        clippy::mut_from_ref,
        reason = "the memory is the buffer's, and the caller answers for it"
    )]
    pub(super) unsafe fn singles_mut(&self, range: Range<usize>) -> &mut [f32] {
        let inside = range.start <= range.end && range.end <= self.elements;
        assert!(inside && self.spec.element == Element::F32, "{range:?} of {}", self.spec);
        // SAFETY: inside of the buffer, as was just checked, and aligned. No other thread reads or
        // writes the range while the slice lives: `singles_mut` demands it.
        unsafe {
            let start = self.start().cast::<f32>().wrapping_add(range.start);
            std::slice::from_raw_parts_mut(start, range.len())
        }
    }

    /// Copies singles over the elements from `first` on, which are singles.
    ///
    /// # Safety
    ///
    /// Like [`write`](Self::write).
    pub(super) unsafe fn write_singles(&self, first: usize, singles: &[f32]) {
        let inside = first + singles.len() <= self.elements;
        assert!(inside && self.spec.element == Element::F32, "{first} and on of {}", self.spec);
        let to = self.start().cast::<f32>().wrapping_add(first);
        // SAFETY: inside of the tensor, as was just checked, and apart from `singles`. No other
        // thread reads or writes it meanwhile: `write_singles` demands it.
        unsafe { std::ptr::copy_nonoverlapping(singles.as_ptr(), to, singles.len()) };
    }

    /// Copies `array` over the elements from `first` on.
    ///
    /// # Safety
    ///
    /// No other thread reads or writes them meanwhile.
    pub(super) unsafe fn write(&self, first: usize, array: &Array) {
        let size = self.spec.element.bytes();
        assert!(array.element() == self.spec.element && first + array.len() <= self.elements);
        macro_rules! copy {
            ($($variant:ident)*) => {
                match array {
                    // SAFETY: the range is inside the tensor, as was just checked, and apart from
                    // the array's own memory. No other thread reads or writes it meanwhile: `write`
                    // demands it.
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
