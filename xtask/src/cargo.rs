//! Commands of cargo, and what commands print.

use std::process::Command;

/// Arguments of `clippy` in the gate.
pub(crate) const CLIPPY: &str =
    "clippy --workspace --all-targets --features cuda,hip -- -D warnings";

/// Cargo with these arguments, separated by spaces.
pub(crate) fn cargo(args: &str) -> Command {
    let mut command = Command::new("cargo");
    command.args(args.split_whitespace());
    // The nightly checks choose a toolchain by `+nightly`, which a set variable would override.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command
}

/// Output of a command, as text.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{command:?}: {error}"))
}
