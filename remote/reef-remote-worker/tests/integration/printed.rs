//! Text that kernels print comes out of the program, not of the server.

use crate::common::{self, Driver, FAKE, call, library};
use crate::support;
use std::process::Command;

/// Library that the program below takes for the driver.
const LIBRARY: &str = "REEF_TEST_LIBRARY";

/// A program whose kernels print.
#[test]
#[ignore = "is a program that the other test runs"]
fn program() {
    let driver = Driver::open(std::env::var_os(LIBRARY).unwrap().as_ref());
    assert_eq!(call!(driver, cuInit(0)), 0);
    let (mut context, mut memory, mut say) = (0_usize, 0_usize, 0_usize);
    assert_eq!(call!(driver, cuCtxCreate_v2(&raw mut context, 0, 0)), 0);
    assert_eq!(call!(driver, cuModuleGetFunction(&raw mut say, 0, c"say".as_ptr())), 0);
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut memory, 8_usize)), 0);
    let launch = |value: u64| {
        let params = [&raw const memory as usize, &raw const value as usize];
        let none = std::ptr::null::<usize>();
        call!(driver, cuLaunchKernel(say, 1, 1, 1, 1, 1, 1, 0, 0_usize, params.as_ptr(), none))
    };
    // Far more than a pipe holds before anybody waits.
    for value in 0..20_000 {
        assert_eq!(launch(value), 0);
    }
    assert_eq!(call!(driver, cuCtxSynchronize()), 0);
    // SAFETY: writes what the process's streams hold.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    println!("synchronized");
    assert_eq!(launch(20_000), 0);
    let mut word = 0_u64;
    assert_eq!(call!(driver, cuMemcpyDtoH_v2(&raw mut word, memory, 8_usize)), 0);
    // SAFETY: writes what the process's streams hold; no other thread closes one.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    println!("copied");
}

fn lines(library_file: &str, address: &str) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "printed::program", "--include-ignored", "--nocapture"]);
    command.env(LIBRARY, library(library_file)).env("REEF_REMOTE", address);
    command.env("RUST_TEST_THREADS", "2"); // with one the test's name comes before the first line
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let is_ours =
        |line: &&str| line.starts_with("say") || ["synchronized", "copied"].contains(line);
    text.lines().filter(is_ours).map(str::to_owned).collect()
}

#[test]
fn kernels_print_to_the_output_of_their_program() {
    let local = lines(FAKE, "");
    assert_eq!(local.len(), 20_003);
    assert_eq!(local.last().unwrap(), "copied");
    let address = support::serve(&support::socket("printed"));
    assert_eq!(lines(support::CLIENT, &address), local);
}
