//! The reader on a library made of functions. Each case is a process of its own, since the library
//! reads variables.

use reef_nvml::{Busy, Error, Figures, Monitor, Nvml, Process};
use std::path::PathBuf;
use std::process::Command;

const DEVICE: [u8; 16] = *b"fake device no 0";

fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let name = "libfake_libnvml.so";
    let files = program.ancestors().skip(1).take(2);
    let mut files = files.flat_map(|folder| [folder.join(name), folder.join("deps").join(name)]);
    files.find(|file| file.is_file()).unwrap()
}

#[test]
#[ignore = "is a program that other tests run"]
fn reads() {
    let nvml = match Nvml::open(Some(library().as_os_str())) {
        Ok(nvml) => nvml,
        Err(error) => return println!("said: {error}"),
    };
    println!("said: {:?}", nvml.processes(&DEVICE));
    println!("said: {:?}", nvml.busy(&DEVICE, 41));
}

#[test]
#[ignore = "is a program that other tests run"]
fn measures() {
    println!("said: {:?}", Nvml::open(Some(library().as_os_str())).unwrap().figures());
}

fn output_of(set: &[(&str, &str)]) -> Vec<String> {
    output_of_program("reads", set)
}

fn output_of_program(program: &str, set: &[(&str, &str)]) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", program, "--include-ignored", "--nocapture"])
        .envs(set.iter().copied());
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let line = |line: &str| line.split_once("said: ").map(|(_, said)| said.to_owned());
    output.lines().filter_map(line).collect()
}

#[test]
fn processes_are_read_with_their_memory() {
    let file = std::env::temp_dir().join(format!("reef-nvml-{}", std::process::id()));
    let all: String = (1..40).map(|pid| format!("{pid} {} {pid}\n", pid << 20)).collect();
    std::fs::write(&file, all + "99 - 5\n").unwrap();
    let lines = output_of(&[("REEF_FAKE_NVML", file.to_str().unwrap())]);
    std::fs::remove_file(&file).unwrap();
    let memory = |pid| {
        if pid == 99 { None } else { Some(u64::from(pid) << 20) }
    };
    let processes = (1..40).chain([99]).map(|pid| Process { pid, memory: memory(pid) });
    let busy = |pid| Busy { pid, percent: if pid == 99 { 5 } else { pid }, at: 42 };
    let busy: Vec<_> = (1..40).chain([99]).map(busy).collect();
    let processes: Vec<_> = processes.collect();
    let want = [format!("{:?}", Ok::<_, Error>(processes)), format!("{:?}", Ok::<_, Error>(busy))];
    assert_eq!(lines, want, "more than there is room for at first");
}

#[test]
fn figures_are_those_that_the_driver_has() {
    let file = std::env::temp_dir().join(format!("reef-nvml-figures-{}", std::process::id()));
    std::fs::write(&file, "7 1000 30\n8 24 7\n").unwrap();
    let set = ("REEF_FAKE_NVML", file.to_str().unwrap());
    let all = output_of_program("measures", &[set]);
    let some = output_of_program("measures", &[set, ("REEF_FAKE_NVML_LIST", "3")]);
    std::fs::remove_file(&file).unwrap();
    let name = "GPU-66616b65-2064-6576-6963-65206e6f2030";
    let figures = Figures {
        utilization: Some(37),
        memory: Some([1 << 30, 1024]),
        power: Some(87_000),
        power_limit: None, // the library lacks the function
        energy: Some(1024),
    };
    let says = |figures| [format!("{:?}", Ok::<_, Error>([(name, figures)]))];
    assert_eq!(all, says(figures));
    assert_eq!(some, says(Figures { energy: None, ..figures }), "a value that it refuses");
}

/// Devices and drivers without MPS refuse its list: the list of other programs counts then.
#[test]
fn unsupported_mps_list_hides_no_other_list() {
    let file = std::env::temp_dir().join(format!("reef-nvml-mps-{}", std::process::id()));
    std::fs::write(&file, "7 1000 3\n").unwrap();
    let with = |code| {
        output_of(&[("REEF_FAKE_NVML", file.to_str().unwrap()), ("REEF_FAKE_NVML_MPS", code)])
    };
    let (unsupported, lost) = (with("3"), with("15"));
    std::fs::remove_file(&file).unwrap();
    let want = Ok::<_, Error>(vec![Process { pid: 7, memory: Some(1000) }]);
    assert_eq!(unsupported[0], format!("{want:?}"));
    assert!(lost[0].contains("code: 15"), "{lost:?}");
}

#[test]
fn unknown_process_memory_is_an_error_of_one_line() {
    let lines = output_of(&[("REEF_FAKE_NVML_INIT", "9")]);
    assert_eq!(lines, ["nvml: nvmlInit_v2: Driver Not Loaded (code 9)"]);
    // As on MIG instances.
    let lines = output_of(&[("REEF_FAKE_NVML_LIST", "3")]);
    assert!(lines[0].contains("code: 3, text: \"Not Supported\""), "{lines:?}");
    let error = Nvml::open(Some("/nowhere/libnvidia-ml.so.1".as_ref())).unwrap_err();
    let line = error.to_string();
    assert!(
        line.starts_with("nvml: /nowhere/libnvidia-ml.so.1: ") && !line.contains('\n'),
        "{line}"
    );
}
