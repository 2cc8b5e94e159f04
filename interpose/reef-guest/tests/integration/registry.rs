//! Guests of one registry, with processes and devices that come and go.

use reef_guest::colocation::Caps;
use reef_guest::join::{
    GuestInfo, JoinRequest, Joined, MemoryRequest, Refusal, ask_for_memory, join, join_as, rejoin,
};
use reef_guest::page::Class::{self, BestEffort, RealTime};
use reef_guest::page::{BYTES, Mapping, PageFile};
use reef_guest::registry::{Caller, MemoryReply, Registry, Rules};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept, bind, connect, listen, socket,
    socket_with,
};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const GPU: [u8; 16] = *b"first device....";
const OTHER: [u8; 16] = *b"second device...";
/// Timeout, longer than any step takes on a busy machine.
const SOON: Duration = Duration::from_secs(60);

fn registry() -> (Registry, PathBuf) {
    registry_with(patient())
}

/// Rules by which a guest of these tests, which makes no progress, holds for longer than any of its
/// threads stands still.
fn patient() -> Rules {
    Rules { hold_timeout: 2 * SOON, ..Rules::default() }
}

fn registry_with(rules: Rules) -> (Registry, PathBuf) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("reef-guests-{}-{number}", std::process::id()));
    let registry =
        Registry::open_with(&path, rules, Box::new(|_, request| Ok(request.class))).unwrap();
    (registry, path)
}

fn guest(path: &Path, class: Class, device: [u8; 16]) -> Joined {
    join(path, &JoinRequest { class, device }, SOON).unwrap()
}

pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < SOON, "{what}: not within {SOON:?}");
        std::thread::sleep(Duration::from_micros(100)); // sleep: poll of a condition
    }
    begin.elapsed()
}

/// Launches on a real-time guest, as the shim does.
fn launch(rt: &Joined) {
    if rt.page.activity.launch() {
        rt.page.activity.hold();
    }
}

/// Ends the launch.
fn finish(rt: &Joined) {
    assert!(rt.page.activity.release(rt.page.activity.pulse()));
}

fn until_held(be: &Joined) {
    until("held", || be.page.holders.is_closed());
}

fn until_open(be: &Joined) {
    until("open", || !be.page.holders.is_closed());
}

#[test]
fn launch_holds_best_effort_guests_of_its_device_alone() {
    let (_registry, path) = registry();
    let before = guest(&path, BestEffort, GPU);
    let elsewhere = guest(&path, BestEffort, OTHER);
    let rt = guest(&path, RealTime, GPU);
    let after = guest(&path, BestEffort, GPU);
    launch(&rt);
    [&before, &after].into_iter().for_each(until_held);
    assert!(!elsewhere.page.holders.is_closed() && !rt.page.holders.is_closed());
    finish(&rt);
    [&before, &after].into_iter().for_each(until_open);
    assert!(!rt.link.is_over() && !before.link.is_over());
}

#[test]
fn newcomer_during_real_time_work_is_held_until_holder_dies() {
    let (_registry, path) = registry();
    let (rt, first) = (guest(&path, RealTime, GPU), guest(&path, BestEffort, GPU));
    launch(&rt);
    until_held(&first);
    let be = guest(&path, BestEffort, GPU);
    assert!(be.page.holders.has(rt.who.holder), "real-time work runs already");
    let elsewhere = guest(&path, BestEffort, OTHER);
    assert!(!elsewhere.page.holders.is_closed());
    drop(rt);
    until_open(&be);
}

#[test]
fn exempt_guest_is_held_by_no_holder_until_that_ends() {
    let (registry, path) = registry();
    let (rt, be) = (guest(&path, RealTime, GPU), guest(&path, BestEffort, GPU));
    let other = guest(&path, BestEffort, GPU);
    launch(&rt);
    [&be, &other].into_iter().for_each(until_held);
    registry.exempt(&[be.who.guest], true);
    assert!(!be.page.holders.is_closed() && other.page.holders.is_closed());
    finish(&rt);
    until_open(&other);
    launch(&rt);
    until_held(&other);
    registry.hold(GPU, true);
    assert!(!be.page.holders.is_closed());
    registry.exempt(&[be.who.guest], false);
    assert!(be.page.holders.has(rt.who.holder), "real-time work runs");
    registry.hold(GPU, false);
    finish(&rt);
    [&be, &other].into_iter().for_each(until_open);
}

