//! Nodes of attention, and loops over batches, heads, queries and keys.

use crate::onnx::general::operators::handmade::{file, float, int, node_of, typed};
use crate::tensors::model::TensorModel;
use crate::{Model, Port};
use reef_op::tensor::{Array, Truth};

/// Sizes of a node, and what it has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) opset: i64,
    pub(super) rank: usize,
    pub(super) batch: usize,
    pub(super) heads: [usize; 2],
    /// Queries, new keys, keys that were there before.
    pub(super) tokens: [usize; 3],
    /// Of queries and keys, and of values.
    pub(super) columns: [usize; 2],
    pub(super) causal: bool,
    pub(super) mask: Mask,
    pub(super) cap: f32,
    /// A number of keys of each batch.
    pub(super) lengths: Option<[i64; 2]>,
    pub(super) mode: i64,
    /// Keys that a query sees before and behind its place; -1 is all.
    pub(super) window: [i64; 2],
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Mask {
    None,
    /// One for all batches and heads.
    Truth,
    /// One for each head, of this number of keys.
    Number(usize),
}

pub(super) const CASE: Case = Case {
    opset: 24,
    rank: 4,
    batch: 2,
    heads: [4, 2],
    tokens: [5, 5, 0],
    columns: [6, 3],
    causal: false,
    mask: Mask::None,
    cap: 0.0,
    lengths: None,
    mode: 0,
    window: [-1, -1],
};

fn number(k: usize, seed: usize) -> f32 {
    ((k * 7919 + seed * 104_729) % 1000) as f32 / 500.0 - 1.0
}

pub(super) fn singles(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|k| number(k, seed)).collect()
}

/// Returns whether the mask of truth values lets a query see a key. No key is seen by query 2.
fn is_kept(query: usize, key: usize) -> bool {
    query != 2 && (query + key) % 3 != 1
}

impl Case {
    pub(super) fn keys(&self) -> usize {
        self.tokens[1] + self.tokens[2]
    }

    pub(super) fn model(&self) -> TensorModel {
        let i = |list: &[usize]| list.iter().map(|&n| n as i64).collect::<Vec<_>>();
        let ([queries, new, past], [heads, shared]) = (self.tokens, self.heads);
        let [columns, width] = self.columns;
        let shape = |heads: usize, tokens: usize, columns: usize| match self.rank {
            3 => i(&[self.batch, tokens, heads * columns]),
            _ => i(&[self.batch, heads, tokens, columns]),
        };
        let mut ends = vec![
            typed(11, "q", 1, &shape(heads, queries, columns)),
            typed(11, "k", 1, &shape(shared, new, columns)),
            typed(11, "v", 1, &shape(shared, new, width)),
        ];
        let mut inputs = vec!["q", "k", "v", "", "", "", ""];
        match self.mask {
            Mask::None => {}
            Mask::Truth => ends.push(typed(11, "mask", 9, &i(&[queries, self.keys()]))),
            Mask::Number(keys) => ends.push(typed(11, "mask", 1, &i(&[heads, queries, keys]))),
        }
        if self.mask != Mask::None {
            inputs[3] = "mask";
        }
        if past > 0 {
            (inputs[4], inputs[5]) = ("past_k", "past_v");
            ends.push(typed(11, "past_k", 1, &i(&[self.batch, shared, past, columns])));
            ends.push(typed(11, "past_v", 1, &i(&[self.batch, shared, past, width])));
        }
        if self.lengths.is_some() {
            inputs[6] = "lengths";
            ends.push(typed(11, "lengths", 7, &i(&[self.batch])));
        }
        let mut said = vec![
            int("is_causal", self.causal.into()),
            float("softcap", self.cap),
            int("qk_matmul_output_mode", self.mode),
            int("left_window_size", self.window[0]),
            int("right_window_size", self.window[1]),
        ];
        if self.rank == 3 {
            said.extend([int("q_num_heads", heads as i64), int("kv_num_heads", shared as i64)]);
        }
        let outputs = ["y", "all_k", "all_v", "shown"];
        ends.extend(outputs.map(|name| typed(12, name, 1, &[])));
        let graph = [vec![node_of("Attention", &inputs, &outputs, &said)], ends].concat();
        let bytes = file(self.opset, &graph);
        let model = Model::from_onnx(&bytes, "a").tensors_only().read().unwrap();
        model.tensors().unwrap().clone()
    }

    pub(super) fn inputs(&self, model: &TensorModel) -> Vec<Array> {
        let made = |(k, port): (usize, &Port)| match port.name.as_str() {
            "mask" if self.mask == Mask::Truth => Array::Bool(
                (0..self.tokens[0] * self.keys())
                    .map(|at| Truth(is_kept(at / self.keys(), at % self.keys()).into()))
                    .collect(),
            ),
            "lengths" => Array::I64(self.lengths.unwrap_or_default().to_vec()),
            _ => Array::F32(singles(port.spec.elements(), k)),
        };
        model.inputs.iter().enumerate().map(made).collect()
    }

