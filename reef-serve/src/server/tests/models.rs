//! Models in each form in which a repository may have them.

use super::*;
use reef::models::profile::Latencies;
use reef::models::{Folder, onnx};
use std::path::Path;

/// A small network with what it must give.
fn case(name: &str) -> (PathBuf, Vec<f32>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reef-models/tests/onnx");
    let golden = std::fs::read(folder.join(format!("{name}.json"))).unwrap();
    let golden: serde_json::Value = serde_json::from_slice(&golden).unwrap();
    assert_eq!(golden["seed"], 1, "as inferences of these tests");
    let logits = golden["logits"].as_array().unwrap().iter();
    let logits = logits.map(|logit| logit.as_f64().unwrap() as f32).collect();
    (folder.join(format!("{name}.onnx")), logits)
}

/// Weights as torchvision's are saved.
fn safetensors(network: &str, seed: u64) -> Vec<u8> {
    let model = build(network, Some(32), 1).unwrap();
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, values) in model.params(&Seeded(seed)).unwrap().tensors {
        let begin = data.len();
        data.extend(to_bytes(&values));
        let entry = serde_json::json!({
            "dtype": "F32", "shape": [values.len()], "data_offsets": [begin, data.len()],
        });
        header.insert(name, entry);
    }
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes(), header.as_slice(), &data].concat()
}

impl Fixture {
    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn load(&self, name: &str) -> Result<()> {
        self.server.registry.load(&ModelName::new(name)?)
    }

    /// Both classes give these logits.
    fn gives(&self, name: &str, want: &[f32]) {
        let largest = want.iter().fold(0f32, |max, logit| max.max(logit.abs()));
        for priority in [1, 2] {
            let output = block_on(self.server.infer(self.inference_of(name, priority))).unwrap();
            let got: Vec<f32> = to_floats(&output).collect();
            assert_eq!(got.len(), want.len(), "{name}");
            let worst = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-4 * largest, "{name}, priority {priority}: off by {worst}");
        }
    }
}

#[test]
fn files_and_folders_give_what_they_must() {
    let fixture = Fixture::new("forms", |_| ());
    let before = fixture.server.registry.budget().used();
    let (resnet, logits) = case("resnet-13");
    let (mobilenet, others) = case("mobilenet-18");
    let imported = onnx::load(&mobilenet, &onnx::Options::default()).unwrap();
    let latencies = Some(Latencies { micros: 5, ..Latencies::default() });
    let network = Folder { model: imported.model, params: imported.params, latencies };
    fixture.file("file.onnx", std::fs::read(&resnet).unwrap());
    network.save(fixture.folder.join("whole")).unwrap();
    fixture.file("versions/1/model.onnx", std::fs::read(&resnet).unwrap());
    network.save(fixture.folder.join("versions/2")).unwrap();
    fixture.file("versions/model.toml", "versions = [1, 2]\ninstances = { rt = 1, be = 2 }\n");
    fixture.server.registry.load_named("*").unwrap();
    fixture.gives("file", &logits);
    fixture.gives("whole", &others);
    fixture.gives("versions", &others);
    let first = fixture.server.registry.get("versions", "1").unwrap();
    assert_eq!(first.output.elements(), logits.len());
    for name in ["file", "whole", "versions", "other"] {
        fixture.server.registry.unload(&ModelName::new(name).unwrap()).unwrap();
    }
    drop(first);
    assert_eq!(fixture.server.registry.budget().used(), before, "all memory is back");
}

#[test]
fn weights_of_built_in_networks_are_read_by_torchvisions_names() {
    let fixture = Fixture::new("weights", |_| ());
    let bytes = safetensors("resnet18", 1);
    fixture.file("mine/1/weights.safetensors", &bytes);
    fixture.file("mine/model.toml", "network = \"resnet18\"\nsize = 32\n");
    fixture.load("mine").unwrap();
    let model = build("resnet18", Some(32), 1).unwrap();
    let input = Seeded(1).input(model.input().elements());
    fixture.gives("mine", &reference::execute(&model, &Seeded(1), &input).unwrap());
    fixture.file("mine/model.toml", "network = \"resnet50\"\nsize = 32\n");
    let said = fixture.load("mine").unwrap_err().to_string();
    assert!(said.starts_with("model mine/1: ") && said.contains("weights.safetensors: "), "{said}");
    assert!(said.contains("layer1.0.conv1.weight: 36864 values given, 4096 wanted"), "{said}");
    fixture.gives("mine", &reference::execute(&model, &Seeded(1), &input).unwrap()); // as before
}

#[test]
fn a_broken_file_is_named_and_takes_nothing() {
    let fixture = Fixture::new("broken", |_| ());
    let before = fixture.server.registry.budget().used();
    let (good, _) = case("resnet-13");
    let mut cut = std::fs::read(&good).unwrap();
    cut.truncate(cut.len() / 2);
    fixture.file("cut.onnx", cut);
    fixture.file("empty.onnx", "");
    fixture.file("json/model.json", "{");
    fixture.file("json/model.param", "");
    let imported = onnx::load(&good, &onnx::Options::default()).unwrap();
    let (model, params) = (imported.model, imported.params);
    let network = Folder { model, params, latencies: None };
    network.save(fixture.folder.join("param")).unwrap();
    fixture.file("param/model.param", "no weights");
    network.save(fixture.folder.join("profile")).unwrap();
    fixture.file("profile/model.profile.json", "[]");
    fixture.file("short/1/w.safetensors", [255; 16]);
    fixture.file("short/model.toml", "network = \"resnet18\"\n");
    fixture.file("resnet50.safetensors", "");
    for (name, file) in [
        ("cut", "cut.onnx"),
        ("empty", "empty.onnx"),
        ("json", "json/model.json"),
        ("param", "param/model.param"),
        ("profile", "profile/model.profile.json"),
        ("short", "short/1/w.safetensors"),
        ("resnet50", "resnet50.safetensors"),
    ] {
        let said = fixture.load(name).unwrap_err();
        let text = said.to_string();
        assert!(matches!(said, Error::Invalid(_)), "{text}");
        assert!(text.starts_with(&format!("model {name}/1: ")), "{text}");
        assert!(text.contains(file) && !text.contains('\n'), "{text}");
    }
    assert_eq!(fixture.server.registry.budget().used(), before);
}

/// Before it is read, so that no file fills the memory of the host.
#[test]
fn a_file_over_budget_is_refused_by_its_size() {
    let fixture = Fixture::new("size", |config| config.memory.model_mib = 100);
    let file = std::fs::File::create(fixture.folder.join("large.onnx")).unwrap();
    file.set_len(101 << 20).unwrap();
    let Err(Error::Exhausted(text)) = fixture.load("large") else { panic!("it is refused") };
    assert!(text.starts_with("model large/1: memory budget: "), "{text}");
    assert!(text.ends_with("large.onnx needs 105906176 bytes, 104857600 are allowed"), "{text}");
}
