//! `reef exec`: runs an unmodified program as a guest.

use super::bind::{self, Cover};
use super::colocate;
use super::executable::executable;
use super::kernel;
use super::library::{
    DRIVER, DRIVER_VARIABLE, NVML, NVML_SHIM, NVML_VARIABLE, SHIM, driver, library,
};
use super::limits;
use super::remote;
use super::reserve;
use super::search;
use super::slices;
use crate::remote::daemon::is_unanswered;
use crate::report::class::ClassName;
use crate::report::usage::Usage;
use anyhow::{Context, Result, anyhow, bail};
use reef_guest::join::{GuestInfo, JoinRequest, Refusal, would_join};
use reef_guest::page::Class;
use reef_serve::no_daemon;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest time of the daemon's answer, without which the program is not run: the machine may be
/// busy.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Run an unmodified CUDA program under REEF, as a guest of a daemon (`reef serve --guests`).
///
/// Without a daemon it is not run. Limits and a call profile need none: with them it runs, unless a
/// class, a share, a target or slices are named as well.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Class of the program: real-time work runs ahead of best-effort work [default: be].
    #[arg(long, value_enum)]
    class: Option<ClassName>,
    /// Folder of the daemon's sockets [default: $XDG_RUNTIME_DIR/reef, or /tmp/reef-UID].
    #[arg(long = "socket-dir", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Run the program without REEF if the daemon or the library is missing.
    #[arg(long)]
    allow_unprotected: bool,
    /// Refuse to run the program if the daemon does not grant it the class, whatever it starts, or
    /// without a GPU driver.
    #[arg(long, conflicts_with = "allow_unprotected")]
    strict: bool,
    /// Job: programs of one user with the same job are held together, on all devices.
    #[arg(long)]
    job: Option<String>,
    /// File whose first line is a token with the right to real time.
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// Print the library and socket in use, and a summary of intercepted calls at exit.
    #[arg(long)]
    explain: bool,
    /// Library that takes the driver's place [default: $REEF_SHIM, or next to this program].
    #[arg(long)]
    shim: Option<PathBuf>,
    /// Print the time of the program's driver calls at exit; with =FILE.json, also write each call
    /// there for Perfetto.
    #[arg(long, value_name = "FILE.json", num_args = 0..=1, require_equals = true)]
    call_profile: Option<Option<PathBuf>>,
    /// Device memory that a real-time program needs on its first device, such as 60GiB: best-effort
    /// programs are suspended until it is free (`guests.suspend` of the daemon).
    #[arg(long, value_name = "SIZE", conflicts_with = "allow_unprotected")]
    reserve: Option<String>,
    /// Let `reef suspend` move the program's memory by all processors of the host, at ten times the
    /// driver's speed. Memory of this kind cannot be opened by another process.
    #[arg(long)]
    swappable: bool,
    /// Mount the library over the driver's files for the program, which may open them by a path of
    /// its own. Auto mounts where the system allows it.
    ///
    /// It takes a mount namespace of the program: root's, or in a user namespace in which programs
    /// such as sudo have no rights.
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    bind: Bind,
    /// Memory that NVML and nvidia-smi show to a program whose memory is limited.
    #[arg(long, value_enum, value_name = "WHAT", default_value = "limit")]
    nvml: NvmlView,
    #[command(flatten)]
    slices: slices::Slices,
    #[command(flatten)]
    shares: colocate::Shares,
    #[command(flatten)]
    limits: limits::Limited,
    #[command(flatten)]
    remote: remote::Remote,
    /// Program and its arguments. Options of this command stand before it.
    #[arg(required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

/// Times at which libraries are mounted over the driver's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Bind {
    /// If the system allows it.
    Auto,
    /// Refuse to run the program if the system does not allow it.
    Always,
    /// Not at all.
    Never,
}

/// Memory that the management library shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum NvmlView {
    /// The limit, and what the job has of it.
    Limit,
    /// The whole device.
    Device,
}

/// Libraries that a program loads in place of the driver's.
#[derive(Debug)]
pub(crate) struct Shims {
    driver: PathBuf,
    nvml: Option<PathBuf>,
}

