//! The program of a model: the table `[process]` of its `model.toml`.

use crate::error::{Error, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Path on which programs are searched, unless their environment has one.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// File with the class of a model for Triton's Python backend, which its command does not name.
const TRITON_MODEL: &str = "model.py";

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

impl Default for ProcessSettings {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            env: BTreeMap::new(),
            pass_env: Vec::new(),
            folder: PathBuf::new(),
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
        for (key, ms) in
            [("load_ms", self.load_ms), ("cancel_ms", self.cancel_ms), ("stop_ms", self.stop_ms)]
        {
            if !(1..=MAX_MS).contains(&ms) {
                return Err(format!("process.{key} must be 1 to {MAX_MS}, got {ms}"));
            }
        }
        Ok(())
    }
}

/// A program with the folder of its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    settings: ProcessSettings,
    place: PathBuf,
}

impl Program {
    /// Returns the program of the version in `place`.
    ///
    /// # Errors
    ///
    /// `Invalid` if the version has no folder.
    pub(crate) fn new(settings: &ProcessSettings, place: &Path) -> Result<Self> {
        if !place.is_dir() {
            let shown = place.display();
            return Err(Error::Invalid(format!(
                "engine: a process must have a folder, got {shown}"
            )));
        }
        Ok(Self { settings: settings.clone(), place: place.to_path_buf() })
    }

    /// Returns the command that starts it. Nothing of the daemon's environment is in it but what is
    /// named.
    pub(super) fn command(&self) -> Command {
        let Self { settings, place } = self;
        let name = Path::new(&settings.command[0]);
        let is_path = settings.command[0].contains('/');
        let mut command = Command::new(if is_path { place.join(name) } else { name.into() });
        command.args(&settings.command[1..]).env_clear().env("PATH", PATH);
        let passed =
            settings.pass_env.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.envs(passed).envs(&settings.env).current_dir(place.join(&settings.folder));
        command
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
