//! Copies and fills of the device's memory are work like kernels, those from and to the host
//! aren't: on a driver whose copies take as long as they are told to.

use super::super::processes::{piped, wait};
use super::Job;
use crate::common::{self, Driver, Work, call};
use reef_guest::limit::Audit;
use std::time::Duration;

/// Task of the program below.
const DOES: &str = "REEF_TEST_DOES";
const PROGRAM: &str = "loader::limits::copies::copies";
/// Number of copies of 1 ms on the device, and number of waits for them.
const TIMES: u64 = 40;
const WAITS_AT: [u64; 2] = [30, TIMES];

/// `CUDA_MEMCPY2D` of one row of 8 bytes, from an address of a kind to another one.
fn row(from: (usize, usize), to: (usize, usize)) -> [usize; 16] {
    let side = |(kind, at): (usize, usize)| [0, 0, kind, at, at, 0, 8];
    let mut row = [0; 16];
    row[..7].copy_from_slice(&side(from));
    row[7..14].copy_from_slice(&side(to));
    row[14..].copy_from_slice(&[8, 1]);
    row
}

/// Copies again and again, and says what its job was charged with.
#[test]
#[ignore = "is a program that other tests run"]
fn copies() {
    let does = std::env::var(DOES).unwrap();
    let driver = Driver::begin();
    let Work { stream, memory: at, .. } = driver.work(64);
    let host = [0_u64; 8];
    let (host, to) = (host.as_ptr() as usize, at + 8);
    let inside = row((2, at), (4, to)); // of the device; unified
    let outside = row((1, host), (2, to));
    let by_name = row((1, at), (2, to)); // of the host, by its name alone
    let batch = [[to; 2], [at; 2], [8; 2]].map(Vec::from);
    let [batch_to, batch_from, batch_bytes] = [0, 1, 2].map(|of: usize| batch[of].as_ptr());
    let last_inside = [host, at];
    let copy = || match &*does {
        "cuMemcpyDtoDAsync_v2" => call!(driver, cuMemcpyDtoDAsync_v2(to, at, 8, stream)),
        "cuMemcpyAsync" => call!(driver, cuMemcpyAsync(to, at, 8, stream)),
        "cuMemcpyAsync_ptsz" => call!(driver, cuMemcpyAsync_ptsz(to, at, 8, 0)),
        "cuMemcpyDtoD_v2" => call!(driver, cuMemcpyDtoD_v2(to, at, 8)),
        "cuMemcpy2DAsync_v2" => call!(driver, cuMemcpy2DAsync_v2(inside.as_ptr(), stream)),
        "cuMemcpyBatchAsync_v2" => {
            call!(
                driver,
                cuMemcpyBatchAsync_v2(batch_to, batch_from, batch_bytes, 2, 0, 0, 0, stream)
            )
        }
        "batch whose last copy is inside" => {
            let from = last_inside.as_ptr();
            call!(driver, cuMemcpyBatchAsync_v2(batch_to, from, batch_bytes, 2, 0, 0, 0, stream))
        }
        "in from the device" => call!(driver, cuMemcpyHtoDAsync_v2(to, at, 8, stream)),
        "out to the device" => call!(driver, cuMemcpyDtoHAsync_v2(to, at, 8, stream)),
        "rows in from the device" => call!(driver, cuMemcpy2DAsync_v2(by_name.as_ptr(), stream)),
        "into an array from the device" => call!(driver, cuMemcpyHtoA_v2(to, 0, at, 8)),
        "into an array" => call!(driver, cuMemcpyHtoA_v2(to, 0, host, 8)),
        "cuMemcpyAtoA" => call!(driver, cuMemcpyAtoA(at, 0, at, 0, 8)),
        "cuMemsetD8Async" => call!(driver, cuMemsetD8Async(to, 1, 8, stream)),
        "cuMemsetD8_v2_ptds" => call!(driver, cuMemsetD8_v2_ptds(to, 1, 8)),
        "captured" => call!(driver, cuMemcpyDtoDAsync_v2(to, at, 8, stream)),
        "in" => call!(driver, cuMemcpyHtoDAsync_v2(to, host, 8, stream)),
        "in by address" => call!(driver, cuMemcpyAsync(to, host, 8, stream)),
        "out by address" => call!(driver, cuMemcpyAsync(host, at, 8, stream)),
        "rows in" => call!(driver, cuMemcpy2DAsync_v2(outside.as_ptr(), stream)),
        other => panic!("{other}"),
    };
    let is_captured = does == "captured";
    if is_captured {
        assert_eq!(call!(driver, cuStreamBeginCapture_v2(stream, 0)), 0);
    }
    for made in 1..=TIMES {
        assert_eq!(copy(), 0);
        if !is_captured && WAITS_AT.contains(&made) {
            assert_eq!(call!(driver, cuCtxSynchronize()), 0);
        }
    }
    if is_captured {
        // sleep: time in which charged work would be seen; none fails a right library
        std::thread::sleep(Duration::from_millis(30));
        let mut graph = 0_usize;
        assert_eq!(call!(driver, cuStreamEndCapture(stream, &raw mut graph)), 0);
    }
    let mut audit = Audit::new(reef_guest::limit::folder(|name| std::env::var(name).ok()));
    let _ = audit.refresh(); // without a job there may be no accounts file
    let (ran, waited) = audit.jobs().iter().fold((0, 0), |(ran, waited), job| {
        (ran + job.ran.as_micros(), waited + job.waited.as_micros())
    });
    println!("charged: {ran} {waited}");
}

/// Runs a program with a fifth of the time. Returns the charged time, and the time that it waited.
fn charged(does: &str) -> (Duration, Duration) {
    let job = Job::new(&format!("copies-{}", does.replace(' ', "-")));
    let mut command = job.command(PROGRAM);
    command.env_remove("REEF_MEMORY").env("REEF_COMPUTE", "20%").env(DOES, does);
    command.env("REEF_FAKE_COPY_NS", "1000000");
    let output = wait(piped(&mut command), does);
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find_map(|line| line.split_once("charged: ")?.1.split_once(' '));
    let (ran, waited) =
        line.unwrap_or_else(|| panic!("{said} {}", String::from_utf8_lossy(&output.stderr)));
    (Duration::from_micros(ran.parse().unwrap()), Duration::from_micros(waited.parse().unwrap()))
}

#[test]
fn copies_on_the_device_wait_for_their_part_and_are_charged() {
    for does in [
        "cuMemcpyDtoDAsync_v2",
        "cuMemcpyAsync",
        "cuMemcpyAsync_ptsz",
        "cuMemcpyDtoD_v2",
        "cuMemcpy2DAsync_v2",
        "cuMemcpyBatchAsync_v2",
        "batch whose last copy is inside",
        "in from the device",
        "out to the device",
        "rows in from the device",
        "into an array from the device",
        "cuMemcpyAtoA",
        "cuMemsetD8Async",
        "cuMemsetD8_v2_ptds",
    ] {
        // The device works for 1 ms each, as its own thread counts; an end that the watchdog sees
        // late counts half.
        let (ran, waited) = charged(does);
        assert!(ran >= Duration::from_millis(15), "{does}: {ran:?} of {TIMES} ms");
        assert!(!waited.is_zero(), "{does}: {ran:?}");
    }
}

#[test]
fn captured_copies_and_host_copies_are_not_charged() {
    for does in ["captured", "in", "in by address", "out by address", "rows in", "into an array"] {
        assert_eq!(charged(does), (Duration::ZERO, Duration::ZERO), "{does}");
    }
}
