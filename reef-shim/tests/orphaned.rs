//! A best-effort program whose holder stays for too long, and one whose daemon and holder are both gone.

mod common;

use common::{Driver, FAKE, SHIM, SOON, UUID, Work, call, library, until};
use reef_guest::join::{Wish, join};
use reef_guest::page::Class;
use reef_guest::registry::Registry;
use std::time::{Duration, Instant};

/// One test: the library's state is the process's.
#[test]
fn a_gate_breathes_under_a_long_hold_and_opens_for_good_when_all_others_are_gone() {
    let path = std::env::temp_dir().join(format!("reef-orphaned-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let registry = Registry::open(&path, Box::new(|_, wish| Ok(wish.class))).unwrap();
    // SAFETY: this test is alone in its process.
    unsafe {
        std::env::set_var("REEF_GUESTS", &path);
        std::env::set_var("REEF_CUDA", library(FAKE));
    }
    let driver = Driver::open(&library(SHIM));
    assert_eq!((call!(driver, cuInit(0)), call!(driver, cuCtxSetCurrent(1))), (0, 0));
    let Work { stream, memory, mix } = driver.work(8);
    let launch = || assert_eq!(driver.launch("cuLaunchKernel", mix, stream, memory, 1), 0);
    let is_idle = || call!(driver, cuStreamQuery(stream)) == 0;

    // Who holds for a second gets it, but for a breather in which what is there gets through.
    launch();
    until("the first", is_idle);
    registry.hold(UUID, true);
    launch();
    let time = until("a breather", is_idle);
    assert!(time > Duration::from_millis(500), "held until {time:?}");
    assert_eq!(registry.guests()[0].breathers, 1);
    until("held again", || {
        launch();
        std::thread::sleep(Duration::from_millis(1));
        !is_idle()
    });
    registry.hold(UUID, false);
    until("released", is_idle);

    // The daemon dies, and then a real-time guest that holds: nobody takes its bit away.
    let rt = join(&path, &Wish { class: Class::RealTime, device: UUID }, SOON).unwrap();
    rt.peers.iter().for_each(|(_, page)| page.holders.hold(rt.who.holder));
    drop(registry);
    drop(rt);
    let begin = Instant::now();
    launch();
    until("open", is_idle);
    assert!(begin.elapsed() < Duration::from_millis(1500), "{:?}", begin.elapsed());
    std::thread::sleep(Duration::from_millis(20));
    for _ in 0..50 {
        launch();
        assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
    }
    assert!(begin.elapsed() < Duration::from_millis(2500), "it stays open");
}
