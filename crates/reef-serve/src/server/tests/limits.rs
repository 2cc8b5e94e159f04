//! Limits of requests and memory, and what times mean.

use super::*;
use crate::kserve::infer::request::{InferRequest, InputTensor, RequestedOutput, TensorData};
use crate::net::identity::principal::Principal;
use crate::net::quota::charge::Memory;

impl Fixture {
    /// An inference of `tiny` as the standard protocol asks for it.
    pub(super) fn ask(&self) -> InferRequest {
        let model = self.server.registry.get("tiny", "").unwrap();
        let input = InputTensor {
            name: "input".into(),
            datatype: "FP32".into(),
            shape: model.inputs.each[0].shape.clone(),
            from: TensorData::Bytes(vec![0; model.inputs.bytes].into()),
        };
        InferRequest { model: "tiny".into(), inputs: vec![input], ..InferRequest::default() }
    }

    /// Returns the number of requests of `tiny` served in `class`.
    fn served(&self, class: &str) -> u64 {
        let of = format!("model=\"tiny\",version=\"1\",class=\"{class}\"");
        let name = format!("reef_requests_served_total{{{of}}} ");
        let text = self.server.metrics_now();
        text.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or(0)
    }
}

#[test]
fn open_requests_are_limited() {
    let fixture = Fixture::new("open", |config| config.limits.open_requests = 1);
    let one = fixture.server.request(&Peer::UNKNOWN).unwrap();
    let said = fixture.server.request(&Peer::UNKNOWN).unwrap_err();
    assert_eq!(said, Error::Exhausted("open requests must be at most 1".into()));
    drop(one);
    fixture.server.request(&Peer::UNKNOWN).unwrap();
}

/// Makes a folder of a process with 2 MiB of images, and a bound of `mib` for all of them.
fn put_folder(config: &mut Config, mib: u64) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let saved = config.models.repository.clone().unwrap().join("saved");
    let old = saved.join("old");
    std::fs::create_dir_all(old.join("images")).unwrap();
    std::fs::write(old.join("images/pages-1.img"), vec![0; 2 << 20]).unwrap();
    std::fs::write(old.join("description"), "reef-checkpoint").unwrap();
    for place in [&saved, &old] {
        let own = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(place, own).unwrap();
    }
    (config.models.checkpoints, config.models.checkpoints_mib) = (Some(saved), mib);
    config.guests.listen = true;
    old
}

/// As when the bound has been made smaller: nothing may be written for long.
#[test]
fn folder_of_a_process_beyond_the_bound_is_removed_at_the_start() {
    let stays = |mib: u64| {
        let mut old = PathBuf::new();
        let change = |config: &mut Config| old = put_folder(config, mib);
        let _fixture = Fixture::open("checkpoints", change, Server::without_models);
        old.exists()
    };
    assert!(stays(2) && !stays(1));
}

/// The record by which it is found is in the folder.
#[test]
fn interrupted_start_ends_before_its_folder_is_removed() {
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};
    let boot = "/proc/sys/kernel/random/boot_id";
    let boot = reef_files::read_to_string(boot, reef_files::MAX_TOKEN_BYTES).unwrap();
    let (mut old, mut criu) = (PathBuf::new(), None);
    let change = |config: &mut Config| {
        old = put_folder(config, 1);
        let images = old.join("images");
        let text = format!("{}\nsocket\npipe\n{}", boot.trim_end(), images.display());
        std::fs::write(old.join("start"), text).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo; read _", "criu", "restore", "-D"]).arg(images);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        criu = Some(child);
    };
    let _fixture = Fixture::open("interrupted", change, Server::without_models);
    assert!(!old.exists());
    let status = criu.expect("it was started").wait().unwrap();
    assert_eq!(status.signal(), Some(9));
}

/// The rest is kept for others.
#[test]
fn a_principal_has_its_part_of_open_requests() {
    let fixture = Fixture::new("part", |config| config.limits.open_requests = 4);
    let one: Vec<_> = (0..2).map(|_| fixture.server.request(&Peer::UNKNOWN).unwrap()).collect();
    let said = fixture.server.request(&Peer::UNKNOWN).unwrap_err().to_string();
    assert_eq!(said, "open requests of address 0.0.0.0 must be at most 2, got 2 + 1");
    let other = Peer { principal: Principal::User(1), ..Peer::UNKNOWN };
    let _others: Vec<_> = (0..2).map(|_| fixture.server.request(&other).unwrap()).collect();
    drop(one);
    fixture.server.request(&Peer::UNKNOWN).unwrap();
}

#[test]
fn owner_has_its_part_of_open_requests() {
    let fixture = Fixture::new("eighth", |config| config.limits.open_requests = 8);
    let request =
        |principal: Principal| fixture.server.request(&Peer { principal, ..Peer::UNKNOWN });
    let token = |name: &str| Principal::Token(name.into());
    let busy = ["a", "b"].into_iter().flat_map(|name| (0..4).map(move |_| name));
    let mut held: Vec<_> = busy.filter_map(|name| request(token(name)).ok()).collect();
    assert_eq!(held.len(), 7, "each has at most 4, and both have 7");
    let said = request(token("c")).unwrap_err().to_string();
    assert_eq!(said, "open requests of all clients but the owner must be at most 7, got 7 + 1");
    held.push(request(Principal::User(rustix::process::getuid().as_raw())).unwrap());
    assert!(request(token("c")).is_err());
}

