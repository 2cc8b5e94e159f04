//! `reef serve` and `reef request` as people meet them.

use crate::common::daemon::{Daemon, ask, metrics};
use crate::common::driver::library;
use crate::common::{Folder, json, prints, reef, refuses, says, text};
use crate::handmade::{file, node, value};
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn a_client_prints_the_latency_of_each_inference() {
    let folder = Folder::new("serve");
    let mut daemon = Daemon::start(&folder);
    let client = ["request", "tiny", "--socket-dir", &folder.path("")];
    for rt in [&["--class", "rt"][..], &[]] {
        let output = reef(&[&client[..], rt, &["--requests", "3"]].concat());
        let progress = (output.status.code(), text(&output.stderr));
        assert_eq!(progress, (Some(0), "loading tiny\n"));
        let said = text(&output.stdout);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 4, "{said}");
        assert!(lines[3].starts_with("3 inferences: p50 "), "{said}");
        for line in &lines[..3] {
            let (id, time) = line.split_once(": ").expect(line);
            let number = id.strip_prefix("client ").expect(line).parse::<u32>();
            let millis = time.strip_suffix(" ms").expect(line).parse::<f64>();
            assert!(number.is_ok() && millis.is_ok_and(|millis| millis > 0.0), "{line}");
        }
    }
    let inference = json(&prints(&[&client[..], &["--json"]].concat()));
    assert_eq!((&inference["class"], &inference["model"]), (&"be".into(), &"tiny".into()));
    let top = ["top", "--socket-dir", &folder.path(""), "--interval", "50ms", "--count", "1"];
    let view = json(&prints(&[&top[..], &["--json"]].concat()));
    assert_eq!((&view["models_loaded"], &view["queued"]), (&1.into(), &0.into()), "{view}");
    let models = view["models"].as_array().expect("models");
    let classes: Vec<_> = models.iter().map(|model| &model["class"]).collect();
    assert_eq!(classes, ["be", "rt"], "what the daemon served before, by class: {view}");
    assert!(models.iter().all(|model| model["model"] == "tiny"), "{view}");

    let empty = json(&prints(&[&client[..], &["--empty", "10", "--json"]].concat()));
    for key in ["class", "model"] {
        assert_eq!(empty[key], inference[key], "{empty}");
    }
    assert!(empty["client"].as_u64() > inference["client"].as_u64(), "a later one: {empty}");
    assert_eq!(empty["round_trips"], 10);
    let latency = |of: &str| empty[format!("latency_{of}_ms")].as_f64().expect(of);
    assert!(0.0 < latency("p50") && latency("p50") <= latency("p99"), "{empty}");
    let said = says(&[&client[..], &["--empty", "100"]].concat());
    assert!(said.starts_with("100 empty round trips: p50 "), "{said}");
    let other = ["request", "nothing", "--socket-dir", &folder.path(""), "--json"];
    assert_eq!(refuses(&other), "no model nothing in the repository");

    let pid = daemon.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));
}

/// A text with one sign for each number.
fn pattern(text: &str) -> String {
    let mut made = String::new();
    for c in text.chars() {
        let is_of_number = c.is_ascii_digit() || c == '.';
        if !is_of_number {
            made.push(c);
        } else if !made.ends_with('#') {
            made.push('#');
        }
    }
    made
}

