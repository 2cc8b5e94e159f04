//! Tensors in device memory of clients, on software devices that stand for CUDA's.

use super::batches::all_at_once;
use super::losses::{Losable, TWO, on};
use super::*;
use crate::engine::shared::SharedMemory;
use crate::kserve::infer::request::{InferRequest, InputTensor, RequestedOutput, TensorData};
use crate::kserve::parameter::RegionPart;
use crate::net::identity::peer::ConnectionGuard;
use crate::requests::region_memory::Kind;
use std::sync::atomic::Ordering;

/// Bytes of a request's input and output.
pub(super) const INPUT: usize = 4 * 3 * 32 * 32;
pub(super) const OUTPUT: usize = 4 * 1000;

/// A daemon on two devices with `tiny` on the first, and the devices.
pub(super) fn two(test: &str, change: impl FnOnce(&mut Config)) -> (Fixture, Vec<Losable>) {
    on(test, [TWO, "cuda:0,cuda:1"], change)
}

/// Memory of a client on the device, and its handle.
pub(super) fn allocate(device: &Losable, bytes: usize) -> (Arc<dyn SharedMemory>, Bytes) {
    let memory = device.inner.alloc_shared(bytes).unwrap();
    let mut all = device.shared.lock();
    let mut handle = [0; 64];
    handle[0] = all.len() as u8;
    all.push(memory.clone());
    (memory, handle.to_vec().into())
}

/// A client that may share memory: for as long as this is kept.
fn client() -> (Peer, ConnectionGuard) {
    let (life, connected) = ConnectionGuard::new();
    let principal = Principal::User(rustix::process::getuid().as_raw());
    (Peer { principal, life, may_share: true, ..Peer::UNKNOWN }, connected)
}

impl Fixture {
    fn share(
        &self,
        principal: &Peer,
        name: &str,
        memory: (Bytes, i64),
        bytes: usize,
    ) -> Result<()> {
        block_on(self.server.register_cuda(principal, name, memory.0, memory.1, bytes as u64))
    }
}

fn place(region: &str, bytes: usize) -> RegionPart {
    RegionPart { region: region.into(), offset: 0, bytes: bytes as u64 }
}

fn asking(priority: u64, from: TensorData, to: Option<RegionPart>) -> InferRequest {
    let (name, datatype, shape) = ("input".into(), "FP32".into(), vec![1, 3, 32, 32]);
    let output = RequestedOutput { name: "logits".into(), to, is_binary: None, classes: 0 };
    InferRequest {
        model: "tiny".into(),
        priority,
        inputs: vec![InputTensor { name, datatype, shape, from }],
        outputs: vec![output],
        ..InferRequest::default()
    }
}

pub(super) fn image(seed: u64) -> Vec<u8> {
    to_bytes(&Seeded(seed).input(3 * 32 * 32))
}

/// Returns the output bytes of the answer; they are empty if the output is in a region.
fn answered(fixture: &Fixture, principal: &Peer, ask: InferRequest) -> Result<Bytes> {
    let answer = block_on(fixture.server.answer(principal, ask))?;
    Ok(answer.outputs[0].bytes.clone())
}

/// The runtime of this test has one blocking thread.
#[test]
fn registration_on_a_hung_device_keeps_no_blocking_thread() {
    let (fixture, devices) = two("cuda-hangs", |_| ());
    let (me, _connected) = client();
    let (_memory, handle) = allocate(&devices[0], 64);
    devices[0].slow.store(true, Ordering::SeqCst);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.max_blocking_threads(1).enable_time().build().unwrap();
    runtime.block_on(async {
        let register = fixture.server.register_cuda(&me, "in", handle, 0, 64);
        let waits = tokio::time::timeout(Duration::from_millis(20), register).await;
        assert!(waits.is_err(), "it maps the memory");
        let other = tokio::task::spawn_blocking(|| 7);
        let other = tokio::time::timeout(Duration::from_secs(30), other).await;
        devices[0].slow.store(false, Ordering::SeqCst); // whatever came of it
        assert_eq!(other.expect("no thread is free").unwrap(), 7);
    });
}

