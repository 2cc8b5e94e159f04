//! Ensembles of trees.

use super::{assert_near, doubles, network, outputs};
use crate::handmade::{
    bytes, file, floats, int, ints, node, node_in, number, open, tensor, text, texts,
};
use reef_models::Model;
use reef_op::tensor::Array;

const ML: &str = "ai.onnx.ml";
const FLOAT: i64 = 1;
const INT64: i64 = 7;

/// Trees of one branch each: column 0 against 0, first leaf if it is less or equal.
fn stumps(trees: i64) -> Vec<Vec<u8>> {
    let each = |list: [i64; 3]| (0..trees).flat_map(|_| list).collect::<Vec<_>>();
    let of = (0..trees).flat_map(|tree| [tree; 3]).collect::<Vec<_>>();
    let modes = (0..trees).flat_map(|_| ["BRANCH_LEQ", "LEAF", "LEAF"]).collect::<Vec<_>>();
    vec![
        ints("nodes_treeids", &of),
        ints("nodes_nodeids", &each([0, 1, 2])),
        ints("nodes_featureids", &each([0, 0, 0])),
        floats("nodes_values", &vec![0.0; of.len()]),
        texts("nodes_modes", &modes),
        ints("nodes_truenodeids", &each([1, 0, 0])),
        ints("nodes_falsenodeids", &each([2, 0, 0])),
    ]
}

/// Weights of leaves: tree, node, target, weight.
fn leaves(prefix: &str, given: &[(i64, i64, i64, f32)]) -> Vec<Vec<u8>> {
    let list = |name: &str, of: fn(&(i64, i64, i64, f32)) -> i64| {
        ints(&format!("{prefix}_{name}"), &given.iter().map(of).collect::<Vec<_>>())
    };
    let weights: Vec<f32> = given.iter().map(|leaf| leaf.3).collect();
    vec![
        list("treeids", |leaf| leaf.0),
        list("nodeids", |leaf| leaf.1),
        list("ids", |leaf| leaf.2),
        floats(&format!("{prefix}_weights"), &weights),
    ]
}

fn classifier(attributes: &[Vec<Vec<u8>>], columns: &str) -> Vec<Vec<u8>> {
    let attributes = attributes.concat();
    vec![
        node_in(ML, "TreeEnsembleClassifier", &["x"], &["label", "scores"], &attributes),
        open(11, "x", FLOAT, &["n", columns]),
        open(12, "label", INT64, &["n"]),
        open(12, "scores", FLOAT, &["n", "c"]),
    ]
}

fn regressor(attributes: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
    vec![
        node_in(ML, "TreeEnsembleRegressor", &["x"], &["y"], &attributes.concat()),
        open(11, "x", FLOAT, &["n", "1"]),
        open(12, "y", FLOAT, &["n", "c"]),
    ]
}

#[test]
fn forest_of_three_classes_gives_labels_and_scores() {
    let given = [
        (0, 1, 0, 0.9),
        (0, 1, 1, 0.1),
        (0, 2, 2, 1.0),
        (1, 1, 1, 0.5),
        (1, 2, 0, 0.25),
        (1, 2, 1, 0.25),
    ];
    let labels = vec![ints("classlabels_int64s", &[3, 5, 9])];
    let graph = classifier(&[stumps(2), leaves("class", &given), labels], "1");
    let made = outputs(&graph, &[2, 1], Array::F32(vec![-1.0, 1.0]));
    assert_eq!(made[0], Array::I64(vec![3, 9]));
    assert_near(&made[1], &[0.9, 0.6, 0.0, 0.25, 0.25, 1.0]);
}

/// Of negative scores the largest gives the label, and not the 0 of a class without one.
#[test]
fn class_without_a_score_is_no_label() {
    let given = [(0, 1, 0, 0.3), (0, 2, 1, -0.4), (1, 1, 2, 0.2), (1, 2, 2, -0.1)];
    let labels = vec![ints("classlabels_int64s", &[3, 5, 9])];
    let graph = classifier(&[stumps(2), leaves("class", &given), labels], "1");
    let made = outputs(&graph, &[2, 1], Array::F32(vec![-1.0, 1.0]));
    assert_eq!(made[0], Array::I64(vec![3, 9]));
    assert_near(&made[1], &[0.3, 0.0, 0.2, 0.0, -0.4, -0.1]);
}