/// Has the library make memory that can leave the device.
const SWAPPABLE: &str = "REEF_SWAPPABLE";
/// File that numba opens as the driver.
const NUMBA: &str = "NUMBA_CUDA_DRIVER";

/// Class that the program is to have.
fn class(args: &Args) -> Class {
    match args.class {
        Some(ClassName::Rt) => Class::RealTime,
        None | Some(ClassName::Be) => Class::BestEffort,
    }
}

/// Becomes the program: its exit status, signals and terminal are its own.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(address) = &args.remote.remote {
        let mut set = remote::variables(&args.remote, address, args.token_file.as_deref())?;
        set.extend(args.class.map(|_| ("REEF_CLASS", class(args).to_string().into())));
        if args.explain {
            note!("reef: the GPU of {address}");
        }
        return become_program(args, &set);
    }
    let mut wishes = colocate::variables(&args.shares, class(args))?;
    wishes.extend(slices::variable(&args.slices, class(args))?);
    let threads: Vec<_> = colocate::threads(&args.shares)?.into_iter().collect();
    let credentials = credentials(args)?;
    let limits = limits::variables(&args.limits, args.job.as_deref())?;
    let profile = profile(args)?;
    let socket = reef_serve::folder(args.folder.as_deref()).join("guests.sock");
    // The program may change its working directory.
    let socket = std::path::absolute(&socket).context("working directory")?;
    let nvml = nvml_shim(args, limits.has_memory)?;
    let limits = limits.variables;
    let swap = args.swappable.then(|| (SWAPPABLE, OsString::from("1")));
    let kept = if limits.is_empty() { "is swappable" } else { "runs within its limits" };
    let limits: Vec<_> = limits.into_iter().chain(swap).collect();
    let shim = library(SHIM, args.shim.as_deref(), "REEF_SHIM");
    let shim = shim.map(|driver| Shims { driver, nvml });
    let reserved = reserve::size(args.reserve.as_deref(), class(args))?;
    let admission = check_admission(args, &socket, &credentials);
    if let (Some(bytes), Ok(())) = (reserved, &admission) {
        reserve::ask(&socket, &credentials, bytes)?;
    }
    // Limits and profiles are kept by the library alone; a class and shares that were named aren't.
    let is_named = args.class.is_some() || !wishes.is_empty();
    let needs_daemon = args.strict || reserved.is_some() || is_named && !args.allow_unprotected;
    match (shim, admission) {
        (Ok(shim), Ok(())) => {
            check_driver(args)?;
            wishes.extend(colocate::priority(class(args)));
            become_guest(args, &shim, Some(&socket), [limits, profile, wishes, threads].concat())
        }
        (Ok(shim), Err(why)) if !needs_daemon && !limits.is_empty() => {
            note!("reef: {why:#}; the program {kept}, and without a class");
            become_guest(args, &shim, None, [limits, profile, threads].concat())
        }
        (Ok(shim), Err(why)) if !needs_daemon && !profile.is_empty() => {
            note!("reef: {why:#}; the program runs with a profile, and without a class");
            become_guest(args, &shim, None, [profile, threads].concat())
        }
        (Err(why), _) if !limits.is_empty() => Err(anyhow!(
            "not run: limits and --swappable need the library: {why:#}: name it with --shim \
                 or REEF_SHIM"
        )),
        (Err(why), _) | (_, Err(why)) if args.allow_unprotected => {
            note!("reef: {why:#}; the program runs without REEF");
            become_program(args, &threads)
        }
        (Err(why), _) => Err(not_run(&anyhow!("{why:#}: name it with --shim or REEF_SHIM"))),
        (_, Err(why)) => Err(not_run(&why)),
    }
}

fn not_run(why: &anyhow::Error) -> anyhow::Error {
    anyhow!("not run: {why:#}; or give --allow-unprotected; `reef doctor` says more")
}

/// Says that a class which was named has no effect without the GPU's driver.
///
/// # Errors
///
/// There is none, and the program is to run with its class alone.
fn check_driver(args: &Args) -> Result<()> {
    let Err(why) = driver() else { return Ok(()) };
    if args.strict {
        let name = format!("name it with {DRIVER_VARIABLE}=FILE");
        bail!("not run: {why}; install NVIDIA's driver, {name}, or leave out --strict");
    }
    if args.class.is_some() {
        note!("reef: {why}; without a GPU class {} has no effect", class(args));
    }
    Ok(())
}

