//! `reef run`: what a network sees in images, or what is wrong with them.

use crate::common::{Folder, json, prints, reef, refuses, says, text};
use serde_json::Value;
use std::path::Path;

/// An image that comes with the tests.
fn image(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reef-models/tests/images");
    folder.join(name).to_str().expect("UTF-8").into()
}

/// A small network in an ONNX file, of ten classes.
fn onnx() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reef-models/tests/onnx");
    folder.join("resnet-13.onnx").to_str().expect("UTF-8").into()
}

#[test]
fn each_image_gets_its_best_classes_and_their_labels() {
    let folder = Folder::new("run");
    let names: Vec<_> = (0..10).map(|class| format!("kind {class}\n")).collect();
    let labels = folder.file("labels.txt", names.concat());
    let (one, other) = (image("wide.png"), image("photo.jpg"));
    let run = ["run", &onnx(), &one, &other, "--labels", &labels, "--top", "3"];
    let report: Value =
        serde_json::from_str(&says(&[&run[..], &["--json"]].concat())).expect("JSON");
    let images = report["images"].as_array().expect("images");
    let files: Vec<_> = images.iter().map(|image| image["file"].as_str()).collect();
    assert_eq!(files, [Some(&*one), Some(&*other)]);
    assert_eq!(report["weights_made_up"], false);
    for image in images {
        let top = image["top"].as_array().expect("classes");
        assert_eq!(top.len(), 3);
        let number = |class: &Value, key: &str| class[key].as_f64().expect("a number");
        let sum: f64 = top.iter().map(|class| number(class, "probability")).sum();
        assert!(sum > 0.3 && sum <= 1.0, "the three best of ten: {image}");
        assert!(top.is_sorted_by(|a, b| number(a, "logit") >= number(b, "logit")), "{image}");
        for class in top {
            assert_eq!(class["label"], format!("kind {}", class["class"]));
        }
    }
    assert_ne!(images[0]["top"][0]["logit"], images[1]["top"][0]["logit"]);

    let said = says(&run);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2 * 4, "{said}");
    let class = &images[0]["top"][0]["class"];
    assert!(lines[0].starts_with(&one) && lines[0].ends_with(" ms"), "{said}");
    assert!(lines[1].contains('%') && lines[1].ends_with(&format!("kind {class}")), "{said}");
}

/// The numbers of a normalisation reach the network.
#[test]
fn another_normalisation_gives_other_logits() {
    let logit = |more: &[&str]| {
        let run = ["run", &onnx(), &image("wide.png"), "--json"];
        let report: Value = serde_json::from_str(&says(&[&run[..], more].concat())).expect("JSON");
        report["images"][0]["top"][0]["logit"].as_f64().expect("a number")
    };
    let usual = ["--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225", "--resize", "37"];
    assert_eq!(logit(&[]), logit(&usual), "an image of 32 x 32 has a shorter side of 37");
    assert_ne!(logit(&[]), logit(&["--mean", "0.5,0.5,0.5", "--std", "0.5,0.5,0.5"]));
    assert_ne!(logit(&[]), logit(&["--resize", "32"]));
}

#[test]
fn weights_that_are_made_up_are_said_to_be() {
    let run = ["run", "resnet18", &image("tall.png"), "--size", "32", "--top", "1"];
    let said = says(&run);
    assert!(said.starts_with("resnet18: weights are made up; --weights FILE has"), "{said}");
}

