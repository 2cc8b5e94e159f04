//! Ways in which programs reach the driver: which of them lead to the shim. Each is a process of
//! its own.

mod costs;
mod killed;
mod limits;
mod odd;
mod phases;
mod processes;
mod profile;

use crate::common::{self, Driver, FAKE, SHIM, call, library};
use std::ffi::{CStr, CString, c_void};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Task of the program below.
const WAY: &str = "REEF_TEST_WAY";

/// Opens the driver in the way that it is told to, and says whose functions it got.
#[test]
#[ignore = "is a program that other tests run"]
fn program() {
    let way = std::env::var(WAY).unwrap();
    println!("privileged: {}", reef_files::is_privileged());
    let (name, flags) = way.split_once(' ').unwrap();
    let (name, flags) = (CString::new(name).unwrap(), flags.parse::<i32>().unwrap());
    // SAFETY: a driver of ours, by its name; `-1` means a namespace of its own.
    let handle = unsafe {
        match flags {
            -1 => libc::dlmopen(libc::LM_ID_NEWLM, name.as_ptr(), libc::RTLD_NOW),
            flags => libc::dlopen(name.as_ptr(), flags),
        }
    };
    if handle.is_null() {
        println!("got: nothing");
        return;
    }
    // SAFETY: an open library, whose `cuInit` has this type.
    let (init, code) = unsafe {
        let init = libc::dlsym(handle, c"cuInit".as_ptr());
        let call: extern "C" fn(u32) -> u32 = std::mem::transmute(init);
        (init, call(0))
    };
    println!("got: {} code {code}", file_of(init).file_name().unwrap().to_str().unwrap());
}

/// The file that this address was loaded from.
fn file_of(address: *const c_void) -> PathBuf {
    // SAFETY: the struct is filled in for addresses of libraries.
    let name = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        assert_ne!(libc::dladdr(address, &mut info), 0);
        CStr::from_ptr(info.dli_fname)
    };
    PathBuf::from(name.to_str().unwrap())
}

