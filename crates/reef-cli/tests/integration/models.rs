//! `reef model`: networks become folders, and devices compute what the reference does.

use crate::common::{Folder, json, prints, reef, refuses, says, text};
use std::path::Path;

/// A small network in an ONNX file.
fn onnx(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reef-models/tests/onnx");
    folder.join(format!("{name}.onnx")).to_str().expect("UTF-8").into()
}

#[test]
fn a_network_of_tensors_is_imported_shown_verified_and_measured() {
    let folder = Folder::new("models-tensors");
    let (file, out) = (onnx("tensors/typed-17"), folder.path("typed"));
    let said = prints(&["model", "import", &file, "--out", &out]);
    assert!(said.starts_with(&format!("{out}: ")) && said.contains(" operations, "), "{said}");
    for network in [&file, &out] {
        let said = prints(&["model", "show", network]);
        assert!(said.contains("int64") && said.contains("[1, 4, 3]"), "{said}");
        let said = says(&["model", "verify", network, "--tolerance", "0"]);
        assert!(said.contains("cpu: off by 0.0e0"), "{said}");
    }
    let bench =
        ["bench", "networks", &out, "--device", "cpu:0?units=1", "--time", "0.05s", "--json"];
    let said = prints(&bench);
    assert!(said.contains("\"inferences\""), "{said}");
    let error = reef(&["run", &out, "x.png"]);
    let error = String::from_utf8(error.stderr).expect("UTF-8");
    assert!(
        error.contains("typed takes tensors (tokens: int64[1, 4], mask: bool[1, 4], "),
        "{error}"
    );
    let error = reef(&["model", "verify", &file, "--size", "32"]);
    let error = String::from_utf8(error.stderr).expect("UTF-8");
    assert!(error.contains("no input leaves rows and columns open for size 32"), "{error}");
}

#[test]
fn imported_network_runs_like_the_reference() {
    let folder = Folder::new("import");
    let out = folder.path("mobilenet");
    let said = prints(&["model", "import", &onnx("mobilenet-13"), "--out", &out]);
    assert_eq!(said, format!("{out}: 15 steps, 0.00 M parameters, 1x3x32x32 to 1x10\n"));
    let said = says(&["model", "verify", &out]);
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("cpu: off by ") && last.contains("e-"), "{said}");
    let said = prints(&["model", "show", &format!("{out}/model.json")]);
    assert!(said.contains("15 launches of 15 kernels"), "{said}");
    let param = format!("{out}/model.param");
    let said = prints(&["model", "show", &format!("{out}/model.json"), "--weights", &param]);
    assert!(said.ends_with("model.param: fits\n"), "{said}");
}

/// Each small network on the software device.
#[test]
fn the_device_computes_every_small_network() {
    for name in ["resnet-21", "densenet-18", "inception-20", "vgg-19", "alexnet-14", "mobilenet-21"]
        .into_iter()
        .chain(["odd-13", "skip-17"])
    {
        says(&["model", "verify", &onnx(name), "--tolerance", "1e-5"]);
    }
}

#[test]
fn preemptions_change_no_bit_of_networks_of_either_kind() {
    for name in ["mobilenet-21", "tensors/typed-17"] {
        let said = says(&["model", "verify", &onnx(name), "--preempt"]);
        assert!(said.ends_with(" changed no bit\n") && said.contains(" preemption"), "{said}");
        let said = json(&prints(&["model", "verify", &onnx(name), "--preempt", "--json"]));
        assert!(said["preemptions"].is_u64(), "{said}");
    }
}

/// Data decide about the sizes of these networks' tensors, or end their loop.
#[test]
fn preemptions_change_no_bit_where_data_decide() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reef-models/tests/onnx_runtime");
    for name in [
        "places_of_nonzero",
        "rows_by_condition",
        "boxes_by_class",
        "head_of_tuples",
        "second_stage",
        "loop_until",
    ] {
        let file = folder.join(format!("{name}.onnx"));
        let said = says(&["model", "verify", file.to_str().expect("UTF-8"), "--preempt"]);
        assert!(said.ends_with(" changed no bit\n") && said.contains(" preemption"), "{said}");
    }
}

