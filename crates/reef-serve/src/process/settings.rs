//! The program of a model: the table `[process]` of its `model.toml`.

use super::user::User;
use crate::error::{Error, Result};
use crate::residency::idle::{self, ResidencyKind};
use crate::suspend::suspensions::OWN_PROGRAM;
use reef_guest::limit;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Path on which programs are searched, unless their environment has one.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// File with the class of a model for Triton's Python backend, which its command does not name.
const TRITON_MODEL: &str = "model.py";

/// Command that keeps limits. Without a daemon for guests they are kept all the same.
const EXEC: [&str; 3] = ["reef", "exec", "--allow-unprotected"];

/// Minimum limit of memory, in bytes, as `reef exec` has it: a smaller one lacks its unit.
const MIN_MEMORY: u64 = 1 << 20;

/// Maximum of every time, in milliseconds: a day.
const MAX_MS: u64 = 86_400_000;

/// Keys of the table. An unknown key is an error.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProcessSettings {
    /// Program and arguments. A name with `/` is relative to the version's folder.
    command: Vec<String>,
    /// Its environment.
    env: BTreeMap<String, String>,
    /// Names of variables that it gets from the daemon's environment.
    pass_env: Vec<String>,
    /// Working folder, relative to the version's folder.
    folder: PathBuf,
    /// Limit of device memory for each process, such as 8GiB, as `reef exec --memory` has it.
    memory: Option<String>,
    /// Share of each device's time for each process, such as 30%, as `reef exec --compute` has it.
    compute: Option<String>,
    /// Its user: a name in `/etc/passwd`, or a number there. Default: the daemon's.
    user: Option<String>,
    /// Times at which its memory is on the GPU.
    residency: ResidencyKind,
    /// Time without a request after which it leaves the GPU on demand, such as 30s.
    idle: Option<String>,
    /// Maximum time until it is ready.
    load_ms: u64,
    /// Maximum time until it reacts to a cancelled request.
    cancel_ms: u64,
    /// Maximum time until it ends by itself.
    stop_ms: u64,
    /// Configuration in Triton's form, as JSON, that the process is told.
    #[serde(skip)]
    config: Option<String>,
}

/// Wishes of a process that is on the GPU on demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Demand {
    /// Time without a request after which it leaves.
    pub(super) idle: Duration,
    /// Bytes of device memory that it may take; 0 if it has no limit.
    pub(super) limit: u64,
}

impl Default for ProcessSettings {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            env: BTreeMap::new(),
            pass_env: Vec::new(),
            folder: PathBuf::new(),
            memory: None,
            compute: None,
            user: None,
            residency: ResidencyKind::Always,
            idle: None,
            load_ms: 300_000,
            cancel_ms: 5_000,
            stop_ms: 5_000,
            config: None,
        }
    }
}

impl ProcessSettings {
    /// Returns the program of a model for Triton's Python backend. Its interpreter is in the folder
    /// `environment`, if that is given.
    ///
    /// # Errors
    ///
    /// An archive is not unpacked.
    pub(crate) fn triton(config: String, environment: Option<&str>) -> Result<Self, String> {
        let interpreter = match environment {
            None => "python3".into(),
            Some(archive) if archive.ends_with(".gz") || archive.ends_with(".tar") => {
                return Err(format!("must be a folder with bin/python3, got {archive:?}"));
            }
            // Paths are relative to the version's folder.
            Some(folder) => {
                format!("{}/bin/python3", folder.replace("$$TRITON_MODEL_DIRECTORY", ".."))
            }
        };
        let command = vec![interpreter, "-m".into(), "reef.serve.triton".into()];
        Ok(Self { command, config: Some(config), ..Self::default() })
    }

    /// True if the first size of all tensors is a number of rows, as in Triton's form.
    pub(crate) fn has_rows(&self) -> bool {
        self.config.is_some()
    }

