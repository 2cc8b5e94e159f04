//! A node in a folder: GPUs, a daemon's socket, a kubelet's folder.

use crate::config::{Config, Pace};
use crate::node::paths::Node;
use crate::resource::Resource;
use reef_guest::page::Class;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// A node that is removed with its folder.
#[derive(Debug)]
pub(crate) struct FakeNode {
    pub(crate) folder: PathBuf,
    _daemon: Option<UnixListener>,
}

impl FakeNode {
    /// Two GPUs and a daemon.
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("reef-k8s-{}-{number}", std::process::id()));
        for part in ["kubelet", "root/dev", "run", "cdi"] {
            std::fs::create_dir_all(folder.join(part)).unwrap();
        }
        for file in ["shim.so", "token", "root/dev/nvidiactl"] {
            std::fs::write(folder.join(file), "").unwrap();
        }
        let daemon = UnixListener::bind(folder.join("run/guests.sock")).unwrap();
        let node = Self { folder, _daemon: Some(daemon) };
        (0..2).for_each(|minor| node.add_gpu(minor));
        node
    }

    /// The UUID of a GPU.
    pub(crate) fn uuid(minor: u32) -> String {
        format!("GPU-{minor:08x}-0000-1111-2222-333344445555")
    }

    pub(crate) fn add_gpu(&self, minor: u32) {
        let entry = self.entry(minor);
        std::fs::create_dir_all(&entry).unwrap();
        let text = format!(
            "Model: \t NVIDIA H200\nGPU UUID: \t {}\nDevice Minor: \t {minor}\n",
            Self::uuid(minor)
        );
        std::fs::write(entry.join("information"), text).unwrap();
        std::fs::write(self.folder.join(format!("root/dev/nvidia{minor}")), "").unwrap();
    }

    /// A GPU gets another device node, as it may when the machine starts.
    pub(crate) fn renumber(&self, minor: u32, to: u32) {
        let information = self.entry(minor).join("information");
        let text = std::fs::read_to_string(&information).unwrap();
        std::fs::write(&information, text.replace(&format!("\t {minor}\n"), &format!("\t {to}\n")))
            .unwrap();
        std::fs::write(self.folder.join(format!("root/dev/nvidia{to}")), "").unwrap();
    }

    pub(crate) fn lose_gpu(&self, minor: u32) {
        std::fs::remove_dir_all(self.entry(minor)).unwrap();
    }

    fn entry(&self, minor: u32) -> PathBuf {
        self.folder.join(format!("root/proc/driver/nvidia/gpus/0000:{minor:02}:00.0"))
    }

    /// A daemon, in the place of one that ended.
    pub(crate) fn start_daemon(&mut self) {
        let socket = self.folder.join("run/guests.sock");
        let _ = std::fs::remove_file(&socket);
        self._daemon = Some(UnixListener::bind(socket).unwrap());
    }

    /// The daemon ends, and leaves its socket as a killed one does.
    pub(crate) fn end_daemon(&mut self) {
        self._daemon = None;
    }

    /// Paths of this node, for containers.
    pub(crate) fn node(&self) -> Node {
        let at = |name: &str| self.folder.join(name);
        Node {
            root: at("root"),
            daemon: at("run"),
            shim: at("shim.so"),
            driver: None,
            nvml: None,
            accounts: None,
            token: Some(at("token")),
        }
    }

    /// Two containers of each class on each GPU; looks often.
    pub(crate) fn config(&self) -> Config {
        let each = |class, memory: Option<&str>| Resource {
            class,
            replicas: 2,
            memory: memory.map(str::to_owned),
            compute: None,
        };
        let at = |name: &str| self.folder.join(name);
        let pace = Pace {
            sockets: Duration::from_millis(5),
            health: Duration::from_millis(10),
            unwatched: Duration::from_millis(200),
            retry: Duration::from_millis(20),
            slices: Duration::from_millis(50),
            given_back: Duration::from_millis(20),
            silence: Duration::from_secs(3600), // no test takes as long
        };
        Config {
            node: self.node(),
            kubelet: at("kubelet"),
            cdi: None,
            resources: vec![each(Class::RealTime, None), each(Class::BestEffort, Some("8GiB"))],
            pace,
        }
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Seed and number of steps of a random test.
pub(crate) fn seed_and_steps(steps: u64) -> (u64, u64) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let now = || SystemTime::UNIX_EPOCH.elapsed().map_or(0, |it| it.as_nanos() as u64);
    (number("REEF_TEST_SEED").unwrap_or_else(now), number("REEF_TEST_STEPS").unwrap_or(steps))
}

/// The names in a folder, without those that change at once.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