#[test]
fn memory_of_others_leaves_an_eighth_to_the_owner() {
    let fixture = Fixture::new("others", |config| config.memory.total_mib = 800);
    let take = |principal: &Principal, mib: u64| {
        fixture.server.tenants.take_of_others(principal, mib << 20)
    };
    let [one, other] = ["a", "b"].map(|name| Principal::Token(name.into()));
    let _held = take(&one, 700).unwrap();
    let said = take(&other, 1).unwrap_err().to_string();
    let want = "bytes of the memory budget of all clients but the owner must be at most 734003200";
    assert!(said.starts_with(want), "{said}");
    let own = Principal::User(rustix::process::getuid().as_raw());
    assert!(take(&own, 800).unwrap().is_none());
}

/// Instances of both classes have memory of their own.
#[test]
fn instances_take_memory() {
    let fixture = Fixture::new("instances", |_| ());
    let text = "network = \"resnet18\"\nsize = 32\nseed = 1\ninstances = { rt = 2, be = 3 }\n";
    std::fs::write(fixture.folder.join("other/model.toml"), text).unwrap();
    fixture.server.registry.load(&ModelName::new("other").unwrap()).unwrap();
    for (name, instances) in [("tiny", 2), ("other", 5)] {
        let model = fixture.server.registry.get(name, "").unwrap();
        let sizes = model.base.sizes;
        assert!(sizes.instance > 0 && sizes.weights > 0, "{sizes:?}");
        assert_eq!(model.bytes(), sizes.weights + instances * sizes.instance, "{name}");
    }
}

/// The request's priority, or else the connection's class, or else the configured one.
#[test]
fn requests_without_priority_have_the_default_class() {
    let fixture = Fixture::new("class", |config| config.models.class = Class::RealTime);
    let owner = Peer { principal: Principal::User(0), ..Peer::UNKNOWN };
    let answer = |ask| block_on(fixture.server.answer(&owner, ask)).map(drop).unwrap();
    let served = || [fixture.served("rt"), fixture.served("be")];
    answer(fixture.ask());
    assert_eq!(served(), [1, 0]);
    answer(InferRequest { class: Some(Class::BestEffort), ..fixture.ask() });
    assert_eq!(served(), [1, 1]);
    answer(InferRequest { class: Some(Class::BestEffort), priority: 1, ..fixture.ask() });
    assert_eq!(served(), [2, 1]);
}

#[test]
fn timeouts_are_microseconds_and_no_longer_than_is_allowed() {
    let fixture = Fixture::new("times", |config| {
        config.scheduler = "rt-only".into(); // so that best-effort requests never end
        config.times.request_ms = 200;
    });
    let say = |timeout| {
        let ask = InferRequest { timeout, priority: 2, ..fixture.ask() };
        block_on(fixture.server.answer(&Peer::UNKNOWN, ask)).map(drop).unwrap_err()
    };
    // On a busy machine time may be over before an instance has begun, which is said otherwise.
    let said = |timeout| {
        let begin = Instant::now();
        loop {
            let error = say(timeout);
            if !error.text().ends_with("in the queue") {
                return error;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "no worker begins: {error}");
        }
    };
    for (timeout, text) in [(1500, "1.5ms"), (0, "200ms"), (5_000_000, "200ms")] {
        assert_eq!(said(timeout), Error::Deadline(format!("timed out after {text}")));
    }
}

/// The time before a request is queued counts.
#[test]
fn time_runs_from_arrival_on() {
    let fixture = Fixture::new("arrival", |_| ());
    let timeout = Some(Duration::from_millis(5));
    let inference = Inference { timeout, ..fixture.inference(2) };
    std::thread::sleep(Duration::from_millis(20)); // sleep: longer than the timeout
    let said = block_on(fixture.server.infer(inference));
    assert!(matches!(said, Err(Error::Deadline(_))), "{said:?}");
    let numbers = fixture.server.registry.get("tiny", "").unwrap().numbers();
    assert_eq!(numbers.success.count, 0);
}

/// Texts in place of an output take more than the output.
#[test]
fn texts_of_classes_are_charged_for_before_they_are_made() {
    let fixture = Fixture::new("classes", |_| ());
    let ask = |classes| {
        let memory = Memory::new(u64::MAX, u64::MAX, u64::MAX, u64::MAX, 20_000);
        let (name, to, is_binary) = ("logits".into(), None, None);
        let outputs = vec![RequestedOutput { name, to, is_binary, classes }];
        let charge = Some(memory.charge(&Peer::UNKNOWN));
        let ask = InferRequest { outputs, charge, ..fixture.ask() };
        block_on(fixture.server.answer(&Peer::UNKNOWN, ask)).map(drop)
    };
    ask(5).unwrap();
    let said = ask(1000);
    assert!(matches!(said, Err(Error::Exhausted(_))), "{said:?}");
}

/// Best-effort work that never ends is abandoned with its request, so that its instance goes on.
#[test]
fn a_lane_is_free_when_no_client_waits_for_its_request() {
    let fixture = Fixture::new("given-up", |config| config.scheduler = "rt-only".into());
    let timeout = Some(Duration::from_millis(100));
    let inference = Inference { timeout, ..fixture.inference(2) };
    assert!(matches!(block_on(fixture.server.infer(inference)), Err(Error::Deadline(_))));
    drop(fixture); // waits for the instance
}

#[test]
fn the_device_is_busy_while_something_runs() {
    let fixture = Fixture::new("busy", |_| ());
    assert_eq!(fixture.server.nodes[0].busy.time(), Duration::ZERO);
    block_on(fixture.server.infer(fixture.inference(1))).unwrap();
    assert!(fixture.server.nodes[0].busy.time() > Duration::ZERO);
}
