//! Programs that use the CUDA runtime, on the driver of a server.

use crate::programs::{Folder, RELEASES, has_compiler, passes};
use crate::support::{CLIENT, serve, socket};

/// Runs a program of each release, and returns what each wrote to stderr.
fn run(name: &str) -> Vec<String> {
    if !has_compiler() {
        return Vec::new();
    }
    let address = serve(&socket(&format!("runtime-{name}")));
    let run = |release| {
        let folder = Folder::new(&format!("remote-{name}-{release}"));
        let program = folder.program(name, release);
        passes(&program, &folder.libraries(CLIENT), &[("REEF_REMOTE", &address)])
    };
    RELEASES.into_iter().map(run).collect()
}

fn is_silent(errors: &[String]) {
    assert!(errors.iter().all(String::is_empty), "{errors:?}");
}

#[test]
fn work_of_a_program_is_done_at_the_server() {
    is_silent(&run("work.c"));
}

#[test]
fn errors_belong_to_threads_at_the_server() {
    for errors in run("errors.c") {
        assert_eq!(errors.matches("cudaCreateTextureObject is not there").count(), 1, "{errors}");
    }
}

#[test]
fn process_forks_before_its_first_session() {
    is_silent(&run("forks.c"));
}

#[test]
fn calls_after_the_end_of_the_main_thread_answer_unloading() {
    for errors in run("ends.c") {
        assert_eq!(errors.trim_end(), "late: 4 4");
    }
}

#[test]
fn program_with_the_vendors_runtime_is_told_once() {
    for errors in run("vendor.c") {
        assert_eq!(errors.matches("link the program with -cudart shared").count(), 1, "{errors}");
        assert!(errors.contains("cuGetExportTable 6bd5fb6c0000"), "{errors}");
    }
}