/// Returns the program's output, with these variables.
fn got(way: &str, variables: &[(&str, &Path)]) -> String {
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new(this);
    command.args(["--exact", "loader::program", "--include-ignored", "--nocapture"]).env(WAY, way);
    command.env("REEF_CUDA", library(FAKE)).envs(variables.iter().copied());
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let line =
        said.lines().find_map(|line| line.split_once("got: ").map(|(_, got)| got.to_owned()));
    line.unwrap_or_else(|| panic!("{way}: {said} {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn preloaded_shim_is_found_by_the_drivers_name() {
    let shim = library(SHIM);
    let preloaded: &[(&str, &Path)] = &[("LD_PRELOAD", &shim)];
    for flags in [
        libc::RTLD_NOW,
        libc::RTLD_LAZY | libc::RTLD_GLOBAL,
        libc::RTLD_NOW | libc::RTLD_DEEPBIND,
        libc::RTLD_NOW | libc::RTLD_NOLOAD,
    ] {
        let said = got(&format!("libcuda.so.1 {flags}"), preloaded);
        assert_eq!(said, format!("{SHIM} code 0"), "flags {flags:#x}");
    }
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("reef-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns the file that the C compiler makes of a text; none without a compiler that can.
fn compiled(text: &str, to: PathBuf, options: &[&str]) -> Option<PathBuf> {
    let source = to.with_extension("c");
    std::fs::write(&source, text).unwrap();
    let mut cc = Command::new("cc");
    cc.args(options).arg("-o").arg(&to).arg(&source).arg("-ldl");
    cc.output().is_ok_and(|built| built.status.success()).then_some(to)
}

/// The kernel treats root with another user's real number as a program with a set-user-ID bit.
#[test]
fn privileged_program_ignores_its_callers_variables() {
    const OTHER_USER: libc::uid_t = 65534;
    let folder = folder("privileged");
    let report = folder.join("report");
    let run = |is_privileged: bool| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "loader::program", "--include-ignored", "--nocapture"]);
        command.env(WAY, format!("{} 2", library(SHIM).display()));
        command.env("REEF_CUDA", library(FAKE)).env("REEF_EXPLAIN", &report);
        // SAFETY: the child makes one system call, and reads the number of its error.
        unsafe {
            command.pre_exec(move || {
                if is_privileged && libc::setresuid(OTHER_USER, 0, 0) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        command.output()
    };
    let said = String::from_utf8(run(false).unwrap().stdout).unwrap();
    assert!(said.contains(&format!("got: {SHIM} code 0")), "{said}");
    std::fs::remove_file(&report).unwrap();
    let privileged = run(true);
    let is_reported = report.exists();
    std::fs::remove_dir_all(&folder).unwrap();
    let Ok(output) = privileged else { return processes::skip("needs root") };
    let [said, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    if !said.contains("privileged: true") {
        return processes::skip("the system has no privileged programs");
    }
    assert!(said.contains(&format!("got: {SHIM} code ")), "{said} {errors}");
    assert_eq!(errors.matches("REEF's variables have no effect").count(), 1, "{errors}");
    assert!(!is_reported, "it writes to no file that its caller names");
}

/// A bind mount leaves the driver's file under another name, and the shim in its place.
#[test]
fn shim_mounted_over_the_driver_is_found_by_absolute_path() {
    let folder = folder("mounted");
    let (place, real) = (folder.join("libcuda.so.1"), folder.join("libcuda.so.595.45"));
    std::fs::copy(library(SHIM), &place).unwrap();
    std::fs::copy(library(FAKE), &real).unwrap();
    let variables: &[(&str, &Path)] = &[("REEF_CUDA", &real), ("LD_LIBRARY_PATH", &folder)];
    for flags in [libc::RTLD_NOW, libc::RTLD_NOW | libc::RTLD_GLOBAL] {
        for way in [place.to_str().unwrap(), "libcuda.so.1"] {
            assert_eq!(got(&format!("{way} {flags}"), variables), "libcuda.so.1 code 0");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// `dlmopen` by the driver's name, which a preloaded library doesn't take part in: in the search
/// path it does.
#[test]
fn shim_in_the_search_path_is_found_in_a_linker_namespace() {
    let folder = folder("namespace");
    std::os::unix::fs::symlink(library(SHIM), folder.join("libcuda.so.1")).unwrap();
    assert_eq!(got("libcuda.so.1 -1", &[("LD_LIBRARY_PATH", &folder)]), "libcuda.so.1 code 0");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn unloaded_shim_is_not_found_without_loading() {
    let nowhere: &[(&str, &Path)] = &[("LD_LIBRARY_PATH", Path::new("/nowhere"))];
    let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD;
    assert_eq!(got(&format!("libcuda.so.1 {flags}"), nowhere), "nothing");
}

#[test]
fn shim_under_the_drivers_name_is_found_in_the_search_path() {
    let folder = folder("loader");
    let link = folder.join("libcuda.so.1");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(library(SHIM), &link).unwrap();
    let said = got("libcuda.so.1 2", &[("LD_LIBRARY_PATH", &folder)]);
    assert_eq!(said, "libcuda.so.1 code 0");
    // Looking for the real driver there, the shim finds itself and goes on: here to nothing.
    let said = got("libcuda.so.1 2", &[("LD_LIBRARY_PATH", &folder), ("REEF_CUDA", &link)]);
    assert_eq!(said, "libcuda.so.1 code 100");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The name that compilers link by: a library that is preloaded by its own name isn't meant by it,
/// unless a file of that name in the search path is the same library.
#[test]
fn shim_under_the_linkers_name_needs_the_search_path() {
    let (shim, folder, system) = (library(SHIM), folder("linker"), folder("system"));
    let link = |target: &Path, place: PathBuf| std::os::unix::fs::symlink(target, place).unwrap();
    link(&library(FAKE), system.join("libcuda.so"));
    ["libcuda.so", "libcuda.so.1"].into_iter().for_each(|name| link(&shim, folder.join(name)));
    let preloaded: &[(&str, &Path)] = &[("LD_PRELOAD", &shim), ("LD_LIBRARY_PATH", &system)];
    assert_eq!(got("libcuda.so 2", preloaded), "libcuda.so code 0", "the driver's own");
    let both: &[(&str, &Path)] = &[("LD_PRELOAD", &shim), ("LD_LIBRARY_PATH", &folder)];
    assert_eq!(got("libcuda.so 2", both), format!("{SHIM} code 0"));
    assert_eq!(got("libcuda.so 2", &both[1..]), "libcuda.so code 0");
    [&folder, &system].into_iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
}

#[test]
fn an_absolute_path_and_a_namespace_of_its_own_are_missed() {
    let (shim, fake) = (library(SHIM), library(FAKE));
    let preloaded: &[(&str, &Path)] = &[("LD_PRELOAD", &shim)];
    assert_eq!(got(&format!("{} 2", fake.display()), preloaded), format!("{FAKE} code 0"));
    let said = got(&format!("{} -1", fake.display()), preloaded);
    assert_eq!(said, format!("{FAKE} code 0"));
}

/// Such as one of another version, which an outer `reef exec` has put into the search path.
#[test]
fn another_copy_of_the_shim_is_not_taken_for_the_driver() {
    let (copies, system) = (folder("copies"), folder("behind-copies"));
    std::fs::copy(library(SHIM), copies.join("libcuda.so.1")).unwrap();
    let driver = system.join("libcuda.so.1");
    std::fs::copy(library(FAKE), &driver).unwrap();
    let (shim, report) = (library(SHIM), system.join("report"));
    let path = PathBuf::from(format!("{}:{}", copies.display(), system.display()));
    let variables: &[(&str, &Path)] = &[
        ("LD_PRELOAD", &shim),
        ("LD_LIBRARY_PATH", &path),
        ("REEF_CUDA", Path::new("")),
        ("REEF_EXPLAIN", &report),
    ];
    assert_eq!(got("libcuda.so.1 2", variables), format!("{SHIM} code 0"));
    let said = std::fs::read_to_string(&report).unwrap();
    assert!(said.contains(&format!("  driver: {}\n", driver.display())), "{said}");
    [&copies, &system].into_iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
}

/// Library with a `malloc` of its own that ends the process as sanitizers do.
const SANITIZER: &str = "
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <unistd.h>
void *__libc_malloc(size_t bytes);
void *malloc(size_t bytes) { return __libc_malloc(bytes); }
void *dlopen(const char *name, int flags) {
    if (flags & RTLD_DEEPBIND) _exit(77);
    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, \"dlopen\");
    return real(name, flags);
}
";

#[test]
fn driver_is_opened_in_a_program_with_a_malloc_of_its_own() {
    let folder = folder("sanitizer");
    let Some(own) = compiled(SANITIZER, folder.join("libown.so"), &["-shared", "-fPIC"]) else {
        return processes::skip("no C compiler");
    };
    let preloaded = PathBuf::from(format!("{}:{}", own.display(), library(SHIM).display()));
    let said = got("libcuda.so.1 2", &[("LD_PRELOAD", &preloaded)]);
    assert_eq!(said, format!("{SHIM} code 0"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Program that says how each library is opened. Its code names an address of `malloc`, which is
/// then the program's own.
const POINTER: &str = "
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
void *(*volatile pointer)(size_t);
void *dlopen(const char *name, int flags) {
    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, \"dlopen\");
    printf(\"%d \", !!(flags & RTLD_DEEPBIND));
    return real(name, flags);
}
int main(void) {
    pointer = malloc;
    void *driver = dlopen(\"libcuda.so.1\", RTLD_NOW);
    unsigned (*init)(unsigned) = (unsigned (*)(unsigned))dlsym(driver, \"cuInit\");
    printf(\"%u\\n\", init(0));
}
";

#[test]
fn program_with_a_pointer_to_malloc_has_the_usual_one() {
    let folder = folder("pointer");
    let options = ["-fno-pie", "-no-pie", "-rdynamic"];
    let Some(program) = compiled(POINTER, folder.join("pointer"), &options) else {
        return processes::skip("no C compiler");
    };
    let mut command = Command::new(&program);
    let output = command.env("LD_PRELOAD", library(SHIM)).env("REEF_CUDA", library(FAKE)).output();
    // By the program itself, and by the library.
    assert_eq!(String::from_utf8_lossy(&output.unwrap().stdout), "0 1 0\n");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn without_a_driver_there_is_no_device() {
    let shim = library(SHIM);
    let nowhere = Path::new("/nowhere/libcuda.so.1");
    let said = got("libcuda.so.1 2", &[("LD_PRELOAD", &shim), ("REEF_CUDA", nowhere)]);
    assert_eq!(said, format!("{SHIM} code 100"));
}

#[test]
fn a_program_without_cuda_runs_as_without_the_shim() {
    let output = Command::new("sh")
        .args(["-c", "echo out; exit 5"])
        .env("LD_PRELOAD", library(SHIM))
        .env("REEF_GUESTS", "/nowhere")
        .env("REEF_EXPLAIN", "/dev/stderr")
        .output()
        .unwrap();
    let said = (output.status.code(), &output.stdout[..], &output.stderr[..]);
    assert_eq!(said, (Some(5), &b"out\n"[..], &b""[..]));
}

/// Looks a function up in both ways, and calls it.
#[test]
#[ignore = "is a program that other tests run"]
fn looks_up_a_withheld_function() {
    let driver = Driver::open(&library(SHIM));
    let name = CString::new(std::env::var(WAY).unwrap()).unwrap();
    let [mut at, mut again] = [1_usize; 2];
    let (flags, mut status) = (0_u64, 9_u32);
    let code = call!(driver, cuGetProcAddress(name.as_ptr(), &raw mut at, 13_050, flags));
    let to = &raw mut again;
    let with =
        call!(driver, cuGetProcAddress_v2(name.as_ptr(), to, 13_050, flags, &raw mut status));
    let called = call!(driver, cuSubgridCreate(0, 0, 0));
    println!("got: {} {} {code} {with} {status} {called}", at != 0, again != 0);
}

#[test]
fn withheld_functions_are_not_found_by_guests_or_under_limits() {
    for name in ["cuSubgridCreate", "cuFabricCpyBatchAsync"] {
        for (variable, value) in [("REEF_GUESTS", "/nowhere"), ("REEF_MEMORY", "64m"), ("NONE", "")]
        {
            let output = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "loader::looks_up_a_withheld_function",
                    "--ignored",
                    "--nocapture",
                ])
                .env("REEF_CUDA", library(FAKE))
                .env(WAY, name)
                .env(variable, value)
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let said = text.lines().find_map(|line| line.split_once("got: ")).unwrap().1;
            let expected = match variable {
                "NONE" => "true true 0 0 0 801",
                _ => "false false 500 0 1 500",
            };
            assert_eq!(said, expected, "{name} with {variable}");
        }
    }
}

#[test]
fn all_names_are_exported_and_missing_ones_return_an_error() {
    // SAFETY: no other test of this process reads it.
    unsafe { std::env::set_var("REEF_CUDA", library(FAKE)) };
    let driver = Driver::open(&library(SHIM));
    let missing: Vec<_> =
        reef_cuda_abi::names().filter(|name| driver.symbol(name).is_none()).collect();
    assert_eq!(missing, [""; 0]);
    assert!(driver.symbol("cudaMalloc").is_none());
    // The fake driver exports all, and doesn't play most: its answer comes through a jump.
    assert_eq!(call!(driver, cuTexRefGetFormat(0, 0, 0)), 801);
    let mut free = [0_usize; 2];
    assert_eq!(call!(driver, cuMemGetInfo_v2(&raw mut free[0], &raw mut free[1])), 0);
    assert_eq!(free, [1 << 30; 2]);
}
