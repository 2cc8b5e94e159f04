//! Loads with parameters: a configuration, and files.

use super::losses::{two, until};
use super::shapes::{open, peer};
use super::*;
use crate::models::config::load::{LoadParameters, LoadValue};
use crate::models::loaded_model::LoadedModel;
use crate::net::identity::principal::Principal;
use std::path::Path;
use std::sync::atomic::Ordering;

fn parse(parameters: &[(&str, LoadValue)]) -> LoadParameters {
    let mut parsed = LoadParameters::default();
    for (key, value) in parameters {
        parsed.add(key, value.clone()).unwrap();
    }
    parsed
}

fn config(json: &str) -> (&'static str, LoadValue) {
    ("config", LoadValue::Text(json.into()))
}

fn sums() -> ModelName {
    ModelName::new("sums").unwrap()
}

fn bytes_of(path: &Path) -> LoadValue {
    LoadValue::Bytes(std::fs::read(path).unwrap().into())
}

const BATCHING: &str = r#"{
    "name": "sums", "max_batch_size": 4, "backend": "onnxruntime",
    "dynamic_batching": { "max_queue_delay_microseconds": "2000", "preferred_batch_size": [4] },
    "instance_group": [{ "count": 2, "kind": "KIND_CPU" }]
}"#;

#[test]
fn a_configuration_counts_until_the_next_load_without() {
    let fixture = open("load-config", "", |_| ());
    let registry = &fixture.server.registry;
    let said = |model: &LoadedModel| {
        let spec = &model.spec;
        (spec.max_batch(), spec.instances.rt, spec.instances.be, spec.batches_rt())
    };
    assert_eq!(said(&fixture.sums()), (1, 1, 1, false));
    registry.load_with(&sums(), &parse(&[config(BATCHING)])).unwrap();
    let batched = (4, 2, 2, false);
    assert_eq!(said(&fixture.sums()), batched);
    assert_eq!(fixture.sums().spec.batching().unwrap().delay, Duration::from_millis(2));
    registry.reload();
    assert_eq!(said(&fixture.sums()), batched, "SIGHUP keeps the parameters of the client's load");
    let wrong = r#"{ "max_batch_size": 1000, "dynamic_batching": {} }"#;
    let error = registry.load_with(&sums(), &parse(&[config(wrong)])).unwrap_err().to_string();
    let want = "model sums: configuration: max_batch must be at most ";
    assert!(error.starts_with(want), "{error}");
    assert_eq!(said(&fixture.sums()), batched, "as it was");
    registry.load(&sums()).unwrap();
    assert_eq!(said(&fixture.sums()), (1, 1, 1, false));
}

/// SIGHUP notes the names before it may change anything.
#[test]
fn models_unloaded_before_their_turn_are_not_reloaded() {
    let fixture = open("load-reload", "", |_| ());
    let registry = &fixture.server.registry;
    registry.reload_model(&sums());
    assert_eq!(registry.len(), 1);
    registry.unload(&sums()).unwrap();
    registry.reload_model(&sums());
    assert_eq!(registry.len(), 0);
}

