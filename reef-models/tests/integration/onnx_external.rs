//! Weights that an ONNX file keeps in another file: read from the model's folder alone, and only
//! what is there.

#![cfg(feature = "onnx")]

use crate::handmade::{bytes, file, node, number, value};
use reef_models::kinds::reference;
use reef_models::onnx::copy;
use reef_models::{Budget, Error, Model, Result};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A folder with a folder `model` in it, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("reef-external-{test}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("model/below")).unwrap();
        Self(path)
    }

    /// Eighteen ones behind four other bytes.
    fn write_weights(&self, name: &str) {
        let ones = 1f32.to_le_bytes().repeat(18);
        std::fs::write(self.0.join(name), [[9; 4].as_slice(), &ones].concat()).unwrap();
    }

    /// Reads a network whose weights are where these keys say.
    fn load(&self, keys: &[(&str, &str)]) -> Result<Model> {
        let entry =
            |(key, value): &(&str, &str)| bytes(13, [bytes(1, key), bytes(2, value)].concat());
        let external: Vec<u8> = keys.iter().flat_map(entry).collect();
        let sizes: Vec<u8> = [1, 2, 3, 3].iter().flat_map(|&size| number(1, size)).collect();
        let tensor = bytes(5, [sizes, number(2, 1), bytes(8, "w"), external].concat());
        let nodes =
            [node("Conv", &["x", "w"], "a", &[]), node("GlobalAveragePool", &["a"], "y", &[])];
        let ends = [value(11, "x", &[1, 2, 4, 4]), value(12, "y", &[])];
        let path = self.0.join("model/m.onnx");
        std::fs::write(&path, file(17, &[nodes.concat(), ends.concat(), tensor])).unwrap();
        Model::open(path).images_only().read()
    }

    /// Loads from `location`, at the fourth byte.
    fn load_from(&self, location: &str) -> Result<Model> {
        self.load(&[("location", location), ("offset", "4"), ("length", "72")])
    }

    /// Why it can't be read, without the place in the model.
    #[track_caller]
    fn refuses(&self, keys: &[(&str, &str)]) -> String {
        let error = self.load(keys).unwrap_err().to_string();
        let at = ": initializer \"w\": ";
        error.split_once(at).unwrap_or_else(|| panic!("{error}")).1.into()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn sees_ones(imported: Result<Model>) {
    let model = imported.unwrap();
    let (image, params) = model.image().unwrap();
    assert_eq!(reference::execute(image, params, &[1.0; 32]).unwrap(), [18.0]);
}

#[test]
fn weights_are_read_from_the_folder_and_below() {
    let folder = Folder::new("inside");
    for place in ["m.data", "below/m.data"] {
        folder.write_weights(&format!("model/{place}"));
        sees_ones(folder.load_from(place));
    }
    symlink("below/m.data", folder.0.join("model/link.data")).unwrap();
    sees_ones(folder.load_from("link.data"));
    // Without a length, what the tensor takes; what lies behind it is another tensor's.
    sees_ones(folder.load(&[("location", "m.data"), ("offset", "4")]));
    sees_ones(folder.load(&[("location", "m.data"), ("offset", "4"), ("length", "")]));
}

/// Some exporters begin a location with the folder itself.
#[test]
fn location_may_name_the_folder_itself() {
    let folder = Folder::new("itself");
    for place in ["./m.data", "./below/m.data", "below/./m.data"] {
        folder.write_weights(&format!("model/{place}"));
        sees_ones(folder.load_from(place));
    }
    let ones = 1f32.to_le_bytes().repeat(18);
    std::fs::write(folder.0.join("model/whole.data"), ones).unwrap();
    sees_ones(folder.load(&[("location", "whole.data"), ("offset", ""), ("length", "")]));
    let said = folder.refuses(&[("location", ".")]);
    assert_eq!(said, ".: no file");
}

/// Constants of nodes and branches are copied as initializers are, and defaults of functions.
#[test]
fn copy_takes_the_files_of_all_tensors() {
    let folder = Folder::new("copied");
    let [entry, sizes] =
        [bytes(13, [bytes(1, "location"), bytes(2, "m.data")].concat()), number(1, 1)];
    let tensor = |name: &str, place: &str| {
        let location = bytes(13, [bytes(1, "location"), bytes(2, place)].concat());
        [number(1, 1), number(2, 1), bytes(8, name), location].concat()
    };
    let value =
        bytes(5, [bytes(1, "value"), bytes(5, [sizes, number(2, 1), entry].concat())].concat());
    let inner = [node("Constant", &[], "c", &[value]), bytes(5, tensor("v", "below/v.data"))];
    let branch = bytes(5, [bytes(1, "then_branch"), bytes(6, inner.concat())].concat());
    let graph = [node("If", &["x"], "y", &[branch]), bytes(5, tensor("w", "./w.data"))];
    let path = folder.0.join("model/m.onnx");
    let default = bytes(11, [bytes(1, "d"), bytes(5, tensor("d", "d.data"))].concat());
    let function = bytes(25, [bytes(1, "f"), default].concat());
    std::fs::write(&path, [file(17, &graph), function].concat()).unwrap();
    let names = ["m.data", "w.data", "below/v.data", "d.data"];
    for name in names {
        std::fs::write(folder.0.join("model").join(name), name).unwrap();
    }
    let to = folder.0.join("to");
    copy(&path, &to, &Budget::default(), || Ok(())).unwrap();
    for name in names {
        assert_eq!(std::fs::read_to_string(to.join(name)).unwrap(), name);
    }
}

#[test]
fn nothing_outside_of_the_folder_is_read() {
    let folder = Folder::new("outside");
    folder.write_weights("m.data");
    let absolute = folder.0.join("m.data");
    symlink("../m.data", folder.0.join("model/link.data")).unwrap();
    symlink(&folder.0, folder.0.join("model/up")).unwrap();
    let (absolute, up) = (absolute.to_str().unwrap(), "below/../m.data");
    // Nor is it said whether there is something.
    let outside =
        ["../m.data", "../lost", "./../m.data", up, "", absolute, "link.data", "up/m.data"];
    for location in outside {
        let said = folder.refuses(&[("location", location), ("offset", "4"), ("length", "72")]);
        assert_eq!(said, format!("external data outside of the folder: {location:?}"));
    }
}

#[test]
fn missing_bytes_are_an_error_before_anything_is_read() {
    let folder = Folder::new("short");
    folder.write_weights("model/m.data");
    let said = |keys: &[(&str, &str)]| folder.refuses(&[&[("location", "m.data")], keys].concat());
    assert_eq!(said(&[("offset", "5")]), "m.data has 76 bytes, 72 at 5 are not inside");
    let far = u64::MAX.to_string();
    assert_eq!(
        said(&[("offset", &far)]),
        format!("m.data has 76 bytes, 72 at {far} are not inside")
    );
    assert_eq!(
        said(&[("length", &far)]),
        format!("m.data: {far} bytes for a tensor that takes 72")
    );
    assert_eq!(said(&[("length", "71")]), "m.data: 71 bytes for a tensor that takes 72");
    for number in ["-1", "4 ", "0x4", "1e3"] {
        assert_eq!(said(&[("offset", number)]), format!("external data: offset {number:?}"));
    }
    let lost = folder.refuses(&[("location", "lost.data")]);
    assert!(lost.starts_with("lost.data: No such file"), "{lost}");
    assert_eq!(folder.refuses(&[("location", "below")]), "below: no file");
}

/// It has no writer, so that opening it would wait for ever.
#[test]
fn a_pipe_is_no_file() {
    let folder = Folder::new("pipe");
    let pipe: &Path = &folder.0.join("model/pipe");
    let made = std::process::Command::new("mkfifo").arg(pipe).status().unwrap();
    assert!(made.success());
    assert_eq!(folder.refuses(&[("location", "pipe")]), "pipe: no file");
}

/// Copies the network that was loaded last to `new/deep`, unless `check` refuses it.
fn copied(folder: &Folder, check: impl FnOnce() -> Result<()>) -> Result<()> {
    copy(folder.0.join("model/m.onnx"), folder.0.join("new/deep"), &Budget::default(), check)
}

#[test]
fn copy_stays_if_its_check_passes_and_is_gone_if_not() {
    let folder = Folder::new("copy");
    folder.write_weights("model/below/m.data");
    sees_ones(folder.load_from("below/m.data"));
    let why = Error::Kind { file: "m.onnx".into(), why: "is another one".into() };
    assert_eq!(copied(&folder, || Err(why.clone())), Err(why.clone()));
    assert!(!folder.0.join("new").exists());
    let out = folder.0.join("new/deep");
    copied(&folder, || Model::open(&out).images_only().read().map(drop)).unwrap();
    for (from, to) in [("m.onnx", "model.onnx"), ("below/m.data", "below/m.data")] {
        let read = |folder: &Path, file: &str| std::fs::read(folder.join(file)).unwrap();
        assert_eq!(read(&folder.0.join("model"), from), read(&out, to), "{to}");
    }
}

#[test]
fn copy_replaces_no_file_and_leaves_nothing() {
    let folder = Folder::new("copy-taken");
    folder.write_weights("model/m.data");
    sees_ones(folder.load_from("m.data"));
    let out = folder.0.join("new/deep");
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(out.join("m.data"), "precious").unwrap();
    let said = copied(&folder, || Ok(())).unwrap_err().to_string();
    assert!(said.contains("deep/m.data: File exists"), "{said}");
    assert_eq!(std::fs::read(out.join("m.data")).unwrap(), b"precious");
    assert!(!out.join("model.onnx").exists());
}

/// The file of weights would be read as the network, or as how it is served.
#[test]
fn weights_with_the_name_of_another_part_are_not_copied() {
    let folder = Folder::new("copy-names");
    for name in ["model.onnx", "model.json", "model.toml", "profile.json"] {
        folder.write_weights(&format!("model/{name}"));
        sees_ones(folder.load_from(name));
        let said = copied(&folder, || Ok(())).unwrap_err().to_string();
        let want = format!("external data: must not be named {name:?} in a model's folder");
        assert!(said.ends_with(&want), "{said}");
        assert!(!folder.0.join("new").exists());
    }
}

#[test]
fn weights_above_the_budget_are_not_copied() {
    let folder = Folder::new("copy-large");
    folder.write_weights("model/m.data");
    sees_ones(folder.load_from("m.data"));
    let weights = std::fs::File::options().write(true).open(folder.0.join("model/m.data"));
    weights.and_then(|file| file.set_len(4 << 20)).unwrap(); // holes take no room
    let (from, to) = (folder.0.join("model/m.onnx"), folder.0.join("new"));
    let error = copy(&from, &to, &Budget::new(1 << 20), || Ok(())).unwrap_err();
    assert!(matches!(error, Error::Memory { .. }), "{error}");
    assert!(!to.exists());
    let budget = Budget::new(5 << 20);
    let check = || {
        assert!(budget.charge(4 << 20).is_ok(), "the budget is free for the copy's reader");
        Ok(())
    };
    copy(&from, &to, &budget, check).unwrap();
}
