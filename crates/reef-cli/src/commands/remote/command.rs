//! The commands below `reef remote`.

use super::serve;
#[cfg(feature = "daemon")]
use super::{end, migration, ps, trace};
use anyhow::Result;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Lend this machine's devices to programs elsewhere.
    Serve(serve::Serve),
    /// List the sessions of this machine's servers.
    #[cfg(feature = "daemon")]
    Ps(ps::Args),
    /// End a session. Its program is told so.
    #[cfg(feature = "daemon")]
    End(end::Args),
    /// Move a session to another server, while its program runs.
    #[cfg(feature = "daemon")]
    Migrate(migration::Migrate),
    /// Write a session to a folder.
    #[cfg(feature = "daemon")]
    Snapshot(migration::Snapshot),
    /// Continue a session from a folder, at a server.
    #[cfg(feature = "daemon")]
    Restore(migration::Restore),
    /// Record the frames of sessions in time, for Perfetto.
    #[cfg(feature = "daemon")]
    Trace(trace::Args),
    /// Serve one program, as `serve` asks.
    #[cfg(feature = "daemon")]
    #[command(hide = true)]
    Session {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<std::ffi::OsString>,
    },
}

pub(crate) fn run(command: Command) -> Result<()> {
    match command {
        Command::Serve(serve) => serve::run(serve),
        #[cfg(feature = "daemon")]
        Command::Ps(args) => ps::run(&args),
        #[cfg(feature = "daemon")]
        Command::End(args) => end::run(&args),
        #[cfg(feature = "daemon")]
        Command::Migrate(args) => migration::run_migrate(&args),
        #[cfg(feature = "daemon")]
        Command::Snapshot(args) => migration::run_snapshot(&args),
        #[cfg(feature = "daemon")]
        Command::Restore(args) => migration::run_restore(&args),
        #[cfg(feature = "daemon")]
        Command::Trace(args) => trace::run(&args),
        #[cfg(feature = "daemon")]
        Command::Session { args } => {
            reef_remote_worker::run_worker(args.into_iter()).map_err(anyhow::Error::msg)
        }
    }
}