/// Each mode compares 0, 1, 2 and a missing value with 1, and gives 1 where it holds.
#[test]
fn each_mode_of_a_branch_compares_as_named() {
    let modes = [
        ("BRANCH_LEQ", [1.0, 1.0, 0.0, 0.0]),
        ("BRANCH_LT", [1.0, 0.0, 0.0, 0.0]),
        ("BRANCH_GTE", [0.0, 1.0, 1.0, 0.0]),
        ("BRANCH_GT", [0.0, 0.0, 1.0, 0.0]),
        ("BRANCH_EQ", [0.0, 1.0, 0.0, 0.0]),
        ("BRANCH_NEQ", [1.0, 0.0, 1.0, 1.0]),
    ];
    for tracks in [0, 1] {
        // Six trees at once, a mode each and a target each, so that modes are mixed as well.
        let of: Vec<i64> = (0..6).flat_map(|tree| [tree; 3]).collect();
        let each = |list: [i64; 3]| (0..6).flat_map(|_| list).collect::<Vec<_>>();
        let names: Vec<_> = modes.iter().flat_map(|(mode, _)| [mode, "LEAF", "LEAF"]).collect();
        let given: Vec<_> = (0..6).map(|tree| (tree, 1, tree, 1.0)).collect();
        let missing: Vec<_> = (0..6).flat_map(|_| [tracks, 0, 0]).collect();
        let attributes = vec![
            ints("nodes_treeids", &of),
            ints("nodes_nodeids", &each([0, 1, 2])),
            ints("nodes_featureids", &each([0, 0, 0])),
            floats("nodes_values", &[1.0; 18]),
            texts("nodes_modes", &names),
            ints("nodes_truenodeids", &each([1, 0, 0])),
            ints("nodes_falsenodeids", &each([2, 0, 0])),
            ints("nodes_missing_value_tracks_true", &missing),
            int("n_targets", 6),
        ];
        let graph = regressor(&[attributes, leaves("target", &given)]);
        let made = outputs(&graph, &[4, 1], Array::F32(vec![0.0, 1.0, 2.0, f32::NAN]));
        let made = doubles(&made[0]);
        for (k, (mode, mut want)) in modes.into_iter().enumerate() {
            want[3] = f64::max(want[3], tracks as f64);
            let got: Vec<f64> = (0..4).map(|row| made[6 * row + k]).collect();
            assert_eq!(got, want, "{mode}, missing values hold: {tracks}");
        }
    }
}

#[test]
fn trees_are_aggregated_as_asked() {
    let given = [(0, 1, 0, 2.0), (0, 2, 0, -3.0), (1, 1, 0, 6.0), (1, 2, 1, 5.0)];
    for (function, want) in [
        ("SUM", [8.0, 0.0, -3.0, 5.0]),
        ("AVERAGE", [4.0, 0.0, -1.5, 2.5]),
        ("MIN", [2.0, 0.0, -3.0, 5.0]),
        ("MAX", [6.0, 0.0, -3.0, 5.0]),
    ] {
        let how = vec![text("aggregate_function", function), int("n_targets", 2)];
        let graph = regressor(&[stumps(2), leaves("target", &given), how]);
        let made = outputs(&graph, &[2, 1], Array::F32(vec![0.0, 1.0]));
        assert_eq!(doubles(&made[0]), want, "{function}");
    }
}

/// scikit-learn's converter writes a leaf's number once for each class, all for one target.
#[test]
fn first_weight_of_a_leaf_counts_for_one_target() {
    let given = [(0, 1, 0, 3.0), (0, 1, 0, 7.0), (0, 2, 0, 5.0), (0, 2, 0, 1.0), (1, 1, 0, 100.0)];
    for (targets, function, want) in [
        (1, "SUM", vec![103.0, 5.0]),
        (1, "MAX", vec![100.0, 5.0]),
        (2, "SUM", vec![110.0, 0.0, 6.0, 0.0]),
        (2, "MIN", vec![3.0, 0.0, 1.0, 0.0]),
    ] {
        let how = vec![text("aggregate_function", function), int("n_targets", targets)];
        let graph = regressor(&[stumps(2), leaves("target", &given), how]);
        let made = outputs(&graph, &[2, 1], Array::F32(vec![0.0, 1.0]));
        assert_eq!(doubles(&made[0]), want, "{function} of {targets}");
    }
}

