//! Several devices of one daemon.

use super::losses::Losable;
use super::*;
use crate::engine::device;
use crate::models::config::load::LoadValue;
use reef::Rate;

/// Two software devices, with `tiny` on the first.
fn two(test: &str, change: impl FnOnce(&mut Config)) -> Fixture {
    Fixture::new(test, |config| {
        config.device = "cpu:0?units=1,cpu:1?units=1".into();
        change(config);
    })
}

impl Fixture {
    /// Describes `tiny` anew.
    fn describe(&self, text: &str) {
        let text = format!("{text}\nnetwork = \"resnet18\"\nsize = 32\nseed = 1\n");
        std::fs::write(self.folder.join("tiny/model.toml"), text).unwrap();
    }

    /// Loads `tiny` with these devices of its instances, as Triton's clients say it.
    fn load_on(&self, gpus: &str) -> Result<()> {
        let mut given = LoadParameters::default();
        let config = format!(r#"{{ "instance_group": [{{ "gpus": [{gpus}] }}] }}"#);
        given.add("config", LoadValue::Text(config))?;
        self.server.registry.load_with(&ModelName::new("tiny")?, &given)
    }

    /// Devices that a model is on.
    fn devices(&self, name: &str) -> Vec<usize> {
        let versions = self.server.registry.select(name, "").unwrap();
        versions.iter().flat_map(|replicas| replicas.memory()).map(|(device, _)| device).collect()
    }

    fn infer(&self, priority: u64) -> Result<Vec<f32>> {
        let output = block_on(self.server.infer(self.inference(priority)))?;
        Ok(to_floats(&output[0]).collect())
    }

    fn busy(&self) -> Vec<bool> {
        self.server.nodes.iter().map(|node| !node.busy.time().is_zero()).collect()
    }
}

#[test]
fn models_are_spread_and_their_memory_counts_where_they_are() {
    let fixture = two("spread", |_| ());
    fixture.load("other").unwrap();
    assert_eq!((fixture.devices("tiny"), fixture.devices("other")), (vec![0], vec![1]));
    let used: Vec<u64> = fixture.server.registry.device_memory().collect();
    assert_eq!(used[0], used[1]);
    assert_eq!(used[0] + used[1], fixture.server.registry.budget().used());
    let text = fixture.server.metrics_now();
    for device in ["cpu:0", "cpu:1"] {
        let line = format!("reef_device_memory_bytes{{device=\"{device}\"}} {}", used[0]);
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
}

/// Weights are read and copied through memory of the host: a device with no more memory than its
/// model needs takes it.
#[test]
fn a_device_has_what_is_on_it_and_nothing_of_the_host() {
    let open = |test: &str, memory: Option<u64>| {
        let on = move |config: Config| {
            let inner = device::start("cpu:0?units=1", "reef", 0.0)?.remove(0);
            let mut engine = Losable::new(inner);
            engine.memory = memory;
            Server::on(Nodes::new("cpu:0", vec![Arc::new(engine)]), config)
        };
        Fixture::open(test, |config| config.models.load.clear(), on)
    };
    let free = open("host-free", None);
    free.load("tiny").unwrap();
    let needed = free.server.registry.device_memory().next().unwrap();
    let exact = open("host-exact", Some(needed));
    exact.load("tiny").unwrap();
    let used = exact.server.registry.device_memory().next();
    assert_eq!((used, exact.server.registry.budget().used()), (Some(needed), needed));
    let short = open("host-short", Some(needed - 1)).load("tiny").unwrap_err();
    assert!(matches!(short, Error::Exhausted(_)), "{short}");
}

/// Whichever device computes it, it is what the reference computes; and both do.
#[test]
fn a_model_with_replicas_computes_the_same_on_each_device() {
    let fixture = two("replicas", |config| config.models.replicas = 0);
    assert_eq!(fixture.devices("tiny"), [0, 1]);
    let model = Model::open("resnet18").input_size(32).read().unwrap();
    let input = Seeded(1).input(model.input_len());
    let want = model.expected(&input).unwrap();
    for priority in [1, 2, 1, 2] {
        let got = fixture.infer(priority).unwrap();
        let worst =
            got.iter().zip(&want).map(|(a, b)| (a - b).abs()).max_by(f32::total_cmp).unwrap();
        assert!(worst < 1e-3, "priority {priority}: {worst}");
    }
    assert_eq!(fixture.busy(), [true, true], "equals take turns");
    let numbers = fixture.server.registry.get("tiny", "1").unwrap().numbers();
    assert_eq!(numbers.success.count, 4, "they count together");
    let entered = fixture.server.nodes[0].enter();
    for _ in 0..3 {
        assert_eq!(fixture.server.registry.get("tiny", "").unwrap().node().index, 1);
    }
    drop(entered);
}

/// Its program would be ended before it is ready, which is another error.
#[test]
fn replica_whose_device_lacks_a_kernel_is_refused() {
    let on = |config: Config| {
        let mut engines = device::start("cpu:0?units=1,cpu:1?units=1", "reef", 0.0)?;
        let mut second = Losable::new(engines.remove(1));
        second.has_kernels = false;
        engines.push(Arc::new(second));
        Server::on(Nodes::new("cpu:0,cpu:1", engines), config)
    };
    let change = |config: &mut Config| {
        config.models.load.clear();
        config.models.processes = true;
    };
    let fixture = Fixture::open("engines", change, on);
    let program = "process.command = [\"/bin/sh\", \"-c\", \"exit 3\"]";
    fixture.describe(&format!("engine = \"auto\"\nreplicas = 2\n{program}"));
    let said = fixture.load("tiny").unwrap_err();
    assert!(matches!(&said, Error::Unsupported(why) if why.contains("no kernel")), "{said}");
}

#[test]
fn a_description_says_where_its_model_is() {
    let fixture = two("described", |_| ());
    for (text, want) in [
        ("devices = [\"cpu:1\"]", vec![1]),
        ("devices = [\"cpu:1\", \"cpu:0\"]", vec![0, 1]),
        ("devices = \"all\"", vec![0, 1]),
        ("replicas = 2", vec![0, 1]),
    ] {
        fixture.describe(text);
        fixture.load("tiny").unwrap();
        let mut devices = fixture.devices("tiny");
        devices.sort();
        assert_eq!(devices, want, "{text}");
        let model = fixture.server.registry.get("tiny", "").unwrap();
        assert_eq!(fixture.server.registry.devices(&model).len(), want.len());
    }
    fixture.describe("replicas = 2");
    fixture.load_on("1").unwrap();
    assert_eq!(fixture.devices("tiny"), [1], "the load's parameter takes precedence");
    let said = fixture.load_on("0, 2").unwrap_err().to_string();
    let want = "instance_group.gpus: unknown device 2 (have: 0 cpu:0, 1 cpu:1)";
    assert_eq!(said, format!("model tiny/1: {want}"));
    fixture.load_on("1, 0").unwrap();
    fixture.describe("devices = [\"cpu:2\"]");
    let said = fixture.load("tiny").unwrap_err().to_string();
    let want = "model tiny/1: devices: unknown device \"cpu:2\" (have: cpu:0, cpu:1)";
    assert_eq!(said, want);
    assert_eq!(fixture.devices("tiny").len(), 2, "as it was");
}

#[test]
fn a_trace_has_a_group_for_each_device() {
    let fixture = two("traced", |config| config.models.replicas = 2);
    let (observer, nodes) = (&fixture.server.observer, &fixture.server.nodes);
    let recording = crate::observe::recording::Recording::start(observer, nodes).unwrap();
    for _ in 0..2 {
        fixture.infer(2).unwrap();
    }
    let text = String::from_utf8(recording.finish()).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let blocks = |process: u32| {
        let is_block = |e: &&serde_json::Value| e["pid"] == process && e["ph"] == "X";
        trace["traceEvents"].as_array().unwrap().iter().filter(is_block).count()
    };
    assert!(blocks(1) > 0 && blocks(4) > 0, "{} and {}", blocks(1), blocks(4));
    for name in ["(cpu:0)", "(cpu:1)", "tiny/1 be 0 on cpu:0", "tiny/1 be 0 on cpu:1"] {
        assert!(text.contains(name), "{name}");
    }
}

/// A budget used up on one device is whole on the other, whose time no client has used.
#[test]
fn a_budget_is_of_each_device() {
    let fixture = two("budgets", |config| {
        config.models.replicas = 0;
        let right = crate::config::rights::Right {
            rt: true,
            period_us: Some(3_600_000_000),
            budget_us: Some(1),
            ..crate::config::rights::Right::default()
        };
        config.rights.insert("token camera".into(), right);
        config.rt.over = crate::config::rights::OverBudget::Refused;
    });
    let tenant = fixture.server.tenants.of(&Principal::Token("camera".into()));
    let rate = Rate::new(Duration::from_secs(3600), Duration::from_micros(1)).unwrap();
    assert_eq!(tenant.account(1).rate(), Some(rate));
    let ask = || {
        let inference = Inference { tenant: tenant.clone(), ..fixture.inference(1) };
        block_on(fixture.server.infer(inference)).map(drop)
    };
    ask().expect("the budget of one device is whole");
    ask().expect("and that of the other");
    assert!(matches!(ask(), Err(Error::Exhausted(_))), "both are used up");
    let text = fixture.server.metrics_now();
    let served = text.lines().find(|line| {
        line.starts_with("reef_client_device_seconds_total{client=\"token camera\",class=\"rt\"}")
    });
    let served: f64 = served.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    let each = [0, 1].map(|device| tenant.account(device).usage().served.as_secs_f64());
    assert!((served - each[0] - each[1]).abs() < 1e-9 && each[0] > 0.0 && each[1] > 0.0);
}
