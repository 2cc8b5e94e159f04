//! Windows next to a busy real-time guest: shares, floors, targets, and guests that lie, leave
//! or die in a window.

use super::registry::until;
use reef_guest::colocation::{Caps, Percent, ShareRequest, Slo};
use reef_guest::join::{GuestInfo, JoinRequest, Joined, join_as};
use reef_guest::page::Class::{self, BestEffort, RealTime};
use reef_guest::page::{Iteration, Time};
use reef_guest::registry::{Caller, GuestView, MemoryReply, Registry, Rules};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

const GPU: [u8; 16] = *b"device of shares";
const SOON: Duration = Duration::from_secs(60);

fn registry(caps: Caps) -> (Registry, PathBuf) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    let path =
        std::env::temp_dir().join(format!("reef-colocation-{}-{number}", std::process::id()));
    // Whatever this machine has: without MPS such short iterations have no windows for a target.
    let rules = Rules { hold_timeout: SOON, is_under_mps: || true, ..Rules::default() };
    let policy = Box::new(|_: &Caller, wish: &JoinRequest| Ok(wish.class));
    let memory = Box::new(|_: &Caller, _, reply: MemoryReply| reply.refuse("none".into()));
    let registry =
        Registry::open_with_caps(&path, rules, policy, Box::new(move |_| caps), memory).unwrap();
    (registry, path)
}

fn guest(path: &Path, class: Class, wish: ShareRequest) -> Joined {
    let info = GuestInfo::default().with_shares(wish);
    join_as(path, &JoinRequest { class, device: GPU }, &info, SOON).unwrap()
}

fn percent(number: u8) -> Option<Percent> {
    Some(Percent::new(number).unwrap())
}

fn launch(rt: &Joined) {
    if rt.page.activity.launch() {
        rt.page.activity.hold();
    }
}

/// Part of this time in which a guest's gate is open, as its page counts it.
fn open_part(be: &Joined, time: Duration) -> f64 {
    let (begin, held) = (Time::now(), be.page.spans.total(Time::now()));
    std::thread::sleep(time); // sleep: the time that is measured
    let now = Time::now();
    let (held, all) = (be.page.spans.total(now) - held, now.0 - begin.0);
    1.0 - held as f64 / all as f64
}

/// Measures while another thread does iterations of a real-time guest, one after the other.
fn next_to<T>(iteration: impl Fn() + Sync, measure: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                iteration();
            }
        });
        let part = measure();
        is_over.store(true, Relaxed);
        part
    })
}

fn view(registry: &Registry, of: &Joined) -> GuestView {
    let mut views = registry.guests().into_iter();
    views.find(|view| view.who.guest == of.who.guest).unwrap()
}

/// Waits until the guest has passed next to a busy one for this time.
fn until_passed(registry: &Registry, be: &Joined, time: Duration) {
    until("passed", || view(registry, be).passed >= time);
}

#[test]
fn share_of_the_time_passes_next_to_a_busy_guest() {
    let (registry, path) = registry(Caps::default());
    let some =
        guest(&path, BestEffort, ShareRequest { colocate: percent(30), ..ShareRequest::default() });
    let none = guest(&path, BestEffort, ShareRequest::default());
    let rt = guest(&path, RealTime, ShareRequest::default());
    assert!(open_part(&some, Duration::from_millis(20)) > 0.99, "nothing is busy");
    launch(&rt);
    until("held", || none.page.holders.is_closed());
    until_passed(&registry, &some, Duration::from_millis(200));
    assert!(none.page.holders.is_closed(), "it has no share");
    let seen = view(&registry, &some);
    assert_eq!((seen.duty, view(&registry, &none).duty), (300_000, 0), "{seen:?}");
    assert_eq!(view(&registry, &none).passed, Duration::ZERO);
    assert!(rt.page.activity.release(rt.page.activity.pulse()));
    until("open", || !none.page.holders.is_closed() && !some.page.holders.is_closed());
}

/// `cargo test --release -p reef-guest --test integration -- --ignored --nocapture share_as`
#[test]
#[ignore = "measures"]
fn share_as_measured_is_that_of_the_wish() {
    let (_registry, path) = registry(Caps::default());
    let rt = guest(&path, RealTime, ShareRequest::default());
    for wish in [5, 30] {
        let colocate = percent(wish);
        let be = guest(&path, BestEffort, ShareRequest { colocate, ..ShareRequest::default() });
        launch(&rt);
        until("held", || be.page.holders.is_closed());
        let part = open_part(&be, Duration::from_secs(1));
        println!("{wish} % of the time: {:.1} % measured", 100.0 * part);
        assert!((part - f64::from(wish) / 100.0).abs() < 0.05, "{part}");
    }
}