#[test]
fn run_refuses_invalid_arguments() {
    let folder = Folder::new("bad-run");
    let good = image("wide.png");
    let words = folder.file("words.jpg", "these are words\n");
    let cut = std::fs::read(image("photo.jpg")).expect("it is there");
    let cut = folder.file("cut.png", &cut[..9]);
    let missing = folder.path("missing.jpg");
    let labels = folder.file("labels.txt", "one\ntwo\n");
    let weights = folder.file("w.safetensors", [0; 4]);
    let net = onnx();
    let at = |name: &str, why: &str| format!("{name}: {why}");
    let table: [(&[&str], String); 14] = [
        (&[&net, &words], at(&words, "")),
        (&[&net, &good, &missing], at(&missing, "No such file")),
        (&[&net, &cut], at(&cut, "")),
        (&["lenet", &good], "no network \"lenet\" (have: ".into()),
        (&[&net, &good, "--device", "rocm"], "no backend \"rocm\"".into()),
        (&[&net, &good, "--top", "11"], "--top must be from 1 to 10, got 11".into()),
        (&[&net, &good, "--top", "0"], "--top must be from 1 to 10, got 0".into()),
        (
            &[&net, &good, "--labels", &labels],
            format!("--labels {labels}: 2 lines, the network has 10 classes"),
        ),
        (&[&net, &good, "--labels", &missing], format!("--labels {missing}: No such file")),
        (&[&net, &good, "--weights", &weights], format!("--weights: {net} brings its own weights")),
        (
            &["resnet18", &good, "--weights", &weights],
            at(&weights, "ends inside the header's length"),
        ),
        (
            &["resnet18", &good, "--weights", &words],
            format!("--weights {words}: a file is .safetensors or .param"),
        ),
        (&[&net, &good, "--resize", "31"], "--resize must be from 32 to 16384, got 31".into()),
        (&[&net, &good, "--std", "1,0,1"], "--std: nothing can be divided by 0".into()),
    ];
    for (args, want) in table {
        let said = refuses(&[&["run"], args].concat());
        assert!(said.starts_with(&want), "{args:?}: {said}");
    }
    let output = reef(&["run", &net]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("<IMAGE|NAME=FILE.npy>"), "{}", text(&output.stderr));
}

/// A network with two outputs, `sum = x · ones(3, 2) + 1` and `top = largest of each row of x`, of
/// rows whose number is left open.
fn two_outputs() -> Vec<u8> {
    use crate::handmade::{bytes, file, int, node, number, ones, value};
    let open = bytes(1, bytes(2, "rows"));
    let three = bytes(1, number(1, 3));
    let tensor = [number(1, 1), bytes(2, [open, three].concat())].concat();
    let x = bytes(11, [bytes(1, "x"), bytes(2, bytes(1, tensor))].concat());
    let graph = [
        node("MatMul", &["x", "w"], "product", &[]),
        node("Add", &["product", "b"], "sum", &[]),
        node(
            "ReduceMax",
            &["x"],
            "top",
            &[crate::handmade::ints("axes", &[1]), int("keepdims", 0)],
        ),
        x,
        value(12, "sum", &[]),
        value(12, "top", &[]),
        ones("w", &[3, 2]),
        ones("b", &[2]),
    ];
    file(13, &graph)
}

/// A file of numpy with 32-bit floats.
fn npy(shape: &str, values: &[f32]) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
    let values: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &values]
        .concat()
}

#[test]
fn arrays_go_in_and_come_out_by_name() {
    let folder = Folder::new("run-arrays");
    let model = folder.file("two.onnx", two_outputs());
    let x = folder.file("x.npy", npy("(2, 3)", &[1.0, 2.0, 3.0, -1.0, 0.0, 0.5]));
    let (input, out) = (format!("x={x}"), folder.path("out"));
    let said = prints(&["run", &model, &input, "--out", &out]);
    assert!(
        said.contains("sum: float32[2, 2] in ") && said.contains("top: float32[2] in "),
        "{said}"
    );
    let written = |name: &str| std::fs::read(format!("{out}/{name}.npy")).expect("it was written");
    let floats =
        |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    assert!(written("sum").ends_with(&floats(&[7.0, 7.0, 0.5, 0.5])));
    assert!(written("top").ends_with(&floats(&[3.0, 0.5])));
    let said = prints(&["run", &model, &input, "--preempt"]);
    assert!(said.ends_with(" changed no bit\n") && said.contains(" preemption"), "{said}");
    let said = json(&prints(&["run", &model, &input, "--json"]));
    assert!(said["ms"].is_f64() && said["preemptions"].is_null(), "{said}");
    let said = prints(&["model", "show", &model]);
    assert!(
        said.contains("input") && said.contains("float32") && said.contains("[1, 3]"),
        "{said}"
    );
    let said = prints(&["model", "show", &model, "--shape", "x=5,3"]);
    assert!(said.contains("[5, 3]") && !said.contains("[1, 3]"), "{said}");
    let error = refuses(&["model", "show", &model, "--shape", "x=5,4"]);
    assert!(error.ends_with("input \"x\": size 1 is fixed to 3, 4 asked"), "{error}");
    let error = refuses(&["model", "show", "resnet18", "--shape", "input=1,3,32,32"]);
    assert!(error.ends_with("no ONNX file, so its sizes are its own"), "{error}");
    let wide = folder.file("wide.npy", npy("(2, 4)", &[0.0; 8]));
    let error = refuses(&["run", &model, &format!("x={wide}")]);
    assert!(error.ends_with("input \"x\": size 1 is fixed to 3, 4 asked"), "{error}");
    let error = refuses(&["run", &model, &format!("z={x}")]);
    assert!(error.ends_with("input \"z\": the network has no such input or size"), "{error}");
}

