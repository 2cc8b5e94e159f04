//! Memory of a device as a program sees it. Each case is a process of its own.

use reef_guest::limit::{AccountsFile, Slot};
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;
use std::process::Command;

const LIMIT: u64 = 64 << 20;

fn library(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let files = program.ancestors().skip(1).take(2);
    let mut files = files.flat_map(|folder| [folder.join(name), folder.join("deps").join(name)]);
    files.find(|file| file.is_file()).unwrap()
}

/// Opens the library by its name, as programs do.
fn open() -> *mut c_void {
    // SAFETY: a library of ours that is preloaded, or none.
    let handle = unsafe { libc::dlopen(c"libnvidia-ml.so.1".as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    handle
}

fn symbol(handle: *mut c_void, name: &str) -> *mut c_void {
    let name = CString::new(name).unwrap();
    // SAFETY: an open library.
    unsafe { libc::dlsym(handle, name.as_ptr()) }
}

fn call(handle: *mut c_void, name: &str, arguments: [usize; 3]) -> u32 {
    let at = symbol(handle, name);
    assert!(!at.is_null(), "{name}");
    // SAFETY: each takes three words at most, and looks at no others.
    unsafe {
        let call: extern "C" fn(usize, usize, usize) -> u32 = std::mem::transmute(at);
        call(arguments[0], arguments[1], arguments[2])
    }
}

/// Returns the library's text for a code.
fn text(handle: *mut c_void, code: u32) -> String {
    let at = symbol(handle, "nvmlErrorString");
    // SAFETY: the function of this name answers every number with a string that stays.
    unsafe {
        let text: extern "C" fn(u32) -> *const c_char = std::mem::transmute(at);
        CStr::from_ptr(text(code)).to_string_lossy().into_owned()
    }
}

#[test]
#[ignore = "is a program that other tests run"]
fn asks() {
    let handle = open();
    println!("said: codes 9 {:?}, 12 {:?}", text(handle, 9), text(handle, 12));
    let [mut device, mut version, mut count] = [0_usize, 0, 8];
    let call = |name: &str, arguments| call(handle, name, arguments);
    println!("said: init {}", call("nvmlInit_v2", [0; 3]));
    assert_eq!(call("nvmlDeviceGetHandleByIndex_v2", [0, &raw mut device as usize, 0]), 0);
    let (mut one, mut two) = ([0_u64; 3], [40 | 2 << 24, 0, 0, 0, 0_u64]);
    assert_eq!(call("nvmlDeviceGetMemoryInfo", [device, one.as_mut_ptr() as usize, 0]), 0);
    assert_eq!(call("nvmlDeviceGetMemoryInfo_v2", [device, two.as_mut_ptr() as usize, 0]), 0);
    println!("said: memory {one:?} and {:?}", &two[1..]);
    let mut old = [0_u64; 5];
    let code = call("nvmlDeviceGetMemoryInfo_v2", [device, old.as_mut_ptr() as usize, 0]);
    println!("said: another version {code}");
    let mut list = [[0_u64; 3]; 8];
    let (count_at, list_at) = (&raw mut count as usize, list.as_mut_ptr() as usize);
    let name = "nvmlDeviceGetComputeRunningProcesses_v3";
    assert_eq!(call(name, [device, count_at, list_at]), 0);
    println!("said: processes {:?}", &list[..count as u32 as usize]);
    count = 8;
    assert_eq!(call("nvmlDeviceGetGraphicsRunningProcesses_v3", [device, count_at, list_at]), 0);
    println!("said: graphics {:?}", &list[..count as u32 as usize]);
    let mut all = [[0_u64; 4]; 8];
    let mut details = [24 | 1 << 24, 8, all.as_mut_ptr() as u64];
    let details_at = details.as_mut_ptr() as usize;
    assert_eq!(call("nvmlDeviceGetRunningProcessDetailList", [device, details_at, 0]), 0);
    println!("said: details {:?}", &all[..details[1] as u32 as usize]);
    let mut numbers = [0_u32; 8];
    count = 8;
    let numbers_at = numbers.as_mut_ptr() as usize;
    assert_eq!(call("nvmlDeviceGetAccountingPids", [device, count_at, numbers_at]), 0);
    println!("said: numbers {:?}", &numbers[..count as u32 as usize]);
    let (mut window, mut parts) = ([0_u64; 3], [0_u64; 5]);
    let code = call("nvmlDeviceGetBAR1MemoryInfo", [device, window.as_mut_ptr() as usize, 0]);
    assert_eq!(code, 0);
    let code = call("nvmlDeviceGetAttributes_v2", [device, parts.as_mut_ptr() as usize, 0]);
    assert_eq!(code, 0);
    println!("said: window {window:?}, a part of {} MiB", parts[4]);
    let mut none = 0_usize;
    let code = call(name, [device, &raw mut none as usize, list_at]);
    println!("said: no room {code}");
    let code = call("nvmlSystemGetCudaDriverVersion_v2", [&raw mut version as usize, 0, 0]);
    println!("said: passed on {code} {version}");
    println!("said: not there {}", call("nvmlDeviceGetFanSpeed", [device, 0, 0]));
    let names = include_str!("../names.txt").lines();
    let missing: Vec<_> = names.filter(|name| symbol(handle, name).is_null()).collect();
    println!("said: missing {missing:?}");
}

/// Runs the program with these variables and these lines of processes. Returns its output.
fn output_of(name: &str, processes: &str, set: &[(&str, &str)]) -> Vec<String> {
    let folder = std::env::temp_dir().join(format!("reef-nvml-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder); // of a test that was killed
    std::fs::create_dir(&folder).unwrap();
    let (file, accounts) = (folder.join("processes"), folder.join("accounts"));
    std::fs::write(&file, processes.replace("own", &std::process::id().to_string())).unwrap();
    let slot = set.iter().any(|(name, _)| *name == "REEF_MEMORY").then(|| {
        let file = AccountsFile::open(&accounts, b"fake device no 0").unwrap();
        Slot::join(file, "REEF_JOB=told", Some(LIMIT), None).unwrap()
    });
    slot.iter().for_each(|slot| slot.account().reserve(5 << 20).unwrap());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "asks", "--include-ignored", "--nocapture"]);
    command.env("LD_PRELOAD", library("libreef_nvml_shim.so")).env("REEF_ACCOUNTS", accounts);
    command.env("REEF_NVML_LIBRARY", library("libfake_libnvml.so")).env("REEF_FAKE_NVML", file);
    let output = command.envs(set.iter().copied()).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| line.split_once("said: ").map(|(_, said)| said.to_owned());
    text.lines().filter_map(line).collect()
}

/// Processes of the job (`own`, the one that joins it), and another one.
const PROCESSES: &str = "own 134217728 4\n7 1000 3\nown - 0\n";

#[test]
fn program_sees_the_limit_as_its_devices_memory() {
    let set = [("REEF_MEMORY", "64MiB"), ("REEF_JOB", "told")];
    let (used, free) = (5 << 20, LIMIT - (5 << 20));
    let (own, unknown) = (std::process::id(), u64::MAX);
    let its = format!("[[{own}, {LIMIT}, {unknown}], [{own}, {unknown}, {unknown}]]");
    let want = [
        r#"codes 9 "Driver Not Loaded", 12 "Some Error""#.into(),
        "init 0".into(),
        format!("memory [{LIMIT}, {free}, {used}] and [{LIMIT}, 0, {free}, {used}]"),
        "another version 25".into(),
        format!("processes {its}"),
        format!("graphics {its}"),
        format!("details [[{own}, {LIMIT}, {unknown}, 0], [{own}, {unknown}, {unknown}, 0]]"),
        format!("numbers [{own}, {own}]"),
        format!("window [{LIMIT}, 0, {LIMIT}], a part of 64 MiB"),
        "no room 7".into(),
        "passed on 0 13050".into(),
        "not there 13".into(),
        "missing []".into(),
    ];
    assert_eq!(output_of("limited", PROCESSES, &set), want);
}

#[test]
fn program_sees_a_limit_that_no_process_has_joined() {
    let set = [("CUDA_DEVICE_MEMORY_LIMIT", "64m")];
    let memory = &output_of("new", "", &set)[2];
    assert_eq!(*memory, format!("memory [{LIMIT}, {LIMIT}, 0] and [{LIMIT}, 0, {LIMIT}, 0]"));
}

#[test]
fn answers_without_a_limit_or_a_library_are_unchanged() {
    let (used, all) = (1000 + (128 << 20), 1_u64 << 30);
    let memory = &output_of("free", PROCESSES, &[])[2];
    assert_eq!(
        *memory,
        format!("memory [{all}, {}, {used}] and [{all}, 0, {}, {used}]", all - used, all - used)
    );
    let absent = output_of("absent", "", &[("REEF_NVML_LIBRARY", "/nowhere/libnvidia-ml.so.1")]);
    let codes = r#"codes 9 "error of libnvidia-ml.so.1", 12 "libnvidia-ml.so.1 not found""#;
    assert_eq!(absent, [codes, "init 12"]);
}