/// It writes to its own page that it is idle, again and again, also when windows begin.
#[test]
fn floor_holds_next_to_a_hostile_guest() {
    let (_registry, path) = registry(Caps::default());
    let be =
        guest(&path, BestEffort, ShareRequest { floor: percent(10), ..ShareRequest::default() });
    let slo = Slo::of(1.01);
    let rt = guest(&path, RealTime, ShareRequest { slo, ..ShareRequest::default() });
    let iteration = || {
        launch(&rt);
        let length = 1_000_000 - Time::now().0 % 1_000_000;
        std::thread::sleep(Duration::from_nanos(length)); // sleep: length of an iteration
        // Iterations that are always late, so that its target lets nothing pass.
        let (end, length) = (Time::now().0, 1 << 31);
        rt.page.iterations.add(Iteration { end, length, kind: 7 });
        rt.page.activity.release(rt.page.activity.pulse());
    };
    next_to(iteration, || {
        until("held", || be.page.holders.is_closed());
        // Where the daemon's thread stands still for long, it is measured again.
        until("half of the floor", || open_part(&be, Duration::from_secs(1)) >= 0.05);
    });
}

#[test]
fn wish_is_cut_and_lies_in_the_page_gain_nothing() {
    let caps = Caps { max_colocate: Percent::new(5).unwrap(), ..Caps::default() };
    let (registry, path) = registry(caps);
    let greedy = guest(
        &path,
        BestEffort,
        ShareRequest { colocate: percent(100), ..ShareRequest::default() },
    );
    let rt = guest(&path, RealTime, ShareRequest::default());
    launch(&rt);
    until("held", || greedy.page.holders.is_closed());
    // A best-effort guest may write activity, counts, spans and iterations.
    greedy.page.activity.hold();
    for at in 0..200 {
        greedy.page.iterations.add(Iteration { end: at, length: u64::MAX, kind: 1 });
    }
    until_passed(&registry, &greedy, Duration::from_millis(20));
    assert_eq!(view(&registry, &greedy).duty, 50_000);
}

#[test]
fn guest_that_leaves_in_a_window_leaves_the_others_held() {
    let (registry, path) = registry(Caps::default());
    let rt = guest(&path, RealTime, ShareRequest::default());
    let held = guest(&path, BestEffort, ShareRequest::default());
    launch(&rt);
    until("held", || held.page.holders.is_closed());
    for _ in 0..20 {
        let be = guest(
            &path,
            BestEffort,
            ShareRequest { colocate: percent(50), ..ShareRequest::default() },
        );
        until("a window", || !be.page.holders.is_closed());
        drop(be);
        until("gone", || registry.guests().len() == 2);
        assert!(held.page.holders.is_closed());
    }
    drop(rt);
    until("open", || !held.page.holders.is_closed());
}

#[test]
fn windows_end_with_the_daemon_and_with_the_holder() {
    let (registry, path) = registry(Caps::default());
    let be =
        guest(&path, BestEffort, ShareRequest { colocate: percent(50), ..ShareRequest::default() });
    let rt = guest(&path, RealTime, ShareRequest::default());
    launch(&rt);
    until("held", || be.page.holders.is_closed());
    drop(rt);
    until("gone", || registry.guests().len() == 1); // an open gate may be one of a window
    until("open", || !be.page.holders.is_closed());
    assert!(open_part(&be, Duration::from_millis(50)) > 0.99, "the holder is gone");
    let rt = guest(&path, RealTime, ShareRequest::default());
    launch(&rt);
    until("held", || be.page.holders.is_closed());
    drop(registry);
    until("open", || !be.page.holders.is_closed());
    assert!(open_part(&be, Duration::from_millis(50)) > 0.99, "the daemon is gone");
}

/// A program whose iterations take longer by a fifth of the part of the time in which the other one
/// passes: a target of 1.10 is a share of half.
#[test]
fn target_lets_through_what_keeps_it() {
    let (registry, path) = registry(Caps::default());
    let be = guest(&path, BestEffort, ShareRequest::default());
    let slo = Slo::of(1.10);
    let rt = guest(&path, RealTime, ShareRequest { slo, ..ShareRequest::default() });
    let iteration = || {
        launch(&rt);
        let begin = Time::now();
        let held = be.page.spans.total(begin);
        std::thread::sleep(Duration::from_millis(2)); // sleep: length of an iteration
        let now = Time::now();
        let held = (be.page.spans.total(now) - held) as f64 / (now.0 - begin.0) as f64;
        let length = (1e6 * (1.0 + 0.2 * (1.0 - held.min(1.0)))) as u64;
        rt.page.iterations.add(Iteration { end: now.0, length, kind: 7 });
    };
    next_to(iteration, || {
        until_passed(&registry, &be, Duration::from_millis(20));
        until("growth and iterations are seen", || {
            let seen = view(&registry, &rt);
            seen.iterations > 500 && seen.growth.is_some_and(|growth| growth > 1.0)
        });
    });
    assert_eq!(view(&registry, &rt).colocate.slo, slo);
}
