//! Recurrent nodes, and loops over all that they have.

use super::functions::{ALPHA, BETA, function};
use crate::Model;
use crate::onnx::general::operators::handmade::{
    file, float, floats, int, node_of, singles, text, texts, typed,
};
use crate::tensors::model::TensorModel;
use reef_op::tensor::Array;

pub(super) const BATCH: usize = 2;
const SIZE: usize = 3;
const HIDDEN: usize = 6;

/// Attributes and operands of a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) op: &'static str,
    pub(super) steps: usize,
    pub(super) direction: &'static str,
    pub(super) batch_first: bool,
    /// True if it has neither biases, initial states nor weights of its own state.
    pub(super) plain: bool,
    pub(super) lengths: Option<[i64; BATCH]>,
    pub(super) clip: Option<f32>,
    pub(super) linear_before_reset: bool,
    pub(super) coupled: bool,
    /// All of them, or none if they are the usual ones.
    pub(super) functions: &'static [&'static str],
}

pub(super) const CASE: Case = Case {
    op: "RNN",
    steps: 4,
    direction: "forward",
    batch_first: false,
    plain: false,
    lengths: None,
    clip: None,
    linear_before_reset: false,
    coupled: false,
    functions: &[],
};

/// A number for each place of a tensor.
fn number(k: usize, seed: usize) -> f32 {
    ((k * 7919 + seed * 104_729) % 1000) as f32 / 500.0 - 1.0
}

impl Case {
    fn gates(&self) -> usize {
        ["RNN", "", "GRU", "LSTM"].iter().position(|&op| op == self.op).unwrap() + 1
    }

