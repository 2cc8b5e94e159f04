//! The stock tritonclient works against the daemon, unchanged.

mod common;

use common::daemon::Daemon;
use common::text;
use reef::models::{Seeded, build, reference};
use std::path::Path;
use std::process::Command;

/// The Python that has tritonclient, or why there is none.
fn python() -> Result<String, String> {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/tritonclient.sh");
    let output = Command::new(tool).output().map_err(|e| format!("skipped: {e}"))?;
    let said = text(&output.stdout).trim().to_owned();
    if output.status.success() { Ok(said) } else { Err(said) }
}

#[test]
fn the_stock_client_works_unchanged() {
    let python = match python() {
        Ok(python) => python,
        Err(skipped) => return println!("{skipped}"),
    };
    let daemon = Daemon::start("triton", &[]);
    let model = build("resnet18", Some(32), 1).unwrap();
    let input = Seeded(1).input(model.input().elements());
    let logits = reference::execute(&model, &Seeded(1), &input).unwrap();
    for (name, values) in [("input.f32", input), ("logits.f32", logits)] {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        std::fs::write(daemon.path(name), bytes).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/triton.py");
    let mut client = Command::new(python);
    client.arg(script).args([&daemon.folder.path(""), &daemon.grpc, &daemon.http]);
    let output = client.env("GRPC_VERBOSITY", "NONE").output().unwrap();
    let (said, wrong) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && said.ends_with("passed\n"), "{said}{wrong}");
}
