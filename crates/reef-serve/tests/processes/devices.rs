//! A daemon with two software devices.

use crate::daemon::Daemon;
use crate::{options, within};
use reef::models::{Model, Seeded};
use reef_serve::{Class, Client, Error};
use serde_json::Value;
use std::time::Duration;

const TWO: &str = "device=cpu?units=1,cpu?units=1";
/// Longer than anything takes on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// An input of `tiny`, and what the reference makes of it.
fn expected() -> (Vec<f32>, Vec<f32>) {
    let model = Model::open("resnet18").input_size(32).read().unwrap();
    let input = Seeded(1).input(model.input_len());
    let want = model.expected(&input).unwrap();
    (input, want)
}

fn is_near(got: &[f32], want: &[f32]) -> bool {
    got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-3)
}

/// Parses the body of an answer of HTTP.
fn json(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}")).1;
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[test]
fn both_devices_of_a_daemon_compute_what_the_reference_does() {
    let daemon = Daemon::start("two", &[TWO, "models.replicas=0"]);
    let (input, want) = expected();
    let all = [Class::RealTime, Class::BestEffort].repeat(2);
    let connect = |class| Client::connect("tiny", &options(daemon.folder(), Some(class))).unwrap();
    let mut clients: Vec<_> = all.into_iter().map(connect).collect();
    for client in &mut clients {
        assert!(is_near(&client.infer(&input).unwrap(), &want));
    }
    for device in ["cpu:0", "cpu:1"] {
        let of = |name: &str| daemon.metric(&format!("{name}{{device=\"{device}\"}}"));
        assert!(of("reef_device_busy_seconds_total") > 0.0, "{device}");
        assert_eq!((of("reef_device_up"), of("reef_device_load")), (1.0, 2.0), "{device}");
    }
    let shown = json(&daemon.get("/reef/devices"));
    let models = |at: usize| shown["devices"][at]["models"][0].as_str();
    assert_eq!((models(0), models(1)), (Some("tiny/1"), Some("tiny/1")), "{shown}");
    assert_eq!(shown["devices"][1]["abandoned"], 0, "{shown}");
}

/// Its client gets an error that says so, and then goes on by itself on the other device.
#[test]
fn a_daemon_goes_on_without_a_device_that_is_taken_out() {
    let daemon = Daemon::start("taken-out", &[TWO]);
    let (input, want) = expected();
    let mut client =
        Client::connect("tiny", &options(daemon.folder(), Some(Class::RealTime))).unwrap();
    assert!(is_near(&client.infer(&input).unwrap(), &want));
    let mark_lost = |device: &str| {
        let request =
            format!("POST /reef/devices/{device}/mark-lost HTTP/1.1\r\nhost: localhost\r\n");
        daemon.say(format!("{request}content-length: 0\r\nconnection: close\r\n\r\n").as_bytes())
    };
    let missing = mark_lost("cpu:7");
    assert!(missing.contains("404") && missing.contains("have: cpu:0, cpu:1"), "{missing}");
    let shown = json(&mark_lost("cpu:0"));
    let why = shown["devices"][0]["lost"].as_str();
    assert!(why.is_some_and(|why| why.starts_with("removed by ")), "{shown}");
    within(SOON, "an answer from the other device", || match client.infer(&input) {
        Ok(got) => {
            assert!(is_near(&got, &want));
            daemon.metric("reef_device_busy_seconds_total{device=\"cpu:1\"}") > 0.0
        }
        Err(Error::Unavailable(_)) => {
            let _ = client.reconnect(); // the other one may not have the model yet
            false
        }
        Err(error) => panic!("{error}"),
    });
    let ready = daemon.get("/v2/health/ready");
    assert!(ready.starts_with("HTTP/1.1 200"), "{ready}");
    assert_eq!(json(&ready)["degraded"][0]["device"], "cpu:0");
    assert_eq!(json(&ready).get("abandoned"), None, "{ready}");
    assert!(daemon.get("/v2/models/tiny/ready").starts_with("HTTP/1.1 200"));
    assert_eq!(daemon.metric("reef_device_up{device=\"cpu:0\"}"), 0.0);
}