#[test]
fn files_take_the_place_of_the_repositorys() {
    let fixture = open("load-files", "", |config| config.memory.model_mib = 1);
    let (registry, before) = (&fixture.server.registry, fixture.server.registry.budget().used());
    let name = ModelName::new("fresh").unwrap();
    let model = || bytes_of(&fixture.folder.join("sums/1/model.onnx"));
    let file = || ("file:7/model.onnx", model());
    let error = registry.load_with(&name, &parse(&[file()])).unwrap_err().to_string();
    assert_eq!(error, "model fresh: files require a config");
    let outside = [config("{}"), ("file:1/../../x.onnx", model())];
    let error = registry.load_with(&name, &parse(&outside)).unwrap_err().to_string();
    assert!(
        error.starts_with("file \"1/../../x.onnx\": must stay in its version's folder"),
        "{error}"
    );
    let broken = [config("{}"), ("file:1/m.onnx", LoadValue::Bytes("no network".into()))];
    let error = registry.load_with(&name, &parse(&broken)).unwrap_err().to_string();
    assert!(error.contains("model fresh/1: ") && error.contains("m.onnx"), "{error}");
    let long = [config("{}"), ("file:1/m.onnx", LoadValue::Bytes(vec![0; (1 << 20) + 1].into()))];
    let error = registry.load_with(&name, &parse(&long)).unwrap_err();
    assert!(matches!(error, Error::Exhausted(_)), "{error}");
    assert_eq!(registry.budget().used(), before, "what was refused takes nothing");

    let notes = LoadValue::Bytes(vec![0; (1 << 20) - 1000].into());
    let both = [config("{}"), file(), ("file:7/notes.txt", notes)];
    let error = registry.load_with(&name, &parse(&both)).unwrap_err();
    assert!(matches!(error, Error::Exhausted(_)), "files and network together: {error}");
    assert_eq!(registry.budget().used(), before);

    registry.load_with(&name, &parse(&[config("{}"), file()])).unwrap();
    registry.load_with(&sums(), &parse(&[config("{}"), file()])).unwrap();
    assert_eq!(fixture.sums().spec.version, 7, "in the place of version 1");
    for tokens in [2, 3] {
        block_on(fixture.ask_sums("a", &[1, tokens, 4])).unwrap(); // read again for each shape
    }
    registry.load(&sums()).unwrap();
    assert_eq!(fixture.sums().spec.version, 1);
    registry.reload();
    assert!(registry.get("fresh", "7").is_ok(), "its files are there until it is unloaded");
    registry.unload(&name).unwrap();
    assert!(matches!(registry.load(&name), Err(Error::NotFound(_))));
    assert_eq!(registry.budget().used(), before, "all memory is back");
}

#[test]
fn kernels_do_not_come_with_a_load() {
    let fixture = Fixture::new("load-kernels", |config| config.models.kernels = true);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/networks/program");
    let mut parameters = parse(&[config("{}")]);
    for entry in std::fs::read_dir(&program).unwrap().flatten() {
        let key = format!("file:1/{}", entry.file_name().to_string_lossy());
        parameters.add(&key, bytes_of(&entry.path())).unwrap();
    }
    let name = ModelName::new("native").unwrap();
    let error = fixture.server.registry.load_with(&name, &parameters).unwrap_err().to_string();
    assert!(error.contains("kernels as source are native code"), "{error}");
}

#[test]
fn parameters_have_names_types_and_a_right() {
    let fixture = open("load-rights", "", |_| ());
    let mut parameters = LoadParameters::default();
    for (key, value) in [
        ("config", LoadValue::Bytes("{}".into())),
        ("file:1/model.onnx", LoadValue::Text("x".into())),
        ("priority", LoadValue::Other),
    ] {
        let error = parameters.add(key, value).unwrap_err();
        assert!(error.to_string().contains(key), "{error}");
    }
    let principal = peer("a");
    let load = fixture.server.load(&principal, sums(), parse(&[config(BATCHING)]), None);
    assert!(matches!(block_on(load), Err(Error::Denied(_))));
    assert_eq!(fixture.sums().spec.max_batch(), 1);
}

/// One that is dropped without being retired would leave its lanes behind.
#[test]
fn a_version_that_is_named_twice_is_loaded_once() {
    let fixture = open("load-twice", "versions = [1, 1]\n", |config| config.limits.models = 2);
    let registry = &fixture.server.registry;
    assert_eq!((registry.len(), registry.versions(&sums())), (1, vec![1]));
    registry.unload(&sums()).unwrap();
    assert_eq!(registry.budget().used(), 0, "no lane holds it any more");
    let twice = r#"{ "version_policy": { "specific": { "versions": [1, 1, 1] } } }"#;
    registry.load_with(&sums(), &parse(&[config(twice)])).unwrap();
    assert_eq!(registry.len(), 1);
}