/// Doubles `x` until it is 100 or more.
fn until_hundred() -> Vec<u8> {
    use crate::handmade::{file, graph, node, open, scalar};
    let body = [
        open(11, "i", 7, &[]),
        open(11, "going", 9, &[]),
        open(11, "h", 1, &[]),
        node("Add", &["h", "h"], "twice", &[]),
        node("Less", &["twice", "hundred"], "small", &[]),
        open(12, "small", 9, &[]),
        open(12, "twice", 1, &[]),
    ];
    let parts = [
        scalar("hundred", 100.0),
        node("Loop", &["", "", "x"], "y", &[graph("body", &body)]),
        open(11, "x", 1, &[]),
        open(12, "y", 1, &[]),
    ];
    file(17, &parts)
}

#[test]
fn loop_that_data_end_has_the_bound_of_the_command_line() {
    let folder = Folder::new("run-loop");
    let model = folder.file("until.onnx", until_hundred());
    let given = |name: &str, number: f32| {
        let array = folder.file(name, npy("()", &[number]));
        format!("x={array}")
    };
    let (three, zero) = (given("three.npy", 3.0), given("zero.npy", 0.0));
    let out = folder.path("out");
    for bound in [&[][..], &["--loop-bound", "6"]] {
        prints(&[&["run", &model, &three, "--out", &out], bound].concat());
        let made = std::fs::read(format!("{out}/y.npy")).expect("it was written");
        assert!(made.ends_with(&192f32.to_le_bytes()), "six times");
        let said = prints(&[&["run", &model, &three, "--preempt"], bound].concat());
        assert!(said.ends_with(" changed no bit\n"), "{said}");
    }
    for (input, bound) in [(&three, "5"), (&zero, "64")] {
        let output = reef(&["run", &model, input, "--loop-bound", bound]);
        let said = text(&output.stderr);
        assert!(said.contains(&format!("(Loop): {bound} iterations: ")), "{said}");
        assert!(said.ends_with(" a higher bound of its loops (`--loop-bound`)\n"), "{said}");
        assert!(!output.status.success());
    }
    let weights = folder.file("w.safetensors", "");
    let other = ["run", "resnet18", "a.png", "--weights", &weights, "--loop-bound", "5"];
    let error = refuses(&other);
    assert!(error.ends_with("no ONNX file, so it has no loops to bound"), "{error}");
}

#[test]
fn texts_go_in_and_come_out_as_texts() {
    use crate::handmade::{file, node_in, open, texts};
    use reef::models::{Budget, npy::texts_from_bytes, npy::texts_to_bytes};
    let folder = Folder::new("run-texts");
    let table = [texts("keys_strings", &["red"]), texts("values_strings", &["stop"])];
    let parts = [
        node_in("ai.onnx.ml", "LabelEncoder", &["x"], &["y"], &table),
        open(11, "x", 8, &["n"]),
        open(12, "y", 8, &["n"]),
    ];
    let model = folder.file("colors.onnx", file(17, &parts));
    let x = folder.file("x.npy", texts_to_bytes(&[2], &["red", "blue"]));
    let out = folder.path("out");
    let said = prints(&["run", &model, &format!("x={x}"), "--out", &out]);
    assert!(said.contains("y: str[2] in "), "{said}");
    let written = std::fs::read(format!("{out}/y.npy")).expect("it was written");
    let made = texts_from_bytes(&written, "y.npy", &Budget::default());
    let (dims, made) = made.expect("a file of numpy").expect("texts");
    assert_eq!((dims, made), (vec![2], vec!["stop".to_owned(), "_Unused".to_owned()]));
    let said = prints(&["model", "show", &model]);
    assert!(said.contains("str") && !said.contains("int64"), "{said}");
    let numbers = folder.file("numbers.npy", npy("(1,)", &[0.0]));
    let error = refuses(&["run", &model, &format!("x={numbers}")]);
    assert!(error.ends_with("input x: must be of texts, got numbers"), "{error}");
    let sums = folder.file("two.onnx", two_outputs());
    let x = folder.file("row.npy", texts_to_bytes(&[1, 3], &["a", "b", "c"]));
    let error = refuses(&["run", &sums, &format!("x={x}")]);
    assert!(error.ends_with("input x: must be of numbers, got texts"), "{error}");
}

