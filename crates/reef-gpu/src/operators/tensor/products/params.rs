//! Parameters that kernels of kernels/product.h and few.h take after the guard, field by field.

use crate::operators::params::Params;

/// `ProductSide` there: rows, or columns.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SideParams {
    pub(super) data: u64,
    pub(super) step: u32,
    pub(super) view: u32,
    pub(super) batch_step: u32,
    pub(super) batch_view: u32,
    pub(super) term_step: u32,
    pub(super) input: u32,
    pub(super) along: u32,
    pub(super) wide: u32,
}

/// `AfterCode` there: what a step does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Code {
    AddOperand = 1,
    MulOperand,
    AddNumber,
    MulNumber,
    AtLeast,
    AtMost,
    Gelu,
    GeluByTanh,
}

/// `After` there: one step of what becomes of a sum.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct AfterParams {
    pub(super) operand: u64,
    pub(super) code: u32,
    pub(super) row_step: u32,
    pub(super) column_step: u32,
    pub(super) number: f32,
}

/// `AFTERS` there.
pub(super) const AFTERS: usize = 4;

/// `Product` there.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProductParams {
    pub(super) sides: [SideParams; 2],
    pub(super) after: [AfterParams; AFTERS],
    pub(super) output: u64,
    pub(super) partials: u64,
    pub(super) arrivals: u64,
    pub(super) plan: u64,
    pub(super) rows: u32,
    pub(super) columns: u32,
    pub(super) terms: u32,
    pub(super) table: u32,
    pub(super) across: u32,
    pub(super) down: u32,
    pub(super) slabs: u32,
    pub(super) splits: u32,
    pub(super) fours: u32,
    pub(super) output_row: u32,
    pub(super) output_row_view: u32,
    pub(super) output_batch: u32,
    pub(super) output_batch_view: u32,
    pub(super) halves: u32,
}

impl ProductParams {
    /// The parameters with a plan at this address.
    pub(super) fn with_plan(mut self, plan: u64) -> Self {
        self.plan = plan;
        self
    }
}

// SAFETY: `repr(C)`; each part is a multiple of 8 bytes, in which those of 4 bytes come in pairs
// behind those of 8.
unsafe impl Params for ProductParams {}

/// `PRODUCTS` there: products of a group at most.
pub(super) const PRODUCTS: usize = 3;

/// `ProductGroup` there.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupParams {
    pub(super) of: [ProductParams; PRODUCTS],
    /// The first block of each, and one word that nothing reads.
    pub(super) begins: [u32; PRODUCTS + 1],
}

// SAFETY: `repr(C)`; each `ProductParams` is a multiple of 8 bytes without padding, and the 4 words
// behind them are 16 bytes.
unsafe impl Params for GroupParams {}

/// `FewSide` in kernels/few.h: the few rows, or the many lines.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct FewSideParams {
    pub(super) data: u64,
    pub(super) step: u32,
    pub(super) view: u32,
    pub(super) batch_step: u32,
    pub(super) batch_view: u32,
    pub(super) term_step: u32,
    pub(super) input: u32,
}

/// `Few` there.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct FewParams {
    pub(super) sides: [FewSideParams; 2],
    pub(super) output: u64,
    pub(super) plan: u64,
    pub(super) rows: u32,
    pub(super) lines: u32,
    pub(super) terms: u32,
    pub(super) table: u32,
    pub(super) tiles: u32,
    pub(super) width: u32,
    pub(super) along: u32,
    pub(super) row_step: u32,
    pub(super) line_step: u32,
    pub(super) batch_step: u32,
    pub(super) element: u32,
    pub(super) unused: u32,
}

// SAFETY: `repr(C)`; each `FewSideParams` is 32 bytes without padding, fields of 8 bytes come next,
// then 12 words of 4.
unsafe impl Params for FewParams {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_padded() {
        assert_eq!((size_of::<FewSideParams>(), size_of::<FewParams>()), (32, 2 * 32 + 16 + 48));
        assert_eq!((size_of::<SideParams>(), size_of::<AfterParams>()), (40, 24));
        assert_eq!(size_of::<ProductParams>(), 2 * 40 + AFTERS * 24 + 4 * 8 + 14 * 4);
        assert_eq!(size_of::<GroupParams>(), 3 * size_of::<ProductParams>() + 4 * 4);
    }
}
