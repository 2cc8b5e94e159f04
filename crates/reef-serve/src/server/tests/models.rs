//! Models in each form in which a repository may have them.

use super::shapes::handmade::{file, node_in, open, texts};
use super::*;
use crate::kserve::infer::request::{InferRequest, InputTensor, TensorData};
use crate::kserve::parameter::RegionPart;
use crate::tensor::{TensorInfos, push_text};
use reef::models::profile::Latencies;
use std::path::Path;

/// A small network with what it must give.
pub(super) fn case(name: &str) -> (PathBuf, Vec<f32>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reef-models/tests/onnx");
    let golden = std::fs::read(folder.join(format!("{name}.json"))).unwrap();
    let golden: serde_json::Value = serde_json::from_slice(&golden).unwrap();
    assert_eq!(golden["seed"], 1, "as inferences of these tests");
    let logits = golden["logits"].as_array().unwrap().iter();
    let logits = logits.map(|logit| logit.as_f64().unwrap() as f32).collect();
    (folder.join(format!("{name}.onnx")), logits)
}

/// Weights as torchvision's are saved.
fn safetensors(network: &str, seed: u64) -> Vec<u8> {
    let model = Model::open(network).input_size(32).seed(seed).read().unwrap();
    let (model, tensors) = model.image().unwrap();
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, values) in model.params(tensors).unwrap().tensors {
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
    pub(super) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub(super) fn load(&self, name: &str) -> Result<()> {
        self.server.registry.load(&ModelName::new(name)?)
    }

    /// Both classes give these logits.
    fn gives(&self, name: &str, want: &[f32]) {
        let largest = want.iter().fold(0f32, |max, logit| max.max(logit.abs()));
        for priority in [1, 2] {
            let output = block_on(self.server.infer(self.inference_of(name, priority))).unwrap();
            let got: Vec<f32> = to_floats(&output[0]).collect();
            assert_eq!(got.len(), want.len(), "{name}");
            let worst =
                got.iter().zip(want).map(|(a, b)| (a - b).abs()).max_by(f32::total_cmp).unwrap();
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
    let latencies = Some(Latencies { micros: 5, ..Latencies::default() });
    let network = Model::open(&mobilenet).read().unwrap().with_latencies(latencies);
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
    assert_eq!(first.outputs.each[0].elements(), logits.len());
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
    let model = Model::open("resnet18").input_size(32).read().unwrap();
    let want = model.expected(&Seeded(1).input(model.input_len())).unwrap();
    fixture.gives("mine", &want);
    fixture.file("mine/model.toml", "network = \"resnet50\"\nsize = 32\n");
    let said = fixture.load("mine").unwrap_err().to_string();
    assert!(said.starts_with("model mine/1: ") && said.contains("weights.safetensors: "), "{said}");
    assert!(said.contains("layer1.0.conv1.weight: must have 4096 values, got 36864"), "{said}");
    fixture.gives("mine", &want); // as before
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
    let network = Model::open(&good).read().unwrap();
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
    let wanted = "105906176 bytes of memory wanted, 104857600 of 104857600 are left";
    assert!(text.ends_with(&format!("large.onnx: all of it: {wanted}")), "{text}");
}

#[test]
fn a_built_network_over_budget_is_no_mistake_of_the_client() {
    let fixture = Fixture::new("built-over", |config| {
        config.models.load.clear();
        config.memory.model_mib = 1;
    });
    let said = fixture.load("tiny").unwrap_err();
    assert!(matches!(said, Error::Exhausted(_)), "{said:?}");
    assert!(said.to_string().contains("memory budget: "), "{said}");
}

#[test]
fn a_bad_file_among_good_ones_is_left_out() {
    let fixture = Fixture::new("among", |_| ());
    fixture.file("bad.onnx", "no network");
    fixture.file("resnet50.pth", "PK");
    std::os::unix::fs::symlink("/", fixture.folder.join("link")).unwrap();
    fixture.server.registry.load_named("*").unwrap();
    assert_eq!(fixture.server.registry.len(), 2, "tiny and other");
    let said = fixture.server.registry.load_named("bad").unwrap_err().to_string();
    assert!(said.starts_with("model bad/1: ") && said.contains("no ONNX file"), "{said}");
    let said = fixture.server.registry.load_named("resnet50").unwrap_err().to_string();
    assert!(said.contains("resnet50.pth: a file of PyTorch, "), "{said}");
    let said = fixture.server.registry.get("tinny", "").unwrap_err().to_string();
    assert_eq!(said, "model tinny is not loaded: did you mean tiny?");
    let said = fixture.server.registry.unload(&ModelName::new("tinny").unwrap()).unwrap_err();
    assert_eq!(said.to_string(), "model tinny is not loaded: did you mean tiny?");
    for name in ["tiny", "other"] {
        std::fs::remove_dir_all(fixture.folder.join(name)).unwrap();
    }
    let said = fixture.server.registry.load_named("*").unwrap_err().to_string();
    assert!(said.starts_with("model bad/1: "), "nothing else is left: {said}");
}

#[test]
fn made_up_weights_say_that_they_are() {
    let fixture = Fixture::new("platform", |_| ());
    let (resnet, _) = case("resnet-13");
    fixture.file("real.onnx", std::fs::read(&resnet).unwrap());
    fixture.load("real").unwrap();
    let platform =
        |name: &str| fixture.server.registry.get(name, "").unwrap().spec.platform().to_owned();
    assert_eq!([platform("real"), platform("tiny")], ["reef", "reef_made_up_weights"]);
}

#[test]
fn loading_stays_within_the_budget_from_the_first_byte_on() {
    let bytes = safetensors("resnet18", 1);
    let load = |mib| {
        let fixture = Fixture::new(&format!("peak-{mib}"), |config| config.memory.total_mib = mib);
        fixture.file("mine/1/weights.safetensors", &bytes);
        fixture.file("mine/model.toml", "network = \"resnet18\"\nsize = 32\n");
        let before = fixture.server.registry.budget().used();
        let how = fixture.load("mine");
        let after = fixture.server.registry.budget().used();
        assert_eq!(how.is_ok(), after > before, "{how:?}");
        how.map_err(|error| (error.kind(), error.to_string()))
    };
    assert_eq!(
        load(200),
        Ok(()),
        "tiny takes 50 MiB, mine as many, its file's tensors and two copies of a layer"
    );
    let (kind, said) = load(130).unwrap_err();
    assert_eq!(kind, "exhausted");
    assert!(said.contains("model mine/1, while it is loaded, must have at most "), "{said}");
    let (kind, said) = load(70).unwrap_err();
    assert_eq!(kind, "exhausted");
    assert!(said.starts_with("model mine/1: memory budget: "), "{said}");
    assert!(
        said.contains("weights.safetensors: ") && said.contains(" bytes of memory wanted, "),
        "{said}"
    );
}

/// A network whose inputs and outputs have several types.
const TYPED: &str = "../../reef-models/tests/onnx/tensors/typed-17.onnx";

#[test]
fn a_network_of_tensors_keeps_its_names_and_types() {
    let fixture = Fixture::new("typed", |_| ());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(TYPED);
    fixture.file("typed/1/model.onnx", std::fs::read(file).unwrap());
    fixture.file("typed/model.toml", "batch = 2\n");
    let model = std::fs::read(fixture.folder.join("typed/1/model.onnx")).unwrap();
    fixture.file("whole/model.onnx", model);
    fixture.load("whole").unwrap();
    fixture.load("typed").unwrap();
    let model = fixture.server.registry.get("typed", "").unwrap();
    let said = |infos: &TensorInfos| {
        let each = infos.each.iter();
        each.map(|info| format!("{} {} {:?}", info.name, info.datatype(), info.shape))
            .collect::<Vec<_>>()
    };
    assert_eq!(said(&model.inputs), ["tokens INT64 [2, 4]", "mask BOOL [2, 4]", "bias FP16 [3]"]);
    let outputs = ["hidden FP32 [2, 4, 3]", "best INT64 [2, 4]", "masked BOOL [2, 4]"];
    assert_eq!(said(&model.outputs), outputs);
    let tensor = |name: &str, datatype: &str, shape: &[i64], bytes: Vec<u8>| InputTensor {
        name: name.into(),
        datatype: datatype.into(),
        shape: shape.into(),
        from: TensorData::Bytes(bytes.into()),
    };
    let tokens = [7i64, 0, 1, 2, 3, 4, 5, 6].iter().flat_map(|token| token.to_le_bytes()).collect();
    let inputs = || {
        let bias = [0x3c00u16, 0, 0].iter().flat_map(|half| half.to_le_bytes()).collect();
        vec![
            tensor("bias", "FP16", &[3], bias),
            tensor("mask", "BOOL", &[2, 4], vec![1, 1, 0, 1, 1, 1, 1, 0]),
        ]
    };
    let ask = |inputs: Vec<InputTensor>| {
        let request = InferRequest { model: "typed".into(), inputs, ..InferRequest::default() };
        block_on(fixture.server.answer(&Peer::UNKNOWN, request))
    };
    let said = ask(inputs()).unwrap_err().to_string();
    assert_eq!(said, "must have the 3 inputs tokens, mask, bias, got 2");
    let twice = inputs().into_iter().chain(inputs().drain(..1)).collect();
    assert_eq!(ask(twice).unwrap_err().to_string(), "tensor \"bias\" must be named once");
    let all = inputs().into_iter().chain([tensor("tokens", "INT64", &[2, 4], tokens)]).collect();
    let answer = ask(all).unwrap();
    let [hidden, best, masked] = &answer.outputs[..] else { panic!("three outputs") };
    let floats: Vec<f32> = to_floats(&hidden.bytes).collect();
    assert_eq!(floats[..6], [3.625, 2.75, 2.875, 1.0, 0.125, 0.25]);
    assert_eq!(floats[6..9], [0.0; 3], "what is masked");
    let best: Vec<u8> = best.bytes.chunks(8).map(|word| word[0]).collect();
    assert_eq!(best, [0; 8]);
    assert_eq!(*masked.bytes, [0, 0, 1, 0, 0, 0, 0, 1]);
}

#[test]
fn texts_of_a_file_are_bytes_of_requests_and_answers() {
    let fixture = Fixture::new("texts", |_| ());
    let table = [texts("keys_strings", &["red", "grün"]), texts("values_strings", &["stop", "go"])];
    let parts = [
        node_in("ai.onnx.ml", "LabelEncoder", &["x"], &["y"], &table),
        open(11, "x", 8, &["n"]),
        open(12, "y", 8, &["n"]),
    ];
    fixture.file("colors/1/model.onnx", file(21, &parts));
    fixture.load("colors").unwrap();
    let model = fixture.server.registry.get("colors", "").unwrap();
    let kinds = [&model.inputs.each[0], &model.outputs.each[0]];
    assert_eq!(kinds.map(|info| (info.datatype(), &*info.shape)), [("BYTES", &[-1][..]); 2]);
    let wire = |texts: &[&str]| {
        let mut bytes = Vec::new();
        texts.iter().for_each(|text| push_text(&mut bytes, text.as_bytes()));
        bytes
    };
    let send = |datatype: &str, shape: i64, from: TensorData| {
        let (name, datatype) = ("x".into(), datatype.into());
        let inputs = vec![InputTensor { name, datatype, shape: vec![shape], from }];
        let request = InferRequest { model: "colors".into(), inputs, ..InferRequest::default() };
        block_on(fixture.server.answer(&Peer::UNKNOWN, request))
    };
    let ask = |datatype: &str, shape: i64, bytes: Vec<u8>| {
        send(datatype, shape, TensorData::Bytes(bytes.into()))
    };
    for (given, want) in [
        (&["red"][..], &["stop"][..]),
        (&["blue", "grün", "red"][..], &["_Unused", "go", "stop"][..]),
        (&["", "\u{0}"][..], &["_Unused", "_Unused"][..]),
    ] {
        let answer = ask("BYTES", given.len() as i64, wire(given)).unwrap();
        let (info, output) = answer.tensors().next().unwrap();
        assert_eq!(output.datatype_and_shape(info), ("BYTES", &[given.len() as i64][..]));
        assert_eq!(output.texts(info).unwrap(), want);
        assert_eq!(*output.bytes, wire(want));
    }
    let not_utf8 = ask("BYTES", 1, b"\x01\0\0\0\xff".to_vec()).unwrap();
    assert_eq!(*not_utf8.outputs[0].bytes, wire(&["_Unused"]));
    for (datatype, shape, bytes, why) in [
        ("INT64", 1, vec![0; 8], "tensor x: datatype must be BYTES, got \"INT64\""),
        ("BYTES", 3, wire(&["red", "red"]), "tensor x: must have 3 texts, got 2"),
        ("BYTES", 1, vec![9, 0, 0, 0, 1], "tensor x: each text must follow its length"),
    ] {
        assert_eq!(ask(datatype, shape, bytes).unwrap_err().to_string(), why);
    }
    let part = RegionPart { region: "none".into(), offset: 0, bytes: 16 };
    let said = send("BYTES", 2, TensorData::Region(part)).unwrap_err().to_string();
    assert_eq!(said, "tensor \"x\": texts in a region is not implemented");
}

/// All that `reef model list` has can be loaded by its name.
#[test]
fn networks_by_name_are_those_that_can_be_built() {
    let fixture = Fixture::new("by-name", |_| ());
    let index = fixture.server.registry.index().unwrap();
    let listed: Vec<_> = index.iter().map(|indexed| indexed.name.as_str()).collect();
    for name in reef::models::NAMES.iter().chain(reef::models::TENSOR_NAMES) {
        assert!(listed.contains(name), "{name} is not among {listed:?}");
    }
    let small = Fixture::new("by-name-off", |config| config.models.builtin = false);
    let said = small.load("bert").unwrap_err().to_string();
    assert!(
        said.ends_with("(--set models.builtin=true makes up weights for a network of this name)")
    );
}

#[test]
fn a_network_of_text_is_served() {
    let fixture = Fixture::new("text", |_| ());
    fixture.file("short/model.toml", "network = \"distilbert\"\nsize = 1\nseed = 1\n");
    fixture.file("short/1/note", "");
    let said = fixture.server.registry.load(&ModelName::new("short").unwrap());
    said.unwrap();
    let model = fixture.server.registry.get("short", "").unwrap();
    assert_eq!(model.inputs.names(), ["input_ids", "attention_mask"]);
    assert_eq!(model.inputs.each[0].shape, [-1, 1]);
    assert_eq!(model.outputs.each[0].shape, [-1, 2]);
    assert_eq!(model.base.outputs.each[0].shape, [1, 2]);
}

/// A folder as REEF publishes it.
#[test]
fn kernels_as_source_load_where_trusted_and_compilable() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/networks/program");
    let copy = |fixture: &Fixture, to: &str| {
        for entry in std::fs::read_dir(&program).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            fixture.file(&format!("{to}/{name}"), std::fs::read(entry.path()).unwrap());
        }
    };
    let fixture = Fixture::new("kernels", |config| config.models.kernels = true);
    let before = fixture.server.registry.budget().used();
    for (name, place) in [("own", "own"), ("numbered", "numbered/1")] {
        copy(&fixture, place);
        let index = fixture.server.registry.index().unwrap();
        assert!(index.iter().any(|indexed| indexed.name.as_str() == name), "{index:?}");
        let said = fixture.load(name).unwrap_err().to_string();
        assert!(said.contains("cpu"), "{said}");
    }
    assert_eq!(fixture.server.registry.budget().used(), before, "all memory is back");
    let careful = Fixture::new("careful", |_| ());
    copy(&careful, "own");
    let said = careful.load("own").unwrap_err().to_string();
    assert!(said.starts_with("model own/1: kernels as source are native code"));
}