    /// Refuses values that no process could have.
    ///
    /// # Errors
    ///
    /// The first of them, with its key.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err("process.command must be a program and its arguments".into());
        }
        let texts = self.command.iter().chain(self.env.values()).chain(self.env.keys());
        if texts.chain(&self.pass_env).any(|text| text.contains('\0')) {
            return Err("process: texts must not have a zero byte".into());
        }
        let is_name = |name: &&String| !name.is_empty() && !name.contains('=');
        if let Some(name) = self.env.keys().chain(&self.pass_env).find(|name| !is_name(name)) {
            return Err(format!("process: a variable must have a name without '=', got {name:?}"));
        }
        if let Some(memory) = &self.memory {
            let wrong = |why: String| format!("process.memory {memory}: {why}");
            let bytes = limit::bytes(memory).map_err(wrong)?;
            if bytes < MIN_MEMORY {
                let got = limit::format_bytes(bytes);
                return Err(wrong(format!("must be at least 1 MiB, such as 8GiB, got {got}")));
            }
        }
        if let Some(compute) = &self.compute {
            let read = limit::parts_per_million(compute);
            read.map_err(|why| format!("process.compute {compute}: {why}"))?;
        }
        if let Some(text) = &self.idle {
            if self.residency == ResidencyKind::Always {
                return Err("process.idle requires residency = \"on-demand\"".into());
            }
            idle::parse(text).map_err(|why| format!("process.idle {why}"))?;
        }
        for (key, ms) in
            [("load_ms", self.load_ms), ("cancel_ms", self.cancel_ms), ("stop_ms", self.stop_ms)]
        {
            if !(1..=MAX_MS).contains(&ms) {
                return Err(format!("process.{key} must be 1 to {MAX_MS}, got {ms}"));
            }
        }
        Ok(())
    }

    /// Returns its limits and its residency as options of `reef exec`; empty without any.
    fn exec_options(&self) -> Vec<&str> {
        let limits = [("--memory", &self.memory), ("--compute", &self.compute)];
        let given =
            limits.into_iter().filter_map(|(option, limit)| Some((option, limit.as_ref()?)));
        let is_on_demand = self.residency == ResidencyKind::OnDemand;
        let given = given.flat_map(|(option, limit)| [option, limit.as_str()]);
        given.chain(is_on_demand.then_some("--swappable")).collect()
    }
}

/// A program with the folder of its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    settings: Arc<ProcessSettings>,
    place: PathBuf,
    /// Its user, if it is not the daemon's.
    user: Option<User>,
}

impl Program {
    /// Returns the program of the version in `place`.
    ///
    /// # Errors
    ///
    /// `Invalid` if the version has no folder, there is no such user, or this program is not the
    /// command `reef`, which limits need; `Denied` if the daemon cannot start programs of the user.
    pub(crate) fn new(settings: &ProcessSettings, place: &Path) -> Result<Self> {
        if !place.is_dir() {
            let shown = place.display();
            return Err(Error::Invalid(format!(
                "engine: a process must have a folder, got {shown}"
            )));
        }
        if !settings.exec_options().is_empty() {
            check_has_exec()?;
        }
        let user = settings.user.as_deref().map(User::other).transpose()?.flatten();
        Ok(Self { settings: Arc::new(settings.clone()), place: place.to_path_buf(), user })
    }

    /// Returns the command that starts it for requests of a class. Nothing of the daemon's
    /// environment is in it but what is named. `reef exec` keeps its limits, and becomes the
    /// program. One that is on the GPU on demand is a guest of the daemon with these `sockets`,
    /// also if that does not listen yet. One that `is_written` has no mounts of its own, which
    /// cannot be written.
    pub(super) fn command(&self, class: &str, sockets: Option<&Path>, is_written: bool) -> Command {
        let Self { settings, place, user } = self;
        let name = Path::new(&settings.command[0]);
        let is_path = settings.command[0].contains('/');
        let program = if is_path { place.join(name) } else { name.into() };
        let options = settings.exec_options();
        let mut command = if options.is_empty() {
            Command::new(program)
        } else {
            let mut exec = Command::new(OWN_PROGRAM);
            exec.arg0(EXEC[0]).args(&EXEC[1..]).args(["--class", class]).args(options);
            exec.args(["--bind", "never"].iter().filter(|_| is_written));
            let option = OsStr::new("--socket-dir");
            exec.args(sockets.iter().flat_map(|folder| [option, folder.as_os_str()]));
            exec.arg("--").arg(program);
            exec
        };
        if let Some(user) = user {
            command.uid(user.uid).gid(user.gid);
        }
        command.args(&settings.command[1..]).env_clear().env("PATH", PATH);
        let passed =
            settings.pass_env.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let guests = sockets.map(|sockets| ("REEF_GUESTS", sockets.join("guests.sock")));
        command.envs(guests).envs(sockets.map(|_| ("REEF_CLASS", class)));
        command.envs(passed).envs(&settings.env).current_dir(self.folder());
        command
    }

