//! State that stays on the device from one request of a sequence to the next.

use super::losses::{Losable, TWO, on, until};
use super::shapes::handmade::{file, float, graph, int, ints, node, typed};
use super::shapes::{asking, open_file, peer, port};
use super::sharing_by_grpc::connected;
use super::sharing_by_grpc::proto::{DataType, ModelConfigRequest};
use super::*;
use crate::kserve::infer::request::{
    InferRequest, RequestedOutput, SequenceParameters, TensorData,
};
use crate::kserve::infer::response::InferResponse;
use crate::models::sequences::table::SequenceKey;
use crate::net::identity::principal::Principal;
use std::sync::atomic::Ordering;

/// Sums of all rows that a sequence has given: `y = sum(past ++ x)`.
fn history() -> Vec<u8> {
    let axes = |name, values: &[i64]| node("Constant", &[], name, &[ints("value_ints", values)]);
    let nodes = [
        axes("rows", &[1]),
        node("Unsqueeze", &["x", "rows"], "row", &[]),
        node("Concat", &["past", "row"], "present", &[int("axis", 1)]),
        node("ReduceSum", &["present", "rows"], "y", &[int("keepdims", 0)]),
        port(11, "x", &["1", "2"]),
        port(11, "past", &["1", "n", "2"]),
        port(12, "y", &["1", "2"]),
        port(12, "present", &["1", "m", "2"]),
    ];
    file(17, &nodes)
}

/// Sums of all inputs of a sequence, of one size.
fn total() -> Vec<u8> {
    let nodes = [
        node("Add", &["before", "x"], "after", &[]),
        node("Identity", &["after"], "y", &[]),
        port(11, "x", &["1", "2"]),
        port(11, "before", &["1", "2"]),
        port(12, "y", &["1", "2"]),
        port(12, "after", &["1", "2"]),
    ];
    file(17, &nodes)
}

/// Adds `x` to what a sequence has until the largest number is 5 or more.
fn up_to_five() -> Vec<u8> {
    let pair = ["1", "2"];
    let body = [
        typed(11, "i", 7, &[]),
        typed(11, "going", 9, &[]),
        port(11, "h", &pair),
        node("Add", &["h", "x"], "sum", &[]),
        node("ReduceMax", &["sum"], "most", &[int("keepdims", 0)]),
        node("Less", &["most", "five"], "small", &[]),
        typed(12, "small", 9, &[]),
        port(12, "sum", &pair),
    ];
    let nodes = [
        node("Constant", &[], "five", &[float("value_float", 5.0)]),
        node("Loop", &["", "", "before"], "after", &[graph("body", &body)]),
        node("Identity", &["after"], "y", &[]),
        port(11, "x", &pair),
        port(11, "before", &pair),
        port(12, "y", &pair),
        port(12, "after", &pair),
    ];
    file(17, &nodes)
}

const HISTORY: &str = "[[state]]\ninput = \"past\"\noutput = \"present\"\nshape = [1, 0, 2]\n";
const TOTAL: &str = "[[state]]\ninput = \"before\"\noutput = \"after\"\n";

fn opened(test: &str, model: &[u8], description: &str) -> Fixture {
    let (fixture, loaded) = open_file(test, model, description, |_| ());
    loaded.unwrap();
    fixture
}

/// A request of sequence `id`, which gives 0 and 1.
fn step(id: &str, starts: bool, ends: bool) -> InferRequest {
    let sequence = SequenceParameters { id: Some(id.into()), starts, ends };
    InferRequest { sequence, ..asking(&[("x", &[1, 2])]) }
}

impl Fixture {
    async fn step(&self, principal: &str, id: &str, flags: [bool; 2]) -> Result<InferResponse> {
        self.server.answer(&peer(principal), step(id, flags[0], flags[1])).await
    }

    /// Second number of the answer to a request of a sequence.
    fn second(&self, principal: &str, id: &str, flags: [bool; 2]) -> Result<f32> {
        let answer = block_on(self.step(principal, id, flags))?;
        let (info, output) = answer.tensors().next().unwrap();
        assert_eq!((&*info.name, answer.tensors().count()), ("y", 1), "state is not answered");
        Ok(to_floats(&output.bytes).nth(1).unwrap())
    }
}

/// Flags of a request: whether it starts its sequence, and ends it.
const FIRST: [bool; 2] = [true, false];
const NEXT: [bool; 2] = [false, false];
const LAST: [bool; 2] = [false, true];