/// Converters give leaves the score of one class of two alone.
#[test]
fn one_score_of_two_classes_becomes_two() {
    let cases = [
        ("NONE", 0, [0.2, 0.7], [0.8, 0.2, 0.3, 0.7], [7, 9]),
        ("NONE", 0, [-0.2, 0.7], [0.2, -0.2, -0.7, 0.7], [7, 9]),
        ("NONE", 1, [0.2, 0.7], [0.0, 0.2, 0.0, 0.7], [7, 9]),
        ("LOGISTIC", 0, [0.2, 0.7], [0.450166, 0.549834, 0.331812, 0.668188], [7, 9]),
        ("LOGISTIC", 0, [-0.2, 0.7], [0.549834, 0.450166, 0.331812, 0.668188], [7, 9]),
        ("SOFTMAX", 0, [0.2, 0.7], [0.8, 0.2, 0.3, 0.7], [7, 9]),
        ("SOFTMAX", 1, [0.2, 0.7], [0.450166, 0.549834, 0.331812, 0.668188], [7, 9]),
    ];
    for (transform, class, weights, scores, label) in cases {
        let given = [(0, 1, class, weights[0]), (0, 2, class, weights[1])];
        let how = vec![ints("classlabels_int64s", &[7, 9]), text("post_transform", transform)];
        let graph = classifier(&[stumps(1), leaves("class", &given), how], "1");
        let made = outputs(&graph, &[2, 1], Array::F32(vec![-1.0, 1.0]));
        assert_eq!(made[0], Array::I64(label.to_vec()), "{transform} {class} {weights:?}");
        assert_near(&made[1], &scores);
    }
}

#[test]
fn scores_of_classes_are_transformed() {
    let given = [(0, 1, 0, 0.2), (0, 1, 1, 0.3), (0, 1, 2, 0.1), (0, 2, 0, -0.7), (0, 2, 2, 0.1)];
    let infinite = f64::NEG_INFINITY;
    for (transform, want) in [
        ("LOGISTIC", [0.549834, 0.574443, 0.524979, 0.331812, 0.5, 0.524979]),
        ("SOFTMAX", [0.332225, 0.367165, 0.300610, 0.190865, 0.384354, 0.424781]),
        ("SOFTMAX_ZERO", [0.332225, 0.367165, 0.300610, 0.310026, 0.0, 0.689974]),
        ("PROBIT", [-0.841716, -0.524446, -1.281746, f64::NAN, infinite, -1.281746]),
    ] {
        let how = vec![ints("classlabels_int64s", &[0, 1, 2]), text("post_transform", transform)];
        let graph = classifier(&[stumps(1), leaves("class", &given), how], "1");
        let made = outputs(&graph, &[2, 1], Array::F32(vec![-1.0, 1.0]));
        assert_eq!(made[0], Array::I64(vec![1, 2]), "{transform}");
        assert_near(&made[1], &want);
    }
}