/// An option that does nothing is a mistake of the caller.
#[test]
fn options_of_images_are_refused_with_arrays() {
    let folder = Folder::new("run-options");
    let two = folder.file("two.onnx", two_outputs());
    let input = format!("x={}", folder.file("x.npy", npy("(1, 3)", &[0.0; 3])));
    let own_weights = format!("--weights: {two} brings its own weights");
    for (option, want) in [
        ("--labels=names.txt", "--labels: that is for images, not for arrays"),
        ("--top=5", "--top: that is for images, not for arrays"),
        ("--resize=64", "--resize: that is for images, not for arrays"),
        ("--mean=0,0,0", "--mean: that is for images, not for arrays"),
        ("--std=1,1,1", "--std: that is for images, not for arrays"),
        ("--size=64", "--size: an array has its sizes; "),
        ("--weights=w.safetensors", own_weights.as_str()),
    ] {
        let error = refuses(&["run", &two, &input, option]);
        assert!(error.starts_with(want), "{option}: {error}");
    }
    let input = format!("input_ids={}", folder.path("x.npy"));
    let error = refuses(&["run", "bert", &input, "--shape", "input_ids=1,3"]);
    assert!(error.ends_with("no ONNX file, so its sizes are its own"), "{error}");
    let input = format!("input_ids={}", folder.file("ids.npy", npy("(1, 3)", &[0.0; 3])));
    let error = refuses(&["run", "bert", &input, "--size", "5"]);
    assert_eq!(error, "--size: the arrays have size 3, got 5");
    std::fs::create_dir(folder.path("own")).expect("a folder");
    folder.file("own/kernels.cu", "");
    let own = folder.path("own");
    let error = refuses(&["run", &own, &input, "cat.jpg"]);
    assert_eq!(error, format!("{own} takes NAME=FILE.npy, not images"));
}

#[test]
fn reading_for_images_takes_no_more_memory_than_it_may() {
    let error = refuses(&["run", &onnx(), &image("wide.png"), "--memory", "1KiB"]);
    assert!(error.contains("bytes of memory wanted, "), "{error}");
}

