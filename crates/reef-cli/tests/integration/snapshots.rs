//! `reef run --checkpoint` and `reef restore`: runs that stop and are finished by other processes.

use crate::common::{Folder, json, reef, refuses, says, text};
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// An image that comes with the tests.
fn image(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reef-models/tests/images");
    folder.join(name).to_str().expect("UTF-8").into()
}

/// Arguments of a run that takes much longer than a stop, on a device of some units.
fn run(device: &str) -> Vec<String> {
    let mut run = vec!["run".into(), "resnet18".into(), image("wide.png"), image("tall.png")];
    run.extend(["--size", "96", "--top", "4", "--json", "--device", device].map(String::from));
    run
}

fn with<'a>(run: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    run.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

/// A report without times.
fn untimed(report: &str) -> Value {
    let mut report = json(report);
    for image in report["images"].as_array_mut().expect("images") {
        assert!(image.as_object_mut().expect("an image").remove("ms").is_some());
    }
    report
}

#[test]
fn stopped_run_is_finished_with_the_same_bits() {
    let folder = Folder::new("snapshot");
    let run = run("cpu:0?units=2");
    let want = untimed(&says(&with(&run, &[])));
    let stopped = folder.path("stopped");
    let said = json(&says(&with(&run, &["--checkpoint", &stopped, "--after", "3ms"])));
    assert_eq!(said["stopped"]["snapshot"], Value::from(stopped.as_str()), "{said}");
    assert!(said["stopped"]["commands"].as_u64().expect("a number") > 20, "{said}");
    let (mut stops, mut inside) = (1, 0);
    let restored = loop {
        inside += u64::from(said["stopped"]["command"] != 0);
        let more = ["restore", &stopped, "--checkpoint", &stopped, "--after", "30ms"];
        let report = says(&more);
        if json(&report)["stopped"].is_null() {
            break report;
        }
        stops += 1;
        assert!(stops < 1000, "{report}");
    };
    println!("{stops} stops, {inside} inside of an inference");
    assert_eq!(untimed(&restored), want, "after {stops} stops");
}

#[test]
fn drained_run_continues_on_another_number_of_units() {
    let folder = Folder::new("snapshot-drain");
    let (one, stopped) = (run("cpu:0?units=2"), folder.path("stopped"));
    let want = untimed(&says(&with(&one, &[])));
    let more = ["--checkpoint", &stopped, "--after", "0", "--drain"];
    let said = json(&says(&with(&one, &more)));
    assert_eq!(
        (&said["stopped"]["images_seen"], &said["stopped"]["command"]),
        (&1.into(), &0.into())
    );
    let restored = untimed(&says(&["restore", &stopped, "--device", "cpu:0?units=3"]));
    assert_eq!(restored["images"][0], want["images"][0]);
    let best = |report: &Value| report["images"][1]["top"][0]["class"].clone();
    assert_eq!(best(&restored), best(&want));
}

#[test]
fn snapshot_in_an_inference_is_refused_on_other_units() {
    let folder = Folder::new("snapshot-units");
    let stopped = folder.path("stopped");
    let run = run("cpu:0?units=2");
    // It may be stopped before its first block.
    let inside = (1..40).any(|time| {
        let after = format!("{}ms", 3 * time);
        let said = json(&says(&with(&run, &["--checkpoint", &stopped, "--after", &after])));
        said["stopped"]["command"].as_u64().is_some_and(|command| command > 2)
    });
    assert!(inside, "it was never stopped inside of an inference");
    let said = refuses(&["restore", &stopped, "--device", "cpu:0?units=3"]);
    assert!(said.contains("this device launches it otherwise"), "{said}");
    assert!(said.contains("(--drain)"), "{said}");

    let file = Path::new(&stopped).join("network.reef");
    let mut bytes = std::fs::read(&file).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&file, &bytes).expect("it is a file");
    let said = refuses(&["restore", &stopped]);
    assert!(said.contains("its checksum is wrong"), "{said}");
    let nothing = folder.path("nothing");
    let want = "must be a folder of `reef run --checkpoint` or `reef checkpoint`";
    assert_eq!(refuses(&["restore", &nothing]), format!("{nothing}: {want}"));
    let file = file.to_str().expect("UTF-8");
    assert_eq!(refuses(&["restore", file]), format!("{file}: {want}"));
}

#[test]
fn image_that_has_changed_is_refused() {
    let folder = Folder::new("snapshot-image");
    let bytes = std::fs::read(image("wide.png")).expect("it is there");
    let own = folder.file("own.png", &bytes);
    let stopped = folder.path("stopped");
    let run = ["run", "resnet18", &own, "--size", "96", "--checkpoint", &stopped, "--after", "0"];
    let said = says(&run);
    assert!(said.starts_with("stopped ") && said.contains("reef restore "), "{said}");
    folder.file("own.png", std::fs::read(image("tall.png")).expect("it is there"));
    let said = refuses(&["restore", &stopped]);
    assert_eq!(said, format!("{own}: must be the file of the snapshot"));
    let said = refuses(&["restore", &stopped, "--socket-dir", "/run/reef"]);
    assert!(said.ends_with("the folder has a run, and they are for programs"), "{said}");
    folder.file("own.png", &bytes);
    assert!(says(&["restore", &stopped]).contains(&own));
}

/// A signal stops the run as its time does.
#[test]
fn terminated_run_leaves_a_snapshot() {
    let folder = Folder::new("snapshot-signal");
    let stopped = folder.path("stopped");
    let images = vec![image("wide.png"); 200];
    for tries in 1..=20 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reef"));
        command.args(["run", "resnet18", "--size", "96", "--checkpoint", &stopped]).args(&images);
        let child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a process");
        // sleep: into its work, a little later at each try
        std::thread::sleep(Duration::from_millis(200 * tries));
        let signal = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        assert!(signal.expect("kill is there").success());
        let output = child.wait_with_output().expect("it ends");
        if output.status.signal() == Some(15) {
            continue; // it had not begun to listen
        }
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).starts_with("stopped "), "{}", text(&output.stdout));
        assert!(Path::new(&stopped).join("network.reef").exists());
        return;
    }
    panic!("it never listened");
}

#[test]
fn checkpoint_refuses_invalid_arguments() {
    let folder = Folder::new("snapshot-bad");
    let (image, file) = (image("wide.png"), folder.file("file", "x"));
    let said = refuses(&["run", "resnet18", &image, "--checkpoint", &file]);
    assert_eq!(said, format!("--checkpoint {file}: must be a folder"));
    let said = refuses(&["run", "resnet18", &image, "--checkpoint", "/proc/reef"]);
    assert!(said.starts_with("--checkpoint /proc/reef: "), "{said}");
    let output = reef(&["run", "resnet18", &image, "--after", "1s"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--checkpoint"), "{}", text(&output.stderr));
}
