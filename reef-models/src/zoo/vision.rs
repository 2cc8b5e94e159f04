//! Vision transformers: an image is cut into squares, each of which is a token.
//!
//! Layers and tensors are those of torchvision's `VisionTransformer`.

use super::range::{MAX_SIZE, in_range};
use super::transformer::attention::Heads;
use super::transformer::layers::{Layers, as_it_is};
use crate::errors::error::{Error, Result as ModelResult};
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::model::tensor::Kind;
use crate::model::tensors::Tensors;
use crate::tensors::axes::Result;
use crate::tensors::builder::Builder;
use crate::tensors::expressions::Writer;
use crate::tensors::model::TensorModel;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Element, Spec, View};

/// Added to variances.
const EPSILON: f64 = 1e-6;
const COLOURS: usize = 3;

/// Sizes of a network.
#[derive(Debug, Clone, Copy)]
struct Vision {
    /// Rows and columns of an image.
    size: usize,
    /// Rows and columns of a square.
    square: usize,
    layers: usize,
    heads: usize,
    /// Numbers that stand for a token.
    width: usize,
    /// Of the wide linear layer.
    inner: usize,
    classes: usize,
}

const B_16: Vision =
    Vision { size: 224, square: 16, layers: 12, heads: 12, width: 768, inner: 3072, classes: 1000 };

/// Builds ViT-B/16 for `batch` images of 224 rows and columns, the only size that its positions
/// fit.
pub(super) fn vit_b_16(
    size: Option<usize>,
    batch: usize,
    tensors: Tensors,
) -> ModelResult<TensorModel> {
    let name = "vit_b_16";
    in_range(name, "batch", batch, 1..=MAX_SIZE)?;
    in_range(name, "input size", size.unwrap_or(B_16.size), B_16.size..=B_16.size)?;
    // Nothing grows with a file: what was read is taken from where it is.
    let ledger = Ledger::new(&Budget::new(u64::MAX));
    let made = B_16.build(name, batch, tensors, Builder::new(&ledger));
    made.map_err(|why| Error::Tensor { why: format!("{name}: {why}") })
}

impl Vision {
    fn build(
        &self,
        name: &str,
        images: usize,
        tensors: Tensors,
        b: Builder<'_>,
    ) -> Result<TensorModel> {
        let mut l = Layers { b, tensors, epsilon: EPSILON };
        let dims = vec![images, COLOURS, self.size, self.size];
        let image = l.b.input("input", Spec { element: Element::F32, dims })?;
        let mut x = self.tokens(&mut l, &image)?;
        for number in 0..self.layers {
            x = self.layer(&mut l, number, &x, images)?;
        }
        let first = (0..images).map(|image| image * self.length()).collect();
        let x = l.b.pick_axis(&x, 0, first)?;
        let x = l.normalised("encoder.ln", &x)?;
        let logits = l.linear("heads.head", &x, self.classes, None, as_it_is)?;
        l.b.finish(name, vec![("logits".into(), logits)])
    }

    /// Squares along a side.
    fn side(&self) -> usize {
        self.size / self.square
    }

    /// Tokens of an image: its class and its squares.
    fn length(&self) -> usize {
        1 + self.side() * self.side()
    }

    /// A row for each token of each image: what it is and where.
    fn tokens(&self, l: &mut Layers<'_>, image: &Value) -> Result<Value> {
        let (images, width, length) = (image.dims()[0], self.width, self.length());
        let squares = self.squares(l, image)?;
        let class = l.tensor("class_token".into(), Kind::Bias, vec![1, 1, width])?;
        let class = l.b.expand(&class, &[images, 1, width])?;
        let all = l.b.concat(&[&class, &squares], 1)?;
        let at = "encoder.pos_embedding".into();
        let positions = l.tensor(at, Kind::Bias, vec![1, length, width])?;
        let x = l.b.binary(Binary::Add, &all, &positions)?;
        l.b.reshape(&x, vec![images * length, width])
    }

