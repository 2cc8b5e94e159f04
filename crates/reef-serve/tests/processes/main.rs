//! Real processes: each is this test's own executable, told by its environment what to be.

#![allow(clippy::disallowed_methods)] // of files that the tests have written

mod daemon;
mod deploy;
mod devices;
mod failure;
#[path = "../../../../reef-models/tests/handmade/mod.rs"]
mod handmade;
mod hostile;
mod load;
mod local;
mod malformed;
mod memory;
mod mistakes;
mod packed;
mod page;
mod programs;
mod requests;
mod rights;
mod slow;
mod soak;
mod systemd;
mod tls;
mod token;
mod trace;
mod triton;
mod users;
mod wire;

use reef_serve::{Class, Client, Options};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine: what is waited for is there much sooner.
const SOON: Duration = Duration::from_secs(60);

/// The role of a process that a test starts.
const ROLE: &str = "REEF_TEST_ROLE";
/// Flags of a daemon: `key=value`, a line each.
const FLAGS: &str = "REEF_TEST_FLAGS";
/// Folder of the sockets.
const FOLDER: &str = "REEF_TEST_FOLDER";

/// A process of its own that plays `role`; [`process`] does.
fn spawn(role: &str, folder: &Path, flags: &[String]) -> Child {
    let myself = Command::new(std::env::current_exe().expect("a test has an executable"));
    spawn_as(myself, role, folder, flags)
}

/// Starts one by a command that takes this binary's arguments and environment.
fn spawn_as(mut command: Command, role: &str, folder: &Path, flags: &[String]) -> Child {
    command
        .args(["--exact", "process", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(FOLDER, folder)
        .env(FLAGS, flags.join("\n"))
        .stdout(Stdio::piped())
        .env("MALLOC_ARENA_MAX", "1") // so that what grows is not the allocator's choice of arenas
        .spawn()
        .expect("our own executable")
}

/// Plays the role that the environment gives; without one it is a test that passes.
#[test]
fn process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("set with the role"));
    match role.as_str() {
        "daemon" => daemon::play(),
        "visitor" => users::play(&folder),
        role if role.starts_with(hostile::ROLE) => hostile::play(role, &folder),
        role if role.contains(' ') => soak::play(role, &folder),
        role => client(role.parse().expect("rt or be"), &folder),
    }
}

/// Runs `tiny` for ever and says how long it took.
fn client(class: Class, folder: &Path) {
    let mut client = Client::connect("tiny", &options(folder, Some(class))).unwrap();
    let input = vec![0.5; client.input_len()];
    loop {
        let begin = Instant::now();
        client.infer(&input).unwrap();
        println!("client {} inference latency: {:?}", client.id(), begin.elapsed());
    }
}

fn options(folder: &Path, class: Option<Class>) -> Options {
    Options { folder: Some(folder.into()), class, ..Options::default() }
}

/// A client that is a process, killed when this is dropped.
struct ClientProcess {
    child: Child,
    inferences: Arc<AtomicUsize>,
}

impl ClientProcess {
    /// Its output is read all the time: a client whose pipe is full would send no more requests.
    fn start(folder: &Path, class: Class) -> Self {
        let mut child = spawn(class.name(), folder, &[]);
        let said = BufReader::new(child.stdout.take().expect("piped"));
        let inferences = Arc::new(AtomicUsize::new(0));
        let count = inferences.clone();
        std::thread::spawn(move || {
            let lines = said.lines().map_while(Result::ok);
            let inferences = lines.filter(|line| line.contains("inference latency"));
            inferences.for_each(|_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        });
        Self { child, inferences }
    }

    /// The inferences that it has said it had.
    fn inferences(&self) -> usize {
        self.inferences.load(Ordering::Relaxed)
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds; panics if it doesn't within `time`.
#[track_caller]
fn within(time: Duration, what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < time, "{what}: not within {time:?}");
        std::thread::sleep(Duration::from_millis(5)); // sleep: poll of a condition
    }
    begin.elapsed()
}

/// A folder for one test, removed in the end.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("reef-serve-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o700); // whatever the umask is
        std::fs::set_permissions(&path, own).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
