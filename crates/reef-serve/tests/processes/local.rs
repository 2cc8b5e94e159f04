//! The fast path: right answers, both classes, errors that leave the connection whole.

use crate::daemon::Daemon;
use crate::{ClientProcess, SOON, options, within};
use reef::models::{Model, Seeded};
use reef_serve::{Class, Client, Error, Options};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

#[test]
fn both_classes_compute_what_the_reference_does() {
    let daemon = Daemon::start("reference", &[]);
    let model = Model::open("resnet18").input_size(32).read().unwrap();
    let input = Seeded(1).input(model.input_len());
    let want = model.expected(&input).unwrap();
    for class in Class::ALL {
        let mut client = Client::connect("tiny", &options(daemon.folder(), Some(class))).unwrap();
        assert_eq!((client.class(), client.input_len()), (class, input.len()));
        client.ping().unwrap();
        for _ in 0..20 {
            let got = client.infer(&input).unwrap();
            let worst =
                got.iter().zip(&want).map(|(a, b)| (a - b).abs()).max_by(f32::total_cmp).unwrap();
            assert!(got.len() == want.len() && worst < 1e-3, "{class}: {worst}");
        }
        let name =
            format!("reef_requests_served_total{{model=\"tiny\",version=\"1\",class=\"{class}\"}}");
        assert_eq!(daemon.metric(&name), 20.0);
    }
}

/// One client that has several requests open gets its answers in order, each to its own input.
#[test]
fn requests_of_a_ring_are_answered_in_order() {
    let daemon = Daemon::start("ring", &["limits.ring=4"]);
    let mut client = Client::connect("tiny", &options(daemon.folder(), None)).unwrap();
    assert_eq!(client.class(), Class::BestEffort);
    let inputs: Vec<Vec<f32>> = (0..4).map(|i| vec![i as f32 * 0.25; client.input_len()]).collect();
    let want: Vec<_> = inputs.iter().map(|input| client.infer(input).unwrap()).collect();
    for round in 0..50 {
        inputs.iter().for_each(|input| client.submit(input).unwrap());
        let full = client.submit(&inputs[0]).unwrap_err();
        assert_eq!(full, Error::Exhausted("open requests must be at most 4".into()));
        for want in &want {
            let mut got = vec![0.0; want.len()];
            client.receive(&mut got).unwrap();
            assert_eq!(got, *want, "round {round}");
        }
    }
    assert!(matches!(client.receive(&mut vec![0.0; 1000]), Err(Error::Invalid(_))));
}

#[test]
fn wrong_requests_get_an_error_and_keep_the_connection() {
    let daemon = Daemon::start("wrong", &["memory.client_mib=64"]);
    let connect = |model: &str, timeout| {
        Client::connect(model, &Options { timeout, ..options(daemon.folder(), None) })
    };
    let said = |model: &str| connect(model, None).unwrap_err();
    assert_eq!(said("nothing"), Error::NotFound("no model nothing in the repository".into()));
    assert!(matches!(said("../tiny"), Error::Invalid(_)));
    let mut client = connect("tiny", None).unwrap();
    let said = client.infer(&[0.0; 3]).unwrap_err().to_string();
    assert_eq!(said, "input must have 3072 values, got 3");
    let input = vec![0.0; client.input_len()];
    client.infer(&input).unwrap();
    for class in Class::ALL {
        let timeout = Some(Duration::from_micros(1));
        let hasty = Options { timeout, ..options(daemon.folder(), Some(class)) };
        let mut hasty = Client::connect("tiny", &hasty).unwrap();
        for _ in 0..3 {
            assert!(matches!(hasty.infer(&input), Err(Error::Deadline(_))), "{class}");
        }
        hasty.ping().unwrap();
    }
    client.infer(&input).unwrap();
    // A model that isn't loaded is, and a place that isn't there is no daemon.
    connect("other", None).unwrap().infer(&input).unwrap();
    let nowhere = Client::connect("tiny", &options(&daemon.folder().join("none"), None));
    assert!(matches!(nowhere, Err(Error::Unavailable(_))));
}

#[test]
fn a_client_that_is_too_large_is_refused() {
    let daemon = Daemon::start("large", &["memory.client_mib=1", "limits.ring=64"]);
    let said = Client::connect("tiny", &options(daemon.folder(), None)).unwrap_err();
    let Error::Exhausted(text) = said else { panic!("{said}") };
    assert!(text.starts_with("memory budget: a client of tiny/1 must have at most "), "{text}");
}

/// A real-time client and four best-effort ones, all of them processes.
#[test]
fn five_processes_share_the_device() {
    let daemon = Daemon::start("five", &[]);
    let classes = [Class::RealTime].into_iter().chain([Class::BestEffort; 4]);
    let clients: Vec<_> =
        classes.map(|class| ClientProcess::start(daemon.folder(), class)).collect();
    let served = |class: &str| {
        let name = "reef_requests_served_total";
        let text = daemon.get("/metrics");
        let line = format!("{name}{{model=\"tiny\",version=\"1\",class=\"{class}\"}} ");
        text.lines().find_map(|l| l.strip_prefix(&line)?.parse().ok()).unwrap_or(0u64)
    };
    let time = Duration::from_secs(120);
    within(time, "inferences of both classes", || served("rt") > 50 && served("be") > 50);
    within(time, "inferences of each", || clients.iter().all(|client| client.inferences() > 0));
    within(time, "preemptions", || daemon.metric("reef_preemptions") > 0.0);
    within(time, "all, and the one that asks", || daemon.clients() == 6.0);
}

/// Bytes that are not a hello end that connection and nothing else.
#[test]
fn noise_on_the_socket_is_no_end() {
    let daemon = Daemon::start("noise", &[]);
    let seed = 7u64;
    println!("seed {seed}");
    for n in 0..200u64 {
        let mut stream = UnixStream::connect(daemon.folder().join("local.sock")).unwrap();
        let noise = (0..n).map(|i| (seed.wrapping_mul(n + 1).wrapping_add(i * i) >> 3) as u8);
        let noise: Vec<u8> = match n % 3 {
            0 => b"reeflcl3".iter().copied().chain(noise).collect(),
            _ => noise.collect(),
        };
        let _ = stream.write_all(&noise); // it may have been refused already
    }
    // As long as the daemon has not read that they left, they have the slots of this user.
    within(SOON, "all are gone", || daemon.clients() == 1.0);
    let mut client = Client::connect("tiny", &options(daemon.folder(), None)).unwrap();
    client.infer(&vec![0.0; client.input_len()]).unwrap();
    drop(client);
    within(SOON, "the client is gone", || daemon.clients() == 1.0);
}