    /// Returns what a process depends on beyond its command: its first message, and its user.
    pub(super) fn facts(&self, mut start: Vec<u8>) -> Vec<u8> {
        start.extend(format!("{:?}", self.user).into_bytes());
        start
    }

    /// Returns its working folder.
    fn folder(&self) -> PathBuf {
        self.place.join(&self.settings.folder)
    }

    /// Refuses a start without a working folder, for which the system would name the program.
    ///
    /// # Errors
    ///
    /// `Invalid`, with the folder.
    pub(super) fn check_folder(&self) -> Result<()> {
        let folder = self.folder();
        let may_be_there = match folder.metadata() {
            Ok(facts) => facts.is_dir(),
            // One that is closed to the daemon may be open to the program's user.
            Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        };
        if may_be_there {
            return Ok(());
        }
        Err(Error::Invalid(format!("process.folder must be a folder, got {folder:?}")))
    }

    /// Returns its wishes if it is on the GPU on demand.
    pub(super) fn demand(&self) -> Option<Demand> {
        let ProcessSettings { residency, idle, memory, .. } = &*self.settings;
        let limit = memory.as_deref().and_then(|memory| limit::bytes(memory).ok());
        let idle = idle.as_deref().and_then(|text| idle::parse(text).ok());
        (*residency == ResidencyKind::OnDemand)
            .then(|| Demand { idle: idle.unwrap_or(idle::DEFAULT), limit: limit.unwrap_or(0) })
    }

    /// True if it is on the GPU on demand.
    pub(crate) fn is_on_demand(&self) -> bool {
        self.demand().is_some()
    }

    /// Returns the folder of its version.
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// Returns whether it has [rows](ProcessSettings::has_rows).
    pub(crate) fn has_rows(&self) -> bool {
        self.settings.has_rows()
    }

    /// Returns the configuration in Triton's form, if it has one.
    pub(super) fn config(&self) -> Option<&str> {
        self.settings.config.as_deref()
    }

    pub(super) fn load_timeout(&self) -> Duration {
        Duration::from_millis(self.settings.load_ms)
    }

    pub(super) fn cancel_timeout(&self) -> Duration {
        Duration::from_millis(self.settings.cancel_ms)
    }

    pub(super) fn stop_timeout(&self) -> Duration {
        Duration::from_millis(self.settings.stop_ms)
    }

    /// Refuses a program that other users could replace: in a place below `repository`, all folders
    /// and files must belong to the daemon's user or root, and only they may write to them.
    ///
    /// # Errors
    ///
    /// `Denied`, with the path.
    pub(crate) fn check_owners(&self, repository: &Path) -> Result<()> {
        // A whole model has its description in the folder itself.
        let models = [self.place.parent().unwrap_or(&self.place), &self.place];
        let described =
            models.map(|model| ["model.toml", "config.pbtxt"].map(|file| model.join(file)));
        let of_triton = self.config().map(|_| TRITON_MODEL);
        let words = self.settings.command.iter().map(String::as_str).chain(of_triton);
        let named = words.map(|word| self.place.join(word));
        let files = described.into_iter().flatten().chain(named).filter(|file| file.exists());
        let files: Vec<PathBuf> = files.chain([self.place.clone()]).collect();
        // With their folders, in which others could replace them.
        let inside = |file: &PathBuf| -> Vec<PathBuf> {
            let all = file.ancestors().take_while(|path| path.starts_with(repository));
            all.map(Path::to_path_buf).collect()
        };
        let all: BTreeSet<PathBuf> = files.iter().flat_map(inside).collect();
        all.iter().try_for_each(|path| check_owner(path))
    }
}

/// Refuses what `reef exec` does in a program that is not the command `reef`.
fn check_has_exec() -> Result<()> {
    let own = std::env::current_exe().map_err(|e| Error::system(OWN_PROGRAM, e))?;
    let name = own.file_name().unwrap_or_default().to_string_lossy();
    if name.split(' ').next() == Some(EXEC[0]) {
        return Ok(()); // " (deleted)" follows once its file has been replaced
    }
    Err(Error::Invalid(format!(
        "process.memory, compute and residency must be of a daemon of the command reef, got {name}"
    )))
}

