//! Weights in numbers of 8 bits.

use reef_op::Format;

/// Returns the values nearest to weights that have numbers, symmetric and by output: the scale of
/// each is that of its largest weight, or of the integers that its weights are. Kernels that take
/// an input of 8 bits multiply by these.
pub(crate) fn nearest(weights: &[f32], outputs: usize, format: Format) -> Vec<f32> {
    let rows = weights.chunks((weights.len() / outputs.max(1)).max(1));
    rows.flat_map(|row| {
        let scale = format.scale_of_all(row);
        row.iter().map(move |&weight| format.nearest(weight / scale) * scale)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_output_has_the_scale_of_its_own_weights() {
        let weights = [1.27, -0.014, 127.0, 0.4, 0.0, 0.0];
        assert_eq!(nearest(&weights, 3, Format::Int8), [1.27, -0.01, 127.0, 0.0, 0.0, 0.0]);
        assert_eq!(nearest(&[448.0, 17.0], 1, Format::Fp8), [448.0, 16.0]);
        assert_eq!(nearest(&[25.0, -8.25, 0.5], 1, Format::Int8), [25.0, -8.25, 0.5], "quarters");
    }
}