#[test]
fn state_of_a_sequence_grows_from_request_to_request() {
    let fixture = opened("history", &history(), HISTORY);
    for (flags, want) in [(FIRST, 1.0), (NEXT, 2.0), (NEXT, 3.0), (LAST, 4.0), (FIRST, 1.0)] {
        assert_eq!(fixture.second("a", "7", flags), Ok(want));
    }
    assert_eq!(fixture.second("a", "8", FIRST), Ok(1.0));
    assert_eq!(fixture.second("a", "7", NEXT), Ok(2.0), "each has its own");
    assert_eq!(fixture.second("a", "7", FIRST), Ok(1.0), "it starts again");
}

#[test]
fn state_of_one_size_takes_two_buffers() {
    let fixture = opened("total", &total(), TOTAL);
    let budget = fixture.server.registry.budget();
    assert_eq!(fixture.second("a", "7", FIRST), Ok(1.0));
    assert_eq!(fixture.second("a", "7", NEXT), Ok(2.0));
    let used = budget.used();
    for want in 3..20 {
        assert_eq!(fixture.second("a", "7", NEXT), Ok(want as f32));
    }
    assert_eq!(budget.used(), used, "nothing more is allocated");
    fixture.second("a", "7", LAST).unwrap();
    assert_eq!(budget.used(), used - 16, "both are returned");
}

/// State of three rows has 24 bytes, and would take twice as much otherwise.
#[test]
fn state_takes_no_more_than_it_must_where_memory_is_short() {
    let (fixture, loaded) =
        open_file("narrow", &history(), HISTORY, |config| config.memory.total_mib = 64);
    loaded.unwrap();
    for flags in [FIRST, NEXT, LAST] {
        fixture.second("a", "8", flags).unwrap(); // so that each shape has its network
    }
    assert_eq!(fixture.second("a", "7", FIRST), Ok(1.0));
    assert_eq!(fixture.second("a", "7", NEXT), Ok(2.0));
    let budget = fixture.server.registry.budget();
    let rest = budget.reserve("the rest", budget.remaining() - 24).unwrap();
    assert_eq!(fixture.second("a", "7", NEXT), Ok(3.0));
    drop(rest);
    assert_eq!(fixture.second("a", "7", NEXT), Ok(4.0));
}

#[test]
fn client_that_leaves_a_request_changes_no_state() {
    let (fixture, device) = on_losable("state-left");
    assert_eq!(fixture.second("a", "7", FIRST), Ok(1.0));
    device.slow.store(true, Ordering::SeqCst);
    let left = block_on(async {
        let step = fixture.step("a", "7", NEXT);
        tokio::time::timeout(Duration::from_millis(100), step).await
    });
    device.slow.store(false, Ordering::SeqCst); // whatever came of it
    assert!(left.is_err(), "its memory is not there");
    assert_eq!(fixture.second("a", "7", NEXT), Ok(2.0));
}

/// A request before it takes longer than this one may.
#[test]
fn wait_for_a_sequence_ends_with_the_timeout() {
    let fixture = opened("turn", &total(), TOTAL);
    assert_eq!(fixture.second("a", "7", FIRST), Ok(1.0));
    let (model, key) = (fixture.sums(), SequenceKey::new(&peer("a"), "7").unwrap());
    let client = peer("a");
    block_on(async {
        let turn = model.sequences.as_ref().unwrap().enter(&key, false, 64).await.unwrap();
        let hasty = InferRequest { timeout: 20_000, ..step("7", false, false) };
        let answer = fixture.server.answer(&client, hasty);
        let said = tokio::time::timeout(Duration::from_secs(60), answer).await;
        let said = said.expect("it waits for its turn").unwrap_err();
        assert_eq!(said, Error::Deadline("timed out after 20ms in its sequence".into()));
        turn.leave();
    });
    assert_eq!(fixture.second("a", "7", NEXT), Ok(2.0), "its state is as it was");
}

/// It waits for its turn, and the model that it has found answers it.
#[test]
fn request_that_found_a_model_before_its_reload_is_answered() {
    let fixture = opened("found", &total(), TOTAL);
    assert_eq!(fixture.second("a", "7", FIRST), Ok(1.0));
    let (model, key) = (fixture.sums(), SequenceKey::new(&peer("a"), "7").unwrap());
    let registry = fixture.server.registry.clone();
    block_on(async {
        let turn = model.sequences.as_ref().unwrap().enter(&key, false, 64).await.unwrap();
        let mut waits = Box::pin(fixture.step("a", "7", NEXT));
        let first = tokio::time::timeout(Duration::from_millis(1), &mut waits).await;
        assert!(first.is_err(), "it waits for its turn");
        let reload = std::thread::spawn(move || registry.reload());
        until("a new model", || (!Arc::ptr_eq(&fixture.sums(), &model)).then_some(()));
        until("the old one's end", || model.is_retired().then_some(()));
        turn.leave();
        let answer = waits.await.unwrap();
        let (_, output) = answer.tensors().next().unwrap();
        assert_eq!(to_floats(&output.bytes).nth(1), Some(2.0));
        reload.join().unwrap();
    });
}

