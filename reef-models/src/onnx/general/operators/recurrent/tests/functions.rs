//! Functions that nodes name, with the parameters that these tests give to all.

pub(super) const ALPHA: f32 = 0.3;
pub(super) const BETA: f32 = 0.6;

pub(super) fn function(name: &str, x: f32) -> f32 {
    match name {
        "Tanh" => x.tanh(),
        "Sigmoid" => 1.0 / (1.0 + (-x).exp()),
        "Relu" => x.max(0.0),
        "affine" => ALPHA * x + BETA,
        "ScaledTanh" => ALPHA * (BETA * x).tanh(),
        "HardSigmoid" => (ALPHA * x + BETA).clamp(0.0, 1.0),
        "LeakyRelu" if x < 0.0 => ALPHA * x,
        "Elu" if x < 0.0 => ALPHA * (x.exp() - 1.0),
        "ThresholdedRelu" if x < ALPHA => 0.0,
        "LeakyRelu" | "Elu" | "ThresholdedRelu" => x,
        "Softsign" => x / (1.0 + x.abs()),
        "Softplus" => x.exp().ln_1p(),
        other => panic!("{other}"),
    }
}
