//! Linear models, and what prepares columns for models.

use super::{assert_near, network, outputs};
use crate::handmade::{
    float, floats, int, ints, node, node_in, open, singles, stored, text, texts,
};
use reef_op::tensor::Array;

const ML: &str = "ai.onnx.ml";
const FLOAT: i64 = 1;
const INT64: i64 = 7;
const DOUBLE: i64 = 11;

/// A node between `x` and `y`.
fn one_node(op: &str, element: i64, dims: &[&str], attributes: &[Vec<u8>]) -> Vec<Vec<u8>> {
    vec![
        node_in(ML, op, &["x"], &["y"], attributes),
        open(11, "x", element, dims),
        open(12, "y", element, &[]),
    ]
}

/// Its result for two rows of two columns.
fn of_rows(op: &str, x: [f32; 4], attributes: &[Vec<u8>]) -> Array {
    let graph = one_node(op, FLOAT, &["n", "2"], attributes);
    outputs(&graph, &[2, 2], Array::F32(x.to_vec())).remove(0)
}

fn linear_classifier(coefficients: &[f32], intercepts: &[f32], transform: &str) -> Vec<Array> {
    let labels: Vec<i64> = (10..10 + intercepts.len().max(2) as i64).collect();
    let attributes = [
        floats("coefficients", coefficients),
        floats("intercepts", intercepts),
        ints("classlabels_ints", &labels),
        text("post_transform", transform),
        int("multi_class", 1),
    ];
    let graph = [
        node_in(ML, "LinearClassifier", &["x"], &["label", "scores"], &attributes),
        open(11, "x", FLOAT, &["n", "2"]),
        open(12, "label", INT64, &["n"]),
        open(12, "scores", FLOAT, &["n", "c"]),
    ];
    outputs(&graph, &[2, 2], Array::F32(vec![1.0, 2.0, -1.0, -0.5]))
}

#[test]
fn linear_classifiers_give_labels_and_scores() {
    let made = linear_classifier(&[0.3, 0.1], &[0.05], "NONE");
    assert_eq!(made[0], Array::I64(vec![11, 10]));
    assert_near(&made[1], &[0.45, 0.55, 1.3, -0.3]);
    let made = linear_classifier(&[0.3, 0.1], &[0.05], "LOGISTIC");
    assert_near(&made[1], &[0.365864, 0.634136, 0.574443, 0.425557]);
    let made = linear_classifier(&[0.3, 0.1, -0.2, 0.1, 0.1, 0.1], &[0.05, 0.1, 0.0], "SOFTMAX");
    assert_eq!(made[0], Array::I64(vec![10, 11]));
    assert_near(&made[1], &[0.413782, 0.263886, 0.322332, 0.256748, 0.445015, 0.298237]);
}

#[test]
fn linear_regressors_give_a_column_for_each_target() {
    let attributes = [
        floats("coefficients", &[0.3, 0.1, -0.2, 0.1]),
        floats("intercepts", &[0.05, 0.1]),
        int("targets", 2),
    ];
    let made = of_rows("LinearRegressor", [1.0, 2.0, -1.0, -0.5], &attributes);
    assert_near(&made, &[0.55, 0.1, -0.3, 0.25]);
    let attributes = [floats("coefficients", &[0.3, 0.1, 1.0])];
    let said = network(&one_node("LinearRegressor", FLOAT, &["2", "2"], &attributes), &[]);
    assert!(said.unwrap_err().contains("3 coefficients for 1 targets of 2 columns"));
}

