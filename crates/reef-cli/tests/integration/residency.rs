//! Models that are on the GPU on demand: programs of a daemon on a driver made of functions, whose
//! memory leaves the device and returns.

use crate::common::daemon::{Daemon, ask, metrics};
use crate::common::driver::{Driver, library};
use crate::common::{Folder, json, text};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Variables that a program gets from its daemon.
const PASSED: [&str; 6] = [
    "REEF_CUDA",
    "REEF_SHIM",
    "REEF_NVML_LIBRARY",
    "REEF_FAKE_PROCESSES",
    "REEF_FAKE_MEMORY",
    "REEF_FAKE_BYTES",
];

/// Options of a daemon that starts programs, and is patient with moves on a busy machine.
const TRUSTED: [&str; 6] =
    ["--device", "cpu:0", "--set", "models.processes=true", "--set", "times.request_ms=600000"];

/// Number of MiB that a program takes; 0: it does not use the GPU.
const MIB: &str = "REEF_TEST_MIB";

/// A model's program. A request adds 2 to a number in its device memory, and is answered with that
/// number and the process's. One whose identifier is `hold` waits for the file `go` before that.
#[test]
#[ignore = "is a program that another test runs"]
fn program() {
    let Ok(mib) = std::env::var(MIB) else { return };
    let mib: usize = mib.parse().unwrap();
    let mut daemon = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let mut add: Box<dyn FnMut() -> u64> = match mib {
        0 => {
            let mut number = 0;
            Box::new(move || {
                number += 2;
                number
            })
        }
        mib => {
            let driver: &Driver = Box::leak(Box::new(Driver::start()));
            let to = match driver.allocate(mib << 20) {
                Ok(at) => at + (mib << 20) - 8, // the last word
                Err(code) => {
                    let error = format!("memory {code}");
                    return send(&mut daemon, &json!({ "type": "error", "error": error }), &[]);
                }
            };
            let (add, before) = (driver.adder(to), driver.read(to));
            Box::new(move || {
                add(2);
                driver.synchronize();
                driver.read(to) - before
            })
        }
    };
    let tensor =
        |name: &str, size: u32| json!({ "name": name, "datatype": "FP32", "shape": [size] });
    while let Some((header, _)) = receive(&mut daemon) {
        if header["type"] == "start" {
            let (inputs, outputs) = ([tensor("x", 1)], [tensor("y", 2)]);
            let ready =
                json!({ "type": "ready", "protocol": 1, "inputs": inputs, "outputs": outputs });
            send(&mut daemon, &ready, &[]);
        } else if header["type"] == "infer" {
            if header["id"] == "hold" {
                std::fs::write("held", "").unwrap();
                while !Path::new("go").exists() {
                    std::thread::sleep(Duration::from_millis(5)); // sleep: poll of a condition
                }
            }
            let values = [add() as f32, std::process::id() as f32];
            let data = values.map(f32::to_le_bytes).concat();
            let mut output = tensor("y", 2);
            output["bytes"] = json!(data.len());
            let request = &header["request"];
            let answer = json!({ "type": "answer", "request": request, "outputs": [output] });
            send(&mut daemon, &answer, &data);
        }
    }
}

fn receive(daemon: &mut UnixStream) -> Option<(Value, Vec<u8>)> {
    let (mut header, mut data) = ([0; 4], [0; 8]);
    daemon.read_exact(&mut header).ok()?;
    daemon.read_exact(&mut data).ok()?;
    let mut header = vec![0; u32::from_le_bytes(header) as usize];
    let mut data = vec![0; u64::from_le_bytes(data) as usize];
    daemon.read_exact(&mut header).ok()?;
    daemon.read_exact(&mut data).ok()?;
    Some((serde_json::from_slice(&header).unwrap(), data))
}

fn send(daemon: &mut UnixStream, header: &Value, data: &[u8]) {
    let header = header.to_string();
    let lengths = [
        &(header.len() as u32).to_le_bytes()[..],
        &(data.len() as u64).to_le_bytes()[..],
        header.as_bytes(),
        data,
    ];
    daemon.write_all(&lengths.concat()).unwrap();
}

/// A folder with a driver, whose device has this number of MiB, and models.
struct Machine {
    folder: Folder,
    mib: u64,
}