    /// A row for each square: a convolution whose windows lie side by side.
    fn squares(&self, l: &mut Layers<'_>, image: &Value) -> Result<Value> {
        let (images, width, side) = (image.dims()[0], self.width, self.side());
        let (square, size) = (self.square, self.size);
        let fan_in = COLOURS * square * square;
        let dims = vec![width, COLOURS, square, square];
        let weight = l.tensor("conv_proj.weight".into(), Kind::Weight { fan_in }, dims)?;
        let bias = l.tensor("conv_proj.bias".into(), Kind::Bias, vec![width])?;
        let dims = vec![images, side, side, width];
        let kept = [[COLOURS * size * size, square * size, square, 0], [0, 0, 0, fan_in]];
        let kept = kept.map(|strides| View { dims: dims.clone(), strides: strides.into() });
        let summed = [[size * size, size, 1], [square * square, square, 1]];
        let window = vec![COLOURS, square, square];
        let summed = summed.map(|strides| View { dims: window.clone(), strides: strides.into() });
        let x = l.b.contract([image, &weight], kept, summed, dims, Element::F32)?;
        let x = l.b.binary(Binary::Add, &x, &bias)?;
        l.b.reshape(&x, vec![images, side * side, width])
    }

    fn layer(&self, l: &mut Layers<'_>, number: usize, x: &Value, images: usize) -> Result<Value> {
        let width = self.width;
        let module = |part: &str| format!("encoder.layers.encoder_layer_{number}.{part}");
        let normal = l.normalised(&module("ln_1"), x)?;
        let names = ["in_proj_weight", "in_proj_bias"];
        let names = names.map(|part| module(&format!("self_attention.{part}")));
        let all = l.linear_of(names, &normal, 3 * width, None, as_it_is)?;
        let mut part = |k: usize| l.b.cut(&all, 1, k * width, (k + 1) * width);
        let parts = [part(0)?, part(1)?, part(2)?];
        let columns = width / self.heads;
        let heads = Heads { texts: images, tokens: self.length(), heads: self.heads, columns };
        let seen = heads.attend(&mut l.b, parts.each_ref(), None)?;
        let mix = module("self_attention.out_proj");
        let x = l.linear(&mix, &seen, width, Some(x), as_it_is)?;
        let normal = l.normalised(&module("ln_2"), &x)?;
        let inner = l.linear(&module("mlp.0"), &normal, self.inner, None, Writer::gelu)?;
        l.linear(&module("mlp.3"), &inner, width, Some(&x), as_it_is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::seeded::Seeded;
    use reef_op::tensor::Array;

    const SEED: Seeded = Seeded(5);

    /// Of torchvision's `VisionTransformer`: `tools/vision.py golden`.
    const GOLDEN: [f32; 10] = [
        -1.360_585_5,
        -1.514_273_3,
        1.883_037_7,
        0.078_279_2,
        1.641_086_6,
        0.636_497_26,
        -0.532_812_8,
        3.360_250_5,
        0.304_596_42,
        0.600_035_97,
    ];

    #[test]
    fn logits_are_those_of_torchvision() {
        let (layers, heads, width, inner) = (2, 2, 16, 24);
        let small = Vision { size: 12, square: 4, layers, heads, width, inner, classes: 5 };
        let ledger = Ledger::new(&Budget::default());
        let model = small.build("small", 2, Tensors::Seeded(SEED), Builder::new(&ledger)).unwrap();
        let pixel = |k: usize| (k * 37 % 101) as f32 / 50.0 - 1.0;
        let images = Array::F32((0..2 * COLOURS * 12 * 12).map(pixel).collect());
        let made = model.execute(&[images]).unwrap();
        let Array::F32(logits) = &made[0] else { panic!("{made:?}") };
        assert_eq!(logits.len(), GOLDEN.len());
        let close = |(have, want): (&f32, &f32)| (have - want).abs() < 1e-5;
        assert!(logits.iter().zip(&GOLDEN).all(close), "{logits:?}");
    }

    /// As torchvision counts them: 86,567,656.
    #[test]
    fn base_size_has_its_parameters_and_one_size_of_images() {
        let model = vit_b_16(None, 2, Tensors::Seeded(SEED)).unwrap();
        assert_eq!(model.parameters(), 86_567_656);
        assert_eq!(model.inputs[0].spec.dims, [2, 3, 224, 224]);
        assert_eq!(model.outputs[0].spec.dims, [2, 1000]);
        let said = vit_b_16(Some(32), 1, Tensors::Seeded(SEED)).unwrap_err().to_string();
        assert_eq!(said, "vit_b_16: input size 32, possible are 224 to 224");
        let said = vit_b_16(None, 1, Tensors::Read(Default::default())).unwrap_err().to_string();
        assert_eq!(said, "vit_b_16: no tensor \"conv_proj.weight\"");
    }
}