#[test]
fn tensors_in_device_memory_are_those_of_the_request() {
    let (fixture, devices) = two("cuda-shared", |_| ());
    let (me, _connected) = client();
    let [(from, a), (to, b)] = [INPUT, OUTPUT].map(|bytes| allocate(&devices[0], bytes));
    fixture.share(&me, "in", (a, 0), INPUT).unwrap();
    fixture.share(&me, "out", (b, 0), OUTPUT).unwrap();
    for priority in [1, 2] {
        for seed in [priority, priority + 2] {
            let input = image(seed);
            let bytes = || TensorData::Bytes(input.clone().into());
            let want = answered(&fixture, &me, asking(priority, bytes(), None)).unwrap();
            let region = || TensorData::Region(place("in", INPUT));
            from.write(&input);
            let got = answered(&fixture, &me, asking(priority, region(), None)).unwrap();
            assert!(got == want, "priority {priority}: from a region to the answer");
            for (ask, way) in [(bytes(), "from the request"), (region(), "from a region")] {
                to.write(&[0; OUTPUT]);
                let out = Some(place("out", OUTPUT));
                let empty = answered(&fixture, &me, asking(priority, ask, out)).unwrap();
                let got = (empty.len(), to.read() == want);
                assert_eq!(got, (0, true), "priority {priority}: {way} to a region");
            }
        }
    }
}

#[test]
fn a_tensor_in_a_region_leaves_the_other_bytes_unchanged() {
    let (fixture, devices) = two("cuda-part", |_| ());
    let (me, _connected) = client();
    let (memory, handle) = allocate(&devices[0], INPUT + OUTPUT + 16);
    fixture.share(&me, "all", (handle, 0), INPUT + OUTPUT + 8).unwrap();
    let begin = vec![7; 8];
    memory.write(&[&begin, &image(1)[..], &[9; OUTPUT + 8]].concat());
    let at = |offset: usize, bytes| RegionPart { offset: offset as u64, ..place("all", bytes) };
    let from = || TensorData::Region(at(8, INPUT));
    let want =
        answered(&fixture, &me, asking(2, TensorData::Bytes(image(1).into()), None)).unwrap();
    answered(&fixture, &me, asking(2, from(), Some(at(8 + INPUT, OUTPUT)))).unwrap();
    let whole = [&begin, &image(1)[..], &want[..], &[9; 8]].concat();
    assert!(memory.read() == whole);
    let outside = asking(2, from(), Some(at(9 + INPUT, OUTPUT)));
    let said = answered(&fixture, &me, outside).unwrap_err().to_string();
    assert!(said.contains("must lie inside its"), "{said}");
}

/// `perf_analyzer` reserves 100 KiB for each output of open size.
#[test]
fn output_may_be_shorter_than_its_part_of_a_region() {
    let (fixture, devices) = two("cuda-long", |_| ());
    let (me, _connected) = client();
    let (memory, handle) = allocate(&devices[0], OUTPUT + 16);
    fixture.share(&me, "out", (handle, 0), OUTPUT + 16).unwrap();
    memory.write(&[9; OUTPUT + 16]);
    let ask = |to| asking(2, TensorData::Bytes(image(1).into()), to);
    let want = answered(&fixture, &me, ask(None)).unwrap();
    let answer = block_on(fixture.server.answer(&me, ask(Some(place("out", OUTPUT + 16)))));
    assert_eq!(answer.unwrap().outputs[0].to, Some(place("out", OUTPUT)), "its own bytes");
    assert!(memory.read() == [&want[..], &[9; 16]].concat());
    for bytes in [OUTPUT - 1, OUTPUT + 17] {
        let said = answered(&fixture, &me, ask(Some(place("out", bytes))));
        assert!(matches!(said, Err(Error::Invalid(_))), "{bytes}: {said:?}");
    }
}

#[test]
fn regions_on_a_device_without_a_replica_are_refused() {
    let (fixture, devices) = two("cuda-other", |_| ());
    let (me, _connected) = client();
    let (memory, handle) = allocate(&devices[1], INPUT);
    memory.write(&image(1));
    fixture.share(&me, "in", (handle, 1), INPUT).unwrap();
    let ask = || asking(2, TensorData::Region(place("in", INPUT)), None);
    let said = answered(&fixture, &me, ask()).unwrap_err();
    let why = "region \"in\" must be on cuda:0 as the model is, got cuda:1";
    assert_eq!(said, Error::Invalid(why.into()));
    let (both, devices) = two("cuda-near", |config| config.models.replicas = 0);
    let (memory, handle) = allocate(&devices[1], INPUT);
    memory.write(&image(1));
    both.share(&me, "in", (handle, 1), INPUT).unwrap();
    for _ in 0..4 {
        answered(&both, &me, ask()).unwrap(); // not taking turns
    }
}

