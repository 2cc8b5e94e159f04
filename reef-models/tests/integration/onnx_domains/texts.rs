//! Texts: labels, and what encodes them. Tensors hold their places in the file's list.

use super::{network, numbers, outputs};
use crate::handmade::{
    bytes, floats, graph, int, ints, node, node_in, open, stored, stored_texts, text, texts, typed,
};
use reef_models::kinds::TensorModel;
use reef_op::tensor::{Array, Element};

const ML: &str = "ai.onnx.ml";
const FLOAT: i64 = 1;
const INT64: i64 = 7;
const STRING: i64 = 8;

/// A node between `x` and `y`.
fn one_node(op: &str, [from, to]: [i64; 2], attributes: &[Vec<u8>]) -> Vec<Vec<u8>> {
    vec![
        node_in(ML, op, &["x"], &["y"], attributes),
        open(11, "x", from, &["n"]),
        open(12, "y", to, &[]),
    ]
}

/// Places of texts for the only input of a network.
fn places(network: &TensorModel, given: &[&str]) -> Array {
    let table = network.inputs[0].texts.as_ref().expect("an input of texts");
    Array::I64(given.iter().map(|text| table.place(text)).collect())
}

/// Texts of the first output.
fn output_texts(network: &TensorModel, input: Array) -> Vec<String> {
    let table = network.outputs[0].texts.clone().expect("an output of texts");
    let made = network.execute(&[input]).unwrap()[0].values().to_i64();
    made.into_iter().map(|place| table.get(place).expect("a known text").to_owned()).collect()
}

/// Texts of the first output for one row of singles.
fn of_row(parts: &[Vec<u8>], row: &[f32]) -> Vec<String> {
    let network = network(parts, &[("x", &[1, row.len()])]).unwrap_or_else(|why| panic!("{why}"));
    output_texts(&network, Array::F32(row.to_vec()))
}

#[track_caller]
fn refused(parts: &[Vec<u8>], why: &str) {
    let error = network(parts, &[("x", &[2])]).unwrap_err();
    assert!(error.contains(why), "{error}");
}

#[test]
fn texts_become_numbers_by_a_table() {
    let table = [
        texts("keys_strings", &["red", "green", "blue", "red"]),
        floats("values_floats", &[1.0, 2.0, 3.0, 4.0]),
    ];
    let network = network(&one_node("LabelEncoder", [STRING, FLOAT], &table), &[("x", &[4])]);
    let network = network.unwrap();
    assert_eq!(network.inputs[0].spec.element, Element::I64);
    let made = network.execute(&[places(&network, &["blue", "red", "black", "green"])]).unwrap();
    assert_eq!(made, [Array::F32(vec![3.0, 1.0, -0.0, 2.0])]);
    assert!(network.outputs[0].texts.is_none());
}

#[test]
fn numbers_become_texts_by_a_table() {
    let keys = ints("keys_int64s", &[3, 5]);
    let values = texts("values_strings", &["three", "five"]);
    for (default, other) in [(vec![], "_Unused"), (vec![text("default_string", "none")], "none")] {
        let table = [vec![keys.clone(), values.clone()], default].concat();
        let network = network(&one_node("LabelEncoder", [INT64, STRING], &table), &[("x", &[3])]);
        assert_eq!(
            output_texts(&network.unwrap(), Array::I64(vec![5, 4, 3])),
            ["five", other, "three"]
        );
    }
}

#[test]
fn texts_become_texts_and_lists_of_classes_go_both_ways() {
    let table = [texts("keys_strings", &["a", "b"]), texts("values_strings", &["b", "c"])];
    let made = network(&one_node("LabelEncoder", [STRING, STRING], &table), &[("x", &[3])]);
    let made = made.unwrap();
    assert_eq!(output_texts(&made, places(&made, &["b", "a", "x"])), ["c", "b", "_Unused"]);
    let classes = [texts("classes_strings", &["a", "b"])];
    let made = network(&one_node("LabelEncoder", [INT64, STRING], &classes), &[("x", &[3])]);
    assert_eq!(output_texts(&made.unwrap(), Array::I64(vec![1, 0, 2])), ["b", "a", "_Unused"]);
    let made = network(&one_node("LabelEncoder", [STRING, INT64], &classes), &[("x", &[3])]);
    let made = made.unwrap();
    let numbers = made.execute(&[places(&made, &["b", "x", "a"])]).unwrap();
    assert_eq!(numbers, [Array::I64(vec![1, -1, 0])]);
    let doubled = [texts("classes_strings", &["a", "b", "a"])];
    let made = network(&one_node("LabelEncoder", [STRING, INT64], &doubled), &[("x", &[2])]);
    let made = made.unwrap();
    let numbers = made.execute(&[places(&made, &["a", "b"])]).unwrap();
    assert_eq!(numbers, [Array::I64(vec![2, 1])]); // the last of equal ones
}

