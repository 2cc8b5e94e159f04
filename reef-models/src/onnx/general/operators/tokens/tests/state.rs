//! States that go from token to token.

use super::case::singles;
use crate::Model;
use crate::onnx::general::operators::handmade::{file, float, int, node_of, text, typed};
use reef_op::tensor::Array;

const BATCH: usize = 2;
const TOKENS: usize = 3;
const HEADS: [usize; 2] = [4, 2];
const WIDTH: usize = 3;
const DEPTH: usize = 2;

/// A rule, and the widths of the operands that it has.
struct Rule {
    name: &'static str,
    decay: Option<usize>,
    rate: Option<usize>,
    has_past: bool,
}

impl Rule {
    /// Names, sizes and values of queries, keys, values, the past, decays and rates.
    fn operands(&self) -> Vec<(&'static str, Vec<usize>, Vec<f32>)> {
        let [own, shared] = HEADS;
        let row = |width: usize| vec![BATCH, TOKENS, width];
        let mut sizes =
            vec![("q", row(own * WIDTH)), ("k", row(shared * WIDTH)), ("v", row(shared * DEPTH))];
        if self.has_past {
            sizes.push(("past", vec![BATCH, shared, WIDTH, DEPTH]));
        }
        sizes.extend(self.decay.map(|width| ("decay", row(width))));
        sizes.extend(self.rate.map(|width| ("rate", row(width))));
        let filled = |(seed, (name, dims)): (usize, (&'static str, Vec<usize>))| {
            let numbers = singles(dims.iter().product(), seed);
            (name, dims, numbers)
        };
        sizes.into_iter().enumerate().map(filled).collect()
    }

    /// Results of the node: rows of all tokens, and the last state.
    fn results(&self, scale: f32) -> Result<Vec<Vec<f64>>, String> {
        let operands = self.operands();
        let has = |name: &str| operands.iter().any(|operand| operand.0 == name);
        let all = ["q", "k", "v", "past", "decay", "rate"];
        let inputs = all.map(|name| if has(name) { name } else { "" });
        let attributes = [
            text("update_rule", self.name),
            int("q_num_heads", HEADS[0] as i64),
            int("kv_num_heads", HEADS[1] as i64),
            float("scale", scale),
        ];
        let mut graph = vec![node_of("LinearAttention", &inputs, &["y", "state"], &attributes)];
        for (name, dims, _) in &operands {
            let dims: Vec<i64> = dims.iter().map(|&size| size as i64).collect();
            graph.push(typed(11, name, 1, &dims));
        }
        graph.extend(["y", "state"].map(|name| typed(12, name, 1, &[])));
        let bytes = file(27, &graph);
        let read = Model::from_onnx(&bytes, "t").tensors_only().read();
        let model = read.map_err(|error| error.to_string())?.tensors().unwrap().clone();
        let arrays: Vec<Array> =
            operands.into_iter().map(|(_, _, numbers)| Array::F32(numbers)).collect();
        let made = model.execute(&arrays).unwrap();
        Ok(made.iter().map(|array| array.values().to_f64()).collect())
    }

    /// As [`results`](Self::results), by loops.
    fn plain(&self, scale: f32) -> [Vec<f32>; 2] {
        let operands = self.operands();
        let numbers = |name: &str| {
            let found = operands.iter().find(|operand| operand.0 == name);
            found.map(|operand| operand.2.clone()).unwrap_or_default()
        };
        let [q, k, v, past, decay, rate] = ["q", "k", "v", "past", "decay", "rate"].map(numbers);
        let [own, shared] = HEADS;
        let mut rows = vec![0.0; BATCH * TOKENS * own * DEPTH];
        let mut states = Vec::new();
        for (n, h) in (0..BATCH).flat_map(|n| (0..shared).map(move |h| (n, h))) {
            let size = WIDTH * DEPTH;
            let first = (n * shared + h) * size;
            let mut state =
                if self.has_past { past[first..first + size].to_vec() } else { vec![0.0; size] };
            for t in 0..TOKENS {
                let token = n * TOKENS + t;
                let key = |c: usize| k[(token * shared + h) * WIDTH + c];
                if let Some(width) = self.decay {
                    let columns = width / shared;
                    for (at, number) in state.iter_mut().enumerate() {
                        let c = at / DEPTH % columns;
                        *number *= decay[(token * shared + h) * columns + c].exp();
                    }
                }
                for d in 0..DEPTH {
                    let mut value = v[(token * shared + h) * DEPTH + d];
                    if let Some(width) = self.rate {
                        let known: f32 = (0..WIDTH).map(|c| key(c) * state[c * DEPTH + d]).sum();
                        value = rate[token * width + h % width] * (value - known);
                    }
                    (0..WIDTH).for_each(|c| state[c * DEPTH + d] += key(c) * value);
                }
                for (head, d) in (0..own / shared).flat_map(|g| (0..DEPTH).map(move |d| (g, d))) {
                    let head = h * (own / shared) + head;
                    let product =
                        |c: usize| q[(token * own + head) * WIDTH + c] * state[c * DEPTH + d];
                    let sum: f32 = (0..WIDTH).map(product).sum();
                    rows[(token * own + head) * DEPTH + d] = scale * sum;
                }
            }
            states.extend(state);
        }
        [rows, states]
    }
}

#[test]
fn linear_attention_is_its_recurrence() {
    let [_, shared] = HEADS;
    let rules = [
        ("linear", None, None),
        ("gated", Some(shared), None),
        ("gated", Some(shared * WIDTH), None),
        ("delta", None, Some(1)),
        ("gated_delta", Some(shared), Some(shared)),
    ];
    for (name, decay, rate) in rules {
        for (has_past, scale) in [(false, 0.0), (true, 0.5)] {
            let rule = Rule { name, decay, rate, has_past };
            let have = rule.results(scale).unwrap();
            let usual = 1.0 / (WIDTH as f32).sqrt();
            let want = rule.plain(if scale == 0.0 { usual } else { scale });
            for (have, want) in have.iter().zip(&want) {
                let near = |(x, y): (&f64, &f32)| {
                    let want = f64::from(*y);
                    (x - want).abs() <= 1e-5 * (1.0 + want.abs())
                };
                let agrees = have.len() == want.len() && have.iter().zip(want).all(near);
                assert!(agrees, "{name}: {have:?}, wanted {want:?}");
            }
        }
    }
}

#[test]
fn linear_attention_that_does_not_fit_is_refused() {
    let said =
        |name, decay, rate| Rule { name, decay, rate, has_past: false }.results(1.0).unwrap_err();
    let error = said("gated_delta", Some(2), None);
    assert!(error.ends_with("(LinearAttention): operand 5 is missing"), "{error}");
    let error = said("linear", Some(2), None);
    assert!(error.contains("operand 4 is float32[2, 3, 2], which this update_rule"), "{error}");
    let error = said("gated", Some(3), None);
    assert!(error.contains("operand 4 is float32[2, 3, 3] for 2 batches of 3"), "{error}");
    let error = said("fast", None, None);
    assert!(error.contains("attribute update_rule = \"fast\""), "{error}");
}
