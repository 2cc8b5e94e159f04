//! Programs in C on the driver of the tests, linked with the runtime of both releases.

use crate::support::{Folder, RELEASES, WELL, has_compiler, output, passes};

const FAKE: &str = "libfake_libcuda.so";

/// Runs a program of each release, and returns what each wrote to stderr.
fn run(name: &str, more: &[(&str, &str)]) -> Vec<String> {
    if !has_compiler() {
        return Vec::new();
    }
    let run = |release| {
        let folder = Folder::new(&format!("{name}-{release}"));
        passes(&folder.program(name, release), &folder.libraries(FAKE), more)
    };
    RELEASES.into_iter().map(run).collect()
}

fn is_silent(errors: &[String]) {
    assert!(errors.iter().all(String::is_empty), "{errors:?}");
}

#[test]
fn all_names_of_both_releases_are_bound_at_the_start() {
    if !has_compiler() {
        return;
    }
    for release in RELEASES {
        let folder = Folder::new(&format!("names-{release}"));
        let program = folder.program_with_all_names(release);
        // The loader says so on stderr if a version is not there.
        is_silent(&[passes(&program, &folder.libraries(FAKE), &[])]);
    }
}

#[test]
fn work_of_a_program_is_done() {
    is_silent(&run("work.c", &[]));
}

#[test]
fn errors_belong_to_threads_and_missing_functions_are_named() {
    for errors in run("errors.c", &[]) {
        assert_eq!(errors.matches("cudaCreateTextureObject is not there").count(), 1, "{errors}");
    }
}

#[test]
fn error_that_breaks_the_context_stays() {
    is_silent(&run("sticky.c", &[]));
}

#[test]
fn process_forks_before_its_first_use_of_the_device() {
    is_silent(&run("forks.c", &[]));
}

#[test]
fn calls_after_the_end_of_the_main_thread_answer_unloading() {
    for errors in run("ends.c", &[]) {
        assert_eq!(errors.trim_end(), "late: 4 4");
    }
}

#[test]
fn two_devices_and_a_context_of_the_programs_own_are_kept() {
    is_silent(&run("devices.c", &[("REEF_FAKE_DEVICES", "2")]));
}

#[test]
fn program_without_a_driver_is_told() {
    if !has_compiler() {
        return;
    }
    let folder = Folder::new("no-driver");
    let program = folder.program("no_driver.c", 13);
    let libraries = folder.libraries(FAKE);
    std::fs::remove_file(libraries.join("libcuda.so.1")).unwrap();
    let output = output(&program, &libraries, &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.trim_end(), WELL, "{}", String::from_utf8_lossy(&output.stderr));
}