#[test]
fn categories_are_mapped_both_ways() {
    let lists = [texts("cats_strings", &["a", "b"]), ints("cats_int64s", &[3, 5])];
    let made = network(&one_node("CategoryMapper", [STRING, INT64], &lists), &[("x", &[3])]);
    let made = made.unwrap();
    let numbers = made.execute(&[places(&made, &["b", "x", "a"])]).unwrap();
    assert_eq!(numbers, [Array::I64(vec![5, -1, 3])]);
    let made = network(&one_node("CategoryMapper", [INT64, STRING], &lists), &[("x", &[3])]);
    assert_eq!(output_texts(&made.unwrap(), Array::I64(vec![5, 4, 3])), ["b", "_Unused", "a"]);
}

#[test]
fn texts_become_columns() {
    let categories = [texts("cats_strings", &["a", "b"])];
    let network = network(&one_node("OneHotEncoder", [STRING, FLOAT], &categories), &[("x", &[3])]);
    let network = network.unwrap();
    let made = network.execute(&[places(&network, &["b", "x", "a"])]).unwrap();
    assert_eq!(made, [Array::F32(vec![0.0, 1.0, 0.0, 0.0, 1.0, 0.0])]);
}

/// As converters of other classifiers write them: the label is picked from a tensor of texts.
#[test]
fn labels_are_picked_from_stored_texts() {
    let parts = |labels: Vec<u8>| {
        vec![
            labels,
            node("ArgMax", &["x"], "best", &[int("axis", 1), int("keepdims", 0)]),
            node_in(ML, "ArrayFeatureExtractor", &["labels", "best"], &["picked"], &[]),
            numbers("flat", &[-1]),
            node("Reshape", &["picked", "flat"], "y", &[]),
            open(11, "x", FLOAT, &["1", "3"]),
            open(12, "y", STRING, &["n"]),
        ]
    };
    let stored = parts(stored_texts("labels", &[3], &["a", "b", "ä"]));
    assert_eq!(of_row(&stored, &[0.1, 0.2, 0.3]), ["ä"]);
    let made = node("Constant", &[], "labels", &[texts("value_strings", &["a", "b", "c"])]);
    assert_eq!(of_row(&parts(made), &[0.3, 0.2, 0.1]), ["a"]);
}

#[test]
fn linear_classifiers_may_have_texts_as_labels() {
    let attributes = [
        floats("coefficients", &[1.0, -1.0]),
        floats("intercepts", &[0.0]),
        texts("classlabels_strings", &["no", "yes"]),
    ];
    let parts = [
        node_in(ML, "LinearClassifier", &["x"], &["label", "scores"], &attributes),
        node_in(
            ML,
            "ZipMap",
            &["scores"],
            &["map"],
            &[texts("classlabels_strings", &["no", "yes"])],
        ),
        open(11, "x", FLOAT, &["n", "2"]),
        open(12, "label", STRING, &["n"]),
        open(12, "map", 0, &[]),
    ];
    assert_eq!(of_row(&parts, &[1.0, 0.0]), ["yes"]);
    assert_eq!(of_row(&parts, &[0.0, 1.0]), ["no"]);
}

/// As scikit-learn's LabelBinarizer is written.
#[test]
fn texts_of_requests_are_compared_with_those_of_the_file() {
    let parts = [
        stored_texts("classes", &[3], &["a", "b", "c"]),
        numbers("column", &[-1, 1]),
        node("Reshape", &["x", "column"], "rows", &[]),
        node("Equal", &["classes", "rows"], "is", &[]),
        node("Cast", &["is"], "y", &[int("to", INT64)]),
        open(11, "x", STRING, &["n"]),
        open(12, "y", INT64, &[]),
    ];
    let network = network(&parts, &[("x", &[3])]).unwrap();
    let made = network.execute(&[places(&network, &["b", "x", "a"])]).unwrap();
    assert_eq!(made, [Array::I64(vec![0, 1, 0, 0, 0, 0, 1, 0, 0])]);
}