/// Its peers elsewhere are held: the shim's tests have them.
#[test]
fn phase_guest_holds_no_guest_of_its_own_process() {
    let (registry, path) = registry();
    let be = guest(&path, BestEffort, GPU);
    let wish = JoinRequest { class: RealTime, device: GPU };
    let phase = join_as(&path, &wish, &GuestInfo::default().for_phases(), SOON).unwrap();
    launch(&phase);
    until("held", || registry.guests().iter().any(|guest| guest.is_active));
    assert!(!be.page.holders.is_closed());
    let real_time = guest(&path, RealTime, GPU);
    launch(&real_time);
    until_held(&be);
    finish(&phase);
    assert!(be.page.holders.is_closed());
    finish(&real_time);
    until_open(&be);
}

/// Each holds repeatedly, at its own pace. The last one decides.
#[test]
fn random_holds_of_many_guests_end_as_the_live_ones_set() {
    let (_registry, path) = registry();
    let held: Vec<_> = (0..3).map(|_| guest(&path, BestEffort, GPU)).collect();
    for round in 0..30_u64 {
        let all: Vec<_> = (0..4).map(|_| guest(&path, RealTime, GPU)).collect();
        std::thread::scope(|scope| {
            for (at, rt) in all.iter().enumerate() {
                scope.spawn(move || {
                    for step in 0..20 + at as u64 {
                        launch(rt);
                        // sleep: any length is right
                        std::thread::sleep(Duration::from_micros((round * 7 + step * 13) % 90));
                        finish(rt);
                    }
                });
            }
        });
        held.iter().for_each(until_open);
        let last = &all[round as usize % 4];
        launch(last);
        for be in &held {
            until_held(be);
            assert!(
                all.iter().all(|rt| be.page.holders.has(rt.who.holder) == (rt.who == last.who))
            );
        }
        drop(all);
        held.iter().for_each(until_open);
    }
}

#[test]
fn daemon_holds_a_device_and_lists_its_guests() {
    let (registry, path) = registry();
    let be = guest(&path, BestEffort, GPU);
    registry.hold(GPU, true);
    let newcomer = guest(&path, BestEffort, GPU);
    assert!(be.page.holders.is_closed() && newcomer.page.holders.is_closed());
    assert!(registry.guests().iter().all(|view| view.is_active && view.who.pid != 0));
    registry.hold(GPU, false);
    assert!(!be.page.holders.is_closed() && !newcomer.page.holders.is_closed());
    drop((be, newcomer));
    until("nobody", || registry.guests().is_empty());
}

#[test]
fn refusal_quotes_the_policy_and_missing_daemon_is_an_error() {
    let (registry, path) = registry();
    drop(registry);
    let request = JoinRequest { class: RealTime, device: GPU };
    assert!(matches!(join(&path, &request, SOON), Err(Refusal::Unreachable(_))));
    let policy = Box::new(|_: &_, _: &_| Err("class rt is not for you".to_owned()));
    let _registry = Registry::open(&path, policy).unwrap();
    let error = join(&path, &request, SOON).unwrap_err().to_string();
    assert_eq!(error, "the daemon refuses: class rt is not for you");
}

