//! Comparison with queueing formulas, and invariants of any fleet.

use crate::{Arrivals, Class, Client, Error, Fleet, Options, Placement, Profile, Totals, simulate};
use reef_core::scheduler::NAMES;
use std::collections::BTreeMap;

mod guests;
mod knobs;
mod measured;

const PROFILE: &str = r#"{
    "device": {"stop_us": 20, "quiesce_us": 60, "run_out_us": 180, "resume_us": 100,
               "capped_kept": 0.34, "capped_pressure": 0.35},
    "networks": {
        "fixed": {"alone_us": 1000},
        "random": {"alone_us": 1000, "service": "exponential"},
        "resnet50": {"alone_us": 400, "sensitivity": 0.3},
        "resnet152": {"alone_us": 1100, "sensitivity": 0.3}
    }
}"#;

fn client(class: Class, network: &str, count: u32, arrivals: Arrivals) -> Client {
    let (network, deadline_ms, priority) = (network.into(), None, 0);
    Client {
        class,
        network,
        count,
        arrivals,
        deadline_ms,
        priority,
        colocate: None,
        floor: None,
        slo: None,
    }
}

fn fleet(gpus_per_node: u32, clients: Vec<Client>) -> Fleet {
    let profile: Profile = serde_json::from_str(PROFILE).unwrap();
    let (rt_load, be_per_gpu, traces) = (0.7, 4, BTreeMap::new());
    Fleet { nodes: 1, gpus_per_node, rt_load, be_per_gpu, profile, clients, traces }
}

fn options(scheduler: &str, seconds: f64, threads: usize) -> Options {
    let (scheduler, placement) = (scheduler.into(), Placement::Spread);
    Options { scheduler, placement, seconds, seed: 1, threads }
}

fn poisson(per_second: f64) -> Arrivals {
    Arrivals::Poisson { per_second }
}

/// One of each kind of arrivals, with more than some devices can do.
fn mixed() -> Fleet {
    let closed = |pause_us| Arrivals::Closed { pause_us };
    let periodic = Arrivals::Periodic { per_second: 90.0, offset_ms: 1.0 };
    let bursts = Arrivals::Bursts { per_second: 20.0, size: 8 };
    let mut clients = vec![
        client(Class::Rt, "resnet50", 9, poisson(300.0)),
        client(Class::Rt, "random", 2, poisson(1200.0)),
        client(Class::Rt, "fixed", 5, periodic),
        client(Class::Rt, "resnet50", 3, bursts.clone()),
        client(Class::Rt, "resnet50", 1, closed(10.0)),
        client(Class::Be, "resnet152", 20, closed(0.0)),
        client(Class::Be, "fixed", 3, closed(500.0)),
        client(Class::Be, "random", 4, bursts),
    ];
    clients[0].deadline_ms = Some(1.0);
    clients[1].deadline_ms = Some(5.0);
    fleet(17, clients)
}

fn mean_wait_ms(network: &str) -> f64 {
    let fleet = fleet(4, vec![client(Class::Rt, network, 4, poisson(600.0))]);
    let totals = simulate(&fleet, &options("streams", 200.0, 1)).unwrap();
    assert!(totals.rt_arrivals > 470_000, "{}", totals.rt_arrivals);
    totals.rt_mean_ms() - 1.0
}

/// Pollaczek-Khinchine: a mean wait of ρ s (1 + c²) / 2 (1 − ρ), of s = 1 ms and ρ = 0.6.
#[test]
fn simulated_waits_equal_those_of_m_d_1_and_m_m_1() {
    for (network, wait) in [("fixed", 0.75), ("random", 1.5)] {
        let simulated = mean_wait_ms(network);
        assert!((simulated / wait - 1.0).abs() < 0.02, "{network}: {simulated} ms, not {wait} ms");
    }
}

/// All counts but the latencies, which are too many to print.
fn summary(totals: &Totals) -> String {
    let all = format!("{totals:?}");
    all[all.rfind("rt_latency_sum").unwrap()..].into()
}

