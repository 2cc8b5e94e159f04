//! The command as people meet it: one clear line for bad input, and a demo that leaves its files.

use crate::common::{Folder, prints, reef, refuses, says, text};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The network that the files below describe: `output = a + b`.
const GRAPH: &str = r#"{
    "storage": [
        {"name": "a", "size": 8, "stype": "float32"},
        {"name": "b", "size": 8, "stype": "float32"},
        {"name": "output", "size": 8, "stype": "float32"}
    ],
    "kernels": [{"name": "add", "launch_params": [2, 1, 1, 4, 1, 1], "args": [0, 1, 2]}],
    "args": [0, 1],
    "shared_memory": {"add": 4}
}"#;

/// A parameter file of one tensor of eight values.
fn param(name: &str) -> Vec<u8> {
    let (entries, floats) = (1u64.to_le_bytes(), 8u64.to_le_bytes());
    let parts = [&b"TVM_MODEL_PARAMS\0"[..], &entries, name.as_bytes(), b"\0", &floats, &[0; 32]];
    parts.concat()
}

#[test]
fn a_good_model_is_described() {
    let folder = Folder::new("good");
    let graph = folder.file("toy.json", GRAPH);
    let param = folder.file("toy.param", param("b"));
    let latency = r#"{"total_latency": 9, "latency": [9]}"#;
    let profile = format!(r#"{{"model_latency": 9, "kernel_latency": {{"add": {latency}}}}}"#);
    let profile = folder.file("toy.profile.json", profile);
    let said = prints(&["model", "show", &graph, "--weights", &param, "--latencies", &profile]);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(
        lines,
        [
            format!("{graph}: 1 launch of 1 kernel, 3 storages, 96 bytes"),
            format!("{param}: fits"),
            format!("{profile}: latencies of 1 kernel"),
        ]
    );
}

#[test]
fn bad_graph_is_refused() {
    let folder = Folder::new("graphs");
    let missing = folder.path("missing.json");
    assert!(refuses(&["model", "show", &missing]).starts_with(&format!("{missing}: No such file")));
    let cut = folder.file("cut.json", &GRAPH[..100]);
    assert!(refuses(&["model", "show", &cut]).starts_with(&format!("{cut}: ")));
    let index = folder.file("index.json", GRAPH.replace("[0, 1, 2]", "[0, 7, 2]"));
    let said = refuses(&["model", "show", &index]);
    assert_eq!(said, format!("{index}: kernels[0].args[1]: storage 7 of 3"));
    let kind = folder.file("type.json", GRAPH.replace("[0, 1, 2]", "[0, \"b\", 2]"));
    let said = refuses(&["model", "show", &kind]);
    assert!(said.starts_with(&format!("{kind}: kernels[0].args[1]: invalid type")), "{said}");
    std::fs::create_dir(folder.path("dir.json")).unwrap();
    let bytes = folder.file("bytes.json", [0xff, 0xfe, 0]);
    assert!(refuses(&["model", "show", &bytes]).starts_with(&format!("{bytes}: ")));
    assert!(refuses(&["model", "show", &folder.path("dir.json")]).contains("got a folder"));
}

#[test]
fn error_has_no_control_characters_of_a_name() {
    let folder = Folder::new("escapes");
    let missing = folder.path("missing\u{1b}]0;x\u{7}\u{9b}2J.json");
    let said = refuses(&["model", "show", &missing]);
    assert!(said.contains("missing\u{fffd}]0;x\u{fffd}\u{fffd}2J.json: No such file"), "{said}");
}

#[test]
fn command_works_where_stacks_are_small() {
    let run = |script: &str, args: &[&str]| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_reef")]).args(args);
        // Variables lie on the stack, too. A driver has threads of its own, with such stacks.
        command.env_clear().env("REEF_CUDA", "/nowhere/libcuda.so.1").output().unwrap()
    };
    for args in [&["--help"][..], &["doctor"], &["model", "list"]] {
        let usual = run("exec \"$0\" \"$@\"", args);
        let small = run("ulimit -s 64 && exec \"$0\" \"$@\"", args);
        assert_eq!(small.status, usual.status, "{args:?}: {}", text(&small.stderr));
        assert!(!small.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn bad_weights_and_profiles_are_refused() {
    let folder = Folder::new("params");
    let graph = folder.file("toy.json", GRAPH);
    let check = |what: &str, file: &str| refuses(&["model", "show", &graph, what, file]);
    let magic = folder.file("magic.param", b"PK\x03\x04\nnot weights at all");
    assert!(check("--weights", &magic).starts_with(&format!("{magic}: no parameter file")));
    let whole = param("b");
    for length in (0..whole.len()).step_by(8) {
        let cut = folder.file("cut.param", &whole[..length]);
        assert!(check("--weights", &cut).starts_with(&format!("{cut}: ")));
    }
    let other = folder.file("other.param", param("w"));
    assert!(check("--weights", &other).contains("\"w\" is no parameter of the graph"));
    assert!(check("--weights", &folder.path("missing.param")).contains("No such file"));
    let profile = folder.file("x.profile.json", r#"{"model_latency": "9"}"#);
    let said = check("--latencies", &profile);
    assert!(said.starts_with(&format!("{profile}: model_latency: invalid type: string")), "{said}");
}

#[test]
fn bad_demo_arguments_are_refused() {
    let folder = Folder::new("bad-demo");
    let out = folder.path("out");
    let words = folder.file("words.jpg", "these are words\n");
    let missing = folder.path("missing.jpg");
    let table: [(&[&str], &str); 15] = [
        (&["--device", "rocm"], "no backend \"rocm\" (have: cpu"),
        (&["--device", "cup:0"], "no backend \"cup\" (have: cpu"),
        (
            &["--device", "cpu:0?units=0"],
            "cpu option units: must be a number from 1 to 256, got \"0\"",
        ),
        (&["--device", "cpu:0?cores=2"], "cpu option \"cores\": unknown"),
        (&["--device", "cpu:99"], "no device cpu:99 (have: 0 to 7)"),
        (&["--device", "cpu:x"], "device \"cpu:x\": the ordinal must be a number, got \"x\""),
        (&["--rt-model", "resnet19"], "no network \"resnet19\" (have: resnet18, "),
        (&["--be-model", "resnet18,lenet"], "no network \"lenet\" (have: resnet18, "),
        (&["--image", &words], &words),
        (&["--image", &missing], &missing),
        (&["--time", "0"], "--time must be greater than 0 and at most 600 s, got 0"),
        (&["--time", "601s"], "--time must be greater than 0 and at most 600 s, got 601 s"),
        (&["--size", "5"], "resnet18: input size 5, possible are "),
        (
            &["--size", "18446744073709551615"],
            "resnet18: input size 18446744073709551615, possible",
        ),
        (&["--out", &words], &format!("--out {words}: must be a folder, got a file")),
    ];
    let rest = [("--size", "64"), ("--be-model", "resnet18"), ("--out", &out), ("--time", "0.01s")];
    for (args, want) in table {
        let rest = rest.iter().filter(|(name, _)| *name != args[0]);
        let rest: Vec<&str> = rest.flat_map(|(name, value)| [*name, *value]).collect();
        let said = refuses(&[&["demo"], args, &rest].concat());
        assert!(said.starts_with(want), "{args:?}: {said}");
    }
    assert!(!Path::new(&out).exists(), "nothing is written before all is known to be right");
}

/// clap prints usage errors in its own words, with what would be right.
#[test]
fn usage_errors_name_what_is_possible() {
    for (args, want) in [
        (&["demo", "--level", "deepest"][..], "possible values: host-queue, device-queue, all"),
        (
            &["demo", "--time", "soon"],
            "must be a number with us, ms, s, min or h, such as 20us, got \"soon\"",
        ),
        (&["demo", "--time", "nan"], "--time"),
        (&["demo", "--time", "4"], "got \"4\""),
        (&["demo", "--time", "1e9"], "got \"1e9\""),
        (&["demo", "--size=-1"], "--size"),
        (&["model", "shwo"], "show"),
        (&["k8s", "dmem-hook", "--max=0", "--gpu=0000:3b:00.0"], "--max"),
        (&["k8s", "dmem-hook", "--max=1"], "--gpu"),
        (&["request", "m", "--empty=1", "--requests=9"], "cannot be used with"),
        (&["request", "m", "--empty=1", "--image=a.png"], "cannot be used with"),
        (&["request", "m", "--empty=0"], "0 is not in 1.."),
        (&["request", "m", "--requests=0"], "0 is not in 1.."),
    ] {
        let output = reef(args);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(want), "{args:?}: {stderr}");
    }
}

#[test]
fn incomplete_node_is_refused_by_k8s() {
    let folder = Folder::new("node");
    let (shim, kubelet) = (folder.file("shim.so", ""), folder.path("no-kubelet"));
    let plugin = |kubelet: &str, more: &[&str]| {
        refuses(&[&["k8s", "plugin", "--shim", &shim, "--kubelet", kubelet], more].concat())
    };
    let said = plugin(&kubelet, &[]);
    assert!(
        said.contains(&format!("no kubelet's folder for device plugins at {kubelet} ")),
        "{said}"
    );
    let said = plugin(&folder.path(""), &["--rt-replicas", "4", "--rt-compute", "30%"]);
    assert!(said.contains("reef.dev/rt: 4 times 30% is 120 % of a device"), "{said}");
    let here = folder.path("");
    let folders = ["--registry", &here, "--cdi", &here, "--shim", &shim];
    let dra = |more: &[&str]| refuses(&[&["k8s", "dra"], &folders[..], more].concat());
    for (more, wanted) in [
        (&["--node", "a", "--plugins", &kubelet][..], "no kubelet's folder for plugins at"),
        (&["--plugins", &here, "--node", "A_b"], "--node must be the name of a node, got \"A_b\""),
        (&["--plugins", &here, "--node", "a", "--gpu-memory", "many"], "--gpu-memory \"many\": "),
        (&["--plugins", &here, "--node", "a", "--dmem-hook", &kubelet], "no command reef at"),
        (
            &["--plugins", &here, "--node", "a", "--suspended-memory", "give-back"],
            "--suspended-memory needs --gpu-memory",
        ),
        (
            &["--plugins", &here, "--node", "a", "--api", "here"],
            "--api must be HOST:PORT, got \"here\"",
        ),
        (
            &["--plugins", &here, "--node", "a", "--api", "here:x"],
            "\"x\" isn't a port of the API server",
        ),
        (&["--plugins", &here, "--node", "a", "--api", "here:443", "--api-ca", &kubelet], &kubelet),
    ] {
        let said = dra(more);
        assert!(said.contains(wanted), "{more:?}: {said}");
    }
    if !Path::new("/sys/fs/cgroup/dmem.capacity").exists() {
        let said = dra(&["--plugins", &here, "--node", "a", "--dmem-hook", &shim]);
        assert!(said.contains("--dmem-hook: the kernel keeps no limit of device memory here: "));
    }
}

/// A runtime starts no container whose hook fails.
#[test]
fn dmem_hook_without_a_container_fails_with_the_reason() {
    let output = reef(&["k8s", "dmem-hook", "--max=8589934592", "--gpu=0000:3b:00.0"]);
    let said = text(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("limit of device memory: the container's state: EOF"), "{said}");
}

fn write_photo(path: &str) {
    let file = std::fs::File::create(path).unwrap();
    let mut encoder = png::Encoder::new(file, 90, 70);
    encoder.set_color(png::ColorType::Rgb);
    let rows = (0..70).flat_map(|y| (0..90).flat_map(move |x| [x, y, 99]));
    let bytes: Vec<u8> = rows.collect();
    encoder.write_header().unwrap().write_image_data(&bytes).unwrap();
}

#[test]
fn the_demo_measures_and_leaves_a_plot_and_a_trace() {
    let folder = Folder::new("demo");
    let out = folder.path("new/out");
    let be = "resnet18,densenet121";
    let photo = folder.path("photo.png");
    write_photo(&photo);
    let said = prints(&[
        "demo",
        "--image",
        &photo,
        "--time",
        "0.2s",
        "--size",
        "64",
        "--rt-model",
        "resnet18",
        "--be-model",
        be,
        "--out",
        &out,
        "--json",
    ]);
    let report: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(
        (&report["rt"], &report["be"]),
        (&"resnet18".into(), &vec!["resnet18", "densenet121"].into())
    );
    let measurements = report["measurements"].as_array().unwrap();
    let names: Vec<_> = measurements.iter().map(|m| m["name"].as_str().unwrap()).collect();
    let want = "rt-only,BE alone,sequential,streams,stream-priority,wait-based,reset,reef";
    assert_eq!(names.join(","), want);
    for measurement in measurements {
        let name = measurement["name"].as_str().unwrap();
        let requests = measurement["rt_latency_us"]["count"].as_u64().unwrap();
        assert_eq!(requests > 0, name != "BE alone", "{name}: {measurement}");
        let rates = measurement["be_inferences_per_second"].as_array().unwrap();
        assert_eq!(rates.len(), 2, "{name}");
    }

    let plot = std::fs::read_to_string(Path::new(&out).join("latency.svg")).unwrap();
    assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>"));
    for text in [
        "(software device, ",
        "Start of a request next to blocks of 10 ms",
        "Latency of resnet18 next to resnet18, densenet121",
        "reef, level All",
    ] {
        assert!(plot.contains(text), "{text}: the plot says what it is");
    }
    let trace = std::fs::read_to_string(Path::new(&out).join("trace.json")).unwrap();
    let trace: Value = serde_json::from_str(&trace).expect("JSON");
    let events = trace["traceEvents"].as_array().unwrap();
    // On a busy machine best-effort work may get nothing in so short a time.
    let rates = measurements.last().unwrap()["be_inferences_per_second"].as_array().unwrap();
    let has_run = rates.iter().any(|rate| rate.as_f64() > Some(0.0));
    for class in ["RT"].into_iter().chain(has_run.then_some("BE")) {
        assert!(events.iter().any(|event| event["cat"] == class), "no slice of {class}");
    }
}

/// The first part of the demo: a request waits for a block of 10 ms unless blocks are stopped.
#[test]
fn demo_begins_with_long_blocks_and_ends_with_a_sentence() {
    let folder = Folder::new("demo-blocks");
    let out = folder.path("out");
    let small = ["--time", "600ms", "--size", "32", "--be-model", "resnet18", "--out", &out];
    let device = ["--device", "cpu:0?units=1"];
    let line = [&["demo"], &small[..], &device].concat();
    let report: Value = serde_json::from_str(&prints(&[&line[..], &["--json"]].concat())).unwrap();
    let start = |name: &str| {
        let rows = report["starts"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).expect(name).clone()
    };
    for name in ["streams", "wait-based", "level HostQueue", "level DeviceQueue", "level All"] {
        assert!(start(name)["rt_start_delay_us"]["count"].as_u64() > Some(0), "{name}: {report}");
        assert!(start(name)["be_kept"].as_f64() >= Some(0.0), "{name}: {report}");
    }
    let rows = report["starts"].as_array().unwrap();
    let has_some =
        rows.iter().any(|row| row["name"] != "BE alone" && row["be_kept"].as_f64() > Some(0.0));
    assert!(has_some, "best-effort work stood still: {report}");
    assert!(start("idle device")["be_kept"].is_null() && start("BE alone")["be_kept"] == 1.0);
    assert_eq!(start("BE alone")["rt_start_delay_us"]["count"], 0);

    let said = says(&line);
    // On a busy machine one more line says so.
    let is_last = |line: &&str| line.starts_with("Next to networks a request took ");
    let last = said.lines().rfind(is_last).expect(&said);
    let [reef, priorities] = [" reef ", " stream-priority "].map(|name| {
        let row = said.lines().rfind(|line| line.starts_with(name)).unwrap(); // of the last table
        let mut words = row.split_whitespace().rev();
        match words.next() {
            Some("%") => format!("{} %", words.next().unwrap()),
            _ => "none".into(), // alone it got nothing in so short a time
        }
    });
    let kept = format!("best-effort work kept {reef} and {priorities}.");
    assert!(last.ends_with(&kept), "{said}");
    assert!(!said.contains("padded"), "no row has padding, so there is no column: {said}");
}

#[test]
fn devices_and_models_are_listed() {
    let said = prints(&["devices"]);
    let row = said.lines().find(|line| line.contains("cpu:0")).expect(&said);
    assert!(row.contains("All") && row.contains("software device, "), "{said}");
    let devices: Value = serde_json::from_str(&prints(&["devices", "--json"])).expect("JSON");
    assert_eq!(devices[0]["backend"], "cpu");
    assert_eq!(devices[0]["devices"].as_array().unwrap().len(), 1);
    let models = prints(&["model", "list"]);
    let names: Vec<_> = models.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, [reef::models::NAMES, reef::models::TENSOR_NAMES].concat());
}

/// As in `reef model list | head -1`.
#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let reef = env!("CARGO_BIN_EXE_reef");
    let output = Command::new(reef).args(["model", "list"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    for args in [&["--help"][..], &["--version"], &["exec", "--help"], &["model", "list"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_reef"));
        let output = command.args(args).stdout(full).output().unwrap();
        let said = "reef: stdout: No space left on device (os error 28)\n";
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), said), "{args:?}");
    }
}

#[test]
fn error_that_is_not_read_keeps_its_exit_code() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut refused = Command::new(env!("CARGO_BIN_EXE_reef"));
    let status = refused.args(["model", "show", "lenet"]).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = prints(&["completions", shell]);
        for word in ["bench", "start", "completions", "trace"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        assert!(!script.contains("checkpointer"), "{shell}: no user calls it");
    }
    assert_eq!(reef(&["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn manual_page_has_every_command_and_plain_roff() {
    let page = prints(&["man"]);
    assert!(page.starts_with(".TH REEF 1 "), "{page}");
    for command in ["reef doctor", "reef ctl drain", "reef bench start", "reef model verify"] {
        assert!(page.contains(&format!(".SS {command}")), "{command}: {page}");
    }
    assert!(!page.contains("checkpointer"), "no user calls it: {page}");
    for line in page.lines().filter(|line| line.starts_with('.')) {
        let request = line.split(' ').next().unwrap();
        assert!([".TH", ".SH", ".SS", ".TP", ".nf", ".fi"].contains(&request), "{line}");
    }
}

/// Names that commands and options had before the first release.
#[test]
fn old_names_of_commands_and_options_are_refused() {
    for old in [
        &["client"][..],
        &["bench", "pair"],
        &["bench", "start", "--be", "x"],
        &["bench", "start", "--only", "All"],
        &["bench", "launch", "--window", "2"],
        &["bench", "colocate", "--rate", "100"],
        &["bench", "churn", "--runs", "2"],
        &["bench", "saturate", "--windows", "2"],
        &["exec", "--folder", "x", "--", "true"],
        &["exec", "--profile", "--", "true"],
        &["k8s", "plugin", "--rt", "4"],
        &["model", "import", "x.safetensors", "--out", "x", "--network", "resnet18"],
        &["request", "x", "--folder", "x"],
        &["run", "x.onnx", "--input", "x=x.npy"],
        &["simulate", "x.json", "--placement", "pack"],
    ] {
        let output = reef(old);
        let said = text(&output.stderr);
        let is_unknown = |what: &str| said.starts_with(&format!("error: {what}"));
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            is_unknown("unrecognized subcommand") || is_unknown("unexpected argument"),
            "{said}"
        );
    }
}

#[test]
fn the_help_says_what_exit_codes_mean() {
    let said = prints(&["--help"]);
    for code in ["Exit codes:", "  0  done", "  1  the work failed", "  2  the command line or"] {
        assert!(said.contains(code), "{code}: {said}");
    }
}

const FLEET: &str = r#"{
    "nodes": 2, "gpus_per_node": 2,
    "profile": {"device": {}, "networks": {"net": {"alone_us": 1000}}},
    "clients": [
        {"class": "rt", "network": "net", "count": 4, "arrivals": {"periodic": {"per_second": 10}}},
        {"class": "be", "network": "net", "count": 4, "arrivals": {"closed": {}}}
    ]
}"#;

#[test]
fn negative_number_is_a_value_that_its_option_refuses() {
    for (args, option) in [
        (&["demo", "--time", "-1"][..], "--time"),
        (&["run", "resnet18", "a.png", "--top", "-1"], "--top"),
        (&["model", "export", "resnet18", "--out", "x", "--batch", "-1"], "--batch"),
    ] {
        let output = reef(args);
        let (code, said) = (output.status.code(), text(&output.stderr));
        assert_eq!(code, Some(2), "{args:?}: {said}");
        let want = format!("error: invalid value '-1' for '{option} ");
        assert!(said.starts_with(&want), "{args:?}: {said}");
    }
}

#[test]
fn fleet_is_simulated_and_bad_one_is_refused() {
    let folder = Folder::new("fleet");
    let fleet = folder.file("fleet.json", FLEET);
    let said = prints(&["simulate", &fleet, "--time", "1s", "--placements", "pack", "--json"]);
    let rows: Value = serde_json::from_str(&said).unwrap();
    let sizes = prints(&["simulate", &fleet, "--time", "1s", "--gpus", "2,3", "--json"]);
    let sizes: Value = serde_json::from_str(&sizes).unwrap();
    assert_eq!([0, 1, 2, 3].map(|row| sizes[row]["gpus"].clone()), [2, 2, 3, 3].map(Value::from));
    let requests: Vec<_> = [0, 1].map(|row| rows[row]["rt_arrivals"].clone()).into();
    assert_eq!((requests, rows.as_array().unwrap().len()), (vec![40.into(), 40.into()], 2));
    let bad = folder.file(
        "bad.json",
        FLEET.replace("\"rt\", \"network\": \"net\"", "\"rt\", \"network\": \"nat\""),
    );
    for (args, want) in [
        (&[&bad[..]][..], "clients[0]: no network \"nat\" (have: net)"),
        (&[&fleet, "--placements", "tight"], "no placement \"tight\" (have: spread, pack"),
        (&[&fleet, "--schedulers", "rief"], "no scheduler \"rief\" (have: "),
        (&[&fleet, "--gpus", "0"], "GPUs must be from 1 to 1000000 in all, got 1 nodes of 0"),
        (&[&fleet, "--time", "0"], "seconds must be from "),
    ] {
        let said = refuses(&[&["simulate"], args].concat());
        assert!(said.contains(want), "{args:?}: {said}");
    }
}