#[test]
fn verify_fails_on_a_difference() {
    let output = reef(&["model", "verify", &onnx("resnet-13"), "--tolerance=-1"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cpu differs from the reference by"), "{stderr}");
    let output = reef(&["model", "verify", &onnx("resnet-13"), "--tolerance", "nan"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("must be a number, such as 1e-3, got \"nan\""), "{stderr}");
}

#[test]
fn a_built_network_is_exported_with_its_profile() {
    let folder = Folder::new("export");
    let out = folder.path("resnet");
    let device = ["--size", "32", "--device", "cpu"];
    let output = reef(&[&["model", "export", "resnet18", "--out", &out], &device[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = prints(&["model", "verify", &out, "--json"]);
    assert!(said.contains("\"off\":"), "{said}");
    assert!(Path::new(&out).join("model.profile.json").is_file());
    let other = refuses(&["model", "verify", &out, "--size", "64"]);
    assert!(other.ends_with("input size 64, possible are 32 to 32"), "{other}");
}

#[test]
fn output_that_is_a_link_is_refused_and_its_target_stays() {
    let folder = Folder::new("output-link");
    let (out, precious) = (folder.path("profile.json"), folder.path("precious"));
    std::fs::write(&precious, "precious").unwrap();
    std::os::unix::fs::symlink(&precious, &out).unwrap();
    let profile = ["model", "profile", &onnx("mobilenet-13"), "--device", "cpu:0?units=1"];
    let said = refuses(&[&profile[..], &["--out", &out]].concat());
    let want = format!("--out {out}: must be absent or a regular file, got a symbolic link");
    assert_eq!(said, want);
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
}

#[test]
fn output_whose_name_is_not_text_is_said_in_json() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new("output-name");
    let out = Path::new(&folder.path("")).join(std::ffi::OsStr::from_bytes(b"\xff.json"));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_reef"));
    command.args(["model", "profile", &onnx("mobilenet-13"), "--device", "cpu:0?units=1"]);
    let output = command.arg("--json").arg("--out").arg(&out).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = json(text(&output.stdout));
    assert!(said["file"].as_str().unwrap().ends_with("/\u{fffd}.json"), "{said}");
    assert!(out.is_file());
}

/// A profile of the network that was there would be taken for that of the new one.
#[test]
fn folder_with_a_network_is_not_overwritten() {
    let folder = Folder::new("overwritten");
    let out = folder.path("net");
    let import = ["model", "import", &onnx("mobilenet-13"), "--out", &out];
    prints(&import);
    let read = || std::fs::read(Path::new(&out).join("model.json")).unwrap();
    let before = read();
    let export = ["model", "export", "resnet18", "--size", "32", "--out", &out];
    for command in [&import[..], &export] {
        let said = refuses(command);
        let want =
            format!("--out {out}: must be a folder without a network, got one with model.json");
        assert!(said.starts_with(&want), "{said}");
    }
    assert_eq!(read(), before);
    std::fs::remove_dir_all(&out).unwrap();
    std::fs::create_dir(&out).unwrap();
    folder.file("net/notes.txt", "mine");
    prints(&import);
    assert!(Path::new(&out).join("notes.txt").is_file(), "other files are left alone");
}

/// Noise that no address space has room for isn't made up before the device says so.
#[test]
fn inputs_that_no_device_has_room_for_are_refused() {
    use crate::handmade::{file, node, value};
    let folder = Folder::new("verify-huge");
    let names: Vec<String> = (0..64).map(|k| format!("x{k}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let inputs = names.iter().map(|name| value(11, name, &[1 << 20, 1 << 20]));
    let sum = [node("Sum", &names, "y", &[]), value(12, "y", &[])];
    let graph: Vec<_> = sum.into_iter().chain(inputs).collect();
    let output = reef(&["model", "verify", &folder.file("huge.onnx", file(17, &graph))]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("reef: cpu: out of memory: ") && said.ends_with(" bytes asked\n"),
        "{said}"
    );
}

/// Data in the form of ONNX's own. The network's reason takes precedence over that of data that
/// can't be read.
#[test]
fn a_case_is_refused_for_what_its_network_has() {
    use crate::handmade::{bytes, file, node, number, value};
    let folder = Folder::new("nodetest");
    let case = |name: &str, op: &str, data: Vec<u8>| {
        let graph = [node(op, &["x"], "y", &[]), value(11, "x", &[2]), value(12, "y", &[2])];
        std::fs::create_dir_all(folder.path(&format!("{name}/test_data_set_0"))).expect("a folder");
        folder.file(&format!("{name}/model.onnx"), file(17, &graph));
        folder.file(&format!("{name}/test_data_set_0/input_0.pb"), &data);
        folder.file(&format!("{name}/test_data_set_0/output_0.pb"), data);
    };
    let two = [1.0f32, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let array = |bytes_of: &[u8]| [number(1, 2), number(2, 1), bytes(9, bytes_of)].concat();
    case("good", "Relu", array(&two));
    case("cut", "Relu", array(&two[..4]));
    case("strings", "RegexFullMatch", array(&two[..4]));
    case("wrong", "Neg", array(&two));
    let said = says(&["model", "verify", "--against", "onnx-tests", &folder.path(""), "--list"]);
    let lines: Vec<_> = said.lines().collect();
    let [wrong, cut, strings, sum] = lines[..] else { panic!("{said}") };
    assert!(wrong.starts_with("failed   wrong: output 0 at 0: -1, 1 wanted"), "{wrong}");
    assert!(cut.starts_with("refused  cut: ") && cut.ends_with("4 bytes for a tensor float32[2]"));
    let said = "node \"y\" (RegexFullMatch): it reads texts: let the client do it, and begin the file \
                with the numbers, or run the file by another engine";
    assert!(strings.ends_with(said), "{strings}");
    assert_eq!(sum, "4 networks: 1 passed, 1 failed, 2 refused");
    let verify = |more: &[&str]| {
        refuses(
            &[&["model", "verify", "--against", "onnx-tests", "--device", "cpu"], more].concat(),
        )
    };
    let none = folder.path("good/test_data_set_0");
    assert!(verify(&[&none]).starts_with(&format!("{none}: must have tests, ")));
    assert!(verify(&["/nowhere"]).starts_with("/nowhere: No such file"));
    let said = verify(&[&none, "--tolerance", "0.5"]);
    assert!(said.ends_with("--scales and --tolerance go without --against onnx-tests"), "{said}");
    let said = verify(&[&none, "--loop-bound", "5"]);
    assert!(said.contains("--loop-bound, --scales"), "{said}");
    let said = verify(&[&folder.path(""), "--filter", "nothing"]);
    assert_eq!(said, "--filter nothing: no test has this in its name");
}

#[test]
fn bad_files_are_refused() {
    let folder = Folder::new("bad-models");
    let out = folder.path("out");
    let import = |more: &[&str]| refuses(&[&["model", "import", "--out", &out], more].concat());
    let garbage = folder.file("x.onnx", b"GIF89a");
    assert!(import(&[&garbage]).starts_with(&format!("{garbage}: no ONNX file: ")));
    let cut = std::fs::read(onnx("vgg-13")).expect("it is there");
    let cut = folder.file("cut.onnx", &cut[..cut.len() / 2]);
    assert!(import(&[&cut]).starts_with(&format!("{cut}: no ONNX file: ")));
    let tensors = folder.file("x.safetensors", [0; 4]);
    assert_eq!(import(&[&tensors]), "--model must name the model whose weights these are");
    let error = import(&[&tensors, "--model", "resnet18"]);
    assert_eq!(error, format!("{tensors}: ends inside the header's length"));
    for command in [&["import", &onnx("vgg-13")][..], &["export", "resnet18"]] {
        let error = refuses(&[&["model"], command, &["--out", &garbage]].concat());
        assert_eq!(error, format!("--out {garbage}: must be a folder, got a file"));
    }
    assert_eq!(import(&["x.txt"]), "x.txt: must be .onnx or .safetensors");
    let error = import(&["resnet50.pth", "--model", "resnet50"]);
    assert!(error.starts_with("resnet50.pth: a file of PyTorch, "), "{error}");
    assert!(
        error.ends_with("export it as .onnx or .safetensors, docs/models.md says how"),
        "{error}"
    );
    let (large, room) = (folder.path("large.onnx"), "64MiB");
    std::fs::File::create(&large).and_then(|file| file.set_len(1 << 30)).expect("a file of holes");
    let error = import(&[&large, "--memory", room]);
    let wanted = "1073741824 bytes of memory wanted, 67108864 of 67108864 are left";
    assert_eq!(error, format!("{large}: all of it: {wanted}"));
    assert!(import(&["lost.onnx"]).starts_with("lost.onnx: No such file"));
    assert!(!Path::new(&out).exists(), "nothing was written");
    let error = refuses(&["model", "verify", "lenet"]);
    assert!(error.starts_with("no network \"lenet\" (have: resnet18, "), "{error}");
}

#[test]
fn a_network_is_shown_step_by_step() {
    let report = json(&prints(&["model", "show", "resnet18", "--json"]));
    let network = &report["network"];
    assert_eq!(network["parameters"], 11_689_512, "torchvision's");
    assert_eq!(network["input"], serde_json::json!([1, 3, 224, 224]));
    let steps = report["steps"].as_array().expect("steps");
    assert_eq!(Some(steps.len() as u64), network["steps"].as_u64());
    let sum: u64 = steps.iter().map(|step| step["parameters"].as_u64().expect("a number")).sum();
    assert_eq!(Some(sum), network["parameters"].as_u64());
    assert_eq!(steps[0]["operation"], "convolution 7x7/2, relu");
    assert_eq!(steps[0]["output"], serde_json::json!([1, 64, 112, 112]));
    let said = prints(&["model", "show", &onnx("mobilenet-13")]);
    assert!(said.starts_with(&onnx("mobilenet-13")) && said.contains("activations take"), "{said}");
    assert!(said.contains(" groups"), "{said}");
    assert!(refuses(&["model", "show", "lenet"]).starts_with("no network \"lenet\" (have: "));
}

#[test]
fn programs_can_read_what_is_printed() {
    let folder = Folder::new("models-json");
    let list = json(&prints(&["model", "list", "--json"]));
    let names: Vec<_> = list.as_array().expect("networks").iter().map(|net| &net["name"]).collect();
    assert_eq!(names, [reef::models::NAMES, reef::models::TENSOR_NAMES].concat());
    assert!(list[0]["parameters"].as_u64() > Some(1_000_000), "{list}");

    let out = folder.path("net");
    let device = ["--out", &out, "--device", "cpu", "--json"];
    let file = onnx("mobilenet-13");
    let said = json(&prints(&[&["model", "import", &file], &device[..]].concat()));
    assert_eq!((&said["folder"], &said["network"]["steps"]), (&out.as_str().into(), &15.into()));
    assert!(said["inference_us"].as_u64().is_some(), "{said}");
    let out = folder.path("other");
    let export = ["model", "export", "resnet18", "--size", "32", "--out", &out, "--json"];
    let said = json(&prints(&export));
    assert_eq!((&said["inference_us"], &said["network"]["input"][2]), (&().into(), &32.into()));
    let [graph, param] = ["model.json", "model.param"].map(|name| format!("{out}/{name}"));
    let said = json(&prints(&["model", "show", &graph, "--weights", &param, "--json"]));
    assert_eq!((&said["param_fits"], &said["profiled_kernels"]), (&true.into(), &().into()));
    let said = json(&prints(&["model", "verify", &out, "--json"]));
    assert!(said["off"].as_f64() < Some(1e-3), "{said}");
    let profile = folder.path("net.profile.json");
    let said = json(&prints(&["model", "profile", &out, "--out", &profile, "--json"]));
    assert!(said["kernels"].as_u64() > Some(1) && said["inference_us"].is_u64(), "{said}");
}

/// A network of `rows` x 3, of which `rows` is open.
fn open_rows() -> Vec<u8> {
    use crate::handmade::{file, node, open, value};
    let ends = [open(11, "x", 1, &["rows", "3"]), value(12, "y", &[])].concat();
    file(17, &[node("Relu", &["x"], "y", &[]), ends])
}

#[test]
fn every_command_of_a_file_takes_shapes() {
    let folder = Folder::new("models-shapes");
    let (file, out) = (folder.file("rows.onnx", open_rows()), folder.path("out"));
    let disb = folder.file(
        "W.json",
        r#"{"time": 1, "tasks": [{"id": "a_be", "load": {"type": "continuous"},
            "client": {"name": "a_be", "model_name": "net", "batch_size": 1}}]}"#,
    );
    let map = format!("net={file}");
    let models = |bench| vec!["bench", bench, "--be-model", &file, "--rt-model", "resnet18"];
    let commands = [
        vec!["run", &file, "a.png"],
        vec!["run", &file, "--out", &out],
        vec!["model", "show", &file],
        vec!["model", "import", &file, "--out", &out],
        vec!["model", "profile", &file, "--out", &out, "--device", "cpu"],
        vec!["model", "calibrate", &file, "--format", "int8", "--out", &out],
        vec!["model", "verify", &file, "--device", "cpu"],
        vec!["demo", "--rt-model", &file, "--device", "cpu", "--out", &out],
        vec!["bench", "networks", &file],
        vec!["bench", "local", &file],
        vec!["bench", "start", "--be-model", &file],
        vec!["bench", "disb", &disb, "--map", &map],
        models("colocate"),
        models("saturate"),
        models("churn"),
        models("cluster"),
    ];
    for command in commands.iter().filter(|args| args[0] != "bench" || cfg!(feature = "bench")) {
        let says = |shape| refuses(&[&command[..], &["--shape", shape]].concat());
        let fixed = "input \"x\": size 1 is fixed to 3, 4 asked";
        let error = says("x=5,4");
        assert!(error.ends_with(fixed), "{command:?}: {error}");
        let error = says("z=5");
        assert!(error.contains('z') && error.contains("input or "), "{command:?}: {error}");
    }
    assert!(!Path::new(&out).exists());
}

#[test]
fn shapes_belong_to_the_models_that_have_their_names() {
    let folder = Folder::new("models-shapes-names");
    let file = folder.file("rows.onnx", open_rows());
    let said = says(&["model", "verify", &file, "--device", "cpu", "--shape", "rows=5"]);
    assert!(said.contains("cpu: off by 0.0e0"), "{said}");
    if cfg!(feature = "bench") {
        let quick = ["--device", "cpu:0?units=1", "--time", "0.05s", "--json"];
        let both = format!("{},{file}", onnx("mobilenet-13"));
        let bench = [&["bench", "networks", &both, "--shape", "rows=5"], &quick[..]].concat();
        let said = json(&prints(&bench));
        assert_eq!(said["rows"].as_array().expect("rows").len(), 2, "{said}");
    }
    let weights = folder.file("w.safetensors", "");
    let error = refuses(&["run", "resnet18", "a.png", "--weights", &weights, "--shape", "x=1"]);
    assert!(error.ends_with("no ONNX file, so its sizes are its own"), "{error}");
}

/// Sequences of the data are tensors of the network's ports, also within optional values.
#[test]
fn a_case_may_have_sequences() {
    use crate::handmade::{bytes, file, node, number, sequence};
    let folder = Folder::new("nodetest-sequences");
    let tensor = |x: f32| [number(1, 1), number(2, 1), bytes(9, x.to_le_bytes())].concat();
    let list = |numbers: &[f32]| -> Vec<u8> {
        let tensors = numbers.iter().flat_map(|&x| bytes(3, tensor(x)));
        number(2, 1).into_iter().chain(tensors).collect()
    };
    let case = |name: &str, is_optional: bool, wanted: &[f32]| {
        let value = |list: Vec<u8>| {
            if is_optional { [number(2, 3), bytes(5, list)].concat() } else { list }
        };
        let ports = [11, 12].map(|field| {
            let name = if field == 11 { "x" } else { "y" };
            sequence(field, name, 1, &[1], is_optional)
        });
        let graph = [&[node("Identity", &["x"], "y", &[])], &ports[..]].concat();
        std::fs::create_dir_all(folder.path(&format!("{name}/test_data_set_0"))).expect("a folder");
        folder.file(&format!("{name}/model.onnx"), file(17, &graph));
        let data = [("input", list(&[1.0, 2.0])), ("output", list(wanted))];
        for (what, list) in data {
            folder.file(&format!("{name}/test_data_set_0/{what}_0.pb"), value(list));
        }
    };
    case("optional", true, &[1.0, 2.0]);
    case("plain", false, &[1.0, 2.0]);
    case("short", false, &[1.0]);
    case("wrong", false, &[1.0, 3.0]);
    case("absent", true, &[1.0]);
    folder.file("absent/test_data_set_0/input_0.pb", number(2, 3));
    let said = says(&["model", "verify", "--against", "onnx-tests", &folder.path(""), "--list"]);
    let lines: Vec<_> = said.lines().collect();
    let [short, wrong, absent, sum] = lines[..] else { panic!("{said}") };
    assert_eq!(short, "failed   short: 2 outputs, 1 wanted");
    assert_eq!(wrong, "failed   wrong: output 1 at 0: 2, 3 wanted");
    assert!(absent.contains("an optional value that is left out is not supported"), "{absent}");
    assert_eq!(sum, "5 networks: 2 passed, 2 failed, 1 refused");
}