impl Machine {
    fn new(name: &str, mib: u64) -> Self {
        Self { folder: Folder::new(name), mib }
    }

    /// Puts a model there whose programs take this number of MiB each.
    fn put(&self, name: &str, mib: u64, keys: &str) {
        std::fs::create_dir_all(self.folder.path(&format!("models/{name}/1"))).unwrap();
        let this = std::env::current_exe().unwrap();
        let accounts = self.folder.path("accounts");
        let text = format!(
            "engine = \"process\"\n[process]\ncommand = [{this:?}, \"--exact\", \"residency::program\", \
             \"--include-ignored\", \"--nocapture\"]\npass_env = {PASSED:?}\n\
             env = {{ {MIB} = \"{mib}\", REEF_ACCOUNTS = {accounts:?} }}\n\
             residency = \"on-demand\"\n{keys}\n"
        );
        self.folder.file(&format!("models/{name}/model.toml"), text);
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        let file = |path: PathBuf| path.to_str().unwrap().to_owned();
        let values = [
            file(library("libfake_libcuda.so")),
            file(library("libreef_cuda_shim.so")),
            file(library("libfake_libnvml.so")),
            self.folder.path("processes"),
            self.folder.path("memory"),
            (self.mib << 20).to_string(),
        ];
        PASSED.into_iter().zip(values).collect()
    }

    /// Starts a daemon with the models that are there.
    fn daemon(&self, options: &[&str]) -> Daemon {
        self.daemon_by(Path::new(env!("CARGO_BIN_EXE_reef")), options)
    }

    /// As [`daemon`](Self::daemon), from another file of the command.
    fn daemon_by(&self, program: &Path, options: &[&str]) -> Daemon {
        let set = self.variables();
        let set: Vec<(&str, &str)> = set.iter().map(|(name, value)| (*name, &**value)).collect();
        let options = [&TRUSTED[..], options].concat();
        Daemon::start_by(program, &self.folder, &options, &set)
    }

    fn reef(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reef"));
        command.envs(self.variables()).args(args).args(["--socket-dir", &self.folder.path("")]);
        command.output().unwrap()
    }

    fn load(&self, model: &str) -> String {
        ask(&self.folder, &format!("POST /v2/repository/models/{model}/load"), "{}")
    }

    /// Loads a model, which must succeed.
    #[track_caller]
    fn loads(&self, model: &str) {
        let said = self.load(model);
        assert!(said.starts_with("HTTP/1.1 200 "), "{model}: {said}");
    }

    /// Starts a daemon with the models `one` and `two`: each of their processes takes 120 MiB of
    /// 720, and 512 stay free.
    fn two_that_do_not_fit(&self) -> Daemon {
        self.two(120, 180)
    }

    /// Starts a daemon with the models `one` and `two`, whose processes take this number of MiB,
    /// and have this limit.
    fn two(&self, mib: u64, limit: u64) -> Daemon {
        for name in ["one", "two"] {
            self.put(name, mib, &format!("idle = \"1h\"\nmemory = \"{limit}MiB\""));
        }
        let daemon = self.daemon(&["--guests", "--set", "models.load=[\"tiny\"]"]);
        self.loads("one");
        // Once it is a guest, from its first launch on, the device is known on which the other one
        // must have room.
        self.answers("one");
        self.wait("its size", || self.value("reef_model_resident_bytes", "one") > 0.0);
        self.loads("two");
        daemon
    }

    /// Sends a request with this identifier and timeout in microseconds, best-effort.
    fn infer(&self, model: &str, id: &str, timeout: u64) -> String {
        let body = json!({
            "id": id,
            "parameters": { "priority": 2, "timeout": timeout },
            "inputs": [{ "name": "x", "datatype": "FP32", "shape": [1], "data": [0.0] }],
        });
        ask(&self.folder, &format!("POST /v2/models/{model}/infer"), &body.to_string())
    }

    /// The number and the process of an answer.
    #[track_caller]
    fn answers(&self, model: &str) -> (u64, u32) {
        numbers(&self.infer(model, "", 0))
    }

