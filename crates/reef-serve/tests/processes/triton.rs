//! The stock tritonclient works against the daemon, unchanged.

use crate::daemon::Daemon;
use reef::models::{Model, Seeded};
use std::path::Path;
use std::process::Command;

/// The Python that has tritonclient, or `None`, said aloud.
pub(crate) fn python() -> Option<String> {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/tritonclient.sh");
    let output = Command::new(tool).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() {
        return Some(said);
    }
    let last = said.lines().next_back().unwrap_or_default();
    let why = last.strip_prefix("skipped: ");
    reef_conformance::skip(why.unwrap_or_else(|| panic!("tools/tritonclient.sh: {said}")));
    None
}

#[test]
fn the_stock_client_works_unchanged() {
    let Some(python) = python() else { return };
    let daemon = Daemon::start("triton", &["limits.queue=12"]);
    let model = Model::open("resnet18").input_size(32).read().unwrap();
    let input = Seeded(1).input(model.input_len());
    let logits = model.expected(&input).unwrap();
    for (name, values) in [("input.f32", input), ("logits.f32", logits)] {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        std::fs::write(daemon.folder().join(name), bytes).unwrap();
    }
    let typed = "../../reef-models/tests/onnx/tensors/typed-17.onnx";
    let typed = Path::new(env!("CARGO_MANIFEST_DIR")).join(typed);
    std::fs::copy(typed, daemon.folder().join("models/typed.onnx")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/processes/triton.py");
    let mut client = Command::new(python);
    client.arg(script).arg(daemon.folder()).args([&daemon.grpc, &daemon.http]);
    let output = client.env("GRPC_VERBOSITY", "NONE").output().unwrap();
    let [said, wrong] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success() && said.ends_with("passed\n"), "{said}{wrong}");
}
