//! Settings from the environment, read once.

use reef_guest::colocation::ShareRequest;
use reef_guest::join::GuestInfo;
use reef_guest::limit::{self, Limits};
use reef_guest::page::{Class, is_mps_served};
use reef_guest::profile::ProfileOptions;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Kernels that may be sliced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slices {
    /// Kernels that the driver compiles to the machine code that the program has, if their results
    /// depend on that.
    SameCode,
    /// All of which the program has PTX.
    Any,
    /// As [`SameCode`](Self::SameCode), and blocks never leave.
    NoStops,
}

/// Variables with few values, and these. Any other value has no effect, and nor has an empty one.
const WORDS: [(&str, &[&str]); 3] = [
    ("REEF_CLASS", &["rt", "be"]),
    ("REEF_GRAPHS", &["front"]),
    ("REEF_SLICES", &["1", "no-stops", "any", "0"]),
];

/// Settings of this process.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The daemon's socket, `$REEF_GUESTS`. Without it nothing is done.
    pub(crate) socket: Option<PathBuf>,
    /// `$REEF_CLASS`: `rt` or `be`; best-effort if it is anything else.
    pub(crate) class: Class,
    /// True if graphs that are built node by node may be cloned for gates. False if `$REEF_GRAPHS`
    /// is `front`.
    pub(crate) clones_graphs: bool,
    /// `$REEF_JOB`, the first line of the file `$REEF_TOKEN_FILE`, `$REEF_COLOCATE`, `$REEF_FLOOR`
    /// and `$REEF_SLO`; or the fault of these.
    pub(crate) guest_info: Result<GuestInfo, String>,
    /// File for the report of intercepted calls, `$REEF_EXPLAIN`.
    pub(crate) report: Option<PathBuf>,
    /// True if a control daemon of MPS serves this program, which only the report tells.
    pub(crate) is_under_mps: bool,
    /// Limits of this process's job, or the fault of a variable.
    pub(crate) limits: Result<Option<Limits>, String>,
    /// True if the program's memory may leave the device, `$REEF_SWAPPABLE=1`.
    pub(crate) is_swappable: bool,
    /// Kernels of a best-effort program that may be sliced, `$REEF_SLICES`.
    pub(crate) slices: Option<Slices>,
    /// File for what was found by running kernels again, `$REEF_RERUN`.
    pub(crate) reruns: Option<PathBuf>,
    /// True if names and code of kernels are kept, for either of these two.
    pub(crate) keeps_code: bool,
    /// Folder of accounts files.
    pub(crate) accounts: PathBuf,
    /// Options of the profile, or the fault of a variable.
    pub(crate) profile: Result<Option<ProfileOptions>, String>,
}

/// Returns the settings. Reading the environment calls no driver, so a thread that waits here waits
/// for that alone.
pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        say_ignored();
        say_wrong();
        let of = reef_files::variable;
        let path = |name| of(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let class = match of("REEF_CLASS") {
            Some(class) if class == "rt" => Class::RealTime,
            _ => Class::BestEffort,
        };
        let clones_graphs = of("REEF_GRAPHS").is_none_or(|graphs| graphs != "front");
        let guest_info = guest_info(path("REEF_TOKEN_FILE"));
        let (socket, report) = (path("REEF_GUESTS"), path("REEF_EXPLAIN"));
        let is_under_mps = report.is_some() && is_mps_served(of);
        let limits = Limits::read(variable);
        let is_swappable = variable("REEF_SWAPPABLE").is_some_and(|value| value == "1");
        let slices = match variable("REEF_SLICES").as_deref() {
            Some("1") => Some(Slices::SameCode),
            Some("any") => Some(Slices::Any),
            Some("no-stops") => Some(Slices::NoStops),
            _ => None,
        };
        let may_slice = socket.is_some() && class == Class::BestEffort && !is_swappable;
        let reruns = path("REEF_RERUN");
        let slices = slices.filter(|_| may_slice && reruns.is_none());
        let keeps_code = slices.is_some() || reruns.is_some();
        let (accounts, profile) = (limit::folder(variable), ProfileOptions::read(variable));
        Settings {
            socket,
            class,
            clones_graphs,
            guest_info,
            report,
            is_under_mps,
            limits,
            is_swappable,
            slices,
            reruns,
            keeps_code,
            accounts,
            profile,
        }
    })
}

/// Says that a program with more rights than its caller ignores variables, if there are some.
fn say_ignored() {
    let is_ours = |name: OsString| name.as_encoded_bytes().starts_with(b"REEF_");
    if reef_files::is_privileged() && std::env::vars_os().any(|(name, _)| is_ours(name)) {
        let why = "this program has more rights than its caller: REEF's variables have no effect";
        let _ = writeln!(std::io::stderr(), "reef: {why}"); // a failure can't be reported
    }
}

/// Says which variables have a value that they cannot have.
fn say_wrong() {
    for (name, words) in WORDS {
        let value = variable(name).filter(|value| !value.is_empty());
        if let Some(value) = value.filter(|value| !words.contains(&value.as_str())) {
            let words = words.join(" or ");
            let why = format!("{name} must be {words}, got {value:?}: it has no effect");
            let _ = writeln!(std::io::stderr(), "reef: {why}"); // a failure can't be reported
        }
    }
}

fn variable(name: &str) -> Option<String> {
    reef_files::variable(name).map(|value| value.to_string_lossy().into_owned())
}

fn guest_info(token: Option<PathBuf>) -> Result<GuestInfo, String> {
    let token = token.map(|path| {
        let token = reef_files::token(&path);
        token.map_err(|error| format!("REEF_TOKEN_FILE {}: {error}", path.display()))
    });
    let token = token.transpose()?.unwrap_or_default();
    let info = GuestInfo::new(variable("REEF_JOB").unwrap_or_default(), token)?;
    let info = match std::env::current_exe() {
        Ok(executable) => info.with_program(&executable, std::env::args_os()),
        Err(_) => info, // without /proc it has no name when it starts again
    };
    Ok(info.with_shares(ShareRequest::read(variable)?))
}

/// Returns whether long kernels may be sliced.
#[inline]
pub(crate) fn may_slice() -> bool {
    settings().slices.is_some()
}

#[inline]
pub(crate) fn runs_again() -> bool {
    settings().reruns.is_some()
}

/// Returns whether names and code of kernels are kept.
#[inline]
pub(crate) fn keeps_code() -> bool {
    settings().keeps_code
}

pub(crate) fn is_scheduled() -> bool {
    settings().socket.is_some() || limits_time()
}

/// Returns whether the time of a device may be limited.
pub(crate) fn limits_time() -> bool {
    settings()
        .limits
        .as_ref()
        .is_ok_and(|limits| limits.as_ref().is_some_and(|it| !it.compute.is_empty()))
}

/// Returns whether anything is limited, or a limit is invalid.
pub(crate) fn is_limited() -> bool {
    !matches!(settings().limits, Ok(None))
}

/// Returns whether calls are timed, or the options are invalid.
pub(crate) fn is_profile_enabled() -> bool {
    !matches!(settings().profile, Ok(None))
}

/// Returns whether the program itself selects the calls that are timed.
pub(crate) fn is_range_enabled() -> bool {
    settings().profile.as_ref().is_ok_and(|wanted| wanted.as_ref().is_some_and(|it| it.range))
}
