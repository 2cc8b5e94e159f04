//! Kernels that run again on the fake driver, under the shim with `REEF_RERUN`. The fake runs PTX
//! block by block.

use crate::common::{self, Driver, FAKE, SHIM, call, library};
use std::collections::HashMap;
use std::ffi::CString;
use std::process::Command;

const PTX: &str = include_str!("rerun/kernels.ptx");
/// Words of an allocation.
const WORDS: usize = 256;
/// Blocks of a launch.
const BLOCKS: usize = 40;

/// Fields of a kernel's line.
type Lines = HashMap<String, Vec<String>>;

/// Runs the program below, which makes launches of this name, in a process of its own.
fn checked(name: &str) -> Lines {
    let file = std::env::temp_dir().join(format!("reef-rerun-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "rerun::child_process_plays_its_role", "--nocapture"])
        .env("RERUN_ROLE", name)
        .env("REEF_RERUN", &file)
        .env("REEF_CUDA", library(FAKE))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let fields = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
    text.lines().map(fields).map(|fields| (fields[0].clone(), fields)).collect()
}

#[test]
fn counter_examples_have_their_place() {
    let lines = checked("kernels");
    let of = |name: &str| lines[name].iter().map(String::as_str).collect::<Vec<_>>();
    // Launches, checked ones, those by parts, the text's verdict, what was found, parameter, byte.
    assert_eq!(of("copies")[1..8], ["5", "3", "3", "unknown", "none", "0", "0"]);
    assert_eq!(of("counts")[1..8], ["5", "3", "0", "unknown", "twice", "0", "0"]);
    assert_eq!(of("leaves")[5..8], ["part", "0", "32"]);
    let (some, all): (u32, u32) =
        (of("leaves")[8].parse().unwrap(), of("leaves")[9].parse().unwrap());
    assert!(some > 0 && some < all, "{some} of {all} parts");
    assert_eq!(of("hides")[5..8], ["noise", "0", "16"]);
    assert_eq!(of("idles")[2], "0");
    assert_eq!(of("idles")[10], "its parameters name no memory of the device");
}

#[test]
fn launches_that_are_not_checked_are_named() {
    let lines = checked("others");
    let copies = &lines["copies"];
    assert_eq!((copies[1].as_str(), copies[2].as_str()), ("1", "0"));
    assert_eq!(copies[10], "it is launched in captures, whose graphs are not checked");
}

#[test]
fn child_process_plays_its_role() {
    let Ok(role) = std::env::var("RERUN_ROLE") else { return };
    let program = Program::begin();
    match role.as_str() {
        "kernels" => kernels(&program),
        "others" => others(&program),
        _ => unreachable!("{role}"),
    }
}

/// Each launch leaves what it leaves without the check.
fn kernels(program: &Program) {
    let memory = program.allocate();
    for round in 0..5 {
        memory.words()[0] = 7 + round;
        program.launch("copies", memory.0);
        assert_eq!((memory.words()[0], memory.words()[64]), (7 + round, 8 + round));
    }
    for round in 0..5 {
        memory.words()[1] = 9;
        program.launch("counts", memory.0);
        assert_eq!((memory.words()[0], memory.words()[1]), (12 + round, 10));
    }
    for _ in 0..2 {
        memory.words().fill(0);
        program.launch("leaves", memory.0);
        assert_eq!((memory.words()[0], memory.words()[8]), (0, 0));
    }
    let hidden = program.allocate();
    memory.words()[..2].copy_from_slice(&[hidden.0 as u32, (hidden.0 >> 32) as u32]);
    program.launch("hides", memory.0);
    program.launch("idles", 3);
}

fn others(program: &Program) {
    let (memory, driver) = (program.allocate(), program.driver);
    assert_eq!(call!(driver, cuStreamBeginCapture_v2(program.stream, 2)), 0);
    program.enqueue("copies", memory.0);
    let mut graph = 0_usize;
    assert_eq!(call!(driver, cuStreamEndCapture(program.stream, &raw mut graph)), 0);
    assert_eq!(memory.words()[64], 0, "it did not run");
}

struct Program {
    driver: Driver,
    module: usize,
    stream: usize,
}

/// Memory of the fake device, which is the host's.
struct Memory(usize);

impl Memory {
    #[allow(clippy::mut_from_ref)] // the fake's, on which nothing works between launches
    fn words(&self) -> &mut [u32] {
        // SAFETY: an allocation of these words.
        unsafe { std::slice::from_raw_parts_mut(self.0 as *mut u32, WORDS) }
    }
}

impl Program {
    fn begin() -> Self {
        let driver = Driver::open(&library(SHIM));
        let [mut context, mut stream, mut module] = [0_usize; 3];
        assert_eq!(call!(driver, cuInit(0)), 0);
        assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0)), 0);
        assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
        assert_eq!(call!(driver, cuStreamCreate(&raw mut stream, 1)), 0);
        let text = CString::new(PTX).unwrap();
        assert_eq!(call!(driver, cuModuleLoadData(&raw mut module, text.as_ptr())), 0);
        Self { driver, module, stream }
    }

    fn allocate(&self) -> Memory {
        let mut at = 0_usize;
        assert_eq!(call!(self.driver, cuMemAlloc_v2(&raw mut at, 4 * WORDS)), 0);
        Memory(at)
    }

    fn enqueue(&self, name: &str, argument: usize) {
        let (mut kernel, name) = (0_usize, CString::new(name).unwrap());
        let found =
            call!(self.driver, cuModuleGetFunction(&raw mut kernel, self.module, name.as_ptr()));
        assert_eq!(found, 0);
        let params = [&raw const argument];
        let launched = call!(
            self.driver,
            cuLaunchKernel(kernel, BLOCKS, 1, 1, 32, 1, 1, 0, self.stream, params.as_ptr(), 0)
        );
        assert_eq!(launched, 0);
    }

    fn launch(&self, name: &str, argument: usize) {
        self.enqueue(name, argument);
        assert_eq!(call!(self.driver, cuStreamSynchronize(self.stream)), 0);
    }
}
