//! Programs in C that are linked with the runtime of one release, as nvcc links them with
//! `-cudart shared -z now`.

#![allow(dead_code, unreachable_pub)] // each test uses a part

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Line of a program whose checks have all passed.
pub const WELL: &str = "all as it must be";
/// Releases, whose libraries have different names and versions.
pub const RELEASES: [u32; 2] = [12, 13];

/// Folder of the crate.
fn crate_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../reef-cudart")
}

/// Returns the path of a library of this workspace.
pub fn library(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folders = program.ancestors().skip(1).take(2);
    let files = folders.flat_map(|folder| [folder.join(name), folder.join("deps").join(name)]);
    let tried: Vec<_> = files.collect();
    let file = tried.iter().find(|file| file.is_file());
    file.unwrap_or_else(|| panic!("no {name} (tried {tried:?})")).clone()
}

/// Names that a release exports.
pub fn names(release: u32) -> Vec<String> {
    let file = crate_folder().join(format!("names{release}.txt"));
    std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect()
}

/// A folder with what one test makes.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("reef-cudart-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// A folder for `LD_LIBRARY_PATH`: the runtime under both names, and a driver.
    pub fn libraries(&self, driver: &str) -> PathBuf {
        let folder = self.0.join(driver);
        std::fs::create_dir_all(&folder).unwrap();
        let runtime = library("libreef_cudart.so");
        let links = [
            ("libcudart.so.12", runtime.clone()),
            ("libcudart.so.13", runtime),
            ("libcuda.so.1", library(driver)),
        ];
        for (name, target) in links {
            let link = folder.join(name);
            if !link.exists() {
                std::os::unix::fs::symlink(target, link).unwrap();
            }
        }
        folder
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        std::fs::write(&file, text).unwrap();
        file
    }

    /// A library with a release's names and version that does nothing: what programs link with.
    pub fn link_library(&self, release: u32) -> PathBuf {
        let soname = format!("libcudart.so.{release}");
        let library = self.0.join(&soname);
        let functions: String =
            names(release).iter().map(|name| format!("void {name}(void) {{}}\n")).collect();
        let source = self.write(&format!("names{release}.c"), &functions);
        let map = self.write(&format!("versions{release}.map"), &format!("{soname} {{ *; }};\n"));
        let mut command = cc();
        command.args(["-shared", "-fPIC", "-w", "-o"]).arg(&library).arg(source);
        command.arg(format!("-Wl,-soname,{soname},--version-script={}", map.display()));
        run(&mut command);
        library
    }

    /// Compiles a program of `tests/programs` for a release.
    pub fn program(&self, name: &str, release: u32) -> PathBuf {
        let source = crate_folder().join("tests/programs").join(name);
        self.compile(&source, release)
    }

    /// Compiles a program for a release.
    pub fn compile(&self, source: &Path, release: u32) -> PathBuf {
        let stem = source.file_stem().unwrap().to_str().unwrap();
        let program = self.0.join(format!("{stem}{release}"));
        let mut command = cc();
        command.args(["-w", "-Werror=implicit-function-declaration", "-Wl,-z,now", "-pthread"]);
        command.arg(format!("-DRELEASE={release}"));
        command.arg("-o").arg(&program).arg(source).arg(self.link_library(release));
        // The driver's own functions, for programs that use both.
        command.arg(library("libfake_libcuda.so")).arg("-Wl,--allow-shlib-undefined");
        run(&mut command);
        program
    }

    /// A program that refers to all names of a release.
    pub fn program_with_all_names(&self, release: u32) -> PathBuf {
        let all = names(release);
        let declared: String = all.iter().map(|name| format!("void {name}(void);\n")).collect();
        let list = all.join(",\n");
        let text = format!(
            "#include <stdio.h>\n{declared}void (*volatile all[])(void) = {{{list}}};\n\
             int main(void) {{ for (int at = 0; at < {}; at++) if (!all[at]) return 1;\n\
             puts(\"{WELL}\"); return 0; }}\n",
            all.len()
        );
        let source = self.write("all_names.c", &text);
        self.compile(&source, release)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn cc() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or("cc".into()))
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Says why a test, or a part of one, is skipped: past the harness, which shows no output of a test
/// that passes.
pub fn skip(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// Returns whether there is a C compiler; says that the test is skipped if not.
pub fn has_compiler() -> bool {
    let found = cc().arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let has = found.is_ok_and(|status| status.success());
    if !has {
        skip("no C compiler");
    }
    has
}

/// Runs a program with the libraries of a folder.
pub fn output(program: &Path, libraries: &Path, more: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", libraries).envs(more.iter().copied());
    command.output().unwrap()
}

/// Checks that a program has passed all its checks, and returns what it wrote to stderr.
pub fn passes(program: &Path, libraries: &Path, more: &[(&str, &str)]) -> String {
    let output = output(program, libraries, more);
    let [said, errors] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{}: {} {errors}", program.display(), output.status);
    assert_eq!(said.trim_end(), WELL, "{}: {errors}", program.display());
    errors
}