#[test]
fn columns_are_scaled_and_rows_normalized() {
    let x = [3.0, -4.0, 0.0, 0.0];
    let scaler = [floats("offset", &[1.0, 2.0]), floats("scale", &[2.0, 0.5])];
    assert_near(&of_rows("Scaler", x, &scaler), &[4.0, -3.0, -2.0, -1.0]);
    let one = [floats("offset", &[1.0]), floats("scale", &[2.0])];
    assert_near(&of_rows("Scaler", x, &one), &[4.0, -10.0, -2.0, -2.0]);
    let normalized = |norm| of_rows("Normalizer", x, &[text("norm", norm)]);
    assert_near(&normalized("MAX"), &[1.0, -4.0 / 3.0, 0.0, 0.0]);
    assert_near(&normalized("L1"), &[3.0 / 7.0, -4.0 / 7.0, 0.0, 0.0]);
    assert_near(&normalized("L2"), &[0.6, -0.8, 0.0, 0.0]);
    assert_near(&of_rows("Binarizer", x, &[float("threshold", -1.0)]), &[1.0, 0.0, 1.0, 1.0]);
}

/// As a single, 2²⁴ + 1 is 2²⁴.
#[test]
fn doubles_are_scaled_as_doubles() {
    let large = 16_777_216.0;
    let scaler = [floats("offset", &[large]), floats("scale", &[2.0])];
    let x = Array::F64([1.0, 3.0, -0.5].map(|more| f64::from(large) + more).to_vec());
    let made = outputs(&one_node("Scaler", DOUBLE, &["1", "3"], &scaler), &[1, 3], x);
    assert_eq!(made[0], Array::F32(vec![2.0, 6.0, -1.0]));
}