/// As an imputer replaces missing texts, before an encoder.
#[test]
fn texts_are_chosen_by_conditions() {
    let table = [
        texts("keys_strings", &["a", "b"]),
        ints("values_int64s", &[1, 2]),
        int("default_int64", -1),
    ];
    let parts = [
        stored_texts("none", &[1], &[""]),
        stored_texts("usual", &[1], &["b"]),
        node("Equal", &["x", "none"], "is", &[]),
        node("Where", &["is", "usual", "x"], "full", &[]),
        node_in(ML, "LabelEncoder", &["full"], &["y"], &table),
        open(11, "x", STRING, &["n"]),
        open(12, "y", INT64, &[]),
    ];
    let network = network(&parts, &[("x", &[3])]).unwrap();
    let made = network.execute(&[places(&network, &["", "a", "x"])]).unwrap();
    assert_eq!(made, [Array::I64(vec![2, 1, -1])]);
}

#[test]
fn texts_are_not_taken_for_numbers() {
    let ends = [open(11, "x", STRING, &["2"]), open(12, "y", FLOAT, &[])];
    let with = |nodes: &[Vec<u8>]| [nodes, &ends[..]].concat();
    refused(&with(&[node("Cast", &["x"], "y", &[int("to", 1)])]), "texts as operand 0 of Cast");
    let pair = [ints("keys_int64s", &[1]), ints("values_int64s", &[2])];
    let keys = with(&[node_in(ML, "LabelEncoder", &["x"], &["y"], &pair)]);
    refused(&keys, "keys must be texts if the input is of texts");
    let joined = with(&[numbers("n", &[1]), node("Concat", &["n", "x"], "y", &[int("axis", 0)])]);
    refused(&joined, "texts as operand 1 of Concat");
    let mixed = with(&[numbers("n", &[1, 2]), node("Where", &["n", "n", "x"], "y", &[])]);
    refused(&mixed, "texts as operand 2 of Where");
    // Texts that the file does not have would be equal.
    refused(&with(&[node("Equal", &["x", "x"], "y", &[])]), "texts as operand 0 of Equal");
    let listed = with(&[node("SequenceConstruct", &["x"], "y", &[])]);
    refused(&listed, "\"x\" is of texts, which no graph within another can take or give");
    let branch =
        |name| graph(name, &[node("Identity", &["x"], "z", &[]), open(12, "z", STRING, &[])]);
    let chosen = with(&[
        stored("is", 9, &[1], &[1]),
        node("If", &["is"], "y", &[branch("then_branch"), branch("else_branch")]),
    ]);
    refused(&chosen, "\"z\" is of texts, which no graph within another can take or give");
}

/// No answer could say a text that the file does not have.
#[test]
fn output_of_texts_of_a_request_is_refused() {
    let parts =
        |node: Vec<u8>| vec![node, open(11, "x", STRING, &["2"]), open(12, "y", STRING, &[])];
    let why = "it may hold texts of a request that the file does not have";
    refused(&parts(node("Identity", &["x"], "y", &[])), why);
    let mut joined = parts(node("Concat", &["w", "x"], "y", &[int("axis", 0)]));
    joined.push(stored_texts("w", &[1], &["a"]));
    refused(&joined, why);
}

/// Networks of one file for other sizes have the same places.
#[test]
fn list_of_texts_is_that_of_the_file() {
    let parts = one_node("LabelEncoder", [INT64, STRING], &[texts("classes_strings", &["a", "b"])]);
    let table = |rows| network(&parts, &[("x", &[rows])]).unwrap().outputs[0].texts.clone();
    assert!(table(1).is_some() && table(1) == table(7));
    let made = outputs(&parts, &[2], Array::I64(vec![0, 1])).remove(0);
    assert_eq!(made, Array::I64(vec![0, 1]));
}

/// A refusal says where the file may begin instead.
#[test]
fn operators_of_texts_and_maps_are_refused_with_a_remedy() {
    let with = |domain: &str, op: &str| {
        let attributes = [texts("string_vocabulary", &["a"])];
        vec![
            node_in(domain, op, &["x"], &["y"], &attributes),
            open(11, "x", STRING, &["2"]),
            open(12, "y", FLOAT, &[]),
        ]
    };
    for (domain, op) in [("com.microsoft", "Tokenizer"), ("", "StringNormalizer")] {
        refused(&with(domain, op), "let the client do it, and begin the file with the numbers");
    }
    let why = "it is one of onnxruntime-extensions, for texts, images and sounds";
    refused(&with("ai.onnx.contrib", "BertTokenizer"), why);
    let compiled = [
        node_in("com.microsoft", "EPContext", &["x"], &["y"], &[int("main_context", 1)]),
        open(11, "x", FLOAT, &["2"]),
        open(12, "y", FLOAT, &[]),
    ];
    refused(&compiled, "save the file before it is compiled for one");
    let mut mapped = with(ML, "DictVectorizer");
    mapped[1] = bytes(11, bytes(1, "x"));
    let why = "input \"x\": it is a map, of which node \"y\" (DictVectorizer) makes a tensor";
    let error = network(&mapped, &[]).unwrap_err();
    assert!(error.contains(why), "{error}");
}

