//! Functions of a value before it is stored, as kernels/activation.h is told.

use reef_op::Function;

/// `Work` in kernels/activation.h.
#[derive(Debug, Clone, Copy)]
#[repr(u32)]
pub(super) enum Work {
    Clamp = 0,
    HardSigmoid,
    HardSwish,
    Sigmoid,
    Swish,
    Product,
}

/// `Activation` there.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct ActivationParams {
    work: u32,
    low: f32,
    high: f32,
}

impl ActivationParams {
    pub(super) fn of(function: Function) -> Self {
        match function {
            Function::Clamp(bounds) => Self::clamp(bounds.low(), bounds.high()),
            Function::HardSigmoid => Self::work(Work::HardSigmoid),
            Function::HardSwish => Self::work(Work::HardSwish),
            Function::Sigmoid => Self::work(Work::Sigmoid),
            Function::Swish => Self::work(Work::Swish),
        }
    }

    /// Parameters after an operation that has one of the two at most.
    pub(super) fn behind(relu: bool, function: Option<Function>) -> Self {
        match function {
            Some(function) => Self::of(function),
            None => Self::clamp(if relu { 0.0 } else { f32::NEG_INFINITY }, f32::INFINITY),
        }
    }

    /// Returns the function of values that are counted in this scale: bounds are. Other functions
    /// than bounds have no such form.
    pub(super) fn counted_in(self, scale: f32) -> Self {
        Self { low: self.low / scale, high: self.high / scale, ..self }
    }

    pub(super) fn work(work: Work) -> Self {
        Self { work: work as u32, ..Self::clamp(0.0, 0.0) }
    }

    fn clamp(low: f32, high: f32) -> Self {
        Self { work: Work::Clamp as u32, low, high }
    }
}
