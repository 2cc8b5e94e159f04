//! A daemon of this bench's own, in a folder of its own; both go when it is dropped.

use super::args::Args;
use anyhow::{Context, Result, bail};
use reef::models::{Port, Ports};
use reef_serve::{Class, Client, Options};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use serde_json::json;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The model's name in the daemon, where it comes from a file.
const OF_FILE: &str = "network";

/// A process, killed when this is dropped.
pub(super) struct Daemon {
    folder: Folder,
    model: String,
    child: Child,
    /// Open for as long as the daemon may print.
    _printed: BufReader<ChildStdout>,
}

/// A folder for sockets, log and model.
struct Folder(PathBuf);

impl Daemon {
    /// Starts a daemon with the network loaded. Its threads poll for `spin`, or as long as they do
    /// by default.
    #[expect(clippy::disallowed_methods, reason = "a log of its own")]
    pub(super) fn start(
        args: &Args,
        inputs: &Ports,
        name: &str,
        spin: Option<Duration>,
    ) -> Result<Self> {
        let folder = Folder::new(name)?;
        let model = folder.offer(args, inputs)?;
        let reef = std::env::current_exe().context("our own executable")?;
        let log = folder.0.join("log");
        let mut command = Command::new(&reef);
        command
            .args(["serve", "--device", &args.common.device, "--load", &model])
            .arg("--socket-dir");
        command.arg(&folder.0).args(["--set", "models.builtin=true"]);
        if model == OF_FILE {
            command.arg("--repository").arg(folder.0.join("models"));
        }
        if let Some(spin) = spin {
            command.args(["--set", &format!("times.spin_us={}", spin.as_micros())]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        end_with_this_thread(&mut command);
        let mut child = command.spawn().with_context(|| reef.display().to_string())?;
        let printed = BufReader::new(child.stdout.take().expect("piped"));
        let mut daemon = Self { folder, model, child, _printed: printed };
        daemon.wait_until_ready(&log)?;
        Ok(daemon)
    }

    #[expect(clippy::disallowed_methods, reason = "a log of its own")]
    fn wait_until_ready(&mut self, log: &Path) -> Result<()> {
        let mut line = String::new();
        while self._printed.read_line(&mut line)? > 0 {
            if line.trim_end() == "ready" {
                return Ok(());
            }
            line.clear();
        }
        let status = self.child.wait()?;
        let said = fs::read_to_string(log).unwrap_or_default();
        bail!("the daemon ended: {status}: {}", said.lines().last().unwrap_or("it said nothing"))
    }

    /// A real-time client, which looks for an answer for `spin`, or as long as it does by default.
    pub(super) fn client(&self, spin: Option<Duration>) -> Result<Client> {
        let default = Options::default();
        let options = Options {
            folder: Some(self.folder.0.clone()),
            class: Some(Class::RealTime),
            spin: spin.unwrap_or(default.spin),
            ..default
        };
        Ok(Client::connect(&self.model, &options)?)
    }
}

/// Has the system kill a process when the thread that starts it ends: a bench that is killed drops
/// nothing.
fn end_with_this_thread(command: &mut Command) {
    let parent = getpid();
    let prepare = move || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    };
    // SAFETY: between fork and exec the closure makes system calls alone, none of which allocates
    // or takes a lock.
    unsafe { command.pre_exec(prepare) };
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it has nothing to lose
        let _ = self.child.wait();
    }
}

impl Folder {
    fn new(name: &str) -> Result<Self> {
        let path = format!("reef-bench-local-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(path);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }

    /// Puts the network where the daemon finds it, if it is a file. Returns its name there.
    #[expect(clippy::disallowed_methods, reason = "a file of its own")]
    fn offer(&self, args: &Args, inputs: &Ports) -> Result<String> {
        let network = &args.network;
        if !Path::new(network).is_file() {
            return Ok(network.into());
        }
        let model = self.0.join("models").join(OF_FILE);
        fs::create_dir_all(model.join("1"))?;
        fs::copy(network, model.join("1/model.onnx")).context(network.to_owned())?;
        if !args.shape.is_empty() {
            fs::write(model.join("model.toml"), shapes(inputs))?;
        }
        Ok(OF_FILE.into())
    }
}

/// Shapes that the local endpoint serves, as a key of `model.toml`.
fn shapes(inputs: &Ports) -> String {
    let shape = |port: &Port| format!("{} = {:?}", json!(port.name), port.spec.dims);
    let shapes: Vec<_> = inputs.iter().map(|(_, port)| shape(port)).collect();
    format!("shapes = [{{ {} }}]\n", shapes.join(", "))
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // it lies in the system's temporary folder
    }
}
