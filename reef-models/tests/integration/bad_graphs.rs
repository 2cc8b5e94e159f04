//! Every defect of a graph file is refused with its file, its place and the value.

use reef_models::{Error, ScheduleGraph};

const GOOD: &str = r#"{
    "storage": [
        {"name": "a", "size": 8, "stype": "float32"},
        {"name": "b", "size": 8, "stype": "float32"},
        {"name": "temp", "size": 8, "stype": "float32"},
        {"name": "output", "size": 8, "stype": "float32"}
    ],
    "kernels": [
        {"name": "add", "launch_params": [2, 1, 1, 4, 1, 1], "args": [0, 1, 2]},
        {"name": "multiply", "launch_params": [2, 1, 1, 4, 1, 1], "args": [2, 1, 3]}
    ],
    "args": [0, 1],
    "shared_memory": {"add": 4, "multiply": 4}
}"#;

/// Error of loading after `from` was replaced by `to`, once.
fn say(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    ScheduleGraph::from_json(&text, "bad.json").unwrap_err().to_string()
}

#[test]
fn the_unchanged_graph_is_good() {
    let graph = ScheduleGraph::from_json(GOOD, "good").unwrap();
    assert_eq!((graph.steps.len(), graph.bytes()), (2, 4 * 32));
    assert_eq!((graph.steps[1].reads.as_slice(), graph.steps[1].writes), (&[2, 1][..], 3));
}

#[test]
fn storages() {
    assert_eq!(
        say("\"float32\"", "\"float16\""),
        "bad.json: storage[0].stype: unknown element type \"float16\""
    );
    assert_eq!(say("\"b\"", "\"a\""), "bad.json: storage[1].name: storage name \"a\" is taken");
    assert_eq!(
        say("\"size\": 8", "\"size\": 0"),
        "bad.json: storage[0].size: size 0 is out of range"
    );
    let huge = say("\"size\": 8", "\"size\": 18446744073709551615");
    assert_eq!(huge, "bad.json: storage[0].size: size 18446744073709551615 is out of range");
    assert_eq!(say("\"output\"", "\"out\""), "bad.json: storage: no storage is called \"output\"");
}

#[test]
fn geometry() {
    let at = "bad.json: kernels[1].launch_params: ";
    let change = |to: &str| {
        say(
            "\"multiply\", \"launch_params\": [2, 1, 1, 4, 1, 1]",
            &format!("\"multiply\", \"launch_params\": {to}"),
        )
    };
    assert_eq!(change("[2, 1, 1, 4, 1]"), format!("{at}5 numbers, want 6"));
    assert_eq!(
        change("[2, 1, 1, 4, 0, 1]"),
        format!("{at}geometry [2, 1, 1] x [4, 0, 1] is out of range")
    );
    assert_eq!(
        change("[65536, 65536, 1, 4, 1, 1]"),
        format!("{at}geometry [65536, 65536, 1] x [4, 1, 1] is out of range")
    );
}