    /// State of the process for best-effort requests.
    fn state(&self, model: &str) -> String {
        let of = format!("reef_model_residency{{model=\"{model}\",version=\"1\",class=\"be\",");
        let said = metrics(&self.folder);
        let line = said.lines().find(|line| line.starts_with(&of)).unwrap_or_default();
        let state = line.split_once("state=\"").and_then(|(_, rest)| rest.split_once('"'));
        state.map(|(state, _)| state.to_owned()).unwrap_or_default()
    }

    /// Value of a metric of the process for best-effort requests.
    fn value(&self, name: &str, model: &str) -> f64 {
        let of = format!("{name}{{model=\"{model}\",version=\"1\",class=\"be\",");
        let said = metrics(&self.folder);
        let line = said.lines().find(|line| line.starts_with(&of)).unwrap_or_default();
        let value = line.rsplit_once(' ').and_then(|(_, value)| value.parse().ok());
        value.unwrap_or(f64::NAN)
    }

    #[track_caller]
    fn wait(&self, what: &str, is: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is() {
            let now = metrics(&self.folder);
            assert!(begin.elapsed() < Duration::from_secs(60), "{what}: {now}");
            std::thread::sleep(Duration::from_millis(5)); // sleep: poll of a condition
        }
    }
}

#[track_caller]
fn numbers(answer: &str) -> (u64, u32) {
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let data = &json(body)["outputs"][0]["data"];
    (data[0].as_f64().unwrap() as u64, data[1].as_f64().unwrap() as u32)
}

#[test]
fn idle_model_leaves_and_returns_with_its_memory() {
    let machine = Machine::new("residency-idle", 1024);
    machine.put("one", 64, "idle = \"100ms\"");
    let _daemon = machine.daemon(&["--guests"]);
    let (mut number, pid) = machine.answers("one");
    for round in 1..4 {
        machine.wait("it leaves", || machine.state("one") == "away");
        assert_eq!(machine.value("reef_model_resident_bytes", "one"), 0.0);
        let now = metrics(&machine.folder);
        assert!(now.contains(&format!("reef_suspended_bytes{{pid=\"{pid}\"")), "{now}");
        assert_eq!(machine.answers("one"), (number + 2, pid), "round {round}");
        number += 2;
        assert!(machine.value("reef_model_returns_total", "one") >= f64::from(round));
    }
    assert!(machine.value("reef_model_returned_seconds", "one") > 1e9);
    let listed = machine.reef(&["ctl", "models", "--json"]);
    let models = json(text(&listed.stdout));
    let mut models = models.as_array().unwrap().iter();
    let one = models.find(|model| model["name"] == "one").unwrap();
    assert_eq!(one["residency"]["states"].as_array().unwrap().len(), 2, "{one}");
    assert!(one["residency"]["returns"].as_u64().unwrap() >= 3, "{one}");
}

