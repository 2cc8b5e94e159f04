//! Models with numbers of 8 bits.

#[path = "../../../../../reef-models/tests/integration/eight_bits/device.rs"]
mod device;

use super::*;
use crate::engine::device::start_on;
use crate::engine::node::Nodes;
use crate::models::config::load::{LoadParameters, LoadValue};
use device::{eight, plain};
use reef::models::Scales;
use reef::op::Format;

const DESCRIPTION: &str = "network = \"resnet18\"\nsize = 32\nseed = 1\n";

fn model() -> Model {
    Model::open("resnet18").input_size(32).seed(1).read().unwrap()
}

fn scales() -> Scales {
    let samples = (1..3).map(|seed| Seeded(seed).input(model().input_len()));
    model().calibrate(&plain(), Format::Int8, 100.0, samples).unwrap()
}

/// A daemon on a device with kernels of 8 bits, and a model `net` with scales.
fn open(test: &str) -> Fixture {
    let on = |config| Server::on(Nodes::new("eight", start_on(vec![eight()])?), config);
    let fixture = Fixture::open(test, |config| config.models.load = Vec::new(), on);
    fixture.file("net/model.toml", format!("{DESCRIPTION}scales = \"int8.json\"\n"));
    fixture.file("net/1/int8.json", scales().to_json().unwrap());
    fixture
}

impl Fixture {
    fn output(&self, name: &str) -> Vec<f32> {
        let output = block_on(self.server.infer(self.inference_of(name, 1))).unwrap();
        to_floats(&output[0]).collect()
    }

    fn loads(&self, description: &str) -> String {
        self.file("net/model.toml", format!("{DESCRIPTION}{description}\n"));
        self.load("net").map_or_else(|error| error.to_string(), |()| "loaded".into())
    }
}

#[test]
fn model_with_scales_computes_in_8_bits() {
    let fixture = open("eight");
    for name in ["net", "tiny"] {
        fixture.load(name).unwrap();
    }
    let device = eight();
    let network = model().with_scales(&scales()).unwrap().load(&device).unwrap();
    network.stage_input(&Seeded(1).input(network.input_len())).unwrap();
    let scheduler = reef::scheduler::by_name("reef").unwrap();
    let dispatcher = reef::Dispatcher::start(&device, scheduler).unwrap();
    let task = reef::Task::new(network.inference()).unwrap();
    dispatcher.real_time().unwrap().run(&task).unwrap();
    let want = network.staged_output().unwrap();
    assert_eq!(fixture.output("net"), want);
    assert_ne!(fixture.output("tiny"), want, "the same network in floats");
    let net = fixture.server.registry.get("net", "").unwrap();
    assert_eq!(net.spec.parameters(), [("scales", "int8.json".to_owned())]);
}

#[test]
fn configuration_of_a_load_names_the_scales() {
    let fixture = open("eight-config");
    fixture.load("net").unwrap();
    let eight = fixture.output("net");
    let load_as = |name: &str, file: &str| {
        let json = format!(r#"{{ "parameters": {{ "scales": {{ "string_value": "{file}" }} }} }}"#);
        let mut parameters = LoadParameters::default();
        parameters.add("config", LoadValue::Text(json)).unwrap();
        fixture.server.registry.load_with(&ModelName::new(name).unwrap(), &parameters)
    };
    let load = |file| load_as("net", file);
    load("").unwrap();
    let floats = fixture.output("net");
    let net = fixture.server.registry.get("net", "").unwrap();
    let off = [("scales", String::new())]; // which turns them off again if it is sent back
    assert_eq!(net.spec.parameters(), off);
    assert_ne!(floats, eight);
    load("int8.json").unwrap();
    assert_eq!(fixture.output("net"), eight);
    let error = load("../1/int8.json").unwrap_err().to_string();
    assert!(error.contains("scales must be a file of the version's folder"), "{error}");
    assert_eq!(fixture.output("net"), eight, "as before");
    let error = load_as("resnet18", "int8.json").unwrap_err().to_string();
    assert_eq!(error, "model resnet18: it has no folder for scales, got \"int8.json\"");
    let (file, _) = super::models::case("resnet-13");
    fixture.file("whole.onnx", std::fs::read(file).unwrap());
    let error = load_as("whole", "int8.json").unwrap_err().to_string();
    assert_eq!(error, "model whole/1: it has no folder for scales, got \"int8.json\"");
}

#[test]
fn scales_that_do_not_fit_are_errors_with_the_file() {
    let fixture = open("eight-errors");
    let begin = |error: &str| {
        let folder = fixture.folder.canonicalize().unwrap();
        error.replace(&folder.display().to_string(), "REPOSITORY")
    };
    let said = begin(&fixture.loads("scales = \"none.json\""));
    assert!(said.starts_with("model net/1: REPOSITORY/net/1/none.json: "), "{said}");
    fixture.file("net/1/cut.json", "{\"kind\": \"reef-sc");
    let said = begin(&fixture.loads("scales = \"cut.json\""));
    assert!(said.starts_with("model net/1: REPOSITORY/net/1/cut.json: "), "{said}");
    let other = scales().to_json().unwrap().replace("\"conv1\"", "\"conv9\"");
    fixture.file("net/1/other.json", other);
    let said = begin(&fixture.loads("scales = \"other.json\""));
    assert!(said.contains("net/1/other.json: ") && said.contains("got \"conv9\""), "{said}");
    for file in ["../1/int8.json", "/int8.json", ".", "..", "a/int8.json", "a\\\\int8.json"] {
        let said = fixture.loads(&format!("scales = \"{file}\""));
        assert!(said.contains("scales must be a file of the version's folder"), "{file}: {said}");
    }
    let large = std::fs::File::create(fixture.folder.join("net/1/large.json")).unwrap();
    large.set_len(8 << 30).unwrap();
    let said = fixture.loads("scales = \"large.json\"");
    assert!(said.contains("memory budget: "), "{said}");
    assert_eq!(fixture.loads("scales = \"int8.json\""), "loaded");
}

#[test]
fn device_without_kernels_of_8_bits_refuses_the_model() {
    let fixture = Fixture::new("eight-cpu", |_| ());
    fixture.file("net/1/int8.json", scales().to_json().unwrap());
    let said = fixture.loads("scales = \"int8.json\"");
    assert!(said.contains("resnet18 in int8: "), "{said}");
}
