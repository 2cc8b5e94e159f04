//! A real-time program on the fake driver, under the shim: it holds others while it works, and no
//! longer.

mod common;

use common::{Driver, FAKE, SOON, UUID, Work, call, library, until};
use reef_guest::join::{JoinRequest, Joined, join};
use reef_guest::page::Class;
use reef_guest::registry::{GuestView, Registry, Rules};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A kernel's length.
const LENGTH: Duration = Duration::from_millis(5);

fn begin() -> (Driver, Registry, PathBuf) {
    let path = std::env::temp_dir().join(format!("reef-real-time-{}", std::process::id()));
    let registry = registry_at(&path);
    // SAFETY: this test is alone in its process.
    unsafe {
        std::env::set_var("REEF_GUESTS", &path);
        std::env::set_var("REEF_CLASS", "rt");
        std::env::set_var("REEF_FAKE_DEVICES", "2");
        std::env::set_var("REEF_CUDA", library(FAKE));
        std::env::set_var("REEF_FAKE_KERNEL_NS", LENGTH.as_nanos().to_string());
    }
    let driver = Driver::begin();
    (driver, registry, path)
}

fn registry_at(path: &Path) -> Registry {
    let _ = std::fs::remove_file(path);
    // A kernel makes no progress while its thread stands still, and others stay held.
    let rules = Rules { hold_timeout: 2 * SOON, ..Rules::default() };
    Registry::open_with(path, rules, Box::new(|_, wish| Ok(wish.class))).unwrap()
}

fn best_effort(path: &Path) -> Joined {
    join(path, &JoinRequest { class: Class::BestEffort, device: UUID }, SOON).unwrap()
}

