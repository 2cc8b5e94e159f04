//! Commands that this build leaves out: each says which feature has it.

use crate::report::usage::Usage;
use anyhow::Result;
use std::ffi::OsString;

/// Whatever follows the command's name, so that no argument is an error before the command itself
/// is.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _all: Vec<OsString>,
}

/// Refuses the command and says how to build it.
fn refuse(feature: &str) -> Result<()> {
    let name = std::env::args_os().nth(1).unwrap_or_default();
    let name = name.to_string_lossy();
    let build = format!("cargo build --release -p reef-cli --features {feature}");
    // Without --locked it takes other versions than those that were tested.
    let install = format!("cargo install --locked --path crates/reef-cli --features {feature}");
    Err(Usage(format!("`reef {name}` is not in this build. Rebuild with: {build}, or {install}"))
        .into())
}

/// Stands in the place of a command's modules.
#[cfg(not(feature = "bench"))]
macro_rules! left_out {
    ($feature:literal) => {
        pub(crate) use crate::commands::left_out::Args;

        pub(crate) fn run(_: &Args) -> anyhow::Result<()> {
            crate::commands::left_out::refuse($feature)
        }
    };
}

#[cfg(not(feature = "bench"))]
pub(crate) mod bench {
    pub(crate) mod command {
        pub(crate) use crate::commands::left_out::Args as Command;

        pub(crate) fn run(_: Command) -> anyhow::Result<()> {
            crate::commands::left_out::refuse("bench")
        }
    }
}

#[cfg(not(feature = "remote"))]
pub(crate) mod remote {
    pub(crate) mod command {
        pub(crate) use crate::commands::left_out::Args as Command;

        pub(crate) fn run(_: Command) -> anyhow::Result<()> {
            crate::commands::left_out::refuse("remote")
        }
    }
}

#[cfg(not(feature = "bench"))]
pub(crate) mod simulate {
    left_out!("bench");
}

#[cfg(not(feature = "daemon"))]
pub(crate) mod suspend {
    pub(crate) use crate::commands::left_out::{
        Args as Suspend, Args as Resume, Args as Move, Args as Checkpoint,
    };

    pub(crate) fn suspend(_: &Suspend) -> anyhow::Result<()> {
        crate::commands::left_out::refuse("daemon")
    }

    pub(crate) use suspend as resume;
    pub(crate) use suspend as move_to;
    pub(crate) use suspend as checkpoint;

    pub(crate) fn checkpointer() -> anyhow::Result<()> {
        crate::commands::left_out::refuse("daemon")
    }
}

#[cfg(not(feature = "daemon"))]
pub(crate) mod request {
    left_out!("daemon");
}

#[cfg(not(feature = "daemon"))]
pub(crate) mod check {
    pub(crate) mod run {
        left_out!("daemon");
    }
}

#[cfg(not(feature = "daemon"))]
pub(crate) mod doctor {
    pub(crate) mod run {
        left_out!("daemon");
    }
}

#[cfg(not(feature = "daemon"))]
pub(crate) mod exec {
    pub(crate) mod run {
        left_out!("daemon");
    }
}

#[cfg(not(feature = "daemon"))]
pub(crate) mod k8s {
    left_out!("daemon");
    pub(crate) use Args as Command;
}

#[cfg(not(feature = "daemon"))]
pub(crate) mod serve {
    left_out!("daemon");
}

#[cfg(not(feature = "daemon"))]
pub(crate) mod ctl {
    pub(crate) mod command {
        left_out!("daemon");
        pub(crate) use Args as Command;
    }
}

#[cfg(not(feature = "daemon"))]
pub(crate) mod top {
    pub(crate) mod run {
        left_out!("daemon");
    }
}