/// As when a new release is installed while the daemon runs.
#[test]
fn model_leaves_and_returns_after_the_daemons_file_is_gone() {
    let machine = Machine::new("residency-file", 1024);
    machine.put("one", 64, "idle = \"100ms\"");
    let reef = Path::new(env!("CARGO_BIN_EXE_reef"));
    // Another name of the file: a copy may not run while another thread starts a program.
    let folder = reef.with_file_name(format!("residency-file-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let other = folder.join("reef");
    std::fs::hard_link(reef, &other).unwrap();
    let _daemon = machine.daemon_by(&other, &["--guests"]);
    std::fs::remove_dir_all(&folder).unwrap();
    let (number, pid) = machine.answers("one");
    machine.wait("it leaves", || machine.state("one") == "away");
    assert_eq!(machine.answers("one"), (number + 2, pid));
}

#[test]
fn models_that_do_not_fit_together_answer_alternately() {
    let machine = Machine::new("residency-two", 720);
    let _daemon = machine.two_that_do_not_fit();
    let mut last = ["one", "two"].map(|name| machine.answers(name));
    for _ in 0..3 {
        for (name, last) in ["one", "two"].into_iter().zip(&mut last) {
            let (number, pid) = *last;
            *last = machine.answers(name);
            assert_eq!(*last, (number + 2, pid), "{name}");
        }
    }
    // Two clients that ask all the time.
    std::thread::scope(|scope| {
        for (name, (number, pid)) in ["one", "two"].into_iter().zip(last) {
            let machine = &machine;
            scope.spawn(move || {
                for round in 1..=5 {
                    assert_eq!(machine.answers(name), (number + 2 * round, pid), "{name}");
                }
            });
        }
    });
    assert!(machine.value("reef_model_returns_total", "one") >= 3.0);
}

impl Machine {
    /// Starts two models, of which `two` is on the device, and both sizes are known. 712 MiB of 860
    /// must be free for the memory of `one`, which are not before that of `two` has left. Returns
    /// the last answers.
    fn one_away(&self) -> (Daemon, [(u64, u32); 2]) {
        let daemon = self.two(200, 270);
        let last = ["one", "two"].map(|name| self.answers(name));
        self.wait("one leaves", || self.state("one") == "away");
        (daemon, last)
    }

    /// Path of a file that tells the driver how checkpoints end.
    fn checkpoints(&self, how: &str) -> PathBuf {
        Path::new(&self.folder.path("processes")).join(how)
    }
}

/// The driver ends no checkpoint before the request for the other model has been answered.
#[test]
fn model_returns_while_the_other_one_leaves() {
    let machine = Machine::new("residency-both", 860);
    let (_daemon, [(one, first), (two, second)]) = machine.one_away();
    let hold = machine.checkpoints("hold");
    std::fs::write(&hold, "").unwrap();
    assert_eq!(machine.answers("one"), (one + 2, first));
    assert_eq!(machine.state("two"), "leaving");
    std::fs::remove_file(hold).unwrap();
    machine.wait("two leaves", || machine.state("two") == "away");
    assert_eq!(machine.answers("two"), (two + 2, second));
}

/// Its context stays: the driver refuses every checkpoint.
#[test]
fn model_whose_context_stays_gives_its_memory_away() {
    let machine = Machine::new("residency-half", 860);
    let (_daemon, [(one, first), (two, second)]) = machine.one_away();
    let refuse = machine.checkpoints("refuse");
    std::fs::write(&refuse, "").unwrap();
    assert_eq!(machine.answers("one"), (one + 2, first));
    machine.wait("two leaves", || machine.state("two") == "away");
    assert_eq!(machine.answers("two"), (two + 2, second));
    machine.wait("one leaves", || machine.state("one") == "away");
    std::fs::remove_file(refuse).unwrap();
    assert_eq!(machine.answers("one"), (one + 4, first));
    machine.wait("two leaves", || machine.state("two") == "away");
    assert_eq!(machine.answers("two"), (two + 4, second));
}

/// As on a full disk. Its room is taken by then, so it cannot stay.
#[test]
fn model_leaves_for_another_one_without_a_record() {
    let machine = Machine::new("residency-record", 860);
    let (_daemon, [(one, first), (two, second)]) = machine.one_away();
    // No file takes the place of a folder that has something.
    let record = machine.folder.path(&format!("suspended/{second}.json/file"));
    std::fs::create_dir_all(record).unwrap();
    assert_eq!(machine.answers("one"), (one + 2, first));
    machine.wait("two leaves", || machine.state("two") == "away");
    assert_eq!(machine.answers("two"), (two + 2, second));
}

#[test]
fn model_that_works_never_leaves_and_the_other_waits() {
    let machine = Machine::new("residency-busy", 720);
    let _daemon = machine.two_that_do_not_fit();
    let (number, pid) = machine.answers("one");
    machine.answers("two");
    std::thread::scope(|scope| {
        let held = scope.spawn(|| machine.infer("one", "hold", 0));
        let place = |name: &str| machine.folder.path(&format!("models/one/1/{name}"));
        machine.wait("its request runs", || Path::new(&place("held")).exists());
        let late = machine.infer("two", "", 1_500_000);
        assert!(late.starts_with("HTTP/1.1 503 "), "{late}");
        assert!(late.contains("\r\nretry-after: 1\r\n"), "{late}");
        assert!(late.contains("the model is off the GPU, and did not return in time"), "{late}");
        assert_eq!(machine.state("one"), "resident");
        std::fs::write(place("go"), "").unwrap();
        assert_eq!(numbers(&held.join().unwrap()), (number + 2, pid));
    });
    machine.answers("two");
}

#[test]
fn process_that_dies_while_it_is_away_starts_again() {
    let machine = Machine::new("residency-dies", 1024);
    machine.put("one", 64, "idle = \"100ms\"");
    let _daemon = machine.daemon(&["--guests"]);
    let (_, pid) = machine.answers("one");
    machine.wait("it leaves", || machine.state("one") == "away");
    assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
    let (number, next) = machine.answers("one");
    assert_eq!(number, 2, "a process of its own");
    assert_ne!(next, pid);
    machine.wait("it leaves", || machine.state("one") == "away");
    assert_eq!(machine.answers("one"), (4, next));
    machine.wait("it leaves", || machine.state("one") == "away");
    let unloaded = ask(&machine.folder, "POST /v2/repository/models/one/unload", "{}");
    assert!(unloaded.starts_with("HTTP/1.1 200 "), "{unloaded}");
    machine.wait("it is gone", || !metrics(&machine.folder).contains("reef_model_residency{"));
}

#[test]
fn model_that_an_operator_suspended_waits_for_the_operator() {
    let machine = Machine::new("residency-operator", 1024);
    machine.put("one", 64, "idle = \"1h\"");
    let _daemon = machine.daemon(&["--guests"]);
    let (number, pid) = machine.answers("one");
    let label = format!("pid=\"{pid}\"");
    let is_guest = |line: &str| line.starts_with("reef_guest_active{") && line.contains(&label);
    machine.wait("it joins", || metrics(&machine.folder).lines().any(is_guest));
    let pid_text = pid.to_string();
    let output = machine.reef(&["suspend", &pid_text]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let refused = machine.infer("one", "", 0);
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains("was suspended by an operator"), "{refused}");
    let output = machine.reef(&["resume", &pid_text]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(machine.answers("one"), (number + 2, pid));
}

#[test]
fn model_is_suspended_and_resumed_by_its_name() {
    let machine = Machine::new("residency-ctl", 1024);
    machine.put("one", 64, "idle = \"1h\"");
    let _daemon = machine.daemon(&["--guests"]);
    let (number, pid) = machine.answers("one");
    let patient = ["ctl", "suspend", "one", "--timeout", "600s"]; // on a busy machine
    let output = machine.reef(&patient);
    assert_eq!(text(&output.stdout), "one: suspended\n", "{}", text(&output.stderr));
    assert_eq!(machine.state("one"), "away");
    let refused = machine.infer("one", "", 0);
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains("`reef ctl resume` brings it back"), "{refused}");
    let output = machine.reef(&["ctl", "resume", "one"]);
    assert_eq!(text(&output.stdout), "one: resumed\n", "{}", text(&output.stderr));
    assert_eq!(machine.answers("one"), (number + 2, pid));
    for (model, want) in [
        ("tiny", "must have residency = \"on-demand\" to leave its device"),
        ("none", "model none is not loaded"),
    ] {
        let output = machine.reef(&["ctl", "suspend", model]);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(want), "{said}");
    }
}

#[test]
fn program_without_a_gpu_stays_and_answers() {
    let machine = Machine::new("residency-host", 1024);
    machine.put("one", 0, "idle = \"50ms\"");
    let _daemon = machine.daemon(&["--guests"]);
    let (number, pid) = machine.answers("one");
    let refused = |line: &str| {
        let count = line.strip_prefix("reef_suspensions_total{op=\"refused\"} ");
        count.is_some_and(|count| count != "0")
    };
    machine.wait("it is asked to leave", || metrics(&machine.folder).lines().any(refused));
    assert_eq!(machine.answers("one"), (number + 2, pid));
}

#[test]
fn residency_on_demand_needs_a_daemon_with_guests() {
    let machine = Machine::new("residency-keys", 1024);
    machine.put("one", 0, "");
    machine.put("two", 0, "idle = \"soon\"");
    let _daemon = machine.daemon(&["--set", "models.load=[\"tiny\"]"]);
    for (name, want) in [
        ("one", "process.residency = \\\"on-demand\\\" requires guests.listen = true"),
        ("two", "process.idle must be a time from 1ms to 24h, such as 30s, got \\\"soon\\\""),
    ] {
        let said = machine.load(name);
        assert!(said.starts_with("HTTP/1.1 400 ") && said.contains(want), "{said}");
    }
}

/// The `criu` that this user may use here, of version 4 or newer.
fn criu() -> Option<String> {
    let named = std::env::var("REEF_TEST_CRIU").unwrap_or_else(|_| "criu".into());
    let mut check = Command::new(&named);
    check.arg("check").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let works = reef_suspend::Criu::find(Some(named.clone().into())).is_ok()
        && check.status().is_ok_and(|status| status.success());
    if !works {
        let why = "no criu of version 4 that this user may use; REEF_TEST_CRIU names one";
        reef_conformance::skip(why);
    }
    works.then_some(named)
}

/// A daemon that writes its processes to a folder, and its log.
struct Writer<'a> {
    machine: &'a Machine,
    log: String,
    _daemon: Daemon,
}

