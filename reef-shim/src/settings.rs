//! What the environment says, read once.

use reef_guest::page::Class;
use std::path::PathBuf;
use std::sync::OnceLock;

/// What this process was told.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The daemon's socket, `$REEF_GUESTS`. Without it nothing is done.
    pub(crate) socket: Option<PathBuf>,
    /// `$REEF_CLASS`: `rt` or `be`; best-effort if it is anything else.
    pub(crate) class: Class,
    /// Whether graphs that are built node by node may be cloned for gates: not if `$REEF_GRAPHS` is `front`.
    pub(crate) clones_graphs: bool,
    /// Where to write what was intercepted, `$REEF_EXPLAIN`.
    pub(crate) report: Option<PathBuf>,
}

/// Reading the environment enters no driver, so whoever waits here waits for that alone.
pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let path = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let class = match std::env::var("REEF_CLASS").as_deref() {
            Ok("rt") => Class::RealTime,
            _ => Class::BestEffort,
        };
        let clones_graphs = std::env::var_os("REEF_GRAPHS").is_none_or(|graphs| graphs != "front");
        Settings { socket: path("REEF_GUESTS"), class, clones_graphs, report: path("REEF_EXPLAIN") }
    })
}

/// Whether calls are to be looked at.
pub(crate) fn is_wanted() -> bool {
    settings().socket.is_some()
}
