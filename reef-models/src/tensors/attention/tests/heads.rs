//! Networks that are one attention, written in all ways.

use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::tensors::builder::Builder;
use crate::tensors::model::TensorModel;
use crate::tensors::value::Value;
use proptest::prelude::*;
use reef_op::tensor::{Array, Binary, Element, Spec, Truth, Unary};

/// Attention of heads to a text of `texts` rows of tokens.
#[derive(Debug, Clone)]
pub(super) struct Heads {
    pub(super) texts: usize,
    pub(super) heads: usize,
    /// Number of heads that have keys and values of their own; a divisor of `heads`.
    pub(super) key_heads: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    pub(super) depth: usize,
    pub(super) width: usize,
    /// Place of the scale: queries, keys, both, scores before or after what is added.
    pub(super) scale: u8,
    /// No mask, added for each text, added for all, chosen, chosen if not, two of them, chosen and
    /// expanded.
    pub(super) mask: u8,
    /// Number of masked keys of each text.
    pub(super) masked: usize,
    /// Rows that are not numbers are 0.
    pub(super) none_is_zero: bool,
    /// The result's heads side by side.
    pub(super) together: bool,
    /// Queries, keys and values lie in one tensor.
    pub(super) packed: bool,
}

pub(super) const NEVER: f32 = f32::NEG_INFINITY;

impl Heads {
    /// Heads of `x` as `[texts, heads, tokens, size]`, or keys turned.
    fn split(&self, b: &mut Builder<'_>, x: &Value, heads: usize, turned: bool) -> Value {
        let [tokens, all] = [x.dims()[1], x.dims()[2]];
        let parts = b.reshape(x, vec![self.texts, tokens, heads, all / heads]).unwrap();
        b.transpose(&parts, if turned { &[0, 2, 3, 1] } else { &[0, 2, 1, 3] }).unwrap()
    }

    /// Heads that several share, once for each of them.
    fn repeated(&self, b: &mut Builder<'_>, x: &Value) -> Value {
        let [n, heads, rows, columns] = x.dims().try_into().unwrap();
        let times = self.heads / heads;
        let one = b.reshape(x, vec![n, heads, 1, rows, columns]).unwrap();
        let all = b.expand(&one, &[n, heads, times, rows, columns]).unwrap();
        b.reshape(&all, vec![n, heads * times, rows, columns]).unwrap()
    }

