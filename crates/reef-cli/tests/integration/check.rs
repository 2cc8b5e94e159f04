//! `reef check` on device code of each kind.

use crate::common::driver::{Driver, library};
use crate::common::{Folder, json, text};
use std::process::{Command, Output};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../interpose/reef-ptx/tests/corpus");

fn check(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_reef")).arg("check").args(args).output().unwrap()
}

fn text_of(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

/// Output for a file of the corpus.
fn printed(file: &str, args: &[&str]) -> String {
    let path = format!("{CORPUS}/{file}");
    text_of(&check(&[&[path.as_str()], args].concat()))
}

#[test]
fn report_has_a_row_and_reasons_for_each_kernel() {
    let report = printed("waiting.ptx", &[]);
    let row = report.lines().find(|line| line.trim_start().starts_with("spin_lock ")).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(cells, ["spin_lock", "sm_90", "no", "no", "no", "no"]);
    let reason =
        "spin_lock: stop, slice, abandon, idempotent: a loop waits for other blocks (waiting.cu:";
    assert!(report.contains(reason), "{report}");
}

/// The names of the columns are explained, and kernels are called as in their source.
#[test]
fn report_has_a_legend_and_names_of_the_source() {
    let folder = Folder::new("names");
    let text = std::fs::read_to_string(format!("{CORPUS}/simple.ptx")).unwrap();
    let mangled = text.replace(".entry add(", ".entry _ZN4math3addIfEEvPT_(");
    assert_ne!(mangled, text, "the corpus has the kernel add");
    let file = folder.file("mangled.ptx", mangled);
    let report = text_of(&check(&[&file]));
    for column in ["stop", "slice", "abandon", "idempotent"] {
        let is_of = |line: &str| line.split_whitespace().next() == Some(column);
        assert_eq!(report.lines().filter(|line| is_of(line)).count(), 1, "{column}: {report}");
    }
    assert!(report.contains("\n math::add<float> "), "{report}");
    assert!(report.contains("\nmath::add<float>: "), "the reasons too: {report}");
    assert!(!report.contains("_ZN4math"), "{report}");
    let kernels = json(&text_of(&check(&[&file, "--json"])))["kernels"].take();
    let row = kernels.as_array().unwrap().iter().find(|row| row["demangled"] == "math::add<float>");
    assert_eq!(row.expect("a row")["kernel"], "_ZN4math3addIfEEvPT_", "as the driver knows it");
}

#[test]
fn json_has_the_pairs_that_must_be_distinct() {
    let report = json(&printed("simple.ptx", &["--json"]));
    let kernels = report["kernels"].as_array().unwrap();
    let add = kernels.iter().find(|kernel| kernel["kernel"] == "add").unwrap();
    assert_eq!(add["stop"]["may"], true);
    assert_eq!(add["idempotent"]["answer"], "if distinct");
    let first = &add["idempotent"]["distinct"][0];
    assert_eq!((&first[0]["parameter"], &first[1]["parameter"]), (&2.into(), &0.into()));
}

#[test]
fn text_inside_of_a_cubin_is_found() {
    let report = json(&printed("scale_in_place.cubin", &["--json"]));
    assert_eq!(report["kernels"][0]["container"], "cubin");
    assert_eq!(report["kernels"][0]["idempotent"]["reason"]["cause"], "same memory");
    assert_eq!(report["without_ptx"], serde_json::json!([]));
}

#[test]
fn wrong_file_is_one_error_with_its_name() {
    let folder = Folder::new("check");
    let own = env!("CARGO_BIN_EXE_reef");
    let (image, broken) = (folder.path("image"), folder.path("broken.ptx"));
    let network = folder.path("network.onnx");
    std::fs::write(&image, b"GIF89a").unwrap();
    std::fs::write(&broken, b".version 9.0\n.target sm_90\n.entry k() { add.u32 %r1").unwrap();
    let wanted = [
        (image.as_str(), "this is neither a CUBIN nor a fatbin nor PTX"),
        (&broken, "line 3 of this PTX: a statement does not end"),
        (own, "this program holds no device code"),
        (&network, "an ONNX file has no kernels: reef model show describes it"),
        ("/nonexistent", "No such file or directory (os error 2)"),
    ];
    for (file, what) in wanted {
        let output = check(&[file]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stderr), format!("reef: {file}: {what}\n"));
        assert!(output.stdout.is_empty());
    }
}

/// A program that adds to memory of its own.
#[test]
#[ignore = "is a program that another test runs"]
fn adds_in_place() {
    let driver = Driver::start();
    let at = driver.allocate(64).unwrap();
    let add = driver.adder(at);
    (0..4).for_each(|_| add(2));
    driver.synchronize();
    println!("sum {}", driver.read(at));
}

fn check_again(options: &[&str], program: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reef"));
    command.args(["check", "--exec"]).args(options).arg("--").args(program);
    command.env("REEF_SHIM", library("libreef_cuda_shim.so"));
    command.env("REEF_CUDA", library("libfake_libcuda.so")).output().unwrap()
}

#[test]
fn program_whose_kernels_run_again_prints_what_it_prints_alone() {
    let own = std::env::current_exe().unwrap();
    let name = "check::adds_in_place";
    let program = [own.to_str().unwrap(), "--exact", name, "--ignored", "--nocapture"];
    let output = check_again(&[], &program);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("sum 8\n"), "{said}");
    let found =
        "it left another value when it ran on its own result: byte 0 of the memory of parameter 0";
    assert!(said.contains(found), "{said}");
}

#[test]
fn program_that_fails_or_is_not_there_is_one_error() {
    let output = check_again(&["--json"], &["false"]);
    assert!(!output.status.success());
    assert_eq!(text(&output.stdout), "[]\n");
    assert_eq!(text(&output.stderr), "reef: false: exit status: 1\n");
    let output = check_again(&[], &["reef-is-not-there"]);
    assert_eq!(
        text(&output.stderr),
        "reef: reef-is-not-there: No such file or directory (os error 2)\n"
    );
}
