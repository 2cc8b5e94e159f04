use super::*;
use crate::net::identity::client_id::Protocol;
use crate::observe::recording::move_events;
use crate::residency::facts::Move;
use serde_json::{Value, json};
use std::time::Duration;

fn request(tracer: &Tracer) -> Request {
    Request {
        instance: tracer.instance("tiny/1 rt 0"),
        model: "tiny/1".into(),
        class: Class::RealTime,
        client: ClientId { protocol: Protocol::Local, number: 7 },
        phases: Phases {
            queue: Duration::from_micros(10),
            input: Duration::from_micros(20),
            infer: Duration::from_micros(30),
            output: Duration::from_micros(40),
            delay: Some(Duration::from_micros(5)),
        },
        outcome: "ok",
        end: Instant::now(),
    }
}

#[test]
fn request_is_not_built_without_a_recording() {
    let tracer = Tracer::default();
    tracer.note(|| panic!("there is no recorder"));
    tracer.begin().unwrap();
    tracer.note(|| request(&tracer));
    assert_eq!(tracer.stop().len(), 1);
    tracer.note(|| panic!("there is no recorder any more"));
}

#[test]
fn second_recording_is_refused_and_next_begins_empty() {
    let tracer = Tracer::default();
    tracer.begin().unwrap();
    tracer.note(|| request(&tracer));
    assert!(matches!(tracer.begin(), Err(Error::Exists(_))));
    tracer.end();
    tracer.begin().unwrap();
    assert!(tracer.stop().is_empty());
}

#[test]
fn recording_drops_requests_above_the_maximum() {
    let tracer = Tracer::default();
    tracer.begin().unwrap();
    let one = request(&tracer);
    (0..MAX_REQUESTS + 3).for_each(|_| tracer.note(|| one.clone()));
    assert_eq!(tracer.stop().len(), MAX_REQUESTS);
}

#[test]
fn phases_of_a_request_are_consecutive_slices() {
    let tracer = Tracer::default();
    let begin = Instant::now();
    let one = Request { end: begin + Duration::from_micros(500), ..request(&tracer) };
    let events = crate::observe::recording::request_events(&one, 3, begin);
    let of = |name: &str, key: &str| {
        let event = events.iter().find(|event| event["name"] == name).unwrap();
        event[key].as_f64().unwrap()
    };
    assert_eq!((of("queue", "ts"), of("queue", "id")), (400.0, 3.0));
    assert_eq!((of("tiny/1", "ts"), of("tiny/1", "dur")), (410.0, 90.0));
    assert_eq!((of("input", "ts"), of("input", "dur")), (410.0, 20.0));
    assert_eq!((of("infer", "ts"), of("infer", "dur")), (430.0, 30.0));
    assert_eq!((of("output", "ts"), of("output", "dur")), (460.0, 40.0));
    let args = &events.iter().find(|event| event["name"] == "tiny/1").unwrap()["args"];
    assert_eq!((&args["client"], &args["outcome"]), (&"local 7".into(), &"ok".into()));
    assert_eq!((args["start_us"].as_f64(), args["queue_us"].as_f64()), (Some(5.0), Some(10.0)));
}

#[test]
fn request_before_the_trace_is_shown_from_its_begin() {
    let tracer = Tracer::default();
    let begin = Instant::now();
    let one = Request { end: begin + Duration::from_micros(50), ..request(&tracer) };
    let events = crate::observe::recording::request_events(&one, 0, begin);
    let times: Vec<_> = events.iter().filter_map(|event| event["ts"].as_f64()).collect();
    assert!(times.iter().all(|&ts| (0.0..=50.0).contains(&ts)), "{times:?}");
    let whole = events.iter().find(|event| event["name"] == "tiny/1").unwrap();
    assert_eq!((whole["ts"].as_f64(), whole["dur"].as_f64()), (Some(0.0), Some(50.0)));
    assert!(!events.iter().any(|event| event["name"] == "input"), "it was over");
}

#[test]
fn request_that_ended_before_the_trace_has_no_events() {
    let tracer = Tracer::default();
    let one = request(&tracer);
    assert!(crate::observe::recording::request_events(&one, 0, one.end).is_empty());
    let before = one.end - Duration::from_nanos(100);
    assert!(!crate::observe::recording::request_events(&one, 0, before).is_empty());
}

#[test]
fn moves_of_models_have_tracks_of_their_own() {
    let begin = Instant::now() + Duration::from_secs(1);
    let one = |is_return: bool, from: u64, to: u64| Move {
        title: "m/1 be 0".into(),
        is_return,
        begin: begin - Duration::from_micros(100) + Duration::from_micros(from),
        end: begin - Duration::from_micros(100) + Duration::from_micros(to),
        is_done: is_return,
    };
    let events = move_events(&[one(false, 50, 150), one(true, 120, 180)], begin);
    let shown = |event: &Value| {
        (event["ts"].as_f64(), event["dur"].as_f64(), event["args"]["outcome"].clone())
    };
    let want = [
        (Some(0.0), Some(50.0), json!("refused")), // it began before
        (Some(20.0), Some(60.0), json!("ok")),
    ];
    let slices: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(slices.iter().map(|event| shown(event)).collect::<Vec<_>>(), want);
    assert_ne!(slices[0]["tid"], slices[1]["tid"], "they may overlap");
    assert!(move_events(&[], begin).is_empty());
}