    /// Queries, keys (turned) and values by heads.
    fn operands(&self, b: &mut Builder<'_>) -> [Value; 3] {
        let input = |b: &mut Builder<'_>, name: &str, tokens, size| {
            let dims = vec![self.texts, tokens, size];
            b.input(name, Spec { element: Element::F32, dims }).unwrap()
        };
        if self.packed {
            let all = input(b, "qkv", self.keys, 3 * self.heads * self.depth);
            let dims = vec![self.texts, self.keys, 3, self.heads, self.depth];
            let parts = b.reshape(&all, dims).unwrap();
            let turned = b.transpose(&parts, &[2, 0, 3, 1, 4]).unwrap();
            return [0, 1, 2].map(|k| {
                let one = b.cut(&turned, 0, k, k + 1).unwrap();
                let one = b.reshape(&one, one.dims()[1..].to_vec()).unwrap();
                if k == 1 { b.transpose(&one, &[0, 1, 3, 2]).unwrap() } else { one }
            });
        }
        let q = input(b, "q", self.queries, self.heads * self.depth);
        let k = input(b, "k", self.keys, self.key_heads * self.depth);
        let v = input(b, "v", self.keys, self.key_heads * self.width);
        let q = self.split(b, &q, self.heads, false);
        let [k, v] = [(k, true), (v, false)].map(|(x, turned)| {
            let x = self.split(b, &x, self.key_heads, turned);
            self.repeated(b, &x)
        });
        [q, k, v]
    }

    fn mask(&self, b: &mut Builder<'_>, scores: &Value) -> Value {
        let free = self.keys - self.masked;
        let sizes = match self.mask {
            1 | 5 => vec![self.texts, 1, 1, self.keys],
            2 => vec![self.heads, self.queries, self.keys],
            _ => vec![self.texts, 1, self.queries, self.keys],
        };
        let count: usize = sizes.iter().product();
        let open = |i: usize| i % self.keys < free;
        let added = |i: usize| if open(i) { (i % 7) as f32 * 0.25 } else { NEVER };
        let truths =
            |keep: bool| Array::Bool((0..count).map(|i| Truth((open(i) == keep).into())).collect());
        match self.mask {
            0 => scores.clone(),
            1 | 2 | 5 => {
                let mask = b.constant(sizes, Array::F32((0..count).map(added).collect())).unwrap();
                let made = b.binary(Binary::Add, scores, &mask).unwrap();
                if self.mask != 5 {
                    return made;
                }
                let bias = (0..self.queries * self.keys).map(|i| (i % 5) as f32 - 2.0).collect();
                let bias =
                    b.constant(vec![1, 1, self.queries, self.keys], Array::F32(bias)).unwrap();
                // Texts and heads as one axis, and back.
                let flat = b
                    .reshape(&made, vec![1, self.texts * self.heads, self.queries, self.keys])
                    .unwrap();
                let made = b.binary(Binary::Add, &bias, &flat).unwrap();
                b.reshape(&made, scores.dims().to_vec()).unwrap()
            }
            what => {
                let keep = what != 4;
                let mut mask = b.constant(sizes, truths(keep)).unwrap();
                if what == 6 {
                    // A condition that is made at run time, and expanded.
                    let flags = b.input(
                        "flags",
                        Spec { element: Element::F32, dims: vec![self.texts, 1, 1, self.keys] },
                    );
                    let flags = b.cast(&flags.unwrap(), Element::Bool).unwrap();
                    mask = b.expand(&flags, scores.dims()).unwrap();
                }
                b.map(Element::F32, &[&mask, scores], |w| {
                    let (which, x, other) = (w.input(0), w.input(1), w.real(NEVER));
                    if keep { w.select(which, x, other) } else { w.select(which, other, x) }
                })
                .unwrap()
            }
        }
    }

    fn build(&self, b: &mut Builder<'_>) -> Value {
        let [mut q, mut k, v] = self.operands(b);
        let factor = 1.0 / (self.depth as f64).sqrt();
        let powers = match self.scale {
            0 => [1.0, 0.0],
            1 => [0.0, 1.0],
            2 => [0.5, 0.5],
            _ => [0.0, 0.0],
        };
        if powers[0] > 0.0 {
            q = b.with_number(Binary::Mul, &q, factor.powf(powers[0])).unwrap();
        }
        if powers[1] > 0.0 {
            k = b.with_number(Binary::Div, &k, factor.powf(-powers[1])).unwrap();
        }
        let mut scores = b.matmul(&q, &k).unwrap();
        if self.scale == 3 {
            scores = b.with_number(Binary::Mul, &scores, factor).unwrap();
        }
        scores = self.mask(b, &scores);
        if self.scale == 4 {
            scores = b.with_number(Binary::Div, &scores, 1.0 / factor).unwrap();
        }
        let axis = scores.rank() - 1;
        let mut weights = b.softmax(&scores, &[axis], false).unwrap();
        if self.none_is_zero {
            weights = b
                .map(Element::F32, &[&weights], |w| {
                    let x = w.input(0);
                    let (none, zero) = (w.un(Unary::IsNan, x), w.real(0.0));
                    w.select(none, zero, x)
                })
                .unwrap();
        }
        let made = b.matmul(&weights, &v).unwrap();
        if !self.together {
            return made;
        }
        let made = b.transpose(&made, &[0, 2, 1, 3]).unwrap();
        let [n, rows, heads, width] = made.dims().try_into().unwrap();
        b.reshape(&made, vec![n, rows, heads * width]).unwrap()
    }

    pub(super) fn model(&self) -> TensorModel {
        let ledger = Ledger::new(&Budget::new(1 << 30));
        let mut b = Builder::new(&ledger);
        let made = self.build(&mut b);
        b.finish("m", vec![("y".into(), made)]).unwrap()
    }
}

pub(super) fn heads() -> Heads {
    Heads {
        texts: 2,
        heads: 3,
        key_heads: 3,
        queries: 5,
        keys: 7,
        depth: 4,
        width: 6,
        scale: 3,
        mask: 1,
        masked: 2,
        none_is_zero: false,
        together: true,
        packed: false,
    }
}

pub(super) fn any_heads() -> impl Strategy<Value = Heads> {
    let sizes = (1..3usize, 1..4usize, 1..6usize, 2..9usize, 1..5usize, 1..7usize);
    let ways =
        (0..5u8, 0..7u8, 0..9usize, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (sizes, ways).prop_map(|((texts, heads, queries, keys, depth, width), ways)| {
        let (scale, mask, masked, none_is_zero, together, packed, shared) = ways;
        let (queries, width) = if packed { (keys, depth) } else { (queries, width) };
        let key_heads = if shared && !packed { 1 } else { heads };
        let masked = masked.min(keys);
        Heads {
            texts,
            heads,
            key_heads,
            queries,
            keys,
            depth,
            width,
            scale,
            mask,
            masked,
            none_is_zero,
            together,
            packed,
        }
    })
}