/// The example of the standard, whose second and third branches test membership.
#[test]
fn ensemble_of_version_5_tests_membership() {
    let single = |list: &[f32]| list.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let members = [1.2, 3.7, 8.0, 9.0, f32::NAN, 12.0, 7.0, f32::NAN];
    let attributes = [
        int("n_targets", 4),
        int("aggregate_function", 1),
        tensor("membership_values", FLOAT, &[8], &single(&members)),
        tensor("nodes_modes", 2, &[3], &[0, 6, 6]),
        ints("nodes_featureids", &[0, 0, 0]),
        tensor("nodes_splits", FLOAT, &[3], &single(&[11.0, 232344.0, f32::NAN])),
        ints("tree_roots", &[0]),
        ints("nodes_trueleafs", &[0, 1, 1]),
        ints("nodes_truenodeids", &[1, 0, 1]),
        ints("nodes_falseleafs", &[1, 0, 1]),
        ints("nodes_falsenodeids", &[2, 2, 3]),
        ints("leaf_targetids", &[0, 1, 2, 3]),
        tensor("leaf_weights", FLOAT, &[4], &single(&[1.0, 10.0, 1000.0, 100.0])),
    ];
    let graph = [
        node_in(ML, "TreeEnsemble", &["x"], &["y"], &attributes),
        open(11, "x", FLOAT, &["n", "1"]),
        open(12, "y", FLOAT, &["n", "4"]),
    ];
    let x = vec![1.2, 3.4, -0.12, f32::NAN, 12.0, 7.0];
    let made = outputs(&graph, &[6, 1], Array::F32(x));
    let rows: Vec<Vec<f64>> = doubles(&made[0]).chunks(4).map(<[f64]>::to_vec).collect();
    assert_eq!(rows[0], [1.0, 0.0, 0.0, 0.0]);
    assert_eq!(rows[1], [0.0, 0.0, 0.0, 100.0]);
    assert_eq!(rows[2], [0.0, 0.0, 0.0, 100.0]);
    assert_eq!(rows[3], [0.0, 0.0, 1000.0, 0.0]);
    assert_eq!(rows[4], [0.0, 0.0, 1000.0, 0.0]);
    assert_eq!(rows[5], [0.0, 10.0, 0.0, 0.0]);
}

#[test]
fn ways_of_missing_values_are_one_for_each_branch() {
    let single = |list: &[f32]| list.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let said = |ways: &[i64]| {
        let attributes = [
            int("n_targets", 1),
            tensor("nodes_modes", 2, &[1], &[0]),
            ints("nodes_featureids", &[0]),
            tensor("nodes_splits", FLOAT, &[1], &single(&[0.0])),
            ints("nodes_missing_value_tracks_true", ways),
            ints("tree_roots", &[0]),
            ints("nodes_trueleafs", &[1]),
            ints("nodes_truenodeids", &[0]),
            ints("nodes_falseleafs", &[1]),
            ints("nodes_falsenodeids", &[1]),
            ints("leaf_targetids", &[0, 0]),
            tensor("leaf_weights", FLOAT, &[2], &single(&[1.0, 2.0])),
        ];
        let graph = [
            node_in(ML, "TreeEnsemble", &["x"], &["y"], &attributes),
            open(11, "x", FLOAT, &["n", "1"]),
            open(12, "y", FLOAT, &["n", "1"]),
        ];
        network(&graph, &[]).map(drop)
    };
    assert_eq!(said(&[1]), Ok(()));
    let why = said(&[1, 0]).unwrap_err();
    assert!(why.contains("attributes of nodes must have one entry for each, got 1 and "), "{why}");
}

/// scikit-learn's converter imports version 1 of ONNX's own operators for old files.
#[test]
fn version_of_operators_that_no_node_has_is_not_read() {
    let graph = regressor(&[stumps(1), leaves("target", &[(0, 1, 0, 1.0), (0, 2, 0, 2.0)])]);
    let other = bytes(8, [bytes(1, ML), number(2, 1)].concat());
    let read = |graph: &[Vec<u8>]| {
        let made = [other.clone(), file(1, graph)].concat();
        let read = Model::from_onnx(&made, "made").tensors_only().read();
        read.map(drop).map_err(|error| error.to_string())
    };
    read(&graph).unwrap();
    let said = read(&[graph, vec![node("Neg", &["y"], "z", &[])]].concat()).unwrap_err();
    assert!(said.contains("operator set 1 (have: 7 to 28) is not supported"), "{said}");
}