/// The page shows a larger model of the same network.
#[test]
fn outputs_on_the_page_of_first_requests_are_those_of_today() {
    let page = include_str!("../../../../docs/operate/first-requests.md");
    let folder = Folder::new("first-requests");
    let _daemon = Daemon::start(&folder);
    let place = folder.path("");
    let request = |class: &str| {
        let line = ["request", "tiny", "--socket-dir", &place, "--class", class, "--requests", "2"];
        pattern(says(&line).lines().last().expect("a summary"))
    };
    let summary = request("rt");
    assert_eq!(request("be"), summary);
    let body = |what: &str, body: &str| {
        let said = ask(&folder, what, body);
        said.split_once("\r\n\r\n").expect("a body").1.to_owned()
    };
    let mut description = json(&body("GET /v2/models/tiny", ""));
    description["name"] = "resnet18".into();
    description["inputs"][0]["shape"] = serde_json::json!([1, 3, 224, 224]);
    let input = serde_json::json!({
        "name": "input", "datatype": "FP32", "shape": [1, 3, 32, 32], "data": vec![0.5; 3072],
    });
    let infer = serde_json::json!({ "inputs": [input] }).to_string();
    let answer = body("POST /v2/models/tiny/infer", &infer);
    let mut found = (0, 0, 0);
    for line in page.lines() {
        if line.starts_with("{\"inputs\"") {
            assert_eq!(json(line), description);
            found.0 += 1;
        } else if line.starts_with("{\"model_name\"") {
            let (head, _) = line.split_once("\"data\":[").expect(line);
            assert!(answer.starts_with(&head.replace("resnet18", "tiny")), "{line}");
            found.1 += 1;
        } else if line.contains(" inferences: p50 ") {
            assert_eq!(pattern(line), summary);
            found.2 += 1;
        }
    }
    assert_eq!(found, (1, 1, 2));
    let counters = page.lines().filter(|line| line.starts_with("reef_"));
    let counters: Vec<_> = counters.map(|line| pattern(line).replace("resnet#", "tiny")).collect();
    assert!(!counters.is_empty());
    let begin = Instant::now();
    loop {
        let now = pattern(&metrics(&folder));
        if counters.iter().all(|counter| now.lines().any(|line| line == counter)) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{counters:?} in {now}");
        std::thread::sleep(Duration::from_millis(5)); // sleep: poll of a condition
    }
}

#[test]
fn wrong_configuration_is_refused() {
    let folder = Folder::new("config");
    let typo = folder.file("typo.toml", "[limits]\nqeue = 1\n");
    let said = refuses(&["serve", "--config", &typo]);
    assert!(said.starts_with(&typo) && said.contains("qeue"), "{said}");
    for (args, want) in [
        (&["--set", "limits.qeue=1"][..], "qeue"),
        (&["--grpc", "0.0.0.0:1"], "listen.grpc: 0.0.0.0:1 is not loopback: set listen.token_file"),
        (&["--http", "here"], "http"),
        (&["--device", "cpu:99"], "no device cpu:99"),
        (&["--load", "nothing"], "no model nothing in the repository"),
        (&["--load", "resnet18"], "--set models.builtin=true makes up weights"),
        (&["--load", "nothing"], "(models.repository isn't set)"),
        (&["--repository", "/nowhere"], "models.repository /nowhere: No such file"),
        (&["--repository", &typo], "typo.toml: must be a folder"),
        (&["--set", "scheduler=reef@9.99e9"], "a latency target must be a ratio from 1.01 to 10"),
    ] {
        let said = refuses(&[&["serve", "--socket-dir", &folder.path("x")], args].concat());
        assert!(said.contains(want), "{args:?}: {said}");
    }
    std::fs::create_dir_all(folder.path("models/small/1")).unwrap();
    folder.file("models/small/model.toml", "network = \"resnet18\"\nsize = 32\nseed = 1\n");
    let models = folder.path("models");
    let check = ["serve", "--check", "--socket-dir", &folder.path("x"), "--repository", &models];
    let said = prints(&[&check[..], &["--load", "small"]].concat());
    assert!(said.contains("\"small\""), "{said}");
    let said = refuses(&[&check[..], &["--load", "small,tiny"]].concat());
    assert!(said.contains("no model tiny in the repository"), "{said}");
    let no_token = ["--set", "listen.token_file=/nowhere"];
    let said = refuses(&[&check[..], &no_token].concat());
    assert!(said.contains("listen.token_file /nowhere: No such file"), "{said}");
    let no_group = ["--set", "listen.users=group no-such-group"];
    let said = refuses(&[&check[..], &no_group].concat());
    assert!(said.contains("listen.users: no group \"no-such-group\""), "{said}");
}

impl Daemon {
    fn hang_up(&self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    }
}