/// One test: the library's state is the process's.
#[test]
fn others_are_held_from_the_first_launch_to_the_end_of_the_last() {
    let (driver, registry, path) = begin();
    let Work { stream, memory, mix } = driver.work(64);
    let be = best_effort(&path);
    let is_closed = || be.page.holders.is_closed();
    let launch = |name, stream| assert_eq!(driver.launch(name, mix, stream, memory, 1), 0);
    // Returns whether others are held while the stream has work: a busy machine may be late.
    let is_held_in_time = || {
        while call!(driver, cuStreamQuery(stream)) == 600 && !is_closed() {}
        is_closed()
    };

    // The first launch joins; others hold at once.
    until("held", || {
        launch("cuLaunchKernel", stream);
        is_held_in_time()
    });
    until("released", || !is_closed());
    for (name, on) in [
        ("cuLaunchKernel", stream),
        ("cuLaunchKernel", 0),
        ("cuLaunchKernel_ptsz", 0),
        ("cuLaunchKernel_ptsz", 2),
    ] {
        let is_running = || match name {
            "cuLaunchKernel" => call!(driver, cuStreamQuery(on)) == 600,
            _ => call!(driver, cuStreamQuery_ptsz(on)) == 600,
        };
        until("held while the kernel runs", || {
            launch(name, on);
            while is_running() && !is_closed() {} // a busy machine may be late
            is_running()
        });
        loop {
            let was_closed = is_closed();
            if !is_running() {
                break;
            }
            assert!(was_closed, "{name} on {on}: the kernel runs");
        }
        let time = until("released", || !is_closed());
        println!("{name} on {on}: released {time:?} after the kernel's end");
    }

    // A newcomer while a kernel runs.
    until("a newcomer that is there in time", || {
        launch("cuLaunchKernel", stream);
        if !is_held_in_time() {
            return false;
        }
        let newcomer = best_effort(&path);
        let is_held = newcomer.page.holders.is_closed();
        let is_in_time = call!(driver, cuStreamQuery(stream)) == 600;
        assert!(is_held || !is_in_time, "the kernel runs");
        until("released", || !is_closed() && !newcomer.page.holders.is_closed());
        is_in_time
    });

    // A captured launch holds no guest; a launch of the captured graph does, without marks inside.
    let (mut graph, mut exec, mut nodes) = (0_usize, 0_usize, 0_usize);
    assert_eq!(call!(driver, cuStreamBeginCapture_v2(stream, 0)), 0);
    (0..40).for_each(|_| launch("cuLaunchKernel", stream));
    assert!(!is_closed());
    assert_eq!(call!(driver, cuStreamEndCapture(stream, &raw mut graph)), 0);
    assert_eq!(call!(driver, cuGraphGetNodes(graph, 0, &raw mut nodes)), 0);
    assert_eq!(nodes, 40);
    assert_eq!(call!(driver, cuGraphInstantiateWithFlags(&raw mut exec, graph, 0)), 0);
    until("held", || {
        assert_eq!(call!(driver, cuGraphLaunch(exec, stream)), 0);
        is_held_in_time()
    });
    until("released", || !is_closed());

    // Each launch of the graph counts its kernels; other launches have none.
    let views = registry.guests();
    let own = views.iter().find(|view| view.who.class == Class::RealTime && view.graphs > 0);
    let own = own.expect("the guest that launched graphs");
    assert_eq!(own.graph_kernels, 40 * own.graphs);

    // Others on a device are released when it is idle, whatever this program does on another one.
    let wish = JoinRequest { class: Class::BestEffort, device: *b"fake device no 1" };
    let elsewhere = join(&path, &wish, SOON).unwrap();
    until("released while it works elsewhere", || {
        assert_eq!(call!(driver, cuCtxSetCurrent(2)), 0);
        let add = || assert_eq!(driver.launch("cuLaunchKernel", mix, 0, memory + 8, 1), 0);
        (0..40).for_each(|_| add()); // 200 ms
        let is_held_elsewhere = || elsewhere.page.holders.is_closed();
        until("held", || is_held_elsewhere() || call!(driver, cuStreamQuery(0)) == 0);
        assert_eq!(call!(driver, cuCtxSetCurrent(1)), 0);
        launch("cuLaunchKernel", stream);
        let is_held_here = is_held_in_time();
        until("released here", || !is_closed());
        let is_held_elsewhere = is_held_elsewhere();
        assert_eq!(call!(driver, cuCtxSetCurrent(2)), 0);
        let works_elsewhere = call!(driver, cuStreamQuery(0)) == 600;
        assert_eq!((call!(driver, cuCtxSynchronize()), call!(driver, cuCtxSetCurrent(1))), (0, 0));
        assert!(is_held_elsewhere || !works_elsewhere, "held there while it works there");
        is_held_here && works_elsewhere
    });
    until("released elsewhere", || !elsewhere.page.holders.is_closed());

    // The time for which it held is counted, on both sides.
    let views = registry.guests();
    let held = |guest| views.iter().find(|view| view.who.guest == guest).map(|view| view.held);
    let has_held = |view: &GuestView| view.busy >= LENGTH && view.holds > 0;
    assert!(views.iter().any(|view| view.who.class == Class::RealTime && has_held(view)));
    assert!(held(be.who.guest).is_some_and(|held| held >= LENGTH), "{views:?}");

    // Its waits end iterations.
    let iterations = || {
        let views = registry.guests();
        views.iter().map(|view| view.iterations).max().unwrap_or_default()
    };
    launch("cuLaunchKernel", stream);
    assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
    // Of a thread that stands still between its calls for long, the watchdog sees some as well.
    until("four iterations", || {
        let before = iterations();
        (0..3).for_each(|_| {
            (0..2).for_each(|_| launch("cuLaunchKernel", stream));
            assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
            assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0, "without an iteration");
        });
        launch("cuLaunchKernel", stream);
        assert_eq!(call!(driver, cuCtxSynchronize()), 0);
        iterations() == before + 4
    });
    let views = registry.guests();
    let time = views.iter().map(|view| view.iteration_time).max().unwrap_or_default();
    assert!(time >= 4 * LENGTH, "four iterations of one or two kernels took {time:?}");

    // The daemon ends, and no guest holds; the next one's guests are held as soon as this one has
    // joined it.
    drop(registry);
    let join_again = |_: &i32| {
        // sleep: longer than the guest looks for the next daemon at short intervals
        std::thread::sleep(Duration::from_millis(1500));
        let begin = Instant::now();
        let registry = registry_at(&path);
        let be = best_effort(&path);
        until("a launch that holds the newcomer", || {
            launch("cuLaunchKernel", stream);
            let is_held = be.page.holders.is_closed();
            assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
            is_held
        });
        let time = begin.elapsed();
        until("released", || !be.page.holders.is_closed());
        drop(registry);
        println!("held {time:?} after the next daemon's start");
        time < Duration::from_millis(100)
    };
    // Where others have the processor, it is tried again.
    assert!((0..30).any(|at| join_again(&at)), "none of thirty within 100 ms");
}
