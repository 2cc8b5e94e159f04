//! A build without default features: what it leaves out says how to get it.
#![cfg(not(feature = "daemon"))]

use std::process::Command;

#[test]
fn a_command_that_is_left_out_says_which_feature_has_it() {
    for (line, feature) in [
        ("serve --load resnet50 --help", "daemon"),
        ("top", "daemon"),
        ("doctor", "daemon"),
        ("ctl load resnet50", "daemon"),
        ("request resnet50", "daemon"),
        ("bench start --json", "bench"),
        ("exec --strict -- true", "daemon"),
        ("check kernels.ptx", "daemon"),
        ("k8s plugin", "daemon"),
        ("ctl trace --seconds 2", "daemon"),
        ("suspend 4711", "daemon"),
        ("bench preempt --json", "bench"),
        ("simulate fleet.json", "bench"),
        ("remote serve --listen 127.0.0.1:7733", "remote"),
        ("remote ps", "remote"),
    ] {
        let mut reef = Command::new(env!("CARGO_BIN_EXE_reef"));
        let output = reef.args(line.split(' ')).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        // Not the installed one alone: `target/release` may be first in the search path.
        let remedy = format!("cargo build --release -p reef-cli --features {feature}, or ");
        assert!(stderr.contains(&remedy), "{line}: {stderr}");
    }
}