/// Its only node of ONNX's own operators is in the function, which imports no version.
#[test]
fn function_without_a_version_has_that_of_the_file() {
    let soft = [bytes(1, "a"), bytes(2, "b"), bytes(4, "Softmax")].concat();
    let ports = [bytes(4, "a"), bytes(5, "b"), bytes(7, soft)].concat();
    let function = bytes(25, [bytes(1, "Soft"), ports, bytes(10, "made")].concat());
    let other = bytes(8, [bytes(1, "made"), number(2, 1)].concat());
    let graph = [
        node_in("made", "Soft", &["x"], &["y"], &[]),
        open(11, "x", FLOAT, &["1", "2", "2"]),
        open(12, "y", FLOAT, &["1", "2", "2"]),
    ];
    let parts = [other, file(12, &graph), function].concat();
    let read = Model::from_onnx(&parts, "made").tensors_only().read().unwrap();
    let made = read.tensors().unwrap().execute(&[Array::F32(vec![0.0; 4])]).unwrap();
    assert_near(&made[0], &[0.25; 4]); // by pairs since version 13
}

/// Error of reading a regressor.
fn refused(attributes: &[Vec<Vec<u8>>]) -> String {
    network(&regressor(attributes), &[]).unwrap_err()
}

#[test]
fn trees_that_are_none_are_refused() {
    let given = leaves("target", &[(0, 1, 0, 1.0), (0, 2, 0, 2.0)]);
    let change = |k: usize, attribute: Vec<u8>| {
        let mut nodes = stumps(1);
        nodes[k] = attribute;
        refused(&[nodes, given.clone()])
    };
    let at = "made: node \"y\" (TreeEnsembleRegressor): ";
    let said = change(5, ints("nodes_truenodeids", &[8, 0, 0]));
    assert_eq!(said, format!("{at}tree 0 has no node 8"));
    let said = change(5, ints("nodes_truenodeids", &[0, 0, 0]));
    assert_eq!(said, format!("{at}a tree has branches that its root does not lead to"));
    let mut circle = stumps(1);
    circle[4] = texts("nodes_modes", &["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"]);
    circle[5] = ints("nodes_truenodeids", &[1, 1, 0]);
    circle[6] = ints("nodes_falsenodeids", &[2, 2, 0]);
    let said = refused(&[circle, leaves("target", &[(0, 2, 0, 1.0)])]);
    assert_eq!(said, format!("{at}a tree has more than 1024 levels, or a circle"));
    let said = change(2, ints("nodes_featureids", &[4, 0, 0]));
    assert_eq!(said, format!("{at}feature 4 of 1"));
    let said = change(1, ints("nodes_nodeids", &[0, 1, 1]));
    assert_eq!(said, format!("{at}node 1 of tree 0 is there twice"));
    assert!(change(1, ints("nodes_nodeids", &[0, 1])).contains("one entry for each"));
    let modes = texts("nodes_modes", &["BRANCH_MAYBE", "LEAF", "LEAF"]);
    assert!(change(4, modes).contains("unknown mode \"BRANCH_MAYBE\""));
    let said = refused(&[stumps(1), leaves("target", &[(0, 0, 0, 1.0)])]);
    assert_eq!(said, format!("{at}tree 0 has no leaf 0"));
    let said = refused(&[stumps(1), leaves("target", &[(0, 1, 1, 1.0)])]);
    assert_eq!(said, format!("{at}target 1 of 1"));
    let said = refused(&[stumps(1), given.clone(), vec![int("n_targets", 1 << 27)]]);
    assert!(said.contains("bytes of memory wanted"), "{said}");
    assert!(refused(&[stumps(1), given.clone(), vec![int("n_targets", i64::MAX)]]).starts_with(at));
}

#[test]
fn labels_of_a_forest_may_be_texts() {
    let labels = vec![texts("classlabels_strings", &["cat", "dog"])];
    let given = leaves("class", &[(0, 1, 0, 0.9), (0, 2, 1, 0.1)]);
    let graph = classifier(&[stumps(1), given, labels], "1");
    let network = network(&graph, &[("x", &[2, 1])]).unwrap();
    let made = network.execute(&[Array::F32(vec![1.0, -1.0])]).unwrap();
    let table = network.outputs[0].texts.as_ref().unwrap();
    let said: Vec<_> = made[0].values().to_i64().into_iter().map(|at| table.get(at)).collect();
    assert_eq!(said, [Some("dog"), Some("cat")]);
    assert!(network.outputs[1].texts.is_none() && network.inputs[0].texts.is_none());
}
