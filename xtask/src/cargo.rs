//! Commands of cargo.

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
