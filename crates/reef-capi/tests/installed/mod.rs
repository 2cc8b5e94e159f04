//! Installs the libraries that cargo built next to the tests, and compiles and runs programs
//! against them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any program here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// The repository.
fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// Folder in which libraries and headers are installed, once for all tests.
pub(crate) fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
        let mut install = Command::new(top().join("tools/install_capi.sh"));
        install.arg(&prefix).env("REEF_CAPI_BUILT", built());
        let done = install.output().unwrap();
        assert!(done.status.success(), "{install:?}: {}", String::from_utf8_lossy(&done.stderr));
        prefix
    })
}

/// Folder in which cargo put the libraries.
fn built() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folders: Vec<_> = program.ancestors().skip(1).take(2).collect();
    let has = |folder: &&&Path| folder.join("libreef_capi.so").is_file();
    let found = folders.iter().find(has);
    found.unwrap_or_else(|| panic!("no libreef_capi.so (tried {folders:?})")).to_path_buf()
}

/// A compiler, or a line that says that there is none.
pub(crate) fn compiler(name: &str) -> Option<String> {
    let mut asked = Command::new(name);
    asked.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let is_there = asked.status().is_ok_and(|status| status.success());
    if !is_there {
        reef_conformance::skip(&format!("no {name}"));
    }
    is_there.then(|| name.to_owned())
}

/// Kind of library that a program links.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Link {
    Shared,
    Static,
    /// With `libcudareef` instead, and the driver that is made of functions.
    Port,
}

/// Compiles a program of the repository, with all warnings as errors.
pub(crate) fn compile(compiler: &str, source: &str, flags: &[&str], link: Link) -> PathBuf {
    let stem = Path::new(source).file_stem().unwrap().to_str().unwrap();
    let program = prefix().join(format!("{stem}-{link:?}"));
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-g"]).args(flags);
    command.arg(top().join(source)).arg("-o").arg(&program);
    let [include, lib] = ["include", "lib"].map(|folder| prefix().join(folder));
    match link {
        Link::Port => command.arg("-I").arg(include.join("cudareef")),
        _ => command.arg("-I").arg(include),
    };
    match link {
        Link::Shared => command.arg("-L").arg(lib).arg("-lreef"),
        Link::Static => command.arg(lib.join("libreef.a")).args(private_libraries()),
        Link::Port => command.arg("-L").arg(lib).arg("-lcudareef").arg(driver()),
    };
    let done = command.output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    program
}

/// The driver that is made of functions, under the driver's name.
fn driver() -> PathBuf {
    let driver = prefix().join("lib/libcuda.so.1");
    std::fs::copy(built().join("libfake_libcuda.so"), &driver).unwrap();
    driver
}

/// Libraries that a static program needs, according to `reef.pc`.
fn private_libraries() -> Vec<String> {
    let text = std::fs::read_to_string(prefix().join("lib/pkgconfig/reef.pc")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Libs.private:")).unwrap();
    line.split_whitespace().map(str::to_owned).collect()
}

/// Runs a program, which has to end well and in time: what it printed.
pub(crate) fn run(program: &Path, args: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(args).env("LD_LIBRARY_PATH", prefix().join("lib")).env_remove("REEF_CUDA");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("{command:?}: not within {LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(5)); // sleep: poll of a condition
    }
    let done = child.wait_with_output().unwrap();
    let [said, errors] = [done.stdout, done.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(done.status.success(), "{command:?}: {}: {said}{errors}", done.status);
    said
}
