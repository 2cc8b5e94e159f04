//! The vendor's compiler and headers, where there are any.
//!
//! `REEF_NVCC` names the compiler; `REEF_CUDA_INCLUDE` folders of headers, as in a path.

use crate::support::{Folder, passes, skip};
use std::path::PathBuf;
use std::process::Command;

/// Folder of the sources of the programs.
fn programs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

#[test]
fn program_of_nvcc_runs_on_the_driver_of_the_tests() {
    let nvcc = std::env::var_os("REEF_NVCC").unwrap_or("nvcc".into());
    if Command::new(&nvcc).arg("--version").output().is_err() {
        return skip("no nvcc");
    }
    for more in [&[][..], &["-default-stream", "per-thread"]] {
        let folder = Folder::new("nvcc");
        let program = folder.0.join("program");
        let mut command = Command::new(&nvcc);
        command.args(["-cudart", "none", "-Xlinker", "-z,now", "-o"]).arg(&program).args(more);
        // nvcc itself does not know what a library with a version is.
        command.args(["-Xlinker", "--no-as-needed", "-Xlinker"]).arg(folder.link_library(13));
        command.arg(programs().join("nvcc.cu"));
        let made = command.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        assert_eq!(passes(&program, &folder.libraries("libfake_libcuda.so"), &[]), "", "{more:?}");
    }
}

#[test]
fn structures_are_those_of_the_vendors_headers() {
    let Some(path) = std::env::var_os("REEF_CUDA_INCLUDE") else {
        return skip("no headers (REEF_CUDA_INCLUDE)");
    };
    let folder = Folder::new("layouts");
    let table = include_str!("../../properties.txt");
    let mut compared = 0;
    for (release, column) in [(12, 2), (13, 3)] {
        let fields: String = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|words| words[column] != "-")
            .map(|words| format!("FIELD({}, {}, {})\n", words[0], words[1], words[column]))
            .collect();
        std::fs::write(folder.0.join("fields.h"), &fields).unwrap();
        let define = format!("-DRELEASE={release}");
        for include in std::env::split_paths(&path) {
            let api = std::fs::read_to_string(include.join("cuda_runtime_api.h"));
            let version = format!("#define CUDART_VERSION  {release}");
            if !api.unwrap_or_default().contains(&version) {
                continue;
            }
            let mut command = Command::new("cc");
            command.args(["-fsyntax-only", &define, "-I"]).arg(&folder.0).arg("-I").arg(&include);
            command.args(std::env::split_paths(&path).flat_map(|more| ["-I".into(), more]));
            let made = command.arg(programs().join("layouts.c")).output().unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            compared += 1;
        }
    }
    assert!(compared > 0, "no header of CUDA 12 or 13 in {path:?}");
}
