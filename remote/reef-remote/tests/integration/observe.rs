//! Sessions of Rust programs as the operator of a server sees them, and their end.

use reef_core::Device;
use reef_cpu::Cpu;
use reef_remote::Remote;
use reef_remote::observe::{Kind, Sessions};
use reef_remote::server::{DeviceHost, Devices, Host, Listener, Security};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5)); // sleep: poll of a condition
    }
}

#[test]
fn session_is_listed_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let sessions = Sessions::default();
    let devices = Devices::each(|name| match name {
        "cpu:0" => Ok(Arc::new(Host::own(&Cpu::open(0, "units=2")?)) as Arc<dyn DeviceHost>),
        _ => Err(reef_core::Error::NotFound(format!("no device {name:?}"))),
    });
    let server = devices.listed_in(&sessions).serve(Vec::new());
    let address = reef_wire::Address::Unix(folder.path().join("socket"));
    let listener = Listener::bind(&address, &Security::default()).unwrap().counted_in(&sessions);
    std::thread::spawn(move || listener.run(&server, |_| ()));
    let device = Remote::open(0, &format!("{address}/cpu:0")).unwrap();
    let _buffer = device.alloc(3 << 20).unwrap();
    let list = sessions.list();
    let [one] = &list[..] else { panic!("{list:?}") };
    assert_eq!((one.facts.kind, one.facts.device.as_deref()), (Kind::Own, Some("cpu:0")));
    assert_eq!((one.facts.pid, one.counts.single_calls), (None, None));
    assert_eq!(one.counts.peer, format!("pid {}", std::process::id()));
    assert_eq!(one.counts.memory_bytes, 3 << 20);
    assert!(one.counts.traffic.is_connected && one.counts.traffic.replies > 0, "{one:?}");

    assert!(Remote::open(0, &format!("{address}/cpu:7")).is_err());
    let count = |line: &str| sessions.metrics().lines().any(|have| have == line);
    assert!(count("reef_remote_refused_total{reason=\"device\"} 1"), "{}", sessions.metrics());
    let raw = std::os::unix::net::UnixStream::connect(folder.path().join("socket")).unwrap();
    drop(raw);
    until("an outsider is counted", || count("reef_remote_refused_total{reason=\"broken\"} 1"));

    assert!(sessions.end(one.id, "the operator wants the device"));
    until("the session is gone", || sessions.list().is_empty());
    let said = device.alloc(1).unwrap_err().to_string();
    assert!(said.contains("the operator wants the device"), "{said}");
    let trips = one.counts.traffic.replies;
    let is_kept = |line: &str| {
        let count = line.strip_prefix("reef_remote_round_trips_total{kind=\"own\"} ");
        count.is_some_and(|count| count.parse::<u64>().unwrap() >= trips)
    };
    assert!(sessions.metrics().lines().any(is_kept), "{}", sessions.metrics());
}