#[test]
fn number_of_threads_changes_no_result() {
    let fleet = mixed();
    let one = simulate(&fleet, &options("reef", 2.0, 1)).unwrap();
    for threads in [2, 3, 8] {
        let more = simulate(&fleet, &options("reef", 2.0, threads)).unwrap();
        assert_eq!(summary(&one), summary(&more), "{threads} threads");
        assert!(one == more, "{threads} threads: latencies differ");
    }
    let other = simulate(&fleet, &Options { seed: 2, ..options("reef", 2.0, 1) }).unwrap();
    assert_ne!(summary(&one), summary(&other), "another seed");
}

#[test]
fn every_arrival_is_finished_or_left_at_the_end() {
    let fleet = mixed();
    for (scheduler, (_, placement)) in
        NAMES.iter().flat_map(|name| Placement::ALL.map(|placement| (name, placement)))
    {
        let options = Options { placement, ..options(scheduler, 0.5, 1) };
        let totals = simulate(&fleet, &options).unwrap();
        let rt = totals.rt_in_time + totals.rt_late + totals.rt_left;
        assert_eq!(totals.rt_arrivals, rt, "{scheduler} {placement:?}");
        assert_eq!(totals.rt_latency.len(), totals.rt_in_time + totals.rt_late);
        let be = totals.be_finished + totals.be_left;
        assert_eq!(totals.be_arrivals, be, "{scheduler} {placement:?}");
        assert!(totals.rt_arrivals > 2_000, "{scheduler} {placement:?}: {}", summary(&totals));
        assert!(totals.rt_in_time > 500, "{scheduler} {placement:?}: real-time work stands still");
        let runs = totals.be_finished > 0 || *scheduler == "rt-only";
        assert!(runs, "{scheduler} {placement:?}: best-effort work stands still");
    }
}

#[test]
fn streams_slow_real_time_work_and_reef_delays_it_by_a_stop() {
    let clients = vec![
        client(Class::Rt, "resnet50", 1, poisson(20.0)),
        client(Class::Be, "resnet152", 1, Arrivals::Closed { pause_us: 0.0 }),
    ];
    let fleet = fleet(1, clients);
    let median = |scheduler| {
        let totals = simulate(&fleet, &options(scheduler, 20.0, 1)).unwrap();
        (totals.rt_quantile_ms(0.5), totals.be_kept())
    };
    for (scheduler, latency, kept) in [
        ("rt-only", 0.400, 0.0),
        ("streams", 0.520, 0.998),
        ("reef", 0.420, 0.989),
        ("wait-based", 0.580, 0.986),
    ] {
        let (simulated, be_kept) = median(scheduler);
        assert!((simulated - latency).abs() < 0.001, "{scheduler}: {simulated} ms");
        assert!((be_kept - kept).abs() < 0.002, "{scheduler}: {be_kept} kept");
    }
}

/// Devices that the clients of each policy use, of ten with five RT and five BE clients.
#[test]
fn placements_use_the_expected_number_of_devices() {
    let clients = vec![
        client(Class::Rt, "resnet50", 5, poisson(100.0)),
        client(Class::Be, "resnet152", 5, Arrivals::Closed { pause_us: 0.0 }),
    ];
    let fleet = fleet(10, clients);
    for (placement, devices) in [
        (Placement::Spread, 10),
        (Placement::Pack, 2),
        (Placement::RtApart, 10),
        (Placement::LeastInterference, 10),
    ] {
        let options = Options { placement, ..options("reef", 0.1, 1) };
        let totals = simulate(&fleet, &options).unwrap();
        assert_eq!(totals.devices_used, devices, "{placement:?}");
    }
}

/// The largest numbers that are accepted: nothing overflows.
#[test]
fn arrivals_beyond_the_clock_never_come() {
    let closed = Arrivals::Closed { pause_us: 1e12 };
    let clients = vec![
        client(Class::Rt, "resnet50", 2, Arrivals::Closed { pause_us: 0.0 }),
        client(Class::Be, "resnet152", 3, Arrivals::Closed { pause_us: 0.0 }),
        client(Class::Be, "fixed", 1, closed),
    ];
    let mut fleet = fleet(1, clients);
    for network in fleet.profile.networks.values_mut() {
        (network.alone_us, network.sensitivity, network.pressure) = (1e9, 1e3, 1e3);
    }
    fleet.profile.device.capped_kept = f64::MIN_POSITIVE;
    for scheduler in NAMES {
        let totals = simulate(&fleet, &options(scheduler, 10.0, 1)).unwrap();
        assert!(totals.rt_arrivals >= 2, "{scheduler}");
    }
}