#[test]
fn sequence_that_was_not_started_is_refused() {
    let fixture = opened("unstarted", &history(), HISTORY);
    let said = fixture.second("a", "7", NEXT).unwrap_err().to_string();
    assert!(said.starts_with("sequence \"7\": must begin with sequence_start: "), "{said}");
    fixture.second("a", "7", FIRST).unwrap();
    fixture.second("b", "7", NEXT).unwrap_err(); // it is another principal's
    fixture.second("a", "7", LAST).unwrap();
    fixture.second("a", "7", NEXT).unwrap_err();
}

/// A daemon with sequences of `total` on a device that can hang.
fn on_losable(test: &str) -> (Fixture, Losable) {
    let (fixture, mut devices) = on_losables(test, "cpu:0?units=1");
    (fixture, devices.remove(0))
}

/// A daemon with sequences of `total` on each of these devices.
fn on_losables(test: &str, asked: &str) -> (Fixture, Vec<Losable>) {
    let change = |config: &mut Config| {
        config.models.load.clear();
        config.models.replicas = 0;
    };
    let (fixture, devices) = on(test, [asked; 2], change);
    let folder = fixture.folder.join("sums");
    std::fs::create_dir_all(folder.join("1")).unwrap();
    std::fs::write(folder.join("1/model.onnx"), total()).unwrap();
    std::fs::write(folder.join("model.toml"), TOTAL).unwrap();
    fixture.server.registry.load(&ModelName::new("sums").unwrap()).unwrap();
    (fixture, devices)
}

/// As many wait for their memory as there are threads that read messages.
#[test]
fn memory_of_a_device_that_hangs_delays_no_message() {
    let (fixture, device) = on_losable("state-hangs");
    device.slow.store(true, Ordering::SeqCst);
    block_on(async {
        let mut hung = ["a", "b"].map(|principal| Box::pin(fixture.step(principal, "7", FIRST)));
        for step in &mut hung {
            let waits = tokio::time::timeout(Duration::from_millis(100), step).await;
            assert!(waits.is_err(), "its memory is not there");
        }
        let principal = peer("c").principal;
        let read = fixture.server.workers.run_blocking(&principal, (), || Ok(()));
        let read = tokio::time::timeout(Duration::from_secs(30), read).await;
        device.slow.store(false, Ordering::SeqCst); // whatever came of it
        assert_eq!(read.expect("no thread is free"), Ok(()));
    });
}

/// As many wait for their memory as a device has threads.
#[test]
fn memory_of_a_device_that_hangs_delays_no_other_device() {
    let (fixture, devices) = on_losables("state-elsewhere", TWO);
    let nodes = &fixture.server.nodes;
    devices[0].slow.store(true, Ordering::SeqCst);
    block_on(async {
        let mut hung = ["a", "b"].map(|principal| Box::pin(fixture.step(principal, "7", FIRST)));
        let busy = nodes[1].enter(); // so that requests go to the other
        for step in &mut hung {
            let waits = tokio::time::timeout(Duration::from_millis(100), step).await;
            assert!(waits.is_err(), "its memory is not there");
        }
        drop(busy);
        let _busy = nodes[0].enter();
        let answer = fixture.step("c", "7", FIRST);
        let answer = tokio::time::timeout(Duration::from_secs(30), answer).await;
        devices[0].slow.store(false, Ordering::SeqCst); // whatever came of it
        assert!(answer.expect("no thread is free").is_ok());
    });
}

/// Its model waits for it before it closes its queue.
#[test]
fn wait_for_memory_that_hangs_ends_with_the_timeout() {
    let (fixture, device) = on_losable("state-late");
    device.slow.store(true, Ordering::SeqCst);
    let hasty = InferRequest { timeout: 20_000, ..step("7", true, false) };
    let client = peer("a");
    let said = block_on(async {
        let answer = fixture.server.answer(&client, hasty);
        tokio::time::timeout(Duration::from_secs(30), answer).await
    });
    device.slow.store(false, Ordering::SeqCst); // whatever came of it
    let want = "timed out after 20ms while allocating its state";
    assert_eq!(said.expect("it waits").unwrap_err(), Error::Deadline(want.into()));
    assert_eq!(fixture.second("a", "7", FIRST), Ok(1.0));
}