#[test]
fn wrong_registrations_get_an_error_with_the_cause() {
    let (fixture, devices) = two("cuda-wrong", |config| config.memory.client_mib = 1);
    let (me, _connected) = client();
    let (_memory, good) = allocate(&devices[0], 64);
    let said = |handle: &Bytes, device, bytes| {
        let error = fixture.share(&me, "r", (handle.clone(), device), bytes).unwrap_err();
        (error.kind(), error.to_string())
    };
    let none: Bytes = vec![200; 64].into();
    let of = |text: &str| format!("CUDA shared memory: {text}");
    for (how, kind, want) in [
        (said(&none, 0, 64), "invalid", of("no memory of another process")),
        (said(&good.slice(1..), 0, 64), "invalid", of("handle must have 64 bytes, got 63")),
        (said(&good, 2, 64), "invalid", of("unknown device 2 (have: cuda:0, cuda:1)")),
        (said(&good, -1, 64), "invalid", of("unknown device -1 (have: cuda:0, cuda:1)")),
        (said(&good, 0, 65), "invalid", of("size must be 1 to the allocation's 64 bytes, got 65")),
        (said(&good, 0, 0), "invalid", of("size must be 1 to the allocation's 64 bytes, got 0")),
        (
            said(&good, 0, 2 << 20),
            "exhausted",
            "shared memory: must be at most the 1048576 bytes left of 1048576, got 2097152".into(),
        ),
    ] {
        assert_eq!(how, (kind, want));
    }
    fixture.share(&me, "r", (good.clone(), 0), 64).unwrap();
    assert_eq!(said(&good, 0, 64).0, "exists");
    let outsider = Peer { may_share: false, ..me.clone() };
    let denied = fixture.share(&outsider, "s", (good.clone(), 0), 64).unwrap_err();
    assert_eq!(denied.kind(), "denied");
    let host = Fixture::new("cuda-none", |_| ());
    let refused = host.share(&me, "r", (good, 0), 64).unwrap_err();
    assert_eq!(refused.to_string(), "CUDA shared memory on cpu:0 is not implemented");
    assert!(fixture.server.check_cuda().is_ok() && host.server.check_cuda().is_err());
}

/// A handle has no owner, so any process that learns one could read and write there.
#[test]
fn device_memory_of_another_tenant_is_refused() {
    let (fixture, devices) = two("cuda-tenants", |_| ());
    let of = |principal: Principal| {
        let (life, connected) = ConnectionGuard::new();
        (Peer { principal, life, may_share: true, ..Peer::UNKNOWN }, connected)
    };
    let (a, connected) = of(Principal::Token("a".into()));
    let (b, _b) = of(Principal::Token("b".into()));
    let (user, _user) = of(Principal::User(7));
    let (_memory, handle) = allocate(&devices[0], 64);
    let share = |principal: &Peer, name| fixture.share(principal, name, (handle.clone(), 0), 64);
    share(&a, "r").unwrap();
    share(&a, "s").unwrap();
    for other in [&b, &user] {
        let said = share(other, "r").unwrap_err();
        let why = "CUDA shared memory: belongs to another tenant";
        assert_eq!(said, Error::Denied(why.into()));
    }
    drop((a, connected)); // and what it had is unmapped
    share(&b, "r").unwrap();
}

/// A program that answers with the place of its input in device memory and the number of bytes that
/// it was sent, as JSON. With the argument `device_memory` it opens device memory.
const PLACES: &str = include_str!("../../../tests/processes/programs/raw.py");