/// Asks the daemon whether it would admit the program, without naming a device.
fn check_admission(args: &Args, socket: &Path, credentials: &GuestInfo) -> Result<()> {
    let wish = JoinRequest { class: class(args), device: [0; 16] };
    let program = args.program.first().and_then(|name| executable(name, &args.program[1..]));
    // A program that is not found is reported later.
    let program = program.unwrap_or_else(|| "/proc/self/exe".into());
    match would_join(socket, &wish, credentials, &program, TIMEOUT) {
        // A program that it starts may get what it doesn't: that asks when it uses the device.
        Err(Refusal::Refused(why)) if !args.strict => {
            note!("reef: {}: the daemon refuses: {why}", socket.display());
            Ok(())
        }
        Err(Refusal::Unreachable(error)) if is_unanswered(&error) => {
            bail!(no_daemon(socket.display(), "reef serve --guests", "--socket-dir"))
        }
        answer => answer.map(drop).with_context(|| socket.display().to_string()),
    }
}

/// The job and the token, as the program's library reads them as well.
fn credentials(args: &Args) -> Result<GuestInfo> {
    let token = args.token_file.as_ref().map(|path| {
        let wrong = |why: &str| Usage(format!("--token-file {}: {why}", path.display()));
        let token = reef_files::token(path).map_err(|e| wrong(&e.to_string()))?;
        if token.is_empty() { Err(wrong("its first line is not a token")) } else { Ok(token) }
    });
    let job = args.job.clone().unwrap_or_default();
    Ok(GuestInfo::new(job, token.transpose()?.unwrap_or_default()).map_err(Usage)?)
}

/// Variables for a profile. This process becomes the program, so that its number is the first
/// one's.
fn profile(args: &Args) -> Result<Vec<(&'static str, OsString)>> {
    let Some(file) = &args.call_profile else { return Ok(Vec::new()) };
    let mut set = vec![("REEF_PROFILE", OsString::from("table"))];
    if let Some(file) = file {
        let shown = file.display();
        if file.extension().is_none_or(|of| of != "json") {
            let why = format!("--call-profile must name a file that ends in .json, got {shown}");
            bail!(Usage(why));
        }
        let file = std::path::absolute(file).with_context(|| shown.to_string())?;
        reef_files::replaceable(&file)
            .map_err(|why| Usage(format!("--call-profile {shown}: {why}")))?;
        set[0].1 = "table,trace".into();
        set.push(("REEF_PROFILE_TRACE", file.into()));
        set.push(("REEF_PROFILE_FIRST", std::process::id().to_string().into()));
    }
    Ok(set)
}

