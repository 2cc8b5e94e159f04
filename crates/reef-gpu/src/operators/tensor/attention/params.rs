//! Parameters that kernels of kernels/attention.h take after the guard, field by field.

use crate::operators::params::Params;
use crate::operators::tensor::plan::Plan;
use reef_op::tensor::View;

/// `Places` there: how far it is from one to the next, or which view of the plan says where they
/// are.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PlacesParams {
    pub(super) step: u32,
    pub(super) view: u32,
}

impl PlacesParams {
    pub(super) fn of(view: &View, plan: &mut Plan) -> Self {
        let (step, view) = plan.step_or_view(view);
        Self { step, view }
    }
}

/// `AttentionSide` there: queries, keys or values.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SideParams {
    pub(super) data: u64,
    pub(super) group: PlacesParams,
    pub(super) row: PlacesParams,
}

/// `ScoreCode` there: what a step does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Code {
    Scale,
    AddInput,
    Choose,
}

/// `ScoreStep` there.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ScoreParams {
    pub(super) input: u64,
    pub(super) code: u32,
    pub(super) number: f32,
    pub(super) group: PlacesParams,
    pub(super) row: PlacesParams,
    pub(super) key: u32,
    pub(super) keep: u32,
}

/// `SCORE_STEPS` there.
pub(super) const STEPS: usize = 4;

/// `Attention` there.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct AttentionParams {
    pub(super) sides: [SideParams; 3],
    pub(super) steps: [ScoreParams; STEPS],
    pub(super) output: u64,
    pub(super) plan: u64,
    pub(super) output_group: PlacesParams,
    pub(super) output_row: PlacesParams,
    pub(super) rows: u32,
    pub(super) keys: u32,
    pub(super) depth: u32,
    pub(super) width: u32,
    pub(super) tiles: u32,
    pub(super) count: u32,
    pub(super) wide: u32,
    pub(super) fours: u32,
    pub(super) none_is_zero: u32,
    pub(super) halves: u32,
}

// SAFETY: `repr(C)`; each part is a multiple of 8 bytes, in which those of 4 bytes come in pairs
// behind those of 8.
unsafe impl Params for AttentionParams {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_padded() {
        assert_eq!((size_of::<SideParams>(), size_of::<ScoreParams>()), (24, 40));
        assert_eq!(size_of::<AttentionParams>(), 3 * 24 + STEPS * 40 + 2 * 8 + 14 * 4);
    }
}
