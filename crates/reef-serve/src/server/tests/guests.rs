//! The daemon's own requests next to unmodified programs on the same device.

use super::*;
use crate::guests::service::Guests;
use crate::net::access::Access;
use crate::observe::recording::Recording;
use reef_guest::hold::Holders;
use reef_guest::join::{JoinRequest, Joined, join};
use reef_guest::page;
use std::path::Path;

const DEVICE: [u8; 16] = *b"fake device no 0";
/// Longer than anything takes on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// A daemon on a device that guests have as well.
fn begin(test: &str) -> (Fixture, Guests) {
    let digits: String = DEVICE.iter().map(|byte| format!("{byte:02x}")).collect();
    let fixture = Fixture::new(test, |config| {
        config.device += &format!("&uuid={digits}");
        config.guests.listen = true;
    });
    let guests = start(&fixture);
    (fixture, guests)
}

fn start(fixture: &Fixture) -> Guests {
    start_for(fixture, Access::Owner)
}

fn start_for(fixture: &Fixture, access: Access) -> Guests {
    let guests = Guests::start(&fixture.server, &Arc::default(), &fixture.folder, access);
    guests.unwrap().expect("listening")
}

fn guest(folder: &Path, class: page::Class) -> Joined {
    join(&folder.join("guests.sock"), &JoinRequest { class, device: DEVICE }, SOON).unwrap()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < SOON, "{what}: not within {SOON:?}");
        std::thread::sleep(Duration::from_micros(100)); // sleep: poll of a condition
    }
}

#[test]
fn real_time_requests_hold_guests_while_they_run() {
    let (fixture, _guests) = begin("guests-held");
    let be = guest(&fixture.folder, page::Class::BestEffort);
    let holds = || be.page.holders.has(Holders::DAEMON);
    block_on(fixture.server.infer(fixture.inference(2))).unwrap();
    assert!(!holds(), "a best-effort request holds no guest");
    let mut was_held = false;
    until("held", || {
        std::thread::scope(|scope| {
            let run = scope.spawn(|| block_on(fixture.server.infer(fixture.inference(1))).unwrap());
            while !run.is_finished() {
                was_held |= holds();
            }
        });
        was_held
    });
    until("released", || !holds());
    let text = fixture.server.metrics_now();
    let mine = |line: &&str| line.starts_with("reef_guest_active{");
    assert_eq!(text.lines().filter(mine).count(), 0, "the daemon isn't its own guest: {text}");
}

#[test]
fn a_real_time_guest_stops_best_effort_until_it_dies() {
    let (fixture, _guests) = begin("guests-evict");
    let rt = guest(&fixture.folder, page::Class::RealTime);
    let preemptions = || fixture.server.nodes[0].engine.stats().preemptions;
    let (before, begin) = (preemptions(), Instant::now());
    rt.page.activity.hold();
    until("preempted", || preemptions() > before);
    std::thread::scope(|scope| {
        let be = scope.spawn(|| block_on(fixture.server.infer(fixture.inference(2))));
        // After 0.9 s they breathe, and a busy machine may have got there.
        let is_held = || !be.is_finished() || begin.elapsed() > Duration::from_millis(800);
        // sleep: time in which a fault would show; none fails a right daemon
        std::thread::sleep(Duration::from_millis(200));
        assert!(is_held(), "held");
        block_on(fixture.server.infer(fixture.inference(1))).expect("real-time requests run");
        assert!(is_held(), "still held");
        drop(rt);
        until("it goes on", || be.is_finished());
        be.join().unwrap().unwrap();
    });
}

/// Each device has guests of its own.
#[test]
fn a_real_time_guest_holds_requests_of_its_own_device_alone() {
    let names = [DEVICE, *b"fake device no 1"];
    let fixture = Fixture::new("guests-two", |config| {
        let digits = names.map(|name| name.map(|byte| format!("{byte:02x}")).concat());
        let device = |digits| format!("cpu?units=1&uuid={digits}");
        config.device = digits.map(device).join(",");
        config.guests.listen = true;
        config.models.replicas = 2;
    });
    let _guests = start(&fixture);
    let wish = JoinRequest { class: page::Class::RealTime, device: names[1] };
    let rt = join(&fixture.folder.join("guests.sock"), &wish, SOON).unwrap();
    let preemptions =
        || [0, 1].map(|at: usize| fixture.server.nodes[at].engine.stats().preemptions);
    let before = preemptions();
    rt.page.activity.hold();
    until("preempted", || preemptions()[1] > before[1]);
    let first = fixture.server.registry.select("tiny", "").unwrap()[0].first().clone();
    assert_eq!(first.node().index, 0);
    block_on(fixture.server.infer(fixture.inference_on(first, 2))).unwrap();
    assert_eq!(preemptions()[0], before[0], "no guest holds the first device");
}