#[test]
fn columns_of_tensors_are_put_together() {
    let parts = |dims: &[i64]| {
        [
            node_in(ML, "FeatureVectorizer", &["x", "w"], &["y"], &[ints("inputdimensions", dims)]),
            stored("w", INT64, &[2, 1], &[7i64, 8].map(i64::to_le_bytes).concat()),
            open(11, "x", FLOAT, &["2", "3"]),
            open(12, "y", FLOAT, &[]),
        ]
    };
    let joined = |dims: &[i64]| {
        let x = Array::F32(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        outputs(&parts(dims), &[2, 3], x).remove(0)
    };
    let said = network(&parts(&[3]), &[]).unwrap_err();
    assert!(said.ends_with("inputdimensions has 1 numbers for 2 operands"), "{said}");
    assert_near(&joined(&[3, 1]), &[1.0, 2.0, 3.0, 7.0, 4.0, 5.0, 6.0, 8.0]);
    assert_near(&joined(&[2, 3]), &[1.0, 2.0, 7.0, 0.0, 0.0, 4.0, 5.0, 8.0, 0.0, 0.0]);
}

#[test]
fn missing_values_are_imputed() {
    let values =
        [floats("imputed_value_floats", &[7.0, 8.0]), float("replaced_value_float", f32::NAN)];
    let made = of_rows("Imputer", [1.0, f32::NAN, f32::NAN, 4.0], &values);
    assert_near(&made, &[1.0, 8.0, 7.0, 4.0]);
}

#[test]
fn numbers_are_encoded_by_a_table() {
    let table = [
        ints("keys_int64s", &[1, 2, 5, 2]),
        floats("values_floats", &[10.0, 20.0, 50.0, 25.0]),
        float("default_float", 0.5),
    ];
    let graph = one_node("LabelEncoder", INT64, &["4"], &table);
    let made = outputs(&graph, &[4], Array::I64(vec![5, 9, 2, 1]));
    assert_near(&made[0], &[50.0, 0.5, 20.0, 10.0]); // the first of equal keys
    let table = [floats("keys_floats", &[1.5, f32::NAN]), ints("values_int64s", &[3, 4])];
    let made = of_rows("LabelEncoder", [1.5, f32::NAN, 2.0, 1.0], &table);
    assert_eq!(made, Array::I64(vec![3, 4, -1, -1]));
    let table = [texts("keys_strings", &["a"]), ints("values_int64s", &[1])];
    let said = network(&one_node("LabelEncoder", INT64, &["4"], &table), &[]).unwrap_err();
    assert!(said.contains("keys must be texts if the input is of texts"), "{said}");
}

#[test]
fn categories_become_columns() {
    let graph = one_node("OneHotEncoder", INT64, &["3"], &[ints("cats_int64s", &[4, 7])]);
    let made = outputs(&graph, &[3], Array::I64(vec![7, 4, 9]));
    assert_near(&made[0], &[0.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
}

/// Scores keep the name of the map that they would become.
#[test]
fn scores_with_labels_are_the_scores() {
    let raw: Vec<u8> = [1i64, 0].iter().flat_map(|place| place.to_le_bytes()).collect();
    let graph = [
        node_in(ML, "ArrayFeatureExtractor", &["x", "places"], &["turned"], &[]),
        stored("places", INT64, &[2], &raw),
        node_in(ML, "ZipMap", &["turned"], &["map"], &[ints("classlabels_int64s", &[3, 5])]),
        open(11, "x", FLOAT, &["n", "2"]),
        open(12, "map", 0, &[]),
    ];
    let network = network(&graph, &[("x", &[2, 2])]).unwrap();
    assert_eq!((&*network.outputs[0].name, &*network.outputs[0].spec.dims), ("map", &[2, 2][..]));
    let made = network.execute(&[Array::F32(vec![0.25, 0.75, 1.0, 0.0])]).unwrap();
    assert_near(&made[0], &[0.75, 0.25, 0.0, 1.0]);
}

/// 2⁵³ and the next integer are the same double.
#[test]
fn large_integers_are_told_apart() {
    let large = 1 << 53;
    let made = |op: &str, attributes: &[Vec<u8>]| {
        let graph = one_node(op, INT64, &["3"], attributes);
        outputs(&graph, &[3], Array::I64(vec![large, large + 1, 5])).remove(0)
    };
    let keys = [ints("keys_int64s", &[large, large + 1]), ints("values_int64s", &[10, 20])];
    assert_eq!(made("LabelEncoder", &keys), Array::I64(vec![10, 20, -1]));
    let values = [ints("imputed_value_int64s", &[7]), int("replaced_value_int64", large + 1)];
    assert_eq!(made("Imputer", &values), Array::I64(vec![large, 7, 5]));
    let categories = [ints("cats_int64s", &[large, large + 1])];
    let want = vec![1.0, 0.0, 0.0, 1.0, 0.0, 0.0];
    assert_eq!(made("OneHotEncoder", &categories), Array::F32(want));
}

#[test]
fn categories_of_floats_are_those_of_their_integers() {
    let graph = one_node("OneHotEncoder", FLOAT, &["4"], &[ints("cats_int64s", &[5, 0])]);
    let made = outputs(&graph, &[4], Array::F32(vec![5.7, 4.0, -0.5, f32::NAN]));
    assert_eq!(made[0], Array::F32(vec![1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]));
}

/// Classifiers look up their labels so: places are computed of the scores.
#[test]
fn columns_are_picked_at_computed_places() {
    let raw = |list: &[i64]| list.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let labels = [
        node("ArgMax", &["x"], "best", &[int("axis", 1), int("keepdims", 0)]),
        node_in(ML, "ArrayFeatureExtractor", &["labels", "best"], &["y"], &[]),
        stored("labels", INT64, &[3], &raw(&[7, 8, 9])),
        open(11, "x", FLOAT, &["2", "3"]),
        open(12, "y", INT64, &[]),
    ];
    let network = network(&labels, &[]).unwrap();
    assert_eq!(network.outputs[0].spec.dims, [1, 2]);
    let scores = Array::F32(vec![0.1, 0.2, 0.7, 0.6, 0.3, 0.1]);
    assert_eq!(network.execute(&[scores]).unwrap(), [Array::I64(vec![9, 7])]);
    let columns = [
        node_in(ML, "ArrayFeatureExtractor", &["table", "x"], &["y"], &[]),
        singles("table", &[2, 3], |k| k as f32),
        open(11, "x", INT64, &["1", "4"]),
        open(12, "y", FLOAT, &[]),
    ];
    let made = outputs(&columns, &[1, 4], Array::I64(vec![2, 0, 2, 1]));
    assert_near(&made[0], &[2.0, 0.0, 2.0, 1.0, 5.0, 3.0, 5.0, 4.0]);
}