#[test]
fn file_that_has_the_name_of_the_socket_by_now_is_kept() {
    let (registry, path) = registry();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    drop(registry);
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn request_for_memory_is_answered_later_without_blocking() {
    let (registry, path) = registry();
    drop(registry);
    let (sender, requests) = std::sync::mpsc::channel();
    let memory = Box::new(move |caller: &Caller, request, reply: MemoryReply| {
        sender.send((caller.pid, request, reply)).unwrap();
    });
    let policy = Box::new(|caller: &Caller, request: &JoinRequest| match caller.info.token() {
        "" => Ok(request.class),
        _ => Ok(BestEffort),
    });
    let caps = Box::new(|_: &Caller| Caps::default());
    let _registry =
        Registry::open_with_caps(&path, Rules::default(), policy, caps, memory).unwrap();
    let request = MemoryRequest { device: GPU, bytes: 5 << 34, is_reserved: true };
    let ask = |token: &str| {
        ask_for_memory(&path, &request, &GuestInfo::new("", token).unwrap(), SOON)
            .map_err(|error| error.to_string())
    };
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(""));
        let (pid, seen, reply) = requests.recv_timeout(SOON).unwrap();
        assert_eq!((pid, seen), (std::process::id(), request));
        drop(guest(&path, BestEffort, GPU)); // while that one waits
        assert!(!asked.is_finished() && !reply.is_over());
        reply.grant();
        assert_eq!(asked.join().unwrap(), Ok(()));
        let asked = scope.spawn(|| ask(""));
        requests.recv_timeout(SOON).unwrap().2.refuse("3 MiB are free".into());
        assert_eq!(asked.join().unwrap(), Err("the daemon refuses: 3 MiB are free".into()));
        let asked = scope.spawn(|| ask(""));
        drop(requests.recv_timeout(SOON).unwrap());
        assert!(asked.join().unwrap().unwrap_err().starts_with("the daemon can't be reached"));
    });
    let error = ask("lesser").unwrap_err();
    assert_eq!(error, "the daemon refuses: memory is freed for real-time programs alone");
}

#[test]
fn registry_without_a_handler_refuses_requests_for_memory() {
    let (_registry, path) = registry();
    let request = MemoryRequest { device: GPU, bytes: 1, is_reserved: false };
    let error = ask_for_memory(&path, &request, &GuestInfo::default(), SOON).unwrap_err();
    assert_eq!(error.to_string(), "the daemon refuses: it suspends no programs for memory");
}

#[test]
fn guest_keeps_its_page_and_its_hold_under_the_next_daemon() {
    let (registry, path) = registry();
    let (be, rt) = (guest(&path, BestEffort, GPU), guest(&path, RealTime, GPU));
    launch(&rt);
    until_held(&be);
    drop(registry);
    until_open(&be);
    let policy = Box::new(|_: &_, request: &JoinRequest| Ok(request.class));
    let _registry = Registry::open_with(&path, patient(), policy).unwrap();
    let again = |class, file| {
        rejoin(&path, &JoinRequest { class, device: GPU }, &GuestInfo::default(), file, SOON)
    };
    let be_again = again(BestEffort, &be.file).unwrap();
    assert!(be_again.file.is_same(&be.file) && !be.page.holders.is_held(), "the dead don't hold");
    let rt_again = again(RealTime, &rt.file).unwrap();
    assert!(rt_again.file.is_same(&rt.file));
    until_held(&be);
    finish(&rt);
    until_open(&be);
    let error = again(BestEffort, &be.file).unwrap_err().to_string();
    assert_eq!(error, "the daemon refuses: the page that it offers is another guest's");
}

#[test]
fn end_of_the_daemon_is_noticed() {
    let (registry, path) = registry();
    let be = guest(&path, BestEffort, GPU);
    assert!(!be.link.is_over());
    drop(registry);
    until("noticed", || be.link.is_over());
}