impl<'a> Writer<'a> {
    fn start(machine: &'a Machine, criu: &str) -> Self {
        let mut set = machine.variables();
        set.extend([("REEF_CRIU", criu.to_owned()), ("REEF_LOG", "info".to_owned())]);
        let set: Vec<(&str, &str)> = set.iter().map(|(name, value)| (*name, &**value)).collect();
        let place = format!("models.checkpoints={:?}", machine.folder.path("saved"));
        let options = [&TRUSTED[..], &["--guests", "--set", &place]].concat();
        let (daemon, log) = Daemon::start_logged_in(&machine.folder, &options, &set);
        Self { machine, log, _daemon: daemon }
    }

    /// Number of lines of the log about the process for best-effort requests with this text.
    fn count(&self, what: &str) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap();
        let is_meant = |line: &&str| line.contains("one/1 be 0") && line.contains(what);
        log.lines().filter(is_meant).count()
    }

    #[track_caller]
    fn waits_for(&self, what: &str, count: usize) {
        let begin = Instant::now();
        while self.count(what) < count {
            let log = std::fs::read_to_string(&self.log).unwrap();
            assert!(begin.elapsed() < Duration::from_secs(60), "{what}: {log}");
            std::thread::sleep(Duration::from_millis(5)); // sleep: poll of a condition
        }
    }

    /// Unloads the model, and waits for the end of its process.
    #[track_caller]
    fn unloads(&self, pid: u32) {
        let unload = "POST /v2/repository/models/one/unload";
        let said = ask(&self.machine.folder, unload, "{}");
        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
        let process = format!("/proc/{pid}");
        self.machine.wait("its end", || !Path::new(&process).exists());
    }

    /// Loads the model anew. Returns its first answer.
    #[track_caller]
    fn loads_anew(&self, pid: u32) -> (u64, u32) {
        self.unloads(pid);
        self.machine.loads("one");
        self.machine.answers("one")
    }

    /// Loads the model anew, whose process starts from its folder. Returns its first answer: 4, or
    /// 2 if it was written before it had answered, on a busy machine.
    #[track_caller]
    fn restores(&self, pid: u32) -> u64 {
        let (number, same) = self.loads_anew(pid);
        assert_eq!(same, pid, "{}", std::fs::read_to_string(&self.log).unwrap());
        assert!(self.was("warm"), "{}", metrics(&self.machine.folder));
        assert!([2, 4].contains(&number), "{number}");
        number
    }

    /// Returns whether the last start of the process was of this kind.
    fn was(&self, kind: &str) -> bool {
        let all = metrics(&self.machine.folder);
        let is_meant = |line: &&str| {
            line.starts_with("reef_model_starts_total{") && line.contains("class=\"be\"")
        };
        let (kind, mut lines) = (format!("kind=\"{kind}\""), all.lines().filter(is_meant));
        lines.next().is_some_and(|line| line.contains(&kind)) && lines.next().is_none()
    }
}

