//! The built networks: torchvision's parameter counts, sound graphs, sensible logits.

use reef_models::kinds::reference;
use reef_models::param::Params;
use reef_models::{Budget, Error, Model, NAMES, Seeded};

/// Parameters as torchvision counts them, and inception's without the auxiliary head.
const PARAMETERS: [(&str, usize); 12] = [
    ("resnet18", 11_689_512),
    ("resnet50", 25_557_032),
    ("resnet152", 60_192_808),
    ("densenet121", 7_978_856),
    ("densenet201", 20_013_928),
    ("inception_v3", 23_834_568),
    ("vgg19", 143_667_240),
    ("alexnet", 61_100_840),
    ("mobilenet_v1", 4_231_976),
    ("mobilenet_v2", 3_504_872),
    ("mobilenet_v3_small", 2_542_856),
    ("mobilenet_v3_large", 5_483_032),
];

#[test]
fn networks_have_as_many_parameters_as_torchvisions() {
    assert!(PARAMETERS.iter().map(|(name, _)| name).eq(NAMES));
    for (name, parameters) in PARAMETERS {
        let model = Model::open(name).read().unwrap();
        assert_eq!(model.image().unwrap().0.parameters(), parameters, "{name}");
    }
}

#[test]
fn logits_are_finite_and_differ() {
    for (name, size) in [("resnet18", 32), ("densenet121", 32), ("inception_v3", 75)] {
        let model = Model::open(name).input_size(size).batch(2).read().unwrap();
        let logits = model.expected(&Seeded(1).input(model.input_len())).unwrap();
        assert_eq!(logits.len(), 2 * 1000, "{name}");
        let (low, high) =
            logits.iter().fold((f32::MAX, f32::MIN), |(l, h), &v| (l.min(v), h.max(v)));
        eprintln!("{name}: {low} to {high}");
        assert!(low < high && low.is_finite() && high < 1e3, "{name}: {low} to {high}");
        assert_ne!(logits[..1000], logits[1000..], "{name}: two images, one answer");
    }
}

#[test]
fn networks_that_cannot_be_built_are_refused() {
    let say = |name: &str, size: Option<usize>, batch: usize| {
        let model = Model::open(name).input_size(size).batch(batch).read();
        model.unwrap_err().to_string()
    };
    assert_eq!(
        say("lenet", None, 1),
        "no network \"lenet\" (have: resnet18, resnet50, resnet152, densenet121, densenet201, \
         inception_v3, vgg19, alexnet, mobilenet_v1, mobilenet_v2, mobilenet_v3_small, mobilenet_v3_large, \
         bert, distilbert, vit_b_16, folders of networks, .onnx files, NETWORK.safetensors)"
    );
    let bert = Model::open("bert").read().unwrap();
    assert_eq!(
        bert.image().unwrap_err().to_string(),
        "bert takes tensors (input_ids: int64[1, 128], attention_mask: int64[1, 128]), no image"
    );
    assert_eq!(say("resnet18", Some(31), 1), "resnet18: input size 31, possible are 32 to 8192");
    assert_eq!(
        say("inception_v3", Some(74), 1),
        "inception_v3: input size 74, possible are 75 to 8192"
    );
    assert_eq!(say("vgg19", Some(256), 1), "vgg19: input size 256, possible are 224 to 224");
    assert_eq!(say("resnet18", None, 0), "resnet18: batch 0, possible are 1 to 8192");
    let model = Model::open("resnet18").input_size(32).read().unwrap();
    let error = model.expected(&[0.0; 5]).unwrap_err();
    assert_eq!(error, Error::Length { what: "input".into(), given: 5, want: 3 * 32 * 32 });
}

#[test]
fn weights_from_a_file_give_the_same_logits() {
    let model = Model::open("resnet18").input_size(32).read().unwrap();
    let (image, seeded) = model.image().unwrap();
    let input = Seeded(1).input(model.input_len());
    let bytes = image.params(seeded).unwrap().to_bytes().unwrap();
    let mut params = Params::from_bytes(&bytes, &Budget::default()).unwrap();
    let logits = |source: &Params| reference::execute(image, source, &input);
    assert_eq!(logits(&params), model.expected(&input));

    let fc = params.tensors.remove("fc.bias").unwrap();
    assert_eq!(logits(&params).unwrap_err().to_string(), "no tensor \"fc.bias\"");
    params.tensors.insert("fc.bias".into(), fc[1..].into());
    let error = logits(&params).unwrap_err().to_string();
    assert_eq!(error, "fc.bias: must have 1000 values, got 999");
}
