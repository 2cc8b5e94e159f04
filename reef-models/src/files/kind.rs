//! Kinds of files that have networks or weights in them and are not read, and what to do instead.

use crate::errors::error::Error;
use std::path::Path;

/// By the end of the name: what it is, and why it isn't read.
const UNREAD: [(&[&str], &str); 5] = [
    (
        &["pth", "pt", "ckpt", "bin"],
        "a file of PyTorch, which only a program that it holds can unpack (pickle); that is not run here",
    ),
    (&["h5", "keras", "pb", "tflite"], "a file of TensorFlow or Keras is not read"),
    (&["engine", "plan", "trt"], "a program of TensorRT is not read"),
    (&["mlmodel", "mlpackage"], "a file of Core ML is not read"),
    (&["gguf", "ggml"], "a file of language models is not read"),
];

/// Remedy for a file of a kind that isn't read.
const INSTEAD: &str = "export it as .onnx or .safetensors, docs/models.md says how";

/// Why `file` isn't read, if it is of a kind that holds networks or weights elsewhere.
pub fn unread(file: impl AsRef<Path>) -> Option<Error> {
    let file = file.as_ref();
    let extension = file.extension()?.to_str()?.to_ascii_lowercase();
    let kind = UNREAD.iter().find(|(extensions, _)| extensions.contains(&extension.as_str()));
    let (_, why) = kind?;
    Some(Error::Kind { file: file.display().to_string(), why: format!("{why}: {INSTEAD}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_of_a_known_kind_has_a_remedy() {
        let said = unread("a/resnet50.PTH").unwrap().to_string();
        assert!(said.starts_with("a/resnet50.PTH: a file of PyTorch, "), "{said}");
        assert!(said.ends_with(".onnx or .safetensors, docs/models.md says how"), "{said}");
        for read in ["a.onnx", "a.safetensors", "a.param", "notes.txt", "pth", ".pth"] {
            assert_eq!(unread(read), None, "{read}");
        }
    }
}