/// Images in `saved` that have the memory of processes.
fn pages(machine: &Machine) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(machine.folder.path("saved")).unwrap().flatten();
    let folders = folders.map(|folder| folder.path());
    let whole = folders.filter(|folder| folder.extension().is_none());
    let files = whole.flat_map(|folder| std::fs::read_dir(folder.join("images")));
    let files = files.flatten().flatten().map(|file| file.path());
    let is_pages = |path: &PathBuf| path.to_string_lossy().contains("/pages-");
    files.filter(is_pages).collect()
}

const WRITTEN: &str = "the process is written";

/// A program of this number of MiB on the device; 0: without it.
fn starts_from_its_folder(name: &str, mib: u64) {
    let Some(criu) = criu() else { return };
    let machine = Machine::new(&format!("warm-{name}"), 1024);
    machine.put("one", mib, "idle = \"50ms\"");
    let writer = Writer::start(&machine, &criu);
    let (number, pid) = machine.answers("one");
    assert_eq!(number, 2);
    writer.waits_for(WRITTEN, 1);
    let (then, same) = machine.answers("one");
    assert!((then, same) == (4, pid) && writer.was("cold"), "it goes on as it was");
    let first = writer.restores(pid);
    assert_eq!(machine.answers("one"), (first + 2, pid));
    assert_eq!(writer.restores(pid), first, "it is the same folder");
    // Its files are others.
    machine.folder.file("models/one/1/weights", "new");
    let (number, pid) = writer.loads_anew(pid);
    assert!(number == 2 && writer.was("cold"), "{number}");
    writer.waits_for(WRITTEN, 2);
    writer.restores(pid);
}