/// It opens the memory by itself: only if its client has registered it.
#[test]
fn process_gets_the_place_of_an_input_in_device_memory() {
    let (fixture, devices) = two("cuda-process", |config| config.models.processes = true);
    let say = ["-c", "import sys; print(sys.executable)"];
    let said = std::process::Command::new("python3").args(say).output().unwrap();
    let python = String::from_utf8(said.stdout).unwrap();
    for (name, args) in [("opens", ", \"device_memory\""), ("copies", "")] {
        fixture.file(&format!("{name}/1/model.py"), PLACES);
        let command = format!("[{:?}, \"-S\", \"model.py\"{args}]", python.trim());
        let place = "engine = \"process\"\ndevices = [\"cuda:0\"]\n";
        fixture.file(&format!("{name}/model.toml"), format!("{place}process.command = {command}"));
        fixture.load(name).unwrap();
    }
    let (me, _connected) = client();
    let _first = allocate(&devices[0], 64); // the handle of the next one is not zero
    let [(_a, near), (_b, far)] = [0, 1].map(|device| allocate(&devices[device], 64));
    fixture.share(&me, "near", (near.clone(), 0), 64).unwrap();
    fixture.share(&me, "far", (far, 1), 64).unwrap();
    let ask = |principal: &Peer, model: &str, region: &str| {
        let (name, datatype, shape) = ("x".into(), "FP32".into(), vec![4]);
        let from = TensorData::Region(RegionPart { offset: 8, ..place(region, 16) });
        let inputs = vec![InputTensor { name, datatype, shape, from }];
        let (model, id) = (model.into(), "place".into());
        let request = InferRequest { model, id, inputs, ..InferRequest::default() };
        answered(&fixture, principal, request)
    };
    let text = ask(&me, "opens", "near").unwrap();
    let said: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let handle: String = near.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(said, serde_json::json!([{ "handle": handle, "offset": 8 }, 0]));
    let why = "region \"far\" must be on cuda:0 as the model is, got cuda:1";
    assert_eq!(ask(&me, "opens", "far").unwrap_err(), Error::Invalid(why.into()));
    let said = ask(&me, "copies", "near").unwrap_err();
    assert!(matches!(said, Error::Unimplemented(_)), "{said}");
    let (life, _open) = ConnectionGuard::new();
    let principal = Principal::Token("b".into());
    let other = Peer { principal, life, may_share: true, ..Peer::UNKNOWN };
    let said = ask(&other, "opens", "near").unwrap_err();
    assert!(matches!(said, Error::NotFound(_)), "{said}");
}

/// Nor does the other kind of shared memory know it.
#[test]
fn device_memory_counts_on_its_device_and_goes_with_its_client() {
    let (fixture, devices) = two("cuda-counts", |_| ());
    let used = || fixture.server.registry.device_memory().collect::<Vec<_>>();
    let before = used();
    let (me, connected) = client();
    let (memory, handle) = allocate(&devices[1], 4096);
    devices[1].shared.lock().push(memory.clone());
    let regions = &fixture.server.regions;
    let share = |name| fixture.share(&me, name, (handle.clone(), 1), 4096).unwrap();
    let of = |kind| regions.status(&me, kind, "").unwrap().len();
    share("a");
    share("b");
    assert_eq!(used(), [before[0], before[1] + 8192]);
    assert_eq!((of(Kind::Cuda), of(Kind::System)), (2, 0));
    regions.unregister(&me, Kind::System, "a");
    regions.unregister(&me, Kind::System, "");
    assert_eq!(of(Kind::Cuda), 2);
    regions.unregister(&me, Kind::Cuda, "a");
    assert_eq!((of(Kind::Cuda), used()), (1, vec![before[0], before[1] + 4096]));
    devices[1].shared.lock().clear();
    assert_eq!(Arc::strong_count(&memory), 2, "ours and the region's");
    drop(connected); // as when it is killed
    regions.prune();
    assert_eq!((Arc::strong_count(&memory), used()), (1, before));
}

/// Two requests of one run, one of them by device memory, and a row of no request.
#[test]
fn rows_of_a_batch_come_from_where_each_request_says() {
    let (fixture, devices) = two("cuda-batch", |config| config.models.load.clear());
    let text =
        "network = \"resnet18\"\nsize = 32\nseed = 1\nmax_batch = 3\nmax_delay_us = 1_000_000\n";
    std::fs::write(fixture.folder.join("tiny/model.toml"), text).unwrap();
    fixture.load("tiny").unwrap();
    let (me, _connected) = client();
    let [(from, a), (to, b)] = [INPUT, OUTPUT].map(|bytes| allocate(&devices[0], bytes));
    fixture.share(&me, "in", (a, 0), INPUT).unwrap();
    fixture.share(&me, "out", (b, 0), OUTPUT).unwrap();
    from.write(&image(2));
    let bytes = |seed| TensorData::Bytes(image(seed).into());
    let want: Vec<_> =
        [1, 2].map(|seed| answered(&fixture, &me, asking(2, bytes(seed), None)).unwrap()).into();
    let model = fixture.server.registry.get("tiny", "").unwrap();
    let begun = Instant::now();
    loop {
        let (before, region) = (model.executions(), TensorData::Region(place("in", INPUT)));
        to.write(&[0; OUTPUT]);
        let asks = [asking(2, bytes(1), None), asking(2, region, Some(place("out", OUTPUT)))];
        let ask = |ask| fixture.server.answer(&me, ask);
        let answers = all_at_once(asks.map(ask).into());
        let first =
            answers.into_iter().map(|answer| answer.unwrap().outputs[0].bytes.clone()).next();
        assert!(first.as_ref() == Some(&want[0]) && to.read() == want[1]);
        if model.executions() == before + 1 {
            break; // together
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "each by itself");
    }
}