#[test]
fn silent_connections_keep_no_guest_from_joining() {
    let (_registry, path) = registry();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let silent = scope.spawn(|| {
            let address = SocketAddrUnix::new(&path).unwrap();
            let mut all = Vec::new();
            let mut total = 0;
            while !is_over.load(Ordering::SeqCst) {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
                let socket = socket.unwrap();
                if connect(&socket, &address).is_ok() {
                    total += 1;
                    all.push(socket);
                }
                let excess = all.len().saturating_sub(200);
                all.drain(..excess);
                // sleep: pace of the attack; slower than silence counts, when all places are taken
                std::thread::sleep(Duration::from_millis(if total < 200 { 1 } else { 10 }));
            }
            total
        });
        // sleep: until there are more than it accepts; fewer pass as well
        std::thread::sleep(Duration::from_millis(500));
        let request = JoinRequest { class: Class::BestEffort, device: [7; 16] };
        for _ in 0..10 {
            until("a guest", || join(&path, &request, SOON).is_ok());
        }
        is_over.store(true, Ordering::SeqCst);
        assert!(silent.join().unwrap() > 64);
    });
}

#[test]
fn more_real_time_guests_than_bits_are_refused() {
    let (_registry, path) = registry();
    let all: Vec<_> = (0..29).map(|_| guest(&path, RealTime, GPU)).collect();
    let error = join(&path, &JoinRequest { class: RealTime, device: GPU }, SOON).unwrap_err();
    assert_eq!(error.to_string(), "the daemon refuses: 29 real-time guests on this device");
    guest(&path, RealTime, OTHER);
    drop(all);
    until("a bit", || join(&path, &JoinRequest { class: RealTime, device: GPU }, SOON).is_ok());
}

#[test]
fn real_time_guests_with_excess_parts_are_refused() {
    let (_registry, path) = registry();
    let asks = |class, device, percent: u32| {
        let part = GuestInfo::default().with_part(percent * 10_000);
        join_as(&path, &JoinRequest { class, device }, &part, SOON)
    };
    let first = asks(RealTime, GPU, 60).unwrap();
    let error = asks(RealTime, GPU, 50).unwrap_err().to_string();
    let want = "class rt: 50 % of the device's time asked, 40 % are left by other real-time limits";
    assert_eq!(error, format!("the daemon refuses: {want}"));
    let others =
        [(RealTime, GPU, 40), (RealTime, OTHER, 70), (RealTime, GPU, 0), (BestEffort, GPU, 90)];
    let others = others.map(|(class, device, percent)| asks(class, device, percent).unwrap());
    drop(first);
    until("room", || asks(RealTime, GPU, 60).is_ok());
    drop(others);
}

