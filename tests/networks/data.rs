//! Data that the tests compare with and read, inside of the executable: it runs where the files are
//! not.

macro_rules! golden {
    ($name:expr; $($file:literal),+ $(,)?) => {
        match $name {
            $($file => include_str!(concat!("../../reef-models/golden/", $file, ".json")),)+
            other => panic!("no golden file {other}"),
        }
    };
}

/// Torch's logits for a network of this name and image size.
pub(crate) fn golden(name: &str, size: usize) -> &'static str {
    golden! {
        &*format!("{name}-{size}");
        "densenet121-224", "densenet121-64", "densenet201-224", "inception_v3-299", "inception_v3-96",
        "resnet152-224", "resnet18-224", "resnet18-64", "resnet50-224", "resnet50-64",
    }
}

/// Networks with gates, hard swishes and ReLU6.
pub(crate) const GATED: [(&str, &[u8]); 2] = [
    ("mobilenet3-18", include_bytes!("../../reef-models/tests/onnx/mobilenet3-18.onnx")),
    ("mobilenet-13", include_bytes!("../../reef-models/tests/onnx/mobilenet-13.onnx")),
];

/// A network like the `mocked_kernel` of REEF.
pub(crate) const TOY: &str = include_str!("toy.json");
