//! A best-effort program on the fake driver, under the shim, next to a real-time one that is always
//! busy: it makes progress in its windows, and in no others.

mod common;

use common::{Driver, FAKE, SOON, UUID, Work, call, library, until};
use reef_guest::join::{JoinRequest, join};
use reef_guest::page::Class;
use reef_guest::registry::{Registry, Rules};
use std::time::Duration;

/// A kernel's length.
const LENGTH: Duration = Duration::from_micros(100);

/// Launches some kernels and waits for them.
fn run_some(driver: Driver, work: &Work) {
    for _ in 0..8 {
        let code = driver.launch("cuLaunchKernel", work.mix, work.stream, work.memory, 1);
        assert_eq!(code, 0);
    }
    assert_eq!(call!(driver, cuStreamSynchronize(work.stream)), 0);
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
        std::env::set_var("REEF_COLOCATE", "40%");
        std::env::set_var("REEF_CUDA", library(FAKE));
        std::env::set_var("REEF_FAKE_KERNEL_NS", LENGTH.as_nanos().to_string());
    }
    let driver = Driver::begin();
    let work = driver.work(64);
    (0..100).for_each(|_| run_some(driver, &work));
    until("it has joined", || !registry.guests().is_empty());
    let best_effort = || {
        let mut guests = registry.guests().into_iter();
        guests.find(|guest| guest.who.class == Class::BestEffort).unwrap()
    };
    let be = best_effort();
    assert_eq!((be.colocate.colocate.get(), be.passed, be.delayed), (40, Duration::ZERO, 0));

    let rt = join(&path, &JoinRequest { class: Class::RealTime, device: UUID }, SOON).unwrap();
    if rt.page.activity.launch() {
        rt.page.activity.hold();
    }
    until("busy", || registry.guests().iter().any(|guest| guest.duty == 400_000));
    // It advances in its windows, and is held between them.
    until("windows", || {
        run_some(driver, &work);
        let be = best_effort();
        be.passed > Duration::from_millis(200) && be.delayed > 0
    });
}
