//! What kernels of kernels/attention.h take behind the guard, field by field.

use crate::operators::params::Params;

/// `AttentionSide` there: queries, keys or values.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SideParams {
    pub(super) data: u64,
    pub(super) group: u32,
    pub(super) row: u32,
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
    pub(super) group: u32,
    pub(super) row: u32,
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
    pub(super) output_group: u32,
    pub(super) output_row: u32,
    pub(super) rows: u32,
    pub(super) keys: u32,
    pub(super) depth: u32,
    pub(super) width: u32,
    pub(super) tiles: u32,
    pub(super) count: u32,
    pub(super) wide: u32,
    pub(super) none_is_zero: u32,
}

// SAFETY: `repr(C)`; each part is a multiple of 8 bytes, in which those of 4 bytes come in pairs behind those of 8.
unsafe impl Params for AttentionParams {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_padded() {
        assert_eq!((size_of::<SideParams>(), size_of::<ScoreParams>()), (16, 32));
        assert_eq!(size_of::<AttentionParams>(), 3 * 16 + STEPS * 32 + 2 * 8 + 10 * 4);
    }
}