#[test]
fn one_load_has_no_more_versions_than_there_may_be() {
    let fixture = open("load-many", "", |config| config.limits.models = 3);
    let (registry, before) = (&fixture.server.registry, fixture.server.registry.budget().used());
    let model = || bytes_of(&fixture.folder.join("sums/1/model.onnx"));
    let files = ["file:1/m.onnx", "file:2/m.onnx", "file:3/m.onnx"];
    let mut parameters = parse(&[config(r#"{ "version_policy": { "all": {} } }"#)]);
    files.iter().for_each(|file| parameters.add(file, model()).unwrap());
    let name = ModelName::new("many").unwrap();
    let error = registry.load_with(&name, &parameters).unwrap_err().to_string();
    assert_eq!(error, "model many: loaded versions must be at most 3 (limits.models), got 1 + 3");
    assert_eq!(registry.budget().used(), before, "nothing was made");
}

#[test]
fn a_configuration_is_no_longer_than_64_kib() {
    let mut parameters = LoadParameters::default();
    let long = format!("[{}]", r#"{"":0},"#.repeat(10_000));
    let error = parameters.add("config", LoadValue::Text(long)).unwrap_err().to_string();
    assert_eq!(error, "config must be at most 65536 bytes, got 70002");
}

/// Its client goes away while another change is under way.
#[test]
fn files_of_a_load_are_charged_until_its_thread_ends() {
    let fixture = open("load-gone", "", |_| ());
    let server = &fixture.server;
    let owner = Peer { principal: Principal::User(0), ..Peer::UNKNOWN };
    let charge = server.memory.charge(&owner);
    charge.add(1000).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let change = server.registry.changes.all.write();
    runtime.block_on(async {
        let load = server.load(&owner, sums(), parse(&[config(BATCHING)]), Some(charge));
        let gone = tokio::time::timeout(Duration::from_millis(20), load).await;
        assert!(gone.is_err(), "it waits");
    });
    assert_eq!(server.memory.taken(), 1000, "the bytes are still there");
    drop(change);
    runtime.shutdown_timeout(Duration::from_secs(60)); // waits for the thread
    assert_eq!(server.memory.taken(), 0);
}

/// Each keeps a thread while another change is under way.
#[test]
fn changes_whose_clients_have_gone_are_bounded() {
    let fixture = open("changes-gone", "", |_| ());
    let server = &fixture.server;
    let owner = Peer { principal: Principal::User(0), ..Peer::UNKNOWN };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let change = server.registry.changes.all.write();
    let said = runtime.block_on(async {
        let short = Duration::from_millis(1);
        for _ in 0..MAX_CHANGES / 2 {
            let load = server.load(&owner, sums(), parse(&[]), None);
            assert!(tokio::time::timeout(short, load).await.is_err(), "it waits");
            let unload = server.unload(&owner, sums());
            assert!(tokio::time::timeout(short, unload).await.is_err(), "it waits");
        }
        tokio::time::timeout(Duration::from_secs(60), server.unload(&owner, sums())).await
    });
    server.registry.close(); // so that none of them begins
    drop(change);
    runtime.shutdown_timeout(Duration::from_secs(60)); // waits for the threads
    let want = "open loads and unloads must be at most 128";
    assert_eq!(said.expect("it waits, too"), Err(Error::Exhausted(want.into())));
    assert_eq!(server.changes.in_use(), 0);
}

/// As many lists hang as there are threads for them.
#[test]
fn index_of_a_repository_that_hangs_ends_with_the_timeout() {
    let fixture = open("index-hangs", "", |config| config.times.request_ms = 50);
    let server = &fixture.server;
    let (release, held) = channel::<()>();
    let held = Arc::new(parking_lot::Mutex::new(held));
    block_on(async {
        let hang = |name: &str| {
            let (principal, held) = (peer(name).principal, held.clone());
            let work = move || Ok(held.lock().recv().is_ok());
            async move { server.repository_workers.run_blocking(&principal, (), work).await }
        };
        let mut hung = ["a", "b"].map(|name| Box::pin(hang(name)));
        for list in &mut hung {
            let waits = tokio::time::timeout(Duration::from_millis(1), list).await;
            assert!(waits.is_err(), "it hangs");
        }
        let client = peer("c");
        let said = tokio::time::timeout(Duration::from_secs(60), server.index(&client)).await;
        drop(release);
        let want = "timed out after 50ms while listing the repository";
        assert_eq!(said.expect("it waits").unwrap_err(), Error::Deadline(want.into()));
    });
    until("the repository's index", || block_on(server.index(&peer("a"))).ok());
}

/// Versions that are being loaded count, and others come and go meanwhile.
#[test]
fn slow_load_of_one_model_delays_no_other() {
    let (fixture, devices) = two("load-slow", |config| config.limits.models = 2);
    for (name, device) in [("other", "cpu:1"), ("third", "cpu:0")] {
        let folder = fixture.folder.join(name);
        std::fs::create_dir_all(folder.join("1")).unwrap();
        let of = "network = \"resnet18\"\nsize = 32\nseed = 1\n";
        let text = format!("{of}devices = [\"{device}\"]\n");
        std::fs::write(folder.join("model.toml"), text).unwrap();
    }
    let [tiny, other, third] = ["tiny", "other", "third"].map(|name| ModelName::new(name).unwrap());
    let registry = fixture.server.registry.clone();
    devices[1].slow.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| fixture.server.registry.load(&other));
        until("it loads", || (devices[1].loads.load(Ordering::SeqCst) > 0).then_some(()));
        let (sender, done) = channel();
        std::thread::spawn(move || {
            let full = registry.load(&third).map_err(|error| error.kind());
            let next = registry.unload(&tiny).and_then(|()| registry.load(&third));
            let _ = sender.send((full, next));
        });
        let said = done.recv_timeout(Duration::from_secs(60));
        devices[1].slow.store(false, Ordering::SeqCst); // whatever came of it
        assert_eq!(said, Ok((Err("exhausted"), Ok(()))), "they do not wait for the slow one");
        assert_eq!(slow.join().unwrap(), Ok(()));
    });
    assert_eq!(fixture.server.registry.len(), 2);
}

/// A daemon whose models are networks that leave their device after this time.
fn on_demand(test: &str, idle: &str, change: impl FnOnce(&mut Config)) -> Fixture {
    let fixture = Fixture::new(test, |config| {
        config.models.load.clear();
        change(config);
    });
    for name in ["tiny", "other"] {
        let network = "network = \"resnet18\"\nsize = 32\nseed = 1\n";
        let text = format!("{network}residency = \"on-demand\"\nidle = \"{idle}\"\n");
        std::fs::write(fixture.folder.join(name).join("model.toml"), text).unwrap();
        fixture.server.registry.load(&ModelName::new(name).unwrap()).unwrap();
    }
    fixture
}

/// Returns the state of a model's network and the number of its returns.
fn residency(fixture: &Fixture, model: &str) -> Option<(&'static str, u64)> {
    let all = fixture.server.observer.residents.get()?.all();
    let found = all.into_iter().find(|one| one.name.model == model);
    found.map(|one| (one.state.name(), one.returns))
}

fn until_away(fixture: &Fixture, model: &str) -> u64 {
    let away = || residency(fixture, model).filter(|(state, _)| *state == "away");
    until("its departure", away).1
}

#[test]
fn idle_network_leaves_and_returns_for_a_request() {
    let fixture = on_demand("residency-idle", "1ms", |_| ());
    let registry = &fixture.server.registry;
    let mut answers = Vec::new();
    for priority in [1, 2, 1] {
        let returns = until_away(&fixture, "tiny");
        answers.push(block_on(fixture.server.infer(fixture.inference(priority))).unwrap());
        assert!(residency(&fixture, "tiny").is_some_and(|(_, now)| now > returns));
    }
    assert!(answers[0] == answers[2], "its weights are the same");
    until_away(&fixture, "tiny");
    until_away(&fixture, "other");
    assert_eq!(registry.budget().used(), 0, "all memory is free");
    let of = "model=\"tiny\",version=\"1\",class=\"be\",instance=\"0\"";
    let line = format!("reef_model_residency{{{of},device=\"cpu:0\",state=\"away\"}} 1\n");
    assert!(fixture.server.metrics_now().contains(&line), "{}", fixture.server.metrics_now());
    registry.unload(&ModelName::new("tiny").unwrap()).unwrap();
    until("its end", || residency(&fixture, "tiny").is_none().then_some(()));
}

/// A load takes up to 1.9 times the bytes of a network for a while: what it is read into, and
/// copies of its largest layer.
#[test]
fn networks_that_do_not_fit_together_take_turns() {
    let both = on_demand("residency-both", "1h", |_| ()).server.registry.budget().used();
    let mib = (both * 39 / 40) >> 20;
    let fixture = on_demand("residency-turns", "1h", |config| config.memory.total_mib = mib);
    let state = |model| residency(&fixture, model).map(|(state, _)| state);
    assert_eq!((state("tiny"), state("other")), (Some("away"), Some("resident")), "at the load");
    let mut last = None;
    for model in ["tiny", "other", "tiny"] {
        let answer = block_on(fixture.server.infer(fixture.inference_of(model, 2))).unwrap();
        assert_eq!(state(model), Some("resident"));
        assert!(last.replace(answer.clone()).is_none_or(|before| before == answer));
    }
    assert_eq!(state("other"), Some("away"));
}

#[test]
fn network_stays_while_a_request_uses_it() {
    let fixture = on_demand("residency-used", "1ms", |_| ());
    let model = fixture.server.registry.get("tiny", "").unwrap();
    let minute = Duration::from_secs(60);
    let stay = model.stay(Class::RealTime, minute, &|| false).unwrap();
    assert!(stay.is_some());
    until_away(&fixture, "other"); // which was as idle
    for _ in 0..3 {
        let _short = model.stay(Class::BestEffort, minute, &|| false).unwrap();
    }
    until("a departure of the other one", || {
        block_on(fixture.server.infer(fixture.inference_of("other", 2))).unwrap();
        (until_away(&fixture, "other") >= 3).then_some(())
    });
    assert_eq!(residency(&fixture, "tiny").map(|(state, _)| state), Some("resident"));
    drop(stay);
    until_away(&fixture, "tiny");
}

#[test]
fn request_that_cannot_wait_for_the_return_is_refused() {
    let fixture = on_demand("residency-late", "1ms", |_| ());
    until_away(&fixture, "tiny");
    let timeout = Some(Duration::ZERO);
    let inference = Inference { timeout, ..fixture.inference(2) };
    let said = block_on(fixture.server.infer(inference)).unwrap_err();
    assert!(matches!(said, Error::Unavailable(_) | Error::Deadline(_)), "{said}");
    block_on(fixture.server.infer(fixture.inference(2))).unwrap();
}

#[test]
fn networks_of_shapes_leave_with_the_model() {
    let description = "residency = \"on-demand\"\nidle = \"1ms\"\nmax_batch = 4\n";
    let fixture = open("residency-shapes", description, |_| ());
    for tokens in [2, 3, 2] {
        until_away(&fixture, "sums");
        assert_eq!(fixture.server.registry.budget().used(), 0);
        let answer = block_on(fixture.ask_sums("a", &[1, tokens, 4])).unwrap();
        let (info, output) = answer.tensors().next().unwrap();
        assert_eq!(info.shape, [1, tokens, 3]);
        let got: Vec<f32> = to_floats(&output.bytes).collect();
        let want = (0..tokens).flat_map(|row| [(16 * row + 6) as f32; 3]);
        assert_eq!(got, want.collect::<Vec<_>>());
    }
}

#[test]
fn network_whose_file_has_gone_is_refused_with_the_reason() {
    let description = "residency = \"on-demand\"\nidle = \"1ms\"\n";
    let fixture = open("residency-gone", description, |_| ());
    until_away(&fixture, "sums");
    let file = fixture.folder.join("sums/1/model.onnx");
    let moved = fixture.folder.join("model.onnx");
    std::fs::rename(&file, &moved).unwrap();
    let said = block_on(fixture.ask_sums("a", &[1, 2, 4])).expect_err("a refusal").to_string();
    let want = "the model does not return to its device: model sums/1: ";
    assert!(said.starts_with(want), "{said}");
    std::fs::rename(&moved, &file).unwrap();
    block_on(fixture.ask_sums("a", &[1, 2, 4])).unwrap();
}
