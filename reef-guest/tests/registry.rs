//! Guests of one registry, as processes and devices come and go.

use reef_guest::join::{Event, Joined, Link, Refusal, Shown, Wish, join, join_as, rejoin};
use reef_guest::page::Class::{self, BestEffort, RealTime};
use reef_guest::page::{BYTES, Mapping};
use reef_guest::registry::Registry;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, accept, bind, listen, socket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const GPU: [u8; 16] = *b"first device....";
const OTHER: [u8; 16] = *b"second device...";
/// Longer than anything takes on a busy machine.
const SOON: Duration = Duration::from_secs(60);

fn registry() -> (Registry, PathBuf) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("reef-guests-{}-{number}", std::process::id()));
    let registry = Registry::open(&path, Box::new(|_, wish| Ok(wish.class))).unwrap();
    (registry, path)
}

fn guest(path: &Path, class: Class, device: [u8; 16]) -> Joined {
    join(path, &Wish { class, device }, SOON).unwrap()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < SOON, "{what}: not within {SOON:?}");
        std::thread::sleep(Duration::from_micros(100));
    }
    begin.elapsed()
}

fn next(link: &Link) -> Event {
    let mut event = None;
    until("an event", || {
        event = link.next();
        event.is_some()
    });
    event.unwrap()
}

#[test]
fn a_real_time_guest_gets_the_pages_of_its_device_alone() {
    let (_registry, path) = registry();
    let before = guest(&path, BestEffort, GPU);
    let _elsewhere = guest(&path, BestEffort, OTHER);
    let rt = guest(&path, RealTime, GPU);
    let after = guest(&path, BestEffort, GPU);
    let Event::Peer(number, page) = next(&rt.link) else { panic!("no page") };
    let peers = rt.peers.iter().map(|(number, page)| (*number, page)).chain([(number, &page)]);
    for (be, (number, page)) in [&before, &after].into_iter().zip(peers) {
        assert_eq!(number, be.who.guest);
        page.holders.hold(rt.who.holder);
        assert!(be.page.holders.is_closed());
        page.holders.release(rt.who.holder);
    }
    assert!(rt.link.next().is_none() && before.link.next().is_none());
    drop(before.link);
    assert!(matches!(next(&rt.link), Event::PeerLeft(number) if number == before.who.guest));
}

#[test]
fn the_dead_hold_nobody_and_newcomers_are_held_at_once() {
    let (_registry, path) = registry();
    let rt = guest(&path, RealTime, GPU);
    assert!(rt.page.activity.launch());
    rt.page.activity.hold(|| {});
    let be = guest(&path, BestEffort, GPU);
    assert!(be.page.holders.has(rt.who.holder), "real-time work runs already");
    let elsewhere = guest(&path, BestEffort, OTHER);
    assert!(!elsewhere.page.holders.is_closed());
    drop(rt);
    let time = until("open", || !be.page.holders.is_closed());
    println!("opened {time:?} after the end of who held");
}

