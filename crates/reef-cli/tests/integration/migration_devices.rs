//! A Rust program whose session goes to another server, and to a folder, by the commands.
//!
//! `REEF_TEST_DEVICE=cuda:0 REEF_TEST_MODEL=resnet50` runs it on a GPU, and prints the pauses.

use crate::common::{Folder, json};
use crate::migration::{SOON, reef, refuses, remote, says};
use reef::models::Model;
use reef::remote::Remote;
use reef::scheduler::Reef;
use reef::{Device, Dispatcher, PreemptLevel, Task};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Instant;

/// Milliseconds that the goal allows for all but the bytes.
const FIXED_MS: f64 = 50.2;

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(folder: &Folder, name: &str) -> Self {
        let address = format!("unix:{}", folder.path(name));
        let mut command = reef(folder);
        command.args(["remote", "serve", "--listen", &address]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "{line}");
        Self { child, address }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Name of its one session.
    fn session(&self, folder: &Folder) -> String {
        let is_it = |server: &&serde_json::Value| server["pid"] == self.child.id();
        let begin = Instant::now();
        loop {
            // Without a server that answers late.
            let listed = remote(folder, &["ps", "--json"]);
            let servers = json(&String::from_utf8_lossy(&listed.stdout));
            if let Some(server) = servers.as_array().unwrap().iter().find(is_it) {
                return format!("{}.{}", self.child.id(), server["sessions"][0]["id"]);
            }
            assert!(begin.elapsed() < SOON, "{servers}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn session_moves_and_is_restored_by_the_commands() {
    let variable = |name: &str, other: &str| std::env::var(name).unwrap_or_else(|_| other.into());
    let (device, name) =
        (variable("REEF_TEST_DEVICE", "cpu:0"), variable("REEF_TEST_MODEL", "resnet18"));
    let folder = Folder::new("migration-devices");
    let mut servers = ["a", "b"].map(|name| Server::start(&folder, name));
    let remote = Remote::open(0, &format!("{}/{device}", servers[0].address)).unwrap();
    let scheduler = Box::new(Reef::default().level(PreemptLevel::HostQueue));
    let dispatcher = Dispatcher::start(&remote, scheduler).unwrap();
    let network = Model::open(&name).read().unwrap().weights(&remote).unwrap().network().unwrap();
    let task = Task::new(network.graphs(usize::MAX).unwrap()).unwrap();
    let mut client = dispatcher.real_time().unwrap();
    let mut infer = |round: usize| {
        let input = (0..network.input_len()).map(|at| ((at + round) % 13) as f32 / 4.0);
        network.stage_input(&input.collect::<Vec<_>>()).unwrap();
        client.run(&task).unwrap();
        network.staged_output().unwrap()
    };
    let expected: Vec<_> = (0..3).map(&mut infer).collect();
    for at in [0, 1] {
        let (session, begin) = (servers[at].session(&folder), Instant::now());
        let moved = says(&folder, &["migrate", &session, "--to", &servers[1 - at].address]);
        let whole = begin.elapsed().as_secs_f64() * 1e3;
        let number = |key: &str| moved[key].as_f64().unwrap();
        let (pause, memory) = (number("pause_ms"), number("memory_bytes"));
        let per_ms = memory / (whole - pause).max(0.1);
        let goal = number("pause_bytes") / per_ms + FIXED_MS;
        println!("pause {pause:.1} ms, goal {goal:.1} ms, whole {whole:.0} ms: {moved}");
        assert!(memory > f64::from(1 << 20), "{moved}");
        assert_eq!(infer(at), expected[at]);
    }
    let (out, session) = (folder.path("saved"), servers[0].session(&folder));
    says(&folder, &["snapshot", &session, "--out", &out, "--end"]);
    servers[0].kill();
    servers[0] = Server::start(&folder, "a");
    let (address, file) = (servers[0].address.clone(), format!("{out}/session.reef"));
    let whole = std::fs::read(&file).unwrap();
    for at in [0, whole.len() / 2, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        std::fs::write(&file, damaged).unwrap();
        let said = refuses(&folder, &["restore", &out, "--to", &address]);
        assert!(said.contains("session.reef"), "{said}");
    }
    std::fs::write(&file, &whole[..whole.len() - 100]).unwrap();
    assert!(refuses(&folder, &["restore", &out, "--to", &address]).contains("session.reef"));
    std::fs::write(&file, &whole).unwrap();
    says(&folder, &["restore", &out, "--to", &address]);
    assert_eq!(infer(2), expected[2]);
    assert!(servers[0].session(&folder).ends_with(".1"), "the new server has it");
}