/// Needs CRIU, and root: `REEF_TEST_CRIU` names it.
#[test]
fn process_starts_from_the_folder_of_an_earlier_one() {
    starts_from_its_folder("host", 0);
}

/// Needs CRIU, and root: `REEF_TEST_CRIU` names it.
#[test]
fn process_with_device_memory_starts_from_its_folder() {
    starts_from_its_folder("device", 64);
}

/// Needs CRIU, and root: `REEF_TEST_CRIU` names it.
#[test]
fn folder_that_was_altered_is_removed_and_the_program_starts() {
    let Some(criu) = criu() else { return };
    let machine = Machine::new("warm-altered", 1024);
    machine.put("one", 0, "idle = \"50ms\"");
    let writer = Writer::start(&machine, &criu);
    let (_, pid) = machine.answers("one");
    writer.waits_for(WRITTEN, 1);
    let altered = pages(&machine);
    for image in &altered {
        let mut bytes = std::fs::read(image).unwrap();
        bytes[0] ^= 1;
        std::fs::write(image, bytes).unwrap();
    }
    assert!(!altered.is_empty(), "it has memory");
    let (number, pid) = writer.loads_anew(pid);
    assert!(number == 2 && writer.was("cold"), "{number}");
    assert_eq!(writer.count("it is not as it was written"), 1);
    writer.waits_for(WRITTEN, 2);
    writer.restores(pid);
}

/// Needs CRIU, and root: `REEF_TEST_CRIU` names it.
#[test]
fn process_whose_number_is_taken_starts_from_its_program() {
    let Some(criu) = criu() else { return };
    let machine = Machine::new("warm-taken", 1024);
    machine.put("one", 0, "idle = \"50ms\"");
    let writer = Writer::start(&machine, &criu);
    let (_, pid) = machine.answers("one");
    writer.waits_for(WRITTEN, 1);
    writer.unloads(pid);
    let mut taker = with_number(pid);
    machine.loads("one");
    let (number, other) = machine.answers("one");
    assert!(number == 2 && other != pid && writer.was("cold"), "{number}");
    assert!(writer.count(&format!("number {pid} must be free")) > 0);
    assert_eq!(taker.try_wait().unwrap(), None, "it is left alone");
    taker.kill().unwrap();
    taker.wait().unwrap();
    // Others may have got a number of its threads, for as long as they live.
    let (begin, mut last) = (Instant::now(), other);
    while last != pid {
        assert!(begin.elapsed() < NUMBER_TIMEOUT, "the folder must stay, got process {last}");
        last = writer.loads_anew(last).1;
    }
}

/// Maximum time for which other processes have a number.
const NUMBER_TIMEOUT: Duration = Duration::from_secs(300);