/// Both launches as one kernel.
fn launched_twice(to: &str) -> String {
    let text = GOOD.replace("multiply", "add").replace(r#""add": 4, "add": 4"#, r#""add": 4"#);
    let text = text.replacen("[2, 1, 1, 4, 1, 1], \"args\": [2, 1, 3]", to, 1);
    ScheduleGraph::from_json(&text, "bad.json").unwrap_err().to_string()
}

#[test]
fn one_kernel_has_one_geometry_and_one_argument_count() {
    assert_eq!(
        launched_twice("[3, 1, 1, 4, 1, 1], \"args\": [2, 1, 3]"),
        "bad.json: kernels[1].launch_params: geometry [3, 1, 1] x [4, 1, 1] differs from that of an \
         earlier launch of \"add\""
    );
    assert_eq!(
        launched_twice("[2, 1, 1, 4, 1, 1], \"args\": [2, 1, 3, 0]"),
        "bad.json: kernels[1].args: 4 arguments, an earlier launch of \"add\" has 3"
    );
}

#[test]
fn arguments() {
    assert_eq!(say("[2, 1, 3]", "[2, 4, 3]"), "bad.json: kernels[1].args[1]: storage 4 of 4");
    assert_eq!(say("\"args\": [0, 1],", "\"args\": [0, 9],"), "bad.json: args[1]: storage 9 of 4");
    assert_eq!(
        say("[2, 1, 3]", "[2, 1]"),
        "bad.json: kernels[1].args: 2 arguments, but this kind of kernel writes number 2"
    );
    assert_eq!(
        say("[2, 1, 3]", "[3, 1, 3]"),
        "bad.json: kernels[1].args[0]: storage 3 is written by this launch and listed twice"
    );
}

#[test]
fn given_storages() {
    let again = say("\"args\": [0, 1],", "\"args\": [0, 0],");
    assert_eq!(again, "bad.json: args[1]: storage 0 is listed twice");
    let unread = say("\"args\": [0, 1],", "\"args\": [0, 1, 3],");
    assert_eq!(unread, "bad.json: args[2]: storage 3 is given but never read");
    let written = say("\"args\": [0, 1],", "\"args\": [0, 1, 2],");
    assert_eq!(
        written,
        "bad.json: kernels[0].args[2]: storage 2 is given from outside but written here"
    );
}

#[test]
fn order() {
    assert_eq!(
        say("\"args\": [0, 1],", "\"args\": [0],"),
        "bad.json: kernels[0].args[1]: storage 1 is read before it is written"
    );
    assert_eq!(
        say("[2, 1, 3]", "[0, 1, 2]"),
        "bad.json: kernels[1].args: the last launch writes storage 2, not \"output\" (3)"
    );
}

#[test]
fn shared_memory() {
    let missing = say(", \"multiply\": 4}", "}");
    assert_eq!(missing, "bad.json: shared_memory: kernel \"multiply\" is missing");
    let unknown = say("\"multiply\": 4}", "\"multiply\": 4, \"sub\": 4}");
    assert_eq!(unknown, "bad.json: shared_memory: no kernel is called \"sub\"");
}

#[test]
fn emptiness() {
    let empty = |storage: &str| {
        let text = format!(
            r#"{{"storage": [{storage}], "kernels": [], "args": [], "shared_memory": {{}}}}"#
        );
        ScheduleGraph::from_json(&text, "bad.json").unwrap_err().to_string()
    };
    assert_eq!(empty(""), "bad.json: storage: is empty");
    let storage = r#"{"name": "output", "size": 1, "stype": "byte"}"#;
    assert_eq!(empty(storage), "bad.json: kernels: is empty");
}

#[test]
fn broken_json_is_one_clear_error() {
    for length in (0..GOOD.len()).step_by(7) {
        let error = ScheduleGraph::from_json(&GOOD[..length], "bad.json").unwrap_err();
        assert!(matches!(error, Error::Json { .. }), "cut to {length}: {error}");
    }
    let after = ScheduleGraph::from_json(&format!("{GOOD} x"), "bad.json").unwrap_err();
    assert!(after.to_string().starts_with("bad.json: trailing characters at line 14"), "{after}");
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_its_place() {
    let table = [
        (
            "[0, 1, 2]",
            "[0, \"x\", 2]",
            "kernels[0].args[1]: invalid type: string \"x\", expected usize at line 9",
        ),
        (
            "[0, 1, 2]",
            "[0, -1, 2]",
            "kernels[0].args[1]: invalid value: integer `-1`, expected usize at line 9",
        ),
        ("\"size\": 8, ", "", "storage[0]: missing field `size` at line 3"),
        ("\"size\": 8", "\"size\": 0.5", "storage[0].size: invalid type: floating point `0.5`"),
        ("[2, 1, 1, 4, 1, 1]", "{}", "kernels[0].launch_params: invalid type: map"),
        ("\"multiply\": 4}", "\"multiply\": null}", "shared_memory.multiply: invalid type: null"),
        (
            "\"args\": [0, 1],",
            "\"args\": 7,",
            "args: invalid type: integer `7`, expected a sequence",
        ),
    ];
    for (from, to, place) in table {
        let error = say(from, to);
        assert!(error.starts_with(&format!("bad.json: {place}")), "{error}");
    }
}

#[test]
fn error_of_a_missing_file_has_its_name() {
    let error = ScheduleGraph::load("/nowhere/model.json").unwrap_err();
    assert!(matches!(error, Error::Io { .. }));
    assert!(error.to_string().starts_with("/nowhere/model.json: "), "{error}");
}
