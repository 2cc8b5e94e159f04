//! A daemon as a process of its own, with two small models.

use crate::wire::Http;
use crate::{FLAGS, FOLDER, Folder, SOON, spawn_as, within};
use reef_serve::config::from_sources;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

/// The process itself.
pub(super) fn play() {
    let flags = std::env::var(FLAGS).expect("set with the role");
    let flags: Vec<_> = flags.lines().filter_map(|line| line.split_once('=')).collect();
    let flags: Vec<_> = flags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let file =
        PathBuf::from(std::env::var_os(FOLDER).expect("set with the role")).join("reef.toml");
    let read = move || from_sources(file.exists().then_some(&*file), [], &flags);
    reef_serve::run_reloading(read, |places| {
        println!("\ngrpc {}", places.grpc.expect("asked for"));
        println!("http {}", places.http.expect("asked for"));
        println!("ready");
    })
    .unwrap();
}

/// A running daemon, killed when this is dropped.
pub(crate) struct Daemon {
    child: Child,
    folder: Option<Folder>,
    pub(crate) grpc: String,
    pub(crate) http: String,
}

impl Daemon {
    /// Starts one with `tiny` loaded, `other` not, and these keys of the configuration.
    pub(crate) fn start(test: &str, flags: &[&str]) -> Self {
        Self::start_in(Self::place(test), flags)
    }

    /// A folder with the two models.
    pub(crate) fn place(test: &str) -> Folder {
        let folder = Folder::new(test);
        for name in ["tiny", "other"] {
            let model = folder.path().join("models").join(name);
            std::fs::create_dir_all(model.join("1")).unwrap();
            let text = "network = \"resnet18\"\nsize = 32\nseed = 1\n";
            std::fs::write(model.join("model.toml"), text).unwrap();
        }
        folder
    }

    /// Starts one where there was one before.
    pub(crate) fn start_in(folder: Folder, flags: &[&str]) -> Self {
        let myself = std::env::current_exe().expect("a test has an executable");
        Self::start_by(Command::new(myself), folder, flags)
    }

    /// Starts one by a command that takes our arguments and environment.
    pub(crate) fn start_by(command: Command, folder: Folder, flags: &[&str]) -> Self {
        let path = folder.path().display();
        let mut all = vec![
            format!("listen.folder={path}"),
            format!("models.repository={path}/models"),
            "models.load=[\"tiny\"]".into(),
            "listen.grpc=127.0.0.1:0".into(),
            "listen.http=127.0.0.1:0".into(),
            "listen.tcp_shared_memory=true".into(),
            "rights.others={ rt = true, control = true }".into(),
            "limits.connects_per_second=0".into(), // tests have one address
        ];
        all.extend(flags.iter().map(|&flag| flag.into()));
        let mut child = spawn_as(command, "daemon", folder.path(), &all);
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let (mut grpc, mut http) = (String::new(), String::new());
        loop {
            let line = lines.next().expect("ready before the end").expect("text");
            match line.split_once(' ') {
                Some(("grpc", address)) => grpc = address.into(),
                Some(("http", address)) => http = address.into(),
                None if line == "ready" => break,
                _ => {}
            }
        }
        std::thread::spawn(move || lines.for_each(drop)); // so that it may print
        Self { child, folder: Some(folder), grpc, http }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.as_ref().expect("until it is taken").path()
    }

    /// Kills it −9 and gives its folder to the next.
    pub(crate) fn kill(mut self) -> Folder {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.folder.take().expect("until it is taken")
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -s {name} {pid}");
    }

    /// Waits for its end; panics if it doesn't come.
    pub(crate) fn ends(&mut self) -> ExitStatus {
        let mut status = None;
        within(SOON, "the daemon's end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.expect("it has ended")
    }

    /// One of its metrics.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        number(&self.get("/metrics"), name)
    }

    /// One of its metrics, as its owner sees it, whose part of the memory others can't take.
    pub(crate) fn metric_for_owner(&self, name: &str) -> f64 {
        let mut http = Http::connect(self.folder()).unwrap();
        let (_, body) = http.ask(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        number(&String::from_utf8_lossy(&body), name)
    }

    /// Returns the number of clients connected, the one of this request included.
    pub(crate) fn clients(&self) -> f64 {
        let text = self.get("/metrics");
        let lines = text.lines().filter_map(|line| line.strip_prefix("reef_clients{"));
        lines.map(|line| line.split(' ').nth(1).unwrap().trim().parse::<f64>().unwrap()).sum()
    }

    /// Returns the answer of HTTP to GET, head and body.
    pub(crate) fn get(&self, path: &str) -> String {
        self.say(
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                .as_bytes(),
        )
    }

    /// Sends these bytes to HTTP and returns its answer, until the connection is closed.
    pub(crate) fn say(&self, bytes: &[u8]) -> String {
        let Ok(mut stream) = TcpStream::connect(&self.http) else { return String::new() };
        stream.set_read_timeout(Some(5 * SOON)).unwrap(); // large messages, on a busy machine
        let _ = stream.write_all(bytes); // it may have refused already
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer); // or cut it off
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Its answer over HTTP to a client that reads it only once all of `bytes` has been sent.
    pub(crate) fn sent(&self, bytes: &[u8]) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&self.http)?;
        stream.set_read_timeout(Some(SOON))?;
        stream.set_write_timeout(Some(SOON))?;
        stream.write_all(bytes)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Bytes of memory that it has resident, and threads.
    pub(crate) fn usage(&self) -> (u64, u64) {
        (self.status("VmRSS:") * 1024, self.status("Threads:"))
    }

    /// Returns the largest resident memory so far, in bytes.
    pub(crate) fn peak(&self) -> u64 {
        self.status("VmHWM:") * 1024
    }

    /// Returns a number that the system shows of the process.
    fn status(&self, key: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(key)).expect(key);
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Returns the open files of the daemon, each by its kind or its path.
    pub(crate) fn files(&self) -> Vec<String> {
        let all = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        let target = |file: std::io::Result<std::fs::DirEntry>| {
            let target = std::fs::read_link(file.ok()?.path()).ok()?.to_string_lossy().into_owned();
            Some(target.split(":[").next().unwrap_or_default().to_owned())
        };
        let mut files: Vec<_> = all.filter_map(target).collect();
        files.sort();
        files
    }

    /// Pieces of memory that it shares with others: open or mapped.
    pub(crate) fn shared(&self) -> usize {
        let of = format!("/proc/{}", self.child.id());
        let is_shared = |name: &str| name.contains("memfd:") || name.contains("/dev/shm/");
        let open = self.files().into_iter().filter(|name| is_shared(name));
        let maps = std::fs::read_to_string(format!("{of}/maps")).unwrap();
        open.count() + maps.lines().filter(|line| is_shared(line)).count()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Number of this name in the daemon's metrics.
fn number(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} in {metrics}")).trim().parse().unwrap()
}