/// Starts a process with this number. New ones get the next number of the system's, which is what
/// it was afterwards: else all that starts would take numbers of folders.
fn with_number(pid: u32) -> Child {
    const LAST: &str = "/proc/sys/kernel/ns_last_pid";
    let begin = Instant::now();
    loop {
        let last = std::fs::read_to_string(LAST).unwrap();
        std::fs::write(LAST, (pid - 1).to_string()).unwrap();
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        std::fs::write(LAST, last.trim()).unwrap();
        if child.id() == pid {
            return child;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        while Path::new(&format!("/proc/{pid}")).exists() {
            assert!(begin.elapsed() < NUMBER_TIMEOUT, "another process keeps number {pid}");
            std::thread::sleep(Duration::from_millis(5)); // sleep: poll of a condition
        }
        assert!(begin.elapsed() < NUMBER_TIMEOUT, "no process gets number {pid}");
    }
}

/// A `criu` that stops a process and writes an image with the socket that stays. It starts nothing.
/// If there is a pipe `hang`, a start writes its number to `started`, and does not end.
const REFUSING: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo "Version: 4.2"; exit; }
action=$1
here=${0%/*}
while [ $# -gt 0 ]; do
  case $1 in -D) cd "$2";; -t) pid=$2;; --external) external=$2;; esac
  shift
done
[ $action = dump ] && { kill -STOP $pid; echo "$external" >pages-1.img; exit; }
[ -p "$here/hang" ] && { echo $$ >"$here/new"; mv "$here/new" "$here/started"; read _ <"$here/hang"; }
echo "(00.1) Error (criu/pstree.c:1): refused by the test" >criu.log; exit 1
"#;

/// A machine with the model `one`, and such a `criu`.
fn with_refusing_criu(name: &str) -> (Machine, String) {
    use std::os::unix::fs::PermissionsExt;
    let machine = Machine::new(name, 1024);
    machine.put("one", 0, "idle = \"50ms\"");
    let criu = machine.folder.file("criu", REFUSING);
    std::fs::set_permissions(&criu, std::fs::Permissions::from_mode(0o755)).unwrap();
    (machine, criu)
}

/// Runs everywhere: it needs neither CRIU nor root.
#[test]
fn process_whose_folder_criu_refuses_starts_from_its_program() {
    let (machine, criu) = with_refusing_criu("warm-refused");
    let writer = Writer::start(&machine, &criu);
    let (_, pid) = machine.answers("one");
    writer.waits_for(WRITTEN, 1);
    for image in pages(&machine) {
        let text = std::fs::read_to_string(image).unwrap();
        assert!(text.starts_with("unix["), "{text}");
    }
    assert_eq!(machine.answers("one"), (4, pid), "it goes on as it was");
    let (number, _) = writer.loads_anew(pid);
    assert!(number == 2 && writer.was("cold"), "{number}");
    assert_eq!(writer.count("refused by the test"), 1);
    writer.waits_for(WRITTEN, 2); // so the first folder was removed
}

/// Runs everywhere, as the one before. The daemon is killed while its `criu` starts a process.
#[test]
fn start_that_outlives_its_daemon_is_ended_by_the_next_one() {
    let (machine, criu) = with_refusing_criu("warm-outlives");
    let writer = Writer::start(&machine, &criu);
    let (_, pid) = machine.answers("one");
    writer.waits_for(WRITTEN, 1);
    writer.unloads(pid);
    let (hang, started) = (machine.folder.path("hang"), machine.folder.path("started"));
    assert!(Command::new("mkfifo").arg(&hang).status().unwrap().success());
    let mut client = UnixStream::connect(machine.folder.path("http.sock")).unwrap();
    let load =
        "POST /v2/repository/models/one/load HTTP/1.1\r\nhost: d\r\ncontent-length: 2\r\n\r\n{}";
    client.write_all(load.as_bytes()).unwrap();
    machine.wait("criu runs", || Path::new(&started).exists());
    drop(writer); // by SIGKILL
    let number = std::fs::read_to_string(&started).unwrap();
    let line = format!("/proc/{}/cmdline", number.trim());
    let lives = || std::fs::read(&line).is_ok_and(|line| !line.is_empty());
    assert!(lives(), "it does not end with its daemon");
    std::fs::remove_file(&hang).unwrap();
    let writer = Writer::start(&machine, &criu);
    let log = std::fs::read_to_string(&writer.log).unwrap();
    assert!(!lives() && log.contains("had outlived its daemon"), "{log}");
}