/// Overwrites a whole page, as a program may do with memory of its own.
fn scribble(page: &Mapping, seed: u64) {
    let words = page.address().cast::<u64>();
    for at in 0..BYTES / 8 {
        let value = (seed + at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed << 40;
        // SAFETY: within the page, which is atomics alone, and aligned as it is.
        unsafe { AtomicU64::from_ptr(words.add(at)) }.store(value, Ordering::Relaxed);
    }
}

#[test]
fn guest_that_overwrites_its_page_harms_no_other_guest() {
    for seed in 0..20 {
        let (registry, path) = registry();
        let [honest, liar] = [guest(&path, BestEffort, GPU), guest(&path, BestEffort, GPU)];
        let liar_rt = guest(&path, RealTime, GPU);
        scribble(&liar.page, seed);
        scribble(&liar_rt.page, seed + 7);
        let rt = guest(&path, RealTime, GPU);
        launch(&rt);
        until("held", || honest.page.holders.has(rt.who.holder));
        finish(&rt);
        until("released", || !honest.page.holders.has(rt.who.holder));
        registry.hold(GPU, true);
        assert!(honest.page.holders.has(29));
        registry.hold(GPU, false);
        assert!(!honest.page.holders.has(29));
        let views = registry.guests();
        let of = |joined: &Joined| views.iter().find(|view| view.who == joined.who).unwrap();
        assert_eq!((of(&honest).kernels, of(&liar).uid), (0, of(&honest).uid));
        // A guest that falsely says it is busy holds by its own bit alone, until it ends.
        drop(liar_rt);
        until_open(&honest);
    }
}

#[test]
fn changed_page_is_reported_and_revoked_guest_never_holds() {
    let (registry, path) = registry();
    let be = guest(&path, BestEffort, GPU);
    let liar = guest(&path, RealTime, GPU);
    assert!(registry.guests().iter().all(|view| view.fault.is_none()));
    scribble(&liar.page, 3);
    launch(&liar);
    until_held(&be);
    let views = registry.guests();
    let faults: Vec<_> = views.iter().filter(|view| view.fault.is_some()).collect();
    assert_eq!(faults.iter().map(|view| view.who).collect::<Vec<_>>(), [liar.who]);
    registry.revoke(liar.who.guest);
    assert!(!be.page.holders.is_closed(), "released at once");
    until("noticed", || liar.link.is_over());
    registry.revoke(liar.who.guest); // twice is once
    assert_eq!(registry.guests().len(), 1);
    stays_open(&be, &liar.page);
}

/// Checks that no content of this page, however it is written, holds the guest.
fn stays_open(be: &Joined, page: &Mapping) {
    let begin = Instant::now();
    for step in 0.. {
        if page.activity.launch() {
            page.activity.hold();
        }
        scribble(page, step);
        page.holders.hold(3);
        assert!(!be.page.holders.is_closed(), "held by a process that isn't a guest");
        if begin.elapsed() > Duration::from_millis(1200) {
            return; // longer than the interval of all polls
        }
        std::thread::sleep(Duration::from_micros(200)); // sleep: pace of the lies
    }
}

/// A child, or a process that was sent the file, has the page for longer than the guest lives.
#[test]
fn page_of_a_dead_guest_kept_by_others_holds_no_guest() {
    let (_registry, path) = registry();
    let be = guest(&path, BestEffort, GPU);
    let Joined { page, file, link, .. } = guest(&path, RealTime, GPU);
    page.activity.hold();
    until_held(&be);
    let copy = PageFile::open(file.as_fd().try_clone_to_owned().unwrap()).unwrap().2;
    drop((link, page, file));
    until_open(&be);
    stays_open(&be, &copy);
}

/// Another guest may offer a page of a former guest. It is the new guest's page then, and the first
/// one's words count for the new guest alone.
#[test]
fn reused_page_counts_for_its_new_guest() {
    let (registry, path) = registry();
    let be = guest(&path, BestEffort, GPU);
    let Joined { page, file, link, .. } = guest(&path, RealTime, GPU);
    drop(link);
    until("it has left", || registry.guests().len() == 1);
    let request = JoinRequest { class: BestEffort, device: GPU };
    let heir = rejoin(&path, &request, &GuestInfo::default(), &file, SOON).unwrap();
    stays_open(&be, &page);
    assert_eq!(registry.guests().iter().filter(|view| view.fault.is_some()).count(), 1);
    drop(heir);
}

/// The memory is taken away from all processes that have it mapped, and replaced by new memory.
#[test]
fn page_with_a_hole_harms_only_its_guest() {
    let (_registry, path) = registry();
    let [be, holed] = [guest(&path, BestEffort, GPU), guest(&path, BestEffort, GPU)];
    let rt = guest(&path, RealTime, GPU);
    launch(&rt);
    until_held(&be);
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for joined in [&rt, &holed] {
        fallocate(&joined.file, punch, 0, BYTES as u64).unwrap();
    }
    until_open(&be); // zeroes mean an idle guest
    launch(&rt);
    until_held(&be);
    drop(rt);
    until_open(&be);
}

/// One relay polls after a hold; the second finds no permit, and sleeps.
#[test]
fn polling_relay_holds_and_releases_as_a_sleeping_one() {
    let rules = Rules { watch: Duration::from_secs(60), max_watchers: 1, ..Rules::default() };
    let (_registry, path) = registry_with(rules);
    let be = guest(&path, BestEffort, GPU);
    let mut all = [guest(&path, RealTime, GPU), guest(&path, RealTime, GPU)];
    for _ in 0..100 {
        for rt in &all {
            launch(rt);
            until_held(&be);
            finish(rt);
            until_open(&be);
        }
    }
    // A guest that leaves while its relay polls holds nothing, and the next one is served.
    for rt in &mut all {
        launch(rt);
        until_held(&be);
        *rt = guest(&path, RealTime, GPU);
        until_open(&be);
        launch(rt);
        until_held(&be);
        finish(rt);
        until_open(&be);
    }
}

/// The system stops the guest in the middle of its work.
#[test]
fn guest_stopped_during_work_holds_for_a_bounded_time() {
    let hold_timeout = Duration::from_millis(300);
    let (registry, path) = registry_with(Rules { hold_timeout, ..Rules::default() });
    let (be, rt) = (guest(&path, BestEffort, GPU), guest(&path, RealTime, GPU));
    let stalls = || registry.guests().iter().map(|view| view.stalls).sum::<u64>();
    let begin = Instant::now();
    launch(&rt);
    until("released", || stalls() == 1);
    until_open(&be);
    let time = begin.elapsed();
    assert!(time >= hold_timeout, "it was busy for {time:?}");
    // It continues: each sign of work counts.
    for count in 2..=4 {
        rt.page
            .activity
            .show_progress(rt.page.activity.pulse() + begin.elapsed().as_nanos() as u64);
        until("released again", || stalls() == count);
        until_open(&be);
    }
    let views = registry.guests();
    let held = views.iter().find(|view| view.who == be.who).map(|view| view.held);
    assert!(held > Some(hold_timeout), "held for {held:?} in four times");
    finish(&rt);
    // The next work has the whole time. Where this thread is late, it is tried again.
    until("work that ends within its time", || {
        let before = stalls();
        for _ in 0..2 {
            launch(&rt);
            until("held", || be.page.holders.is_closed() || stalls() > before);
            finish(&rt);
            until_open(&be);
        }
        stalls() == before
    });
}

#[test]
fn guest_holds_as_long_as_it_makes_progress() {
    let hold_timeout = Duration::from_millis(400);
    let (_registry, path) = registry_with(Rules { hold_timeout, ..Rules::default() });
    let (be, rt) = (guest(&path, BestEffort, GPU), guest(&path, RealTime, GPU));
    launch(&rt);
    until_held(&be);
    let begin = Instant::now();
    let mut last = begin;
    while begin.elapsed() < 3 * hold_timeout {
        rt.page.activity.show_progress(begin.elapsed().as_nanos() as u64);
        let is_late = last.elapsed() > hold_timeout / 2; // this thread didn't run
        if is_late {
            until("held again", || {
                rt.page.activity.show_progress(begin.elapsed().as_nanos() as u64);
                be.page.holders.is_closed()
            });
        }
        last = Instant::now();
        assert!(be.page.holders.is_closed() || is_late, "open after {:?}", begin.elapsed());
        std::thread::sleep(Duration::from_millis(1)); // sleep: pace of the progress
    }
}

#[test]
fn user_with_too_many_guests_is_refused_with_the_limit() {
    let (_registry, path) = registry_with(Rules { per_user: 3, ..Rules::default() });
    let all: Vec<_> = (0..3).map(|_| guest(&path, BestEffort, GPU)).collect();
    let error = join(&path, &JoinRequest { class: RealTime, device: GPU }, SOON).unwrap_err();
    let uid = rustix::process::getuid().as_raw();
    let want = format!("the daemon refuses: 3 guests of user {uid}: guests.per_user is 3");
    assert_eq!(error.to_string(), want);
    drop(all);
    until("room", || join(&path, &JoinRequest { class: RealTime, device: GPU }, SOON).is_ok());
}

#[test]
fn processes_of_a_job_are_held_together_on_all_devices() {
    let (registry, path) = registry();
    let shows = |job: &str, class, device| {
        join_as(&path, &JoinRequest { class, device }, &GuestInfo::new(job, "").unwrap(), SOON)
            .unwrap()
    };
    let [first, alone] = ["train", ""].map(|job| shows(job, BestEffort, OTHER));
    let rt = shows("train", RealTime, GPU);
    launch(&rt);
    // sleep: time in which a fault would show; none fails a right daemon
    std::thread::sleep(Duration::from_millis(20));
    assert!(!first.page.holders.is_closed(), "no guest of the job is on this device");
    let second = shows("train", BestEffort, GPU);
    assert!(first.page.holders.is_closed() && second.page.holders.is_closed());
    assert!(!alone.page.holders.is_closed());
    finish(&rt);
    until_open(&first);
    until_open(&second);
    registry.hold(GPU, true);
    let third = shows("train", BestEffort, OTHER);
    assert!([&first, &second, &third].iter().all(|be| be.page.holders.is_closed()));
    assert!(!alone.page.holders.is_closed());
    registry.hold(OTHER, false);
    assert!(first.page.holders.is_closed(), "another device's release is not this one's");
    registry.hold(GPU, false);
    until("open", || ![&first, &second, &third].iter().any(|be| be.page.holders.is_closed()));
    // Guests on the other device are held because of the one on this device, and only as long as
    // that exists.
    launch(&rt);
    until_held(&first);
    drop(second);
    until_open(&first);
    until_open(&third);
}

/// As it does if too many programs join at a time.
#[test]
fn answer_of_a_daemon_that_reads_nothing_arrives() {
    let path = std::env::temp_dir().join(format!("reef-guests-deaf-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&socket, 1).unwrap();
    let deaf = std::thread::spawn(move || {
        let guest = accept(&socket).unwrap();
        rustix::net::recv(&guest, &mut [0; 8], rustix::net::RecvFlags::PEEK).unwrap();
        let mut answer = [0; 128];
        answer[..9].copy_from_slice(b"REEFGUES\x01");
        rustix::io::write(&guest, &answer).unwrap();
    });
    let error = join(&path, &JoinRequest { class: BestEffort, device: GPU }, SOON).unwrap_err();
    deaf.join().unwrap();
    assert!(error.to_string().contains("version 1 of guests' messages"), "{error}");
    std::fs::remove_file(&path).unwrap();
}

/// Such as one that is stopped: there is room for few connections that it has not accepted.
#[test]
fn daemon_that_accepts_nothing_is_waited_for_with_a_bound() {
    let path = std::env::temp_dir().join(format!("reef-stopped-{}", std::process::id()));
    let _ = std::fs::remove_file(&path); // of a test that was killed
    let address = SocketAddrUnix::new(&path).unwrap();
    let daemon = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    bind(&daemon, &address).unwrap();
    listen(&daemon, 0).unwrap();
    let crowd: Vec<_> = std::iter::from_fn(|| {
        let (family, flags) = (AddressFamily::UNIX, SocketFlags::NONBLOCK);
        let one = socket_with(family, SocketType::SEQPACKET, flags, None).unwrap();
        connect(&one, &address).is_ok().then_some(one)
    })
    .collect();
    let (say, said) = std::sync::mpsc::channel();
    let asked = path.clone();
    std::thread::spawn(move || {
        let (time, info) = (Duration::from_millis(50), GuestInfo::default());
        let joined = join(&asked, &JoinRequest { class: RealTime, device: GPU }, time);
        let request = MemoryRequest { device: GPU, bytes: 1, is_reserved: false };
        let freed = ask_for_memory(&asked, &request, &info, time);
        say.send([joined.unwrap_err(), freed.unwrap_err()].map(|why| why.to_string())).unwrap();
    });
    let said = said.recv_timeout(SOON).expect("both calls end");
    assert_eq!(said, ["the daemon can't be reached: timed out"; 2]);
    drop((daemon, crowd));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn daemon_of_another_version_is_refused_in_one_clear_line() {
    let path = std::env::temp_dir().join(format!("reef-guests-old-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&socket, 1).unwrap();
    let old = std::thread::spawn(move || {
        let guest = accept(&socket).unwrap();
        let mut answer = [0; 128];
        answer[..9].copy_from_slice(b"REEFGUES\x01");
        rustix::io::write(&guest, &answer).unwrap();
        guest
    });
    let error = join(&path, &JoinRequest { class: BestEffort, device: GPU }, SOON).unwrap_err();
    let want = "the daemon isn't of this version: it speaks version 1 of guests' messages, this 3";
    assert_eq!(error.to_string(), want);
    drop(old.join().unwrap());
    std::fs::remove_file(&path).unwrap();
}

/// A program keeps the library that it has loaded, whatever is installed meanwhile.
#[test]
fn message_of_an_older_program_is_answered_with_both_versions() {
    let (registry, path) = registry();
    let old = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    connect(&old, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    let mut message = [0; 128];
    message[..9].copy_from_slice(b"REEFGUES\x02");
    rustix::io::write(&old, &message).unwrap();
    let mut answer = [0; 512];
    let got = rustix::io::read(&old, &mut answer).unwrap();
    assert!(answer.starts_with(b"REEFGUES\x03"), "the version is where each one has it");
    let said = String::from_utf8_lossy(&answer[..got]);
    assert!(said.contains("it speaks version 2 of guests' messages, this 3"), "{said}");
    assert_eq!(rustix::io::read(&old, &mut answer), Ok(0), "it isn't a guest");
    assert!(registry.guests().is_empty());
    guest(&path, BestEffort, GPU);
}

/// It is refused, because the daemon would not know what is where. No holder is left in it.
#[test]
fn page_of_an_older_layout_is_refused_and_stays_open() {
    let (registry, path) = registry();
    let (be, rt) = (guest(&path, BestEffort, GPU), guest(&path, RealTime, GPU));
    launch(&rt);
    until_held(&be);
    drop(registry);
    until_open(&be);
    let registry = Registry::open(&path, Box::new(|_, request| Ok(request.class))).unwrap();
    rustix::io::pwrite(be.file.as_fd(), &1_u32.to_ne_bytes(), 8).unwrap(); // behind the magic
    let request = JoinRequest { class: BestEffort, device: GPU };
    let error = rejoin(&path, &request, &GuestInfo::default(), &be.file, SOON).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("not a page: it has version 1, this program 2"), "{said}");
    assert!(registry.guests().is_empty() && !be.page.holders.is_closed());
}

/// `cargo test --release -p reef-guest --test integration -- --ignored --nocapture hold_of`
#[test]
#[ignore = "measures"]
fn hold_of_eight_guests() {
    let (registry, path) = registry();
    let all: Vec<_> = (0..8).map(|_| guest(&path, BestEffort, GPU)).collect();
    let gates = registry.gates(GPU);
    let mut times: Vec<Duration> = (0..20_000)
        .map(|_| {
            let begin = Instant::now();
            gates.hold(true);
            let time = begin.elapsed();
            assert!(all.iter().all(|be| be.page.holders.is_closed()));
            gates.hold(false);
            time
        })
        .collect();
    times.sort();
    let at = |part: usize| times[times.len() * part / 100];
    println!("8 guests held within {:?} (median), {:?} (99 %)", at(50), at(99));
}

/// `cargo test --release -p reef-guest --test integration -- --ignored --nocapture launch_until`
#[test]
#[ignore = "measures"]
fn launch_until_eight_guests_are_held() {
    let (_registry, path) = registry();
    let all: Vec<_> = (0..8).map(|_| guest(&path, BestEffort, GPU)).collect();
    let rt = guest(&path, RealTime, GPU);
    let mut times: Vec<Duration> = (0..2000)
        .map(|_| {
            let begin = Instant::now();
            launch(&rt);
            while !all.iter().all(|be| be.page.holders.is_closed()) {
                std::hint::spin_loop();
            }
            let time = begin.elapsed();
            finish(&rt);
            until("open", || !all.iter().any(|be| be.page.holders.is_closed()));
            std::thread::sleep(Duration::from_micros(500)); // sleep: pace of the launches
            time
        })
        .collect();
    times.sort();
    let at = |part: usize| times[times.len() * part / 1000];
    println!("8 guests held {:?} after a launch (50 %), {:?} (99 %)", at(500), at(990));
}