    /// Index of an element in a tensor of heads.
    fn at(&self, [n, h, t, c]: [usize; 4], heads: usize, tokens: usize, columns: usize) -> usize {
        match self.rank {
            3 => ((n * tokens + t) * heads + h) * columns + c,
            _ => ((n * heads + h) * tokens + t) * columns + c,
        }
    }

    /// A key or value, of those that were there before or of the new ones.
    fn token(&self, [new, past]: [&[f32]; 2], [n, h, t, c]: [usize; 4], columns: usize) -> f32 {
        let ([_, count, before], shared) = (self.tokens, self.heads[1]);
        match t.checked_sub(before) {
            None => past[((n * shared + h) * before + t) * columns + c],
            Some(t) => new[self.at([n, h, t, c], shared, count, columns)],
        }
    }

    /// Number that is added to a score: 0, the mask's, or minus infinity if the key isn't seen.
    fn bias(&self, mask: &[f32], [n, h, query, key]: [usize; 4]) -> f32 {
        let [queries, _, past] = self.tokens;
        let length = self.lengths.map_or(self.keys() as i64, |lengths| lengths[n]);
        let before = self.lengths.map_or(past as i64, |_| length - queries as i64);
        let apart = query as i64 + before - key as i64;
        let late = self.causal && apart < 0;
        let [left, right] = self.window;
        let is_far = left >= 0 && apart > left || right >= 0 && -apart > right;
        let masked = match self.mask {
            Mask::None => 0.0,
            Mask::Truth if is_kept(query, key) => 0.0,
            Mask::Number(keys) if key < keys => mask[(h * queries + query) * keys + key],
            _ => f32::NEG_INFINITY,
        };
        if late || is_far || key as i64 >= length { f32::NEG_INFINITY } else { masked }
    }

    /// The result, and scores or shares of batch, head, query and key.
    fn plain(&self, model: &TensorModel, inputs: &[Array]) -> [Vec<f32>; 2] {
        let given = |name: &str| match model.inputs.iter().position(|port| port.name == name) {
            Some(k) if matches!(inputs[k], Array::F32(_)) => {
                inputs[k].values().to_f64().iter().map(|&x| x as f32).collect()
            }
            _ => Vec::new(),
        };
        let [q, k, v, mask, past_k, past_v]: [Vec<f32>; 6] =
            ["q", "k", "v", "mask", "past_k", "past_v"].map(given);
        let ([queries, ..], [heads, shared], [columns, width]) =
            (self.tokens, self.heads, self.columns);
        let mut made = vec![0.0; self.batch * heads * queries * width];
        let mut shown = Vec::new();
        for (n, h) in (0..self.batch).flat_map(|n| (0..heads).map(move |h| (n, h))) {
            let own = h / (heads / shared);
            for query in 0..queries {
                let score = |key: usize| {
                    let product = |c: usize| {
                        q[self.at([n, h, query, c], heads, queries, columns)]
                            * self.token([&k, &past_k], [n, own, key, c], columns)
                    };
                    let score = (0..columns).map(product).sum::<f32>() / (columns as f32).sqrt();
                    let cap = |x: f32| self.cap * (x / self.cap).tanh();
                    let capped = if self.cap > 0.0 { cap(score) } else { score };
                    [score, capped, capped + self.bias(&mask, [n, h, query, key])]
                };
                let scores: Vec<[f32; 3]> = (0..self.keys()).map(score).collect();
                let powers: Vec<f32> = scores.iter().map(|score| score[2].exp()).collect();
                let sum = powers.iter().sum::<f32>();
                let share = |key: usize| if sum > 0.0 { powers[key] / sum } else { 0.0 };
                for (key, score) in scores.iter().enumerate() {
                    shown.push(score.get(self.mode as usize).copied().unwrap_or(share(key)));
                }
                for c in 0..width {
                    let part =
                        |key| share(key) * self.token([&v, &past_v], [n, own, key, c], width);
                    made[self.at([n, h, query, c], heads, queries, width)] =
                        (0..self.keys()).map(part).sum();
                }
            }
        }
        [made, shown]
    }

    #[track_caller]
    pub(super) fn agrees(&self) {
        let model = self.model();
        let inputs = self.inputs(&model);
        let have = model.execute(&inputs).unwrap();
        for (want, have) in self.plain(&model, &inputs).iter().zip([&have[0], &have[3]]) {
            let have = have.values().to_f64();
            assert_eq!(have.len(), want.len(), "{self:?}");
            let off = |(&have, &want): (&f64, &f32)| {
                have != f64::from(want) && (have as f32 - want).abs() > 1e-5 || have.is_nan()
            };
            let wrong = have.iter().zip(want).position(off);
            assert_eq!(wrong, None, "{self:?}: {have:?}, {want:?} wanted");
        }
    }
}
