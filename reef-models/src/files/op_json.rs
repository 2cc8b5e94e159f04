//! The JSON form of operations.
//!
//! ```json
//! {"conv2d": {
//!     "input":  {"batch": 1, "channels": 3, "height": 224, "width": 224,
//!                "layout": "nchw", "first": 0, "of": 3},
//!     "output": {"batch": 1, "channels": 64, "height": 112, "width": 112,
//!                "layout": "native", "first": 0, "of": 64},
//!     "window": {"size": [7, 7], "stride": [2, 2], "padding": [3, 3]},
//!     "groups": 1, "residual": false, "relu": true}}
//! ```
//!
//! The others are `pool2d` (with a `kind`: `max` or `average`), `scale_shift`, `linear`, `activate`
//! (with a `function`: `{"clamp": {"low": 0.0, "high": 6.0}}`, where `null` bounds nothing,
//! `"hard_sigmoid"`, `"hard_swish"`, `"sigmoid"` or `"swish"`) and `multiply` (with a `factor`,
//! which is a tensor). `conv2d` and `linear` may have a `function` too. These types only mirror
//! those of [`reef_op`], field by field.

use reef_op::{
    Activate, Bounds, Conv2d, Function, Layout, Linear, Multiply, Op, Pool2d, PoolKind, Quantized,
    ScaleShift, Tensor, Window,
};
use serde::{Deserialize, Serialize};

/// An operation as it stands in a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OpEntry(#[serde(with = "OpForm")] pub(crate) Op);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Op", rename_all = "snake_case")]
enum OpForm {
    Conv2d(#[serde(with = "Conv2dForm")] Conv2d),
    Pool2d(#[serde(with = "Pool2dForm")] Pool2d),
    ScaleShift(#[serde(with = "ScaleShiftForm")] ScaleShift),
    Linear(#[serde(with = "LinearForm")] Linear),
    Activate(#[serde(with = "ActivateForm")] Activate),
    Multiply(#[serde(with = "MultiplyForm")] Multiply),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Conv2d", deny_unknown_fields)]
struct Conv2dForm {
    #[serde(with = "TensorForm")]
    input: Tensor,
    #[serde(with = "TensorForm")]
    output: Tensor,
    #[serde(with = "WindowForm")]
    window: Window,
    groups: usize,
    residual: bool,
    relu: bool,
    #[serde(default, with = "after", skip_serializing_if = "Option::is_none")]
    function: Option<Function>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Pool2d", deny_unknown_fields)]
struct Pool2dForm {
    #[serde(with = "PoolKindForm")]
    kind: PoolKind,
    #[serde(with = "TensorForm")]
    input: Tensor,
    #[serde(with = "TensorForm")]
    output: Tensor,
    #[serde(with = "WindowForm")]
    window: Window,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ScaleShift", deny_unknown_fields)]
struct ScaleShiftForm {
    #[serde(with = "TensorForm")]
    input: Tensor,
    #[serde(with = "TensorForm")]
    output: Tensor,
    relu: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Linear", deny_unknown_fields)]
struct LinearForm {
    #[serde(with = "TensorForm")]
    input: Tensor,
    #[serde(with = "TensorForm")]
    output: Tensor,
    relu: bool,
    #[serde(default, with = "after", skip_serializing_if = "Option::is_none")]
    function: Option<Function>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Activate", deny_unknown_fields)]
struct ActivateForm {
    #[serde(with = "TensorForm")]
    input: Tensor,
    #[serde(with = "TensorForm")]
    output: Tensor,
    #[serde(with = "FunctionForm")]
    function: Function,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Multiply", deny_unknown_fields)]
struct MultiplyForm {
    #[serde(with = "TensorForm")]
    input: Tensor,
    #[serde(with = "TensorForm")]
    factor: Tensor,
    #[serde(with = "TensorForm")]
    output: Tensor,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Function", rename_all = "snake_case")]
enum FunctionForm {
    Clamp(#[serde(with = "bounds")] Bounds),
    HardSigmoid,
    HardSwish,
    Sigmoid,
    Swish,
}

/// A function that an operation may have.
mod after {
    use super::{Function, FunctionForm};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Entry(#[serde(with = "FunctionForm")] Function);

    pub(super) fn serialize<S: Serializer>(
        function: &Option<Function>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        function.map(Entry).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Function>, D::Error> {
        Ok(Option::<Entry>::deserialize(from)?.map(|Entry(function)| function))
    }
}

/// Infinite bounds, which JSON has no numbers for, are `null`.
mod bounds {
    use super::Bounds;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Entry {
        low: Option<f32>,
        high: Option<f32>,
    }

    pub(super) fn serialize<S: Serializer>(bounds: &Bounds, to: S) -> Result<S::Ok, S::Error> {
        let finite = |bound: f32| Some(bound).filter(|bound| bound.is_finite());
        Entry { low: finite(bounds.low()), high: finite(bounds.high()) }.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bounds, D::Error> {
        let Entry { low, high } = Entry::deserialize(from)?;
        let (low, high) = (low.unwrap_or(f32::NEG_INFINITY), high.unwrap_or(f32::INFINITY));
        let inverted = || D::Error::custom(format_args!("no values from {low} to {high}"));
        Bounds::new(low, high).ok_or_else(inverted)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PoolKind", rename_all = "snake_case")]
enum PoolKindForm {
    Max,
    Average,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Window", deny_unknown_fields)]
struct WindowForm {
    size: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Tensor", deny_unknown_fields)]
struct TensorForm {
    batch: usize,
    channels: usize,
    height: usize,
    width: usize,
    #[serde(with = "LayoutForm")]
    layout: Layout,
    first: usize,
    of: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Layout", rename_all = "snake_case")]
enum LayoutForm {
    Nchw,
    Native,
    /// Scales have a file of their own.
    #[serde(skip)]
    Quantized(Quantized),
}