impl Shims {
    /// Returns the library in the driver's place, with nothing in that of the management library.
    pub(crate) fn of_driver(driver: PathBuf) -> Self {
        Self { driver, nvml: None }
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.driver).chain(&self.nvml)
    }

    /// Returns a folder with the libraries under the names that programs search for: one that is
    /// preloaded as `libcuda.so.1` isn't meant by `libcuda.so`.
    fn folder(&self) -> Result<PathBuf> {
        let driver = [(DRIVER, &*self.driver), ("libcuda.so", &*self.driver)];
        let nvml = self.nvml.iter().flat_map(|nvml| [(NVML, &**nvml), ("libnvidia-ml.so", nvml)]);
        search::folder(&driver.into_iter().chain(nvml).collect::<Vec<_>>())
    }

    /// Variables by which a program takes these libraries for the driver's.
    pub(crate) fn variables(&self) -> Result<Vec<(&'static str, OsString)>> {
        let folder = self.folder()?;
        let nvml = self.nvml.as_deref().map(|nvml| (NVML, nvml));
        let libraries: Vec<_> = [(DRIVER, &*self.driver)].into_iter().chain(nvml).collect();
        let preload = search::preload(&libraries, &folder)?;
        let mut set = vec![("LD_PRELOAD", preload), (search::VARIABLE, search::path(&folder))];
        if std::env::var_os(NUMBA).is_none() {
            set.push((NUMBA, (&self.driver).into()));
        }
        Ok(set)
    }

    /// Mounts the libraries over the driver's files. Returns variables for the program.
    ///
    /// # Errors
    ///
    /// The system refuses it, and it must be.
    fn bind(&self, args: &Args, is_limited: bool) -> Result<Vec<(&'static str, OsString)>> {
        if args.bind == Bind::Never {
            return Ok(Vec::new());
        }
        let driver = Cover { library: &self.driver, name: DRIVER, variable: DRIVER_VARIABLE };
        let nvml = |library| Cover { library, name: NVML, variable: NVML_VARIABLE };
        let covers: Vec<_> =
            std::iter::once(driver).chain(self.nvml.as_deref().map(nvml)).collect();
        let plan = bind::plan(&covers, &self.folder()?)?;
        let shown = || plan.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>();
        match plan.execute() {
            Ok(()) => {
                if args.explain && !plan.files.is_empty() {
                    note!("reef: mounted over {}", shown().join(" and "));
                }
                Ok(plan.variables)
            }
            Err(why) if args.bind == Bind::Always => {
                bail!("not run: --bind always: mounting over {}: {why}", shown().join(" and "))
            }
            Err(why) => {
                if is_limited || args.explain {
                    let files = shown().join(" and ");
                    note!(
                        "reef: {why}: not mounted over {files}; a program that opens it by its path, or that is set-user-ID, is not limited"
                    );
                }
                Ok(Vec::new())
            }
        }
    }
}

/// Without a socket the program is not a guest: it has its limits alone.
fn become_guest(
    args: &Args,
    shims: &Shims,
    socket: Option<&Path>,
    more: Vec<(&'static str, OsString)>,
) -> Result<()> {
    kernel::apply(&args.limits, args.explain)?;
    let class = class(args).to_string();
    let mut set = shims.variables()?;
    let is_limited = more.iter().any(|(name, _)| *name == "REEF_ACCOUNTS");
    set.extend(shims.bind(args, is_limited)?);
    set.extend(more);
    set.extend(socket.map(|socket| ("REEF_GUESTS", socket.into())));
    set.extend(socket.map(|_| ("REEF_CLASS", class.clone().into())));
    set.extend(args.job.as_ref().map(|job| ("REEF_JOB", job.into())));
    if let Some(path) = &args.token_file {
        let path = path.canonicalize().with_context(|| path.display().to_string())?;
        set.push(("REEF_TOKEN_FILE", path.into()));
    }
    if args.explain {
        let shims: Vec<_> = shims.all().map(|shim| shim.display().to_string()).collect();
        let shims = shims.join(" and ");
        match socket {
            Some(socket) => note!("reef: {shims} at {}, class {class}", socket.display()),
            None => note!("reef: {shims}, without a daemon"),
        }
        set.push(("REEF_EXPLAIN", "/dev/stderr".into()));
    }
    become_program(args, &set)
}

fn become_program(args: &Args, set: &[(&str, OsString)]) -> Result<()> {
    let [program, rest @ ..] = &args.program[..] else { bail!(Usage("no program".into())) };
    let set = set.iter().map(|(name, value)| (name, value));
    let error = Command::new(program).args(rest).envs(set).exec();
    Err(Usage(format!("{}: {error}", program.display())).into())
}

/// The library that shows a limit as a device's memory, unless the device is to be shown.
///
/// # Errors
///
/// There is none, and the environment asks for it.
fn nvml_shim(args: &Args, is_limited: bool) -> Result<Option<PathBuf>> {
    let asked = std::env::var_os("REEF_NVML");
    let is_off = args.nvml == NvmlView::Device || asked.as_ref().is_some_and(|asked| asked == "0");
    if !is_limited || is_off {
        return Ok(None);
    }
    match library(NVML_SHIM, None, "REEF_NVML_SHIM") {
        Ok(found) => Ok(Some(found)),
        Err(why) if asked.is_some_and(|asked| asked == "1") => {
            Err(why).context("not run: REEF_NVML=1")
        }
        Err(why) => {
            note!("reef: {why}: NVML and nvidia-smi show the whole device");
            Ok(None)
        }
    }
}