/// Bigrams 5 6, 7 8 and 6 7 after four elements, by the examples of the standard.
#[test]
fn grams_of_a_sequence_are_counted() {
    let made = |dims: &[i64], lengths: [i64; 2], skips: i64, more: &[Vec<u8>]| {
        let pool = [
            int("min_gram_length", lengths[0]),
            int("max_gram_length", lengths[1]),
            int("max_skip_count", skips),
            ints("ngram_counts", &[0, 4]),
            ints("ngram_indexes", &[0, 1, 2, 3, 4, 5, 6]),
            ints("pool_int64s", &[2, 3, 5, 4, 5, 6, 7, 8, 6, 7]),
        ];
        let parts = [
            node("TfIdfVectorizer", &["x"], "y", &[&pool[..], more].concat()),
            typed(11, "x", 6, dims),
            open(12, "y", FLOAT, &[]),
        ];
        let x = Array::I32(vec![1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8]);
        network(&parts, &[]).unwrap().execute(&[x]).unwrap().remove(0)
    };
    let counts = |list: &[u8]| Array::F32(list.iter().map(|&x| x.into()).collect());
    let tf = [text("mode", "TF")];
    assert_eq!(made(&[12], [2, 2], 0, &tf), counts(&[0, 0, 0, 0, 1, 1, 1]));
    assert_eq!(made(&[12], [2, 2], 5, &tf), counts(&[0, 0, 0, 0, 1, 3, 1]));
    assert_eq!(made(&[12], [1, 2], 5, &tf), counts(&[0, 3, 1, 0, 1, 3, 1]));
    let rows = counts(&[0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1]);
    assert_eq!(made(&[2, 6], [1, 2], 5, &tf), rows);
    let weights = floats("weights", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    let any = [text("mode", "IDF"), weights.clone()];
    assert_eq!(made(&[12], [1, 2], 5, &any), counts(&[0, 2, 3, 0, 5, 6, 7]));
    let all = [text("mode", "TFIDF"), weights];
    assert_eq!(made(&[12], [1, 2], 5, &all), counts(&[0, 6, 3, 0, 5, 18, 7]));
}

/// The first weight is that of the first n-gram, whose column is the last.
#[test]
fn weights_are_those_of_grams_and_not_of_columns() {
    let pool = [
        int("min_gram_length", 1),
        int("max_gram_length", 1),
        int("max_skip_count", 0),
        text("mode", "TFIDF"),
        ints("ngram_counts", &[0]),
        ints("ngram_indexes", &[2, 0]),
        ints("pool_int64s", &[1, 2]),
        floats("weights", &[5.0, 7.0]),
    ];
    let parts = [
        node("TfIdfVectorizer", &["x"], "y", &pool),
        typed(11, "x", 6, &[3]),
        open(12, "y", FLOAT, &[]),
    ];
    let made = network(&parts, &[]).unwrap().execute(&[Array::I32(vec![1, 2, 2])]).unwrap();
    assert_eq!(made, [Array::F32(vec![14.0, 0.0, 5.0])]);
}

#[test]
fn words_of_a_request_are_counted() {
    let pool = [
        int("min_gram_length", 1),
        int("max_gram_length", 2),
        int("max_skip_count", 0),
        text("mode", "TF"),
        ints("ngram_counts", &[0, 2]),
        ints("ngram_indexes", &[2, 0, 1]),
        texts("pool_strings", &["a", "b", "a", "b"]),
    ];
    let parts = [
        node("TfIdfVectorizer", &["x"], "y", &pool),
        open(11, "x", STRING, &["n"]),
        open(12, "y", FLOAT, &[]),
    ];
    let network = network(&parts, &[("x", &[5])]).unwrap();
    let made = network.execute(&[places(&network, &["a", "b", "c", "a", "b"])]).unwrap();
    assert_eq!(made, [Array::F32(vec![2.0, 2.0, 2.0])]);
    let made = network.execute(&[places(&network, &["b", "a", "c", "c", "a"])]).unwrap();
    assert_eq!(made, [Array::F32(vec![1.0, 0.0, 2.0])]);
}