#[test]
fn arrays_that_are_not_requested_are_named() {
    let folder = Folder::new("run-more-arrays");
    let x = folder.file("x.npy", npy("(1, 4)", &[0.0; 4]));
    let two = folder.file("two.onnx", two_outputs());
    let run = |model: &str, inputs: &[&str]| {
        let inputs = inputs.iter().map(|name| format!("{name}={x}"));
        let args: Vec<String> = ["run", model].map(String::from).into();
        let args = [args, inputs.collect()].concat();
        refuses(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(run(&two, &["x", "x"]).ends_with("input x: given twice"));
    let error = run("distilbert", &["input_ids", "attention_mask", "token_type_ids"]);
    let have = "there is no such input (have: input_ids, attention_mask)";
    assert!(error.ends_with(&format!("input token_type_ids: {have}")), "{error}");
    let error = run("distilbert", &["input_ids", "attention_mas"]);
    let meant = format!("input attention_mas: {have}: did you mean attention_mask?");
    assert!(error.ends_with(&meant), "{error}");
    let error = run("resnet18", &["x"]);
    assert!(error.ends_with("resnet18 takes images (JPEG or PNG), no arrays"), "{error}");
    let error = refuses(&["run", "resnet18", "--out", &folder.path("out")]);
    assert!(error.ends_with("resnet18 needs images (JPEG or PNG), and no --out"), "{error}");
    std::fs::create_dir(folder.path("net")).expect("a folder");
    folder.file("net/model.json", "{}");
    let error = run(&folder.path("net"), &["x"]);
    assert!(error.ends_with("net takes images (JPEG or PNG), no arrays"), "{error}");
    let error = refuses(&["run", &two, &x]);
    assert_eq!(error, format!("{x}: must have the name of an input before it: NAME={x}"));
    let error = refuses(&["run", &two, "x=/nowhere"]);
    assert!(
        error.ends_with("input x: /nowhere: No such file or directory (os error 2)"),
        "{error}"
    );
}

#[test]
fn reading_for_arrays_takes_no_more_memory_than_it_may() {
    use crate::handmade::{file, node, ones, value};
    let folder = Folder::new("run-memory");
    let ends = [value(11, "x", &[1]), value(12, "y", &[])].concat();
    let graph = [node("Add", &["x", "w"], "y", &[]), ends, ones("w", &[1 << 19])];
    let model = folder.file("two.onnx", file(17, &graph)); // MiB
    let input = format!("x={}", folder.file("x.npy", npy("(1,)", &[1.0])));
    let run = ["run", &model, &input, "--memory"];
    let error = refuses(&[&run[..], &["1MiB"]].concat());
    assert!(error.contains("bytes of memory wanted, "), "{error}");
    for enough in ["16MiB", "0"] {
        let said = prints(&[&run[..], &[enough]].concat());
        assert!(said.starts_with("y: float32[524288]\n"), "{said}");
    }
}

#[test]
fn a_network_without_inputs_runs() {
    use crate::handmade::{file, node, ones, value};
    let folder = Folder::new("run-no-arrays");
    let graph = [node("Neg", &["w"], "y", &[]), value(12, "y", &[]), ones("w", &[2])];
    let model = folder.file("constant.onnx", file(17, &graph));
    let out = folder.path("out");
    let said = prints(&["run", &model, "--out", &out]);
    assert!(said.contains("y: float32[2] in "), "{said}");
    let written = std::fs::read(format!("{out}/y.npy")).expect("it was written");
    assert!(written.ends_with(&[(-1.0f32).to_le_bytes(); 2].concat()));
    let two = folder.file("two.onnx", two_outputs());
    let error = refuses(&["run", &two, "--out", &out]);
    assert!(error.ends_with("input x=FILE.npy is missing: float32[1, 3]"), "{error}");
    let error = refuses(&["run", &two, "--out", &two]);
    assert!(error.ends_with(&format!("--out {two}: must be a folder, got a file")), "{error}");
    let error = refuses(&["run", &two, "a.png", "--out", &out]);
    assert!(error.ends_with("give images, or NAME=FILE.npy and --out, not both"), "{error}");
    let error = refuses(&["run", &two, "a.png", "--preempt"]);
    assert!(error.ends_with("not for images: use `reef model verify --preempt`"), "{error}");
}

#[test]
fn network_with_own_kernels_is_shown_and_runs_on_gpus_only() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/networks/program");
    let model = model.to_str().expect("UTF-8");
    let said = prints(&["model", "show", model]);
    for part in [
        "10 launches of 10 kernels of its own",
        "input",
        "REEF's restart 1 launches back reads overwritten inputs at ",
        "by barriers on NVIDIA: fused_nn_dense_add_kernel0, fused_nn_softmax_kernel0",
        "no weights (.param): they are made up",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let facts = json(&says(&["model", "show", model, "--json"]));
    assert_eq!((&facts["launches"], &facts["weights"]), (&10.into(), &false.into()));
    let folder = Folder::new("program");
    let data = format!("data={}", folder.file("data.npy", npy("(192,)", &[0.5; 192])));
    let run = |more: &[&str]| refuses(&[&["run", model], more].concat());
    let gpus = "kernels that come as source run on GPUs alone";
    assert!(run(&[&data]).ends_with(gpus));
    let short = format!("data={}", folder.file("short.npy", npy("(3,)", &[0.5; 3])));
    let error = run(&[&short]);
    assert!(error.ends_with("input data: must be 192 of float32, got 3 of float32"), "{error}");
    let other = format!("x={}", folder.path("data.npy"));
    assert!(run(&[&other]).ends_with("input data=FILE.npy is missing: 192 of float32"));
    assert!(run(&[&data, &other]).ends_with("input x: there is no such input (have: data)"));
    assert!(run(&["a.png"]).ends_with("takes NAME=FILE.npy, not images"));
    let error = run(&[&data, "--preempt"]);
    assert!(
        error.ends_with("--preempt: networks that bring their kernels don't take it"),
        "{error}"
    );
    let demo = reef(&[
        "demo",
        "--rt-model",
        model,
        "--be-model",
        "resnet18",
        "--out",
        &folder.path("demo"),
    ]);
    let said = text(&demo.stderr);
    assert!(demo.status.code() == Some(2) && said.trim_end().ends_with(gpus), "{said}");
}