#[test]
fn the_daemon_holds_a_device_and_lists_its_guests() {
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
fn a_policy_that_says_no_is_quoted_and_no_daemon_is_an_error() {
    let (registry, path) = registry();
    drop(registry);
    let wish = Wish { class: RealTime, device: GPU };
    assert!(matches!(join(&path, &wish, SOON), Err(Refusal::Unreachable(_))));
    let policy = Box::new(|_: &_, _: &_| Err("class rt is not for you".to_owned()));
    let _registry = Registry::open(&path, policy).unwrap();
    let error = join(&path, &wish, SOON).unwrap_err().to_string();
    assert_eq!(error, "the daemon refuses: class rt is not for you");
}

#[test]
fn a_guest_keeps_its_page_under_the_next_daemon_and_nobody_else_gets_it() {
    let (registry, path) = registry();
    let (be, rt) = (guest(&path, BestEffort, GPU), guest(&path, RealTime, GPU));
    let second = guest(&path, RealTime, GPU);
    second.peers.iter().for_each(|(_, page)| page.holders.hold(second.who.holder));
    drop((registry, rt, second.link));
    let _registry = Registry::open(&path, Box::new(|_, wish| Ok(wish.class))).unwrap();
    let again =
        |class, file| rejoin(&path, &Wish { class, device: GPU }, &Shown::default(), file, SOON);
    let be_again = again(BestEffort, &be.file).unwrap();
    assert!(be_again.file.is_same(&be.file) && !be.page.holders.is_held(), "the dead don't hold");
    let rt = again(RealTime, &second.file).unwrap();
    assert_eq!(rt.who.holder, second.who.holder, "no other holder has the bit");
    rt.peers.iter().for_each(|(_, page)| page.holders.hold(rt.who.holder));
    assert!(be.page.holders.is_closed() && rt.peers.len() == 1);
    let error = again(BestEffort, &be.file).unwrap_err().to_string();
    assert_eq!(error, "the daemon refuses: the page that it offers is another guest's");
}

#[test]
fn a_daemon_that_goes_is_noticed() {
    let (registry, path) = registry();
    let be = guest(&path, BestEffort, GPU);
    drop(registry);
    assert!(matches!(next(&be.link), Event::Gone));
}

#[test]
fn more_real_time_guests_than_bits_are_refused() {
    let (_registry, path) = registry();
    let all: Vec<_> = (0..29).map(|_| guest(&path, RealTime, GPU)).collect();
    let error = join(&path, &Wish { class: RealTime, device: GPU }, SOON).unwrap_err();
    assert_eq!(error.to_string(), "the daemon refuses: 29 real-time guests on this device");
    guest(&path, RealTime, OTHER);
    drop(all);
    until("a bit", || join(&path, &Wish { class: RealTime, device: GPU }, SOON).is_ok());
}

/// Overwrites a whole page, as a program may do with memory of its own.
#[test]
fn real_time_guests_whose_parts_of_the_time_do_not_fit_are_refused() {
    let (_registry, path) = registry();
    let asks = |class, device, percent: u32| {
        let part = Shown::default().with_part(percent * 10_000);
        join_as(&path, &Wish { class, device }, &part, SOON)
    };
    let first = asks(RealTime, GPU, 60).unwrap();
    let error = asks(RealTime, GPU, 50).unwrap_err().to_string();
    let want =
        "class rt: 50 % of the device's time asked, 40 % are left beside other real-time limits";
    assert_eq!(error, format!("the daemon refuses: {want}"));
    let others =
        [(RealTime, GPU, 40), (RealTime, OTHER, 70), (RealTime, GPU, 0), (BestEffort, GPU, 90)];
    let others = others.map(|(class, device, percent)| asks(class, device, percent).unwrap());
    drop(first);
    until("room", || asks(RealTime, GPU, 60).is_ok());
    drop(others);
}

fn scribble(page: &Mapping, seed: u64) {
    let words = page.address().cast::<u64>();
    for at in 0..BYTES / 8 {
        let value = (seed + at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed << 40;
        // SAFETY: within the page, which is atomics alone, and aligned as it is.
        unsafe { AtomicU64::from_ptr(words.add(at)) }.store(value, Ordering::Relaxed);
    }
}

#[test]
fn a_guest_that_overwrites_its_page_harms_nobody_else() {
    for seed in 0..20 {
        let (registry, path) = registry();
        let [honest, liar] = [guest(&path, BestEffort, GPU), guest(&path, BestEffort, GPU)];
        let liar_rt = guest(&path, RealTime, GPU);
        scribble(&liar.page, seed);
        scribble(&liar_rt.page, seed + 7);
        let rt = guest(&path, RealTime, GPU); // gets the liar's page
        assert_eq!(rt.peers.len(), 2);
        rt.peers.iter().for_each(|(_, page)| page.holders.hold(rt.who.holder));
        assert!(honest.page.holders.has(rt.who.holder));
        rt.peers.iter().for_each(|(_, page)| page.holders.release(rt.who.holder));
        registry.hold(GPU, true);
        assert!(honest.page.holders.is_closed());
        registry.hold(GPU, false);
        assert!(!honest.page.holders.is_closed());
        let views = registry.guests();
        let of = |joined: &Joined| views.iter().find(|view| view.who == joined.who).unwrap();
        assert_eq!((of(&honest).kernels, of(&liar).uid), (0, of(&honest).uid));
        // Who joins beside a liar that says it is busy is held by its bit, until the liar goes.
        let newcomer = guest(&path, BestEffort, GPU);
        assert!(matches!(next(&rt.link), Event::Peer(number, _) if number == newcomer.who.guest));
        drop(liar_rt);
        until("open", || !newcomer.page.holders.is_closed());
    }
}

#[test]
fn a_page_that_was_changed_shows_and_who_is_revoked_holds_nobody() {
    let (registry, path) = registry();
    let be = guest(&path, BestEffort, GPU);
    let liar = guest(&path, RealTime, GPU);
    liar.peers.iter().for_each(|(_, page)| page.holders.hold(liar.who.holder));
    assert!(registry.guests().iter().all(|view| view.fault.is_none()));
    scribble(&liar.page, 3);
    let views = registry.guests();
    let faults: Vec<_> = views.iter().filter(|view| view.fault.is_some()).collect();
    assert_eq!(faults.iter().map(|view| view.who).collect::<Vec<_>>(), [liar.who]);
    registry.revoke(liar.who.guest);
    assert!(!be.page.holders.is_closed(), "released at once");
    assert!(matches!(next(&liar.link), Event::Gone));
    registry.revoke(liar.who.guest); // twice is once
    assert_eq!(registry.guests().len(), 1);
}

#[test]
fn bits_that_a_real_time_guest_leaves_in_others_names_go_with_it() {
    let (_registry, path) = registry();
    let be = guest(&path, BestEffort, GPU);
    let (other, liar) = (guest(&path, RealTime, GPU), guest(&path, RealTime, GPU));
    other.peers.iter().for_each(|(_, page)| page.holders.hold(other.who.holder));
    (0..29).for_each(|bit| liar.peers.iter().for_each(|(_, page)| page.holders.hold(bit)));
    drop(liar);
    until("the liar's bits", || !be.page.holders.has(28));
    assert!(be.page.holders.has(other.who.holder), "the living still hold");
    drop(other);
    until("open", || !be.page.holders.is_closed());
}

#[test]
fn processes_of_a_job_are_held_together_wherever_they_run() {
    let (registry, path) = registry();
    let shows = |job: &str, class, device| {
        join_as(&path, &Wish { class, device }, &Shown::new(job, "").unwrap(), SOON).unwrap()
    };
    let [first, alone] = ["train", ""].map(|job| shows(job, BestEffort, OTHER));
    let rt = shows("train", RealTime, GPU);
    assert!(rt.peers.is_empty(), "no guest of the job is on this device");
    let second = shows("train", BestEffort, GPU);
    let peers = [next(&rt.link), next(&rt.link)].map(|event| match event {
        Event::Peer(guest, page) => (guest, page),
        other => panic!("{other:?}"),
    });
    let numbers = peers.each_ref().map(|(guest, _)| *guest);
    assert_eq!(numbers, [first.who.guest, second.who.guest]);
    assert!(rt.link.next().is_none(), "the one without a job is not its peer");
    registry.hold(GPU, true);
    let third = shows("train", BestEffort, OTHER);
    assert!([&first, &second, &third].iter().all(|be| be.page.holders.is_closed()));
    assert!(!alone.page.holders.is_closed());
    registry.hold(OTHER, false);
    assert!(first.page.holders.is_closed(), "another device's release is not this one's");
    registry.hold(GPU, false);
    // What the real-time guest held on the other device goes with it as well.
    peers.iter().for_each(|(_, page)| page.holders.hold(rt.who.holder));
    assert!(first.page.holders.is_closed());
    drop(rt);
    until("open", || ![&first, &second, &third].iter().any(|be| be.page.holders.is_closed()));
}

#[test]
fn a_daemon_of_another_version_is_one_clear_line() {
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
    let error = join(&path, &Wish { class: BestEffort, device: GPU }, SOON).unwrap_err();
    let want = "the daemon isn't of this version: it speaks version 1 of guests' messages, this 2";
    assert_eq!(error.to_string(), want);
    drop(old.join().unwrap());
    std::fs::remove_file(&path).unwrap();
}

/// `cargo test --release -p reef-guest --test registry -- --ignored --nocapture hold_of`
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