/// The socket has this mode for any umask.
#[test]
fn guests_socket_has_the_access_of_the_other_sockets() {
    let fixture = Fixture::new("guests-mode", |config| config.guests.listen = true);
    let socket = fixture.folder.join("guests.sock");
    let mode = || std::os::unix::fs::MetadataExt::mode(&socket.metadata().unwrap()) & 0o777;
    for (access, want) in
        [(Access::Owner, 0o600), (Access::All, 0o666), (Access::Group(group(&fixture)), 0o660)]
    {
        let _guests = start_for(&fixture, access);
        assert_eq!(mode(), want, "{access:?}");
    }
}

/// A group that we may give files to.
fn group(fixture: &Fixture) -> u32 {
    std::os::unix::fs::MetadataExt::gid(&fixture.folder.metadata().unwrap())
}

#[test]
fn a_device_without_a_name_has_guests_that_stand_alone() {
    let fixture = Fixture::new("guests-alone", |config| config.guests.listen = true);
    let guests = start(&fixture);
    let rt = guest(&fixture.folder, page::Class::RealTime);
    rt.page.activity.hold();
    block_on(fixture.server.infer(fixture.inference(2))).unwrap();
    drop(guests);
    block_on(fixture.server.infer(fixture.inference(2))).unwrap();
}

#[test]
fn a_trace_has_a_track_per_guest_with_its_hold_spans() {
    let (fixture, _guests) = begin("guests-traced");
    let there = guest(&fixture.folder, page::Class::BestEffort);
    let (observer, nodes) = (&fixture.server.observer, &fixture.server.nodes);
    let mut recording = Recording::start(observer, nodes).unwrap();
    let rt = guest(&fixture.folder, page::Class::RealTime);
    let holds = |is_held| {
        if is_held {
            assert!(rt.page.activity.hold());
        } else {
            assert!(rt.page.activity.release(rt.page.activity.pulse()));
        }
        until("followed", || there.page.spans.since().is_some() == is_held);
    };
    for _ in 0..3 {
        holds(true);
        there.page.counts.kernels.fetch_add(10, std::sync::atomic::Ordering::Relaxed);
        recording.collect();
        holds(false);
    }
    holds(true);
    let text = recording.finish();
    let trace: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |number: u32, name: &str| {
        let mine = |event: &&serde_json::Value| event["pid"] == 3 && event["tid"] == number;
        events.iter().filter(mine).filter(|event| event["name"] == name).count()
    };
    let (be, rt) = (there.who.guest, rt.who.guest);
    assert_eq!((of(be, "held"), of(be, "joined"), of(rt, "joined")), (4, 0, 1), "{trace}");
    let name = format!("guest {be} be, pid {}", std::process::id());
    assert!(String::from_utf8(text).unwrap().contains(&name));
}

/// Each keeps a thread, also if its client has gone.
#[test]
fn commands_whose_clients_have_gone_are_bounded() {
    let fixture = Fixture::new("commands-gone", |_| ());
    let server = &fixture.server;
    let records = fixture.folder.join("suspended");
    let suspensions = || Arc::new(Suspensions::new(Weak::new(), records, "reef".into()));
    server.observer.suspensions.get_or_init(suspensions);
    let owner = Peer { principal: Principal::User(0), ..Peer::UNKNOWN };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (release, held) = channel::<()>();
    let held = Arc::new(parking_lot::Mutex::new(held));
    let said = runtime.block_on(async {
        let suspend = || {
            let held = held.clone();
            let work = move |_: &Suspensions| {
                let _ = held.lock().recv(); // until the other end is dropped
                Ok(Vec::new())
            };
            server.suspending(&owner, work)
        };
        for _ in 0..MAX_CHANGES {
            let gone = tokio::time::timeout(Duration::from_millis(1), suspend()).await;
            assert!(gone.is_err(), "it waits");
        }
        tokio::time::timeout(Duration::from_secs(60), suspend()).await
    });
    drop(release);
    runtime.shutdown_timeout(Duration::from_secs(60)); // waits for the threads
    let want = "open commands for guests and devices must be at most 128";
    let said = said.expect("it waits, too").map(|_| ());
    assert_eq!(said, Err(Error::Exhausted(want.into())));
    assert_eq!(server.commands.in_use(), 0);
}
