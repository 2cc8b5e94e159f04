//! Recurrent nodes are what loops over directions, steps, batches and elements make.

use crate::onnx::general::operators::handmade::{int, texts};
use case::{CASE, Case};
use reef_op::tensor::Kind;

mod case;
mod functions;

const OPS: [&str; 3] = ["RNN", "GRU", "LSTM"];

#[test]
fn states_go_through_sequences_in_all_directions() {
    for op in OPS {
        for direction in ["forward", "reverse", "bidirectional"] {
            for batch_first in [false, true] {
                Case { op, direction, batch_first, ..CASE }.agrees();
            }
            Case { op, direction, plain: true, ..CASE }.agrees();
        }
        Case { op, steps: 1, ..CASE }.agrees();
    }
}

#[test]
fn short_sequences_keep_their_state_and_end_in_zeros() {
    for op in OPS {
        for direction in ["forward", "reverse", "bidirectional"] {
            let lengths = Some([2, 4]);
            Case { op, direction, lengths, ..CASE }.agrees();
            Case { op, direction, lengths, batch_first: true, ..CASE }.agrees();
        }
    }
}

#[test]
fn options_of_cells_are_applied() {
    Case { op: "GRU", linear_before_reset: true, ..CASE }.agrees();
    let direction = "bidirectional";
    Case { op: "GRU", linear_before_reset: true, lengths: Some([3, 4]), direction, ..CASE }
        .agrees();
    Case { op: "LSTM", coupled: true, ..CASE }.agrees();
    Case { op: "LSTM", coupled: true, plain: true, ..CASE }.agrees();
    for op in OPS {
        Case { op, clip: Some(0.2), ..CASE }.agrees();
    }
}

#[test]
fn named_functions_take_their_parameters_in_order() {
    let two = &["Sigmoid", "LeakyRelu", "HardSigmoid", "Elu"];
    Case { op: "GRU", direction: "bidirectional", functions: two, ..CASE }.agrees();
    Case { op: "LSTM", functions: &["HardSigmoid", "affine", "Relu"], ..CASE }.agrees();
    let all: &[&str] =
        &["ScaledTanh", "Elu", "Softsign", "Softplus", "ThresholdedRelu", "LeakyRelu"];
    for functions in all.chunks(1) {
        Case { op: "RNN", functions, ..CASE }.agrees();
    }
}

/// Number of products in a network.
fn products(case: Case) -> usize {
    let steps = case.model(&[]).unwrap().steps;
    steps.iter().filter(|step| matches!(step.op.kind, Kind::Contract(_))).count()
}

#[test]
fn all_steps_of_the_input_are_one_product() {
    let case = Case { steps: 9, plain: true, ..CASE };
    // The state before the first step is known here, so it takes no product.
    assert_eq!(products(Case { op: "RNN", ..case }), 1 + 8);
    assert_eq!(products(Case { op: "LSTM", ..case }), 1 + 8);
    assert_eq!(products(Case { op: "GRU", ..case }), 1 + 8 + 9);
    let direction = "bidirectional";
    assert_eq!(products(Case { op: "LSTM", direction, ..case }), 2 * (1 + 8));
}

#[test]
fn all_steps_share_their_weights() {
    for op in OPS {
        let weights = |steps| -> usize {
            let model = Case { op, steps, ..CASE }.model(&[]).unwrap();
            model.constant_bytes().filter(|&bytes| bytes >= 4 * 36).sum()
        };
        assert_eq!(weights(9), weights(2), "{op}");
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused_with_the_node() {
    let said = |case: Case, more: &[Vec<u8>]| case.model(more).unwrap_err();
    let error = said(CASE, &[int("hidden_size", 5)]);
    assert_eq!(
        error,
        "r: node \"node\" (RNN): a sequence of float32[4, 2, 3] with states of 6, attribute \
         hidden_size = 5"
    );
    let error = said(CASE, &[texts("activations", &["Tan"])]);
    assert!(error.ends_with("activation \"Tan\" is not supported"), "{error}");
    let error = said(CASE, &[texts("activations", &["Affine"])]);
    assert!(error.ends_with("Affine without activation_alpha or activation_beta"), "{error}");
    let error = said(Case { op: "LSTM", ..CASE }, &[texts("activations", &["Tanh"])]);
    assert!(error.ends_with("must have 3 activations, got 1"), "{error}");
    let error = said(Case { steps: 40_000, ..CASE }, &[]);
    assert!(error.ends_with("40000 steps are 160000 operations, 131072 are possible"), "{error}");
    let error = said(CASE, &[int("output_sequence", 1)]);
    assert!(error.ends_with("attribute output_sequence is not supported"), "{error}");
}