#[test]
fn requests_that_miss_or_name_state_are_refused() {
    let fixture = opened("misuse", &history(), HISTORY);
    let ask = |request: InferRequest| {
        block_on(fixture.server.answer(&peer("a"), request)).unwrap_err().to_string()
    };
    let said = ask(asking(&[("x", &[1, 2])]));
    assert_eq!(said, "parameter sequence_id: must be given, as sums/1 has state");
    let sequence = step("7", true, false).sequence;
    let own = asking(&[("x", &[1, 2]), ("past", &[1, 0, 2])]);
    let said = ask(InferRequest { sequence: sequence.clone(), ..own });
    let stays = "is state of the sequence, which stays on the device";
    assert_eq!(said, format!("tensor \"past\": {stays}"));
    let output =
        |name: &str| RequestedOutput { name: name.into(), to: None, is_binary: None, classes: 0 };
    let named = InferRequest { outputs: vec![output("present")], ..step("7", true, false) };
    assert_eq!(ask(named), format!("tensor \"present\": {stays}"));
    let said = ask(InferRequest { sequence, ..asking(&[]) });
    assert_eq!(said, "must have the 1 inputs x, got 0");
    let tiny = opened("stateless", &total(), "");
    let said = block_on(tiny.step("a", "7", FIRST)).unwrap_err().to_string();
    assert!(said.contains("cannot be used with sums/1, which has no state"), "{said}");
}

#[test]
fn failed_request_leaves_the_state_as_it_was() {
    let fixture = opened("failed", &history(), HISTORY);
    fixture.second("a", "7", FIRST).unwrap();
    let late = InferRequest { timeout: 1, ..step("7", false, false) };
    let late = block_on(fixture.server.answer(&peer("a"), late));
    assert!(matches!(late, Err(Error::Deadline(_))), "{late:?}");
    assert_eq!(fixture.second("a", "7", NEXT), Ok(2.0));
}

#[test]
fn loop_that_does_not_end_changes_no_state() {
    let fixture = opened("unended", &up_to_five(), &format!("loop_bound = 4\n{TOTAL}"));
    let ask = |x: f32, flags: [bool; 2]| {
        let mut request = step("7", flags[0], flags[1]);
        request.inputs[0].from = TensorData::Bytes(to_bytes(&[0.0, x]).into());
        let answer = block_on(fixture.server.answer(&peer("a"), request))?;
        let (_, output) = answer.tensors().next().unwrap();
        Ok::<_, Error>(to_floats(&output.bytes).nth(1).unwrap())
    };
    assert_eq!(ask(2.0, FIRST), Ok(6.0), "three iterations");
    assert_eq!(ask(2.0, NEXT), Ok(8.0));
    for flags in [NEXT, LAST, FIRST] {
        let said = ask(-9.0, flags).unwrap_err().to_string();
        assert!(said.contains("(Loop): 4 iterations: "), "{said}");
    }
    assert_eq!(ask(2.0, NEXT), Ok(10.0), "its state is as it was");
}

#[test]
fn requests_of_a_sequence_run_one_at_a_time() {
    let fixture = opened("order", &history(), HISTORY);
    fixture.second("a", "7", FIRST).unwrap();
    let answers = block_on(async {
        let (a, b, c) = tokio::join!(
            fixture.step("a", "7", NEXT),
            fixture.step("a", "7", NEXT),
            fixture.step("a", "7", NEXT)
        );
        [a, b, c].map(|answer| {
            let answer = answer.unwrap();
            let (_, output) = answer.tensors().next().unwrap();
            to_floats(&output.bytes).nth(1).unwrap()
        })
    });
    assert_eq!(answers, [2.0, 3.0, 4.0]);
}

#[test]
fn sequences_that_run_at_a_time_have_their_own_state() {
    let fixture = opened("together", &history(), HISTORY);
    for (id, flags) in [("8", FIRST), ("8", NEXT), ("8", NEXT), ("7", FIRST)] {
        fixture.second("a", id, flags).unwrap();
    }
    let second = |answer: Result<InferResponse>| {
        let answer = answer.unwrap();
        let (_, output) = answer.tensors().next().unwrap();
        to_floats(&output.bytes).nth(1)
    };
    for want in 2..6 {
        let (one, other) = block_on(async {
            tokio::join!(fixture.step("a", "7", NEXT), fixture.step("a", "8", NEXT))
        });
        let want = [want, want + 2].map(|want| Some(want as f32));
        assert_eq!([one, other].map(second), want);
    }
}