fn check_owner(path: &Path) -> Result<()> {
    let shown = path.display();
    let facts = path.metadata().map_err(|e| Error::Invalid(format!("{shown}: {e}")))?;
    let own = rustix::process::geteuid().as_raw();
    if ![0, own].contains(&facts.uid()) {
        let text =
            format!("{shown} must belong to the daemon's user or root, got user {}", facts.uid());
        return Err(Error::Denied(format!("engine: {text}")));
    }
    if facts.mode() & 0o022 != 0 {
        let mode = facts.mode() & 0o777;
        let text = format!("{shown} must be writable by its owner only, got mode {mode:o}");
        return Err(Error::Denied(format!("engine: {text}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::sources::why;

    fn check(text: &str) -> Result<(), String> {
        let text = format!("command = [\"p\"]\n{text}");
        let settings: ProcessSettings = toml::from_str(&text).map_err(|e| why(&text, &e))?;
        settings.check()
    }

    #[test]
    fn idle_requires_residency_on_demand_and_a_time() {
        assert_eq!(check("residency = \"on-demand\""), Ok(()));
        assert_eq!(check("residency = \"on-demand\"\nidle = \"30s\""), Ok(()));
        assert_eq!(check("residency = \"always\""), Ok(()));
        let want = "process.idle requires residency = \"on-demand\"";
        assert_eq!(check("idle = \"30s\""), Err(want.into()));
        let want = "process.idle must be a time from 1ms to 24h, such as 30s, got \"30\"";
        let said = check("residency = \"on-demand\"\nidle = \"30\"");
        assert_eq!(said, Err(want.into()));
        let said = check("residency = \"on-demnd\"").unwrap_err();
        assert!(said.ends_with(": did you mean on-demand?"), "{said}");
    }

    /// `reef exec` would refuse it in the log alone, at each start.
    #[test]
    fn memory_without_a_unit_is_refused() {
        assert_eq!(check("memory = \"1MiB\""), Ok(()));
        let want = "process.memory 8: must be at least 1 MiB, such as 8GiB, got 8 bytes";
        assert_eq!(check("memory = \"8\""), Err(want.into()));
    }

    /// Else a process would start from a folder with the rights of the user before.
    #[test]
    fn process_depends_on_its_user() {
        let facts = |user: Option<User>| {
            let settings: ProcessSettings = toml::from_str("command = [\"p\"]").unwrap();
            let program =
                Program { settings: Arc::new(settings), place: std::env::temp_dir(), user };
            program.facts(b"start".to_vec())
        };
        let [one, other] = [700, 701].map(|uid| facts(Some(User { uid, gid: 70 })));
        assert!(one != other && one != facts(None) && one.starts_with(b"start"));
    }

    #[test]
    fn process_on_demand_is_a_swappable_guest_of_its_daemon() {
        let settings = |more: &str| -> ProcessSettings {
            toml::from_str(&format!("command = [\"p\"]\n{more}")).unwrap()
        };
        let program = |more: &str| {
            let (settings, place) = (Arc::new(settings(more)), std::env::temp_dir());
            Program { settings, place, user: None }
        };
        let always = program("");
        assert_eq!(
            (always.demand(), always.command("be", None, false).get_args().count()),
            (None, 0)
        );
        let some = program("residency = \"on-demand\"\nmemory = \"2MiB\"\nidle = \"1min\"");
        let want = Demand { idle: Duration::from_secs(60), limit: 2 << 20 };
        assert_eq!(some.demand(), Some(want));
        let command = some.command("rt", Some(Path::new("/run/reef")), false);
        let args: Vec<_> = command.get_args().filter_map(OsStr::to_str).collect();
        let want = "exec --allow-unprotected --class rt --memory 2MiB --swappable --socket-dir /run/reef -- p";
        assert_eq!(args.join(" "), want);
        let written = some.command("rt", Some(Path::new("/run/reef")), true);
        let mut args = written.get_args().skip_while(|arg| *arg != "--bind");
        assert_eq!(args.nth(1), Some(OsStr::new("never")));
        let set = |name: &str| {
            let mut all = command.get_envs();
            all.find(|(of, _)| *of == name).and_then(|(_, value)| value?.to_str())
        };
        let want = (Some("/run/reef/guests.sock"), Some("rt"));
        assert_eq!((set("REEF_GUESTS"), set("REEF_CLASS")), want);
        let default = program("residency = \"on-demand\"").demand().unwrap();
        assert_eq!((default.idle, default.limit), (idle::DEFAULT, 0));
    }
}
