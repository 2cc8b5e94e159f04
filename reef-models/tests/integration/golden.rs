//! The builder against torch: the reference's logits are those of torchvision's networks.

use reef_models::{Model, Seeded};
use std::path::Path;

/// As `tools/golden.py` writes it.
#[derive(serde::Deserialize)]
struct Golden {
    model: String,
    seed: u64,
    input_size: usize,
    logits: Vec<f32>,
}

/// Largest difference, as a part of the largest logit.
const TOLERANCE: f32 = 1e-5;

fn agrees(name: &str, size: usize) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/{name}-{size}.json"));
    let text = std::fs::read_to_string(&file).unwrap();
    let golden: Golden = serde_json::from_str(&text).unwrap();
    let model = Model::open(&golden.model).input_size(golden.input_size).seed(golden.seed);
    let model = model.read().unwrap();
    let logits = model.expected(&Seeded(golden.seed).input(model.input_len())).unwrap();
    assert_eq!(logits.len(), golden.logits.len(), "{name} at {size}");
    let largest = golden.logits.iter().fold(0f32, |max, logit| max.max(logit.abs()));
    let pairs = logits.iter().zip(&golden.logits);
    let worst = pairs.map(|(have, want)| (have - want).abs()).max_by(f32::total_cmp).unwrap();
    eprintln!("{name} at {size}: off by {worst:e} of {largest}");
    assert!(worst <= TOLERANCE * largest, "{name} at {size}: off by {worst} of {largest}");
}

#[test]
fn small_images_give_torchs_logits() {
    agrees("resnet18", 64);
    agrees("resnet50", 64);
    agrees("densenet121", 64);
    agrees("inception_v3", 96);
    agrees("mobilenet_v1", 64);
    agrees("mobilenet_v2", 64);
    agrees("mobilenet_v3_small", 64);
    agrees("mobilenet_v3_large", 64);
}

#[test]
#[ignore = "a minute of plain loops"]
fn full_images_give_torchs_logits() {
    for name in ["resnet18", "resnet50", "resnet152", "densenet121", "densenet201"] {
        agrees(name, 224);
    }
    agrees("inception_v3", 299);
}