#[test]
fn sequences_above_the_limit_are_refused() {
    let limited = format!("max_sequences = 4\n{HISTORY}");
    let fixture = opened("many", &history(), &limited);
    let part = fixture.server.config.get().limits.part(4) as usize;
    for id in 0..part {
        fixture.second("a", &id.to_string(), FIRST).unwrap();
    }
    let said = fixture.second("a", "more", FIRST).unwrap_err();
    let want = format!(
        "sequences of one principal, limits.principal_percent of 4, must be at most {part}: end \
         one first"
    );
    assert_eq!(said, Error::Exhausted(want));
    fixture.second("a", "0", LAST).unwrap();
    fixture.second("a", "more", FIRST).unwrap();
}

#[test]
fn owner_may_have_all_sequences_of_a_model() {
    let fixture = opened("owner", &history(), &format!("max_sequences = 4\n{HISTORY}"));
    let owner = Peer { principal: Principal::User(0), ..Peer::UNKNOWN };
    let start = |id: &str| block_on(fixture.server.answer(&owner, step(id, true, false))).map(drop);
    for id in ["1", "2", "3", "4", "1"] {
        start(id).unwrap();
    }
    let want = "sequences of the model must be at most 4: end one first";
    assert_eq!(start("5"), Err(Error::Exhausted(want.into())));
}

#[test]
fn unused_sequence_is_forgotten() {
    let brief = format!("sequence_idle_us = 1\n{TOTAL}");
    let fixture = opened("idle", &total(), &brief);
    fixture.second("a", "7", FIRST).unwrap();
    fixture.server.registry.expire_unused(None);
    let said = fixture.second("a", "7", NEXT).unwrap_err().to_string();
    assert!(said.contains("was unused for 1µs"), "{said}");
}

#[test]
fn state_that_the_model_has_not_is_refused_at_the_load() {
    for (description, want) in [
        ("[[state]]\ninput = \"pas\"\noutput = \"present\"\n", "state: no tensor \"pas\""),
        (
            "[[state]]\ninput = \"past\"\noutput = \"present\"\n",
            "state past: shape must be given, as [1, -1, 2] leaves sizes open",
        ),
        (&*format!("max_batch = 4\n{HISTORY}"), "max_batch must be 0 or 1 for a model with state"),
        ("sequence_idle_us = 0\n", "sequence_idle_us must be at least 1, got 0"),
    ] {
        let (_fixture, loaded) = open_file("bad-state", &history(), description, |_| ());
        let said = loaded.unwrap_err().to_string();
        assert!(said.contains(want), "{said}");
    }
}

/// More than a machine has: nothing of it is allocated before there is a network for it.
#[test]
fn state_that_begins_too_large_is_refused() {
    let large = HISTORY.replace("[1, 0, 2]", &format!("[1, {}, 2]", 1_u64 << 45));
    let fixture = opened("large-state", &history(), &large);
    fixture.second("a", "7", FIRST).unwrap_err();
}

#[test]
fn metadata_has_no_state() {
    let fixture = opened("described", &history(), HISTORY);
    let model = fixture.sums();
    let inputs: Vec<_> = model.request_inputs().map(|info| &*info.name).collect();
    let outputs: Vec<_> = model.answer_outputs().map(|(_, info)| &*info.name).collect();
    assert_eq!((inputs, outputs), (vec!["x"], vec!["y"]));
}

#[test]
fn configuration_by_grpc_has_the_state_of_sequences() {
    let described = format!("sequence_idle_us = 5000\nmax_sequences = 3\n{HISTORY}");
    for (model, described, has_state) in
        [(history(), described, true), (history(), String::new(), false)]
    {
        let fixture = opened(&format!("config-{has_state}"), &model, &described);
        connected(&fixture, async |mut client| {
            let asked = ModelConfigRequest { name: "sums".into(), version: String::new() };
            let answer = client.model_config(asked).await.unwrap().into_inner();
            let Some(said) = answer.config.unwrap().sequence_batching else {
                return assert!(!has_state);
            };
            assert_eq!((said.max_sequence_idle_microseconds, has_state), (5000, true));
            assert_eq!(said.oldest.unwrap().max_candidate_sequences, 3);
            let [state] = &said.state[..] else { panic!("{:?}", said.state) };
            assert_eq!((&*state.input_name, &*state.output_name), ("past", "present"));
            assert_eq!((state.data_type(), &*state.dims), (DataType::TypeFp32, &[1, -1, 2][..]));
            let [first] = &state.initial_state[..] else { panic!("{state:?}") };
            assert_eq!((&*first.dims, first.zero_data), (&[1, 0, 2][..], true));
        });
    }
}