#[test]
fn invalid_input_is_named_on_one_line() {
    let good = || fleet(1, vec![client(Class::Rt, "fixed", 1, poisson(1.0))]);
    let run = |fleet: &Fleet, options: &Options| simulate(fleet, options).unwrap_err().to_string();
    let mut no_network = good();
    no_network.clients[0].network = "fixd".into();
    let mut no_device = good();
    no_device.nodes = 0;
    let mut no_rate = good();
    no_rate.clients[0].arrivals = poisson(f64::NAN);
    let plain = options("reef", 1.0, 1);
    for (message, part) in [
        (run(&no_network, &plain), "no network \"fixd\" (have: fixed, random, resnet152"),
        (run(&no_device, &plain), "GPUs must be from 1 to 1000000 in all, got 0 nodes of 1"),
        (
            run(&no_rate, &plain),
            "clients[0].arrivals.per_second must be from 0.000001 to 10000000, got NaN",
        ),
        (run(&good(), &options("rief", 1.0, 1)), "no scheduler \"rief\" (have: "),
        (run(&good(), &options("reef@1.10", 1.0, 1)), "scheduler \"reef@1.10\": profiles have no "),
        (run(&good(), &options("reef", 1.0, 0)), "threads must be from 1 to 256, got 0"),
        (
            run(&good(), &options("reef", -1.0, 1)),
            "seconds must be from 0.000001 to 100000000, got -1",
        ),
        (run(&fleet(1000, Vec::new()), &options("reef", 1e8, 1)), "1000 GPUs and clients for"),
    ] {
        assert!(message.contains(part) && !message.contains('\n'), "{message}");
    }
}

/// A file of this test's own, which is gone afterwards.
fn with_file<R>(name: &str, text: &str, use_it: impl FnOnce(&std::path::Path) -> R) -> R {
    let folder = std::env::temp_dir().join(format!("reef-simulate-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("trace.csv"), text).unwrap();
    let clients = vec![client(Class::Rt, "fixed", 2, Arrivals::Trace("trace.csv".into()))];
    let json = serde_json::to_string(&fleet(2, clients)).unwrap();
    std::fs::write(folder.join("fleet.json"), json).unwrap();
    let result = use_it(&folder.join("fleet.json"));
    std::fs::remove_dir_all(folder).unwrap();
    result
}

#[test]
fn trace_is_dealt_to_its_clients() {
    let rows = "time_ns,class,network\n5000,rt,fixed\n0,rt,fixed\n1,be,fixed\n9000,rt,resnet50\n";
    let fleet = with_file("good", rows, |path| Fleet::read(path).unwrap());
    let totals = simulate(&fleet, &options("reef", 1.0, 1)).unwrap();
    assert_eq!((totals.rt_in_time, totals.rt_arrivals), (2, 2));
    assert!(totals.rt_quantile_ms(1.0) < 1.002, "each has a device of its own");
}

/// The example of docs/simulate.md has the measured profile.
#[test]
fn example_fleet_has_the_profile_of_an_h200() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let fleet = Fleet::read(&root.join("docs/simulate/fleet.json")).unwrap();
    let profile: Profile = serde_json::from_str(include_str!("../profiles/h200.json")).unwrap();
    assert_eq!(format!("{:?}", fleet.profile), format!("{profile:?}"));
    let totals = simulate(&fleet, &options("reef", 0.1, 1)).unwrap();
    assert_eq!((totals.devices_used, totals.rt_left_late), (64, 0));
}

#[test]
fn invalid_trace_is_named_with_its_line() {
    for (rows, part) in [
        ("time,class\n", "line 1 is \"time,class\""),
        ("time_ns,class,network\n1,rt,fixed\n2,ab,fixed\n", "line 3 is \"2,ab,fixed\""),
        ("time_ns,class,network\n1,rt,fixed,4\n", "line 2"),
        ("time_ns,class,network\n-1,rt,fixed\n", "line 2"),
    ] {
        let error = with_file("bad", rows, |path| Fleet::read(path).unwrap_err());
        assert!(matches!(error, Error::Format { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let missing = Fleet::read(std::path::Path::new("no/such/fleet.json")).unwrap_err();
    assert!(missing.to_string().starts_with("no/such/fleet.json: "), "{missing}");
}