    fn reverse(&self) -> &'static [bool] {
        match self.direction {
            "forward" => &[false],
            "reverse" => &[true],
            _ => &[false, true],
        }
    }

    /// Operands of weights: sizes behind the directions.
    fn weights(&self) -> [(&'static str, Vec<usize>); 4] {
        let rows = self.gates() * HIDDEN;
        [
            ("w", vec![rows, SIZE]),
            ("r", vec![rows, HIDDEN]),
            ("b", vec![2 * rows]),
            ("p", vec![3 * HIDDEN]),
        ]
    }

    /// The network, whose weights are constants; `more` is said about the node besides.
    pub(super) fn model(&self, more: &[Vec<u8>]) -> Result<TensorModel, String> {
        let directions = self.reverse().len() as i64;
        let shape = |[steps, batch]: [i64; 2], last: usize| {
            if self.batch_first { [batch, steps, last as i64] } else { [steps, batch, last as i64] }
        };
        let mut inputs = vec!["x", "w", "r", "", "", "", "", ""];
        let mut graph = vec![typed(11, "x", 1, &shape([self.steps as i64, BATCH as i64], SIZE))];
        for (k, (name, dims)) in self.weights().iter().enumerate() {
            let dims: Vec<i64> =
                [directions].into_iter().chain(dims.iter().map(|&n| n as i64)).collect();
            graph.push(singles(name, &dims, |at| number(at as usize, k)));
        }
        if !self.plain {
            (inputs[3], inputs[5]) = ("b", "h");
            graph.push(typed(11, "h", 1, &shape([directions, BATCH as i64], HIDDEN)));
            if self.op == "LSTM" {
                (inputs[6], inputs[7]) = ("c", "p");
                graph.push(typed(11, "c", 1, &shape([directions, BATCH as i64], HIDDEN)));
            }
        }
        if self.lengths.is_some() {
            inputs[4] = "lengths";
            graph.push(typed(11, "lengths", 6, &[BATCH as i64]));
        }
        let mut said =
            vec![text("direction", self.direction), int("layout", self.batch_first.into())];
        said.extend(self.clip.map(|clip| float("clip", clip)));
        match self.op {
            "GRU" => said.push(int("linear_before_reset", self.linear_before_reset.into())),
            "LSTM" => said.push(int("input_forget", self.coupled.into())),
            _ => {}
        }
        if !self.functions.is_empty() {
            said.push(texts("activations", self.functions));
            said.push(floats("activation_alpha", &[ALPHA; 6]));
            said.push(floats("activation_beta", &[BETA; 6]));
        }
        said.extend_from_slice(more);
        let outputs = if self.op == "LSTM" { &["y", "yh", "yc"][..] } else { &["y", "yh"] };
        graph.push(node_of(self.op, &inputs, outputs, &said));
        graph.extend(outputs.iter().map(|name| typed(12, name, 1, &[])));
        let bytes = file(22, &graph);
        let read = Model::from_onnx(&bytes, "r").tensors_only().read();
        read.map(|model| model.tensors().unwrap().clone()).map_err(|error| error.to_string())
    }

    /// Index of an element in a tensor of steps or directions, batches and elements.
    fn at(&self, [step, batch, k]: [usize; 3], steps: usize, last: usize) -> usize {
        if self.batch_first {
            (batch * steps + step) * last + k
        } else {
            (step * BATCH + batch) * last + k
        }
    }

    fn function(&self, direction: usize, which: usize, x: f32) -> f32 {
        let usual: &[&str] = match self.op {
            "RNN" => &["Tanh"],
            "GRU" => &["Sigmoid", "Tanh"],
            _ => &["Sigmoid", "Tanh", "Tanh"],
        };
        match self.functions {
            [] => function(usual[which], x),
            names => function(names[direction * usual.len() + which], x),
        }
    }

    /// The states behind a step of a batch.
    fn step(&self, direction: usize, x: &[f32], [h, c]: [&[f32]; 2]) -> [Vec<f32>; 2] {
        let (rows, plain) = (self.gates() * HIDDEN, self.plain);
        let weight = |operand: usize, k: usize| number(k, operand);
        let own = |k: usize| if plain { 0.0 } else { weight(3, direction * 3 * HIDDEN + k) };
        let bias = |k: usize| if plain { 0.0 } else { weight(2, direction * 2 * rows + k) };
        let of_input = |row: usize| {
            let term = |k: usize| x[k] * weight(0, (direction * rows + row) * SIZE + k);
            (0..SIZE).map(term).sum::<f32>() + bias(row)
        };
        let of_state = |row: usize, h: &[f32]| {
            let term = |k: usize| h[k] * weight(1, (direction * rows + row) * HIDDEN + k);
            (0..HIDDEN).map(term).sum::<f32>() + bias(rows + row)
        };
        let gate =
            |gate: usize, j: usize| of_input(gate * HIDDEN + j) + of_state(gate * HIDDEN + j, h);
        let clipped = |x: f32| self.clip.map_or(x, |clip| x.clamp(-clip, clip));
        let call = |which: usize, x: f32| self.function(direction, which, clipped(x));
        let each = |make: &dyn Fn(usize) -> f32| (0..HIDDEN).map(make).collect::<Vec<f32>>();
        match self.op {
            "RNN" => [each(&|j| call(0, gate(0, j))), Vec::new()],
            "GRU" => {
                let reset = each(&|j| call(0, gate(1, j)));
                let part: Vec<f32> = h.iter().zip(&reset).map(|(h, reset)| h * reset).collect();
                let made = |j: usize| {
                    let (update, row) = (call(0, gate(0, j)), 2 * HIDDEN + j);
                    let inner = if self.linear_before_reset {
                        reset[j] * of_state(row, h)
                    } else {
                        of_state(row, &part)
                    };
                    (1.0 - update) * call(1, of_input(row) + inner) + update * h[j]
                };
                [each(&made), Vec::new()]
            }
            _ => {
                let cell = each(&|j| {
                    let input = call(0, gate(0, j) + own(j) * c[j]);
                    let forget = call(0, gate(2, j) + own(2 * HIDDEN + j) * c[j]);
                    let forget = if self.coupled { 1.0 - input } else { forget };
                    forget * c[j] + input * call(1, gate(3, j))
                });
                let output = |j: usize| call(0, gate(1, j) + own(HIDDEN + j) * cell[j]);
                [each(&|j| output(j) * self.function(direction, 2, cell[j])), cell]
            }
        }
    }

    /// Y, Y_h and Y_c.
    fn loops(&self, given: impl Fn(&str) -> Vec<f32>) -> [Vec<f32>; 3] {
        let (reverse, steps, x) = (self.reverse(), self.steps, given("x"));
        let count = reverse.len();
        let mut made = [steps, 1, 1].map(|steps| vec![0.0; steps * count * BATCH * HIDDEN]);
        for (d, n) in (0..count).flat_map(|d| (0..BATCH).map(move |n| (d, n))) {
            let first = |name: &str| {
                if self.plain || (self.op != "LSTM" && name == "c") {
                    vec![0.0; HIDDEN]
                } else {
                    let all = given(name);
                    (0..HIDDEN).map(|k| all[self.at([d, n, k], count, HIDDEN)]).collect()
                }
            };
            let (mut h, mut c) = (first("h"), first("c"));
            let length = self.lengths.map_or(steps, |lengths| lengths[n] as usize);
            for k in 0..length {
                let step = if reverse[d] { length - 1 - k } else { k };
                let row: Vec<f32> =
                    (0..SIZE).map(|k| x[self.at([step, n, k], steps, SIZE)]).collect();
                [h, c] = self.step(d, &row, [&h, &c]);
                for (j, h) in h.iter().enumerate() {
                    let place = if self.batch_first {
                        (n * steps + step) * count + d
                    } else {
                        (step * count + d) * BATCH + n
                    };
                    made[0][place * HIDDEN + j] = *h;
                }
            }
            for (ends, state) in made[1..].iter_mut().zip([h, c]) {
                for (j, x) in state.into_iter().enumerate() {
                    ends[self.at([d, n, j], count, HIDDEN)] = x;
                }
            }
        }
        made
    }

    #[track_caller]
    pub(super) fn agrees(&self) {
        let model = self.model(&[]).unwrap();
        let array = |(k, port): (usize, &crate::Port)| match port.name.as_str() {
            "lengths" => Array::I32(self.lengths.unwrap().map(|length| length as i32).to_vec()),
            _ => Array::F32((0..port.spec.elements()).map(|at| number(at, 11 + k)).collect()),
        };
        let inputs: Vec<Array> = model.inputs.iter().enumerate().map(array).collect();
        let want = self.loops(|name| {
            let at = model.inputs.iter().position(|port| port.name == name).unwrap();
            inputs[at].values().to_f64().iter().map(|&x| x as f32).collect()
        });
        let made = model.execute(&inputs).unwrap();
        assert_eq!(made.len(), if self.op == "LSTM" { 3 } else { 2 });
        for (k, (have, want)) in made.iter().zip(&want).enumerate() {
            let have = have.values().to_f64();
            assert_eq!(have.len(), want.len(), "{self:?}, result {k}");
            let off = |(have, want): (&f64, &f32)| (*have as f32 - want).abs() <= 2e-5;
            let near = have.iter().zip(want).all(off);
            assert!(near, "{self:?}, result {k}: {have:?}, {want:?} wanted");
        }
    }
}
