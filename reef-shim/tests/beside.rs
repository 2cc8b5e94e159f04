//! A best-effort program on the fake driver, under the shim, next to a real-time one that is always
//! busy: it makes progress in its windows, and in no others.

mod common;

use common::{Driver, FAKE, SHIM, SOON, UUID, Work, call, library, until};
use reef_guest::join::{JoinRequest, join};
use reef_guest::page::Class;
use reef_guest::registry::{Registry, Rules};
use std::time::{Duration, Instant};

/// A kernel's length.
const LENGTH: Duration = Duration::from_micros(100);

/// Launches for this time, and returns the kernels that have run, for each second.
fn rate(driver: Driver, work: &Work, time: Duration) -> f64 {
    let (begin, mut count) = (Instant::now(), 0);
    while begin.elapsed() < time {
        for _ in 0..8 {
            let code = driver.launch("cuLaunchKernel", work.mix, work.stream, work.memory, 1);
            assert_eq!(code, 0);
            count += 1;
        }
        assert_eq!(call!(driver, cuStreamSynchronize(work.stream)), 0);
    }
    f64::from(count) / begin.elapsed().as_secs_f64()
}

/// One test: the library's state is the process's.
#[test]
fn program_advances_by_its_share_next_to_a_busy_one() {
    let path = std::env::temp_dir().join(format!("reef-windows-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let rules = Rules { hold_timeout: SOON, ..Rules::default() };
    let registry = Registry::open_with(&path, rules, Box::new(|_, wish| Ok(wish.class))).unwrap();
    // SAFETY: this test is alone in its process.
    unsafe {
        std::env::set_var("REEF_GUESTS", &path);
        std::env::set_var("REEF_CLASS", "be");
        std::env::set_var("REEF_BESIDE", "40%");
        std::env::set_var("REEF_CUDA", library(FAKE));
        std::env::set_var("REEF_FAKE_KERNEL_NS", LENGTH.as_nanos().to_string());
    }
    let driver = Driver::open(&library(SHIM));
    assert_eq!((call!(driver, cuInit(0)), call!(driver, cuCtxSetCurrent(1))), (0, 0));
    let work = driver.work(64);
    let alone = rate(driver, &work, Duration::from_millis(300));
    let guests = registry.guests();
    let be = guests.iter().find(|guest| guest.who.class == Class::BestEffort).unwrap();
    assert_eq!(be.beside.beside.get(), 40);

    let rt = join(&path, &JoinRequest { class: Class::RealTime, device: UUID }, SOON).unwrap();
    if rt.page.activity.launch() {
        rt.page.activity.hold();
    }
    until("busy", || registry.guests().iter().any(|guest| guest.duty == 400_000));
    let next_to_it = rate(driver, &work, Duration::from_secs(1));
    let part = next_to_it / alone;
    println!("{alone:.0} kernels/s alone, {next_to_it:.0} next to a busy program: {part:.2}");
    assert!((0.1..0.85).contains(&part), "{part}");
    let guests = registry.guests();
    let be = guests.iter().find(|guest| guest.who.class == Class::BestEffort).unwrap();
    assert!(be.passed > Duration::from_millis(200) && be.delayed > 0, "{be:?}");
}