/// Lines of a log that have this text, once there are as many at least.
fn lines(log: &str, text: &str, least: usize) -> usize {
    let begin = Instant::now();
    loop {
        let all = std::fs::read_to_string(log).unwrap();
        let count = all.lines().filter(|line| line.contains(text)).count();
        if count >= least {
            return count;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{count} lines with {text:?}: {all}");
        std::thread::sleep(Duration::from_millis(10)); // sleep: poll of a condition
    }
}

/// Files that don't parse, and files that parse but don't make a model.
#[test]
fn a_model_that_is_refused_is_one_line_of_the_log() {
    let folder = Folder::new("refused");
    for (name, text) in
        [("broken", "size = \"large\"\n"), ("odd", "network = \"resnet18\"\nsize = 32\n")]
    {
        std::fs::create_dir_all(folder.path(&format!("models/{name}/1"))).unwrap();
        folder.file(&format!("models/{name}/model.toml"), text);
    }
    let (daemon, log) = Daemon::start_logged(&folder, "warn", &[]);
    let refused = |name: &str| format!("not loaded model={name} ");
    assert_eq!((lines(&log, &refused("broken"), 1), lines(&log, &refused("odd"), 1)), (1, 1));
    for (text, count) in [("size = \"large\"\n", 1), ("network = \"resnet18\"\nsize = 31\n", 2)] {
        folder.file("models/tiny/model.toml", text);
        daemon.hang_up();
        assert_eq!(lines(&log, &refused("tiny"), count), count);
    }
    let asked = ask(&folder, "POST /v2/repository/models/broken/load", "");
    assert!(asked.starts_with("HTTP/1.1 400 "), "{asked}");
    assert_eq!(lines(&log, &refused("broken"), 2), 2);
    let all = std::fs::read_to_string(&log).unwrap();
    assert_eq!(lines(&log, "not loaded", 5), 5, "{all}");
}

/// A program in the shell that sends this text of JSON, and stays until its daemon has ended it.
fn says_to_daemon(text: &str) -> String {
    let text = text.replace('"', "\\\"");
    let zeros = "\\000".repeat(11);
    format!(
        r#"text="{text}"
printf "\\$(printf %03o ${{#text}}){zeros}" >&0
printf %s "$text" >&0
exec cat >/dev/null
"#
    )
}

/// A model without a limit, whose file has an operator that is not read.
#[test]
fn program_in_place_of_a_file_is_one_line_of_the_log() {
    let folder = Folder::new("fallback");
    std::fs::create_dir_all(folder.path("models/either/1")).unwrap();
    let toml = "engine = \"auto\"\n[process]\ncommand = [\"/bin/sh\", \"./program\"]\n";
    folder.file("models/either/model.toml", toml);
    let ready = r#"{"type":"ready","protocol":1,"inputs":[{"name":"x","datatype":"FP32","shape":[2]}],"outputs":[{"name":"y","datatype":"FP32","shape":[2]}]}"#;
    folder.file("models/either/1/program", says_to_daemon(ready));
    let graph =
        [node("ImageDecoder", &["x"], "y", &[]), value(11, "x", &[2]), value(12, "y", &[2])];
    folder.file("models/either/1/model.onnx", file(17, &graph));
    let more = ["--set", "models.processes=true"];
    let (_daemon, log) = Daemon::start_logged(&folder, "info", &more);
    let line = "its program answers, because the file is not read model=either ";
    assert_eq!(lines(&log, line, 1), 1);
    assert_eq!(lines(&log, "ImageDecoder", 1), 1, "the same line has the reason");
    let said = ask(&folder, "GET /v2/models/either", "");
    assert!(said.contains("\"platform\":\"reef_process\""), "{said}");
}

/// Puts a model there with these limits. Its program says this text of the shell in place of being
/// ready.
fn put_limited(folder: &Folder, name: &str, limits: &str, text: &str) {
    std::fs::create_dir_all(folder.path(&format!("models/{name}/1"))).unwrap();
    let set = format!(
        "env = {{ REEF_SHIM = {:?}, REEF_ACCOUNTS = {:?}, XDG_RUNTIME_DIR = {:?} }}\n",
        library("libreef_cuda_shim.so"),
        folder.path("accounts"),
        folder.path("run")
    );
    let command = "[process]\ncommand = [\"/bin/sh\", \"./program\"]\n";
    let toml = format!("engine = \"process\"\n{command}{limits}{set}");
    folder.file(&format!("models/{name}/model.toml"), toml);
    let error = format!(r#"{{"type":"error","error":"{text}"}}"#);
    folder.file(&format!("models/{name}/1/program"), says_to_daemon(&error));
}

#[test]
fn program_of_a_model_has_the_limits_of_exec() {
    let folder = Folder::new("limited");
    let text = "memory $REEF_MEMORY compute $REEF_COMPUTE of ${REEF_LIMIT_ID%%-*}";
    put_limited(&folder, "limited", "memory = \"8MiB\"\ncompute = \"30%\"\n", text);
    let _daemon = Daemon::start_with(&folder, &["--set", "models.processes=true"]);
    let said = ask(&folder, "POST /v2/repository/models/limited/load", "");
    let want = r#"{"error":"model limited/1: memory 8MiB compute 30% of exec"}"#;
    assert!(said.starts_with("HTTP/1.1 500 ") && said.ends_with(want), "{said}");
}

/// Guests can register before the daemon loads its models, and clients can connect afterwards.
#[test]
fn program_loaded_at_the_start_is_a_guest() {
    let folder = Folder::new("guest");
    let clients = "$(test -e ${REEF_GUESTS%/*}/http.sock || echo before clients)";
    let text = format!("class $REEF_CLASS at $REEF_GUESTS {clients}");
    put_limited(&folder, "guest", "memory = \"8MiB\"\n", &text);
    let sockets = folder.path("run/reef"); // the default folder of the program
    let more = ["--guests", "--socket-dir", &sockets, "--set", "models.processes=true"];
    let (_daemon, log) = Daemon::start_logged(&folder, "warn", &more);
    let refused = "not loaded model=guest ";
    assert_eq!(lines(&log, refused, 1), 1);
    let all = std::fs::read_to_string(&log).unwrap();
    let line = all.lines().find(|line| line.contains(refused)).expect("counted above");
    let want = format!("class rt at {sockets}/guests.sock before clients");
    assert!(line.contains(&want), "{line}");
}

/// Scripts wait for the line on stdout, which the daemon of every test has printed by now.
#[test]
fn ready_is_a_line_of_stdout_and_not_of_the_log() {
    let folder = Folder::new("ready");
    let (_daemon, log) = Daemon::start_logged(&folder, "info", &[]);
    assert_eq!(lines(&log, "serving device=", 1), 1);
    let all = std::fs::read_to_string(&log).unwrap();
    assert!(!all.split_whitespace().any(|word| word == "ready"), "{all}");
}

#[test]
fn the_level_of_the_log_changes_while_the_daemon_runs() {
    let folder = Folder::new("level");
    let (daemon, log) = Daemon::start_logged(&folder, "warn", &[]);
    let change = |body: &str| ask(&folder, "POST /v2/logging", body);
    for (body, verbose) in
        [(r#"{ "log_verbose_level": 1 }"#, 1), (r#"{ "log_verbose_level": 0 }"#, 0)]
    {
        let said = change(body);
        assert!(said.contains(r#""log_info":true"#), "{said}");
        assert!(said.contains(&format!(r#""log_verbose_level":{verbose}"#)), "{said}");
    }
    let hangups = "SIGHUP: configuration";
    daemon.hang_up();
    assert_eq!(lines(&log, hangups, 1), 1);
    let said = change(r#"{ "log_info": false }"#);
    assert!(
        said.contains(r#""log_info":false"#) && said.contains(r#""log_warning":true"#),
        "{said}"
    );
    folder.file("reef.toml", "wrong");
    daemon.hang_up();
    lines(&log, "not reloaded", 1); // an error, behind the line that isn't there
    assert_eq!(lines(&log, hangups, 1), 1);
    let said = change(r#"{ "log_file": "/tmp/x" }"#);
    assert!(said.starts_with("HTTP/1.1 501 ") && said.contains("setting log_file"), "{said}");
}
