use super::*;
use crate::models::source::ModelSource;

struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("reef-repository-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn open(&self) -> Repository {
        Repository::open(Some(&self.0), true).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn name(text: &str) -> ModelName {
    ModelName::new(text).unwrap()
}

impl Repository {
    fn all(&self, model: &str, version: Option<u32>) -> Result<Vec<ModelSpec>> {
        self.specs(&name(model), version, &Replacement::default())
    }

    fn source(&self, model: &str, version: Option<u32>) -> Result<ModelSource> {
        self.all(model, version).map(|mut all| all.remove(0).source)
    }

    /// The error of a model.
    fn refusal(&self, model: &str) -> String {
        self.all(model, None).unwrap_err().to_string()
    }
}

#[test]
fn newest_version_is_the_default() {
    let folder = Folder::new("versions");
    folder.file("a/model.toml", "network = \"resnet18\"\nsize = 64\nseed = 7\n");
    for version in ["1", "2", "10", "x", "03"] {
        folder.file(&format!("a/{version}/note"), "");
    }
    folder.file("b/model.toml", "network = \"resnet18\"\nseed = 1\nversions = [1, 2]\n");
    folder.file("b/1/note", "");
    folder.file("b/2/note", "");
    let repository = folder.open();
    let versions = |n: &str, v| -> Vec<u32> {
        repository.all(n, v).unwrap().iter().map(|r| r.version).collect()
    };
    assert_eq!(versions("a", None), [10]);
    assert_eq!(versions("a", Some(2)), [2]);
    assert_eq!(versions("b", None), [1, 2]);
    let listed = repository.list().unwrap();
    assert_eq!(listed[0], ListedModel { name: name("a"), versions: vec![1, 2, 10] });
    let missing = repository.all("a", Some(3)).unwrap_err();
    assert_eq!(missing, Error::NotFound("model a has no version 3".into()));
}

#[test]
fn builtin_network_is_hidden_by_a_folder() {
    let folder = Folder::new("builtin");
    folder.file("resnet18/model.toml", "network = \"resnet50\"\nseed = 1\n");
    folder.file("resnet18/4/note", "");
    let repository = folder.open();
    assert!(!repository.builtin().contains(&name("resnet18")));
    let want = ModelSource::Seeded { network: "resnet50".into(), seed: 1 };
    assert_eq!(repository.source("resnet18", None), Ok(want));
    assert_eq!(repository.all("resnet152", None).unwrap()[0].version, 1);
    assert!(repository.all("lenet", None).is_err());
    let none = Repository::open(None, false).unwrap();
    assert!(none.all("resnet152", None).is_err());
}

#[test]
fn outside_link_and_wrong_description_are_refused() {
    let (folder, outside) = (Folder::new("links"), Folder::new("outside"));
    outside.file("m/model.toml", "network = \"resnet18\"\nseed = 1\n");
    std::os::unix::fs::symlink(outside.0.join("m"), folder.0.join("m")).unwrap();
    folder.file("typo/model.toml", "network = \"resnet18\"\nsede = 1\n");
    folder.file("typo/1/note", "");
    let repository = folder.open();
    let said = repository.refusal("m");
    assert!(
        said.starts_with("model m: ") && said.contains("/m must not be a link outside "),
        "{said}"
    );
    assert!(said.contains("outside/") || said.contains("outside-"), "{said}");
    std::os::unix::fs::symlink("nowhere", folder.0.join("n.onnx")).unwrap();
    let said = repository.refusal("n");
    assert!(said.contains("n.onnx: No such file"), "{said}");
    let said = repository.refusal("typo");
    assert!(said.contains("model.toml") && said.contains("sede"), "{said}");
    assert!(Repository::open(Some(Path::new("/nowhere")), true).is_err());
}
#[test]
fn files_and_folders_of_networks_are_listed() {
    let folder = Folder::new("whole");
    folder.file("a.onnx", "");
    folder.file("resnet18.safetensors", "");
    folder.file("b/model.json", "");
    folder.file("c/1/model.json", "");
    folder.file("c/2/x.onnx", "");
    folder.file("d/1/notes.txt", "");
    folder.file("notes.txt", "");
    folder.file("e/notes.txt", "");
    let repository = folder.open();
    let listed = repository.list().unwrap();
    let listed: Vec<_> = listed.iter().map(|l| (l.name.as_str(), l.versions.len())).collect();
    assert_eq!(listed, [("a", 1), ("b", 1), ("c", 2), ("d", 1), ("resnet18", 1)]);
    let place = folder.0.canonicalize().unwrap();
    let source = |n: &str, v| repository.source(n, v);
    let whole = |path: &str| Ok(ModelSource::Whole(place.join(path), None));
    assert_eq!(source("a", None), whole("a.onnx"));
    assert_eq!(source("b", None), whole("b"));
    assert_eq!(source("c", Some(1)), whole("c/1"));
    assert_eq!(source("c", None), whole("c/2/x.onnx"));
    assert_eq!(source("resnet18", None), whole("resnet18.safetensors"));
    assert!(matches!(source("a", Some(2)), Err(Error::NotFound(_))));
    let said = source("d", None).unwrap_err().to_string();
    assert!(said.starts_with("model d/1: ") && said.contains("must hold a model.json"), "{said}");
}

#[test]
fn unsupported_file_hides_a_network_of_its_name() {
    let folder = Folder::new("unread");
    folder.file("resnet50.pth", "PK");
    folder.file("old/1/model.pt", "PK");
    folder.file("mine.onnx", "");
    let say = |builtin, n: &str| Repository::open(Some(&folder.0), builtin).unwrap().refusal(n);
    for builtin in [true, false] {
        let said = say(builtin, "resnet50");
        assert!(said.starts_with("model resnet50: "), "{said}");
        assert!(said.contains("resnet50.pth: a file of PyTorch, "), "{said}");
    }
    assert!(say(true, "old").contains("model.pt: a file of PyTorch, "), "{}", say(true, "old"));
    let hint = "(--set models.builtin=true makes up weights for a network of this name)";
    let said = say(false, "resnet18");
    assert_eq!(said, format!("no model resnet18 in the repository {hint}"));
    assert_eq!(say(false, "mien"), "no model mien in the repository: did you mean mine?");
    let said = say(true, "resnet81");
    assert_eq!(said, "no model resnet81 in the repository: did you mean resnet18?");
    assert_eq!(say(true, "gpt"), "no model gpt in the repository");
    assert_eq!(folder.open().unread().len(), 1);
}

#[test]
fn entry_that_cannot_be_a_model_has_an_error() {
    let folder = Folder::new("unnamed");
    for file in ["my model.onnx", "my folder/1/a.onnx", "good.onnx"] {
        folder.file(file, "");
    }
    folder.file("some notes.txt", "");
    folder.file(".a draft.onnx", "");
    let link = |target: &Path, name: &str| {
        std::os::unix::fs::symlink(target, folder.0.join(name)).unwrap();
    };
    link(Path::new("nowhere"), "gone.onnx");
    link(&std::env::current_exe().unwrap(), "link.onnx");
    let said: Vec<_> = folder.open().unread().iter().map(ToString::to_string).collect();
    let wants = [
        "gone.onnx: No such file",
        "link.onnx must not be a link outside",
        "my folder: model name must be",
        "my model.onnx: model name must be",
    ];
    assert_eq!(said.len(), wants.len(), "{said:?}");
    for (said, want) in said.iter().zip(wants) {
        assert!(said.contains(want), "{said}");
    }
}

#[test]
fn weights_file_requires_a_network_name() {
    let folder = Folder::new("weights");
    folder.file("a/1/weights.param", "");
    folder.file("b/model.toml", "network = \"resnet50\"\n");
    folder.file("b/1/any.safetensors", "");
    folder.file("c/model.toml", "network = \"resnet50\"\n");
    folder.file("c/1/model.onnx", "");
    folder.file("d/1/a.onnx", "");
    folder.file("d/1/b.onnx", "");
    let repository = folder.open();
    let said = |n: &str| repository.refusal(n);
    assert!(said("a").contains("weights.param: model.toml must name its network"), "{}", said("a"));
    let place = folder.0.canonicalize().unwrap();
    let (network, file) = ("resnet50".into(), place.join("b/1/any.safetensors"));
    assert_eq!(repository.source("b", None), Ok(ModelSource::Weights { network, file }));
    assert!(said("c").contains("model.onnx: the file defines its network"), "{}", said("c"));
    assert!(said("d").contains("must hold one network, got a.onnx and b.onnx"), "{}", said("d"));
}

#[test]
fn bound_of_loops_requires_an_onnx_file() {
    let folder = Folder::new("bounds");
    let network = "network = \"resnet50\"\n";
    folder.file("a/model.toml", "loop_bound = 4\n");
    folder.file("a/1/a.onnx", "");
    folder.file("b/model.toml", &format!("{network}loop_bound = 4\n"));
    folder.file("b/1/any.safetensors", "");
    folder.file("c/model.toml", &format!("{network}seed = 1\nloop_bound = 4\n"));
    folder.file("c/1/note", "");
    let repository = folder.open();
    let place = folder.0.canonicalize().unwrap();
    let want = ModelSource::Whole(place.join("a/1/a.onnx"), Some(4));
    assert_eq!(repository.source("a", None), Ok(want));
    for model in ["b", "c"] {
        let said = repository.refusal(model);
        assert!(said.contains("loop_bound requires an ONNX file"), "{said}");
    }
}

#[test]
fn seed_requires_a_network() {
    let folder = Folder::new("seeds");
    folder.file("a/model.toml", "seed = 4\n");
    folder.file("a/1/a.onnx", "");
    folder.file("b/model.toml", "seed = 4\n");
    folder.file("b/1/kernels.cu", "");
    let repository = folder.open();
    for model in ["a", "b"] {
        let found = repository.specs(&name(model), None, &Replacement::default());
        let said = found.unwrap_err().to_string();
        assert!(said.contains("a seed requires a network"), "{said}");
    }
}

#[test]
fn description_of_any_length_gets_one_short_error() {
    let folder = Folder::new("long");
    folder.file("m/1/model.onnx", "");
    folder.file("m/model.toml", &"x".repeat(64 << 10));
    let repository = folder.open();
    let said = || repository.refusal("m");
    assert!(said().len() < 1000, "{} bytes", said().len());
    for file in ["m/model.toml", "m/config.pbtxt"] {
        let _ = std::fs::remove_file(folder.0.join("m/model.toml"));
        let sparse = std::fs::File::create(folder.0.join(file)).unwrap();
        sparse.set_len(16 << 30).unwrap();
        assert!(said().contains(&format!("{file}: must have at most ")), "{}", said());
    }
}

/// The model would be served with the settings of one without a description.
#[test]
fn description_that_is_no_file_is_an_error() {
    let folder = Folder::new("kinds");
    folder.file("m/1/model.onnx", "");
    let repository = folder.open();
    let said = || repository.refusal("m");
    for file in ["m/config.pbtxt", "m/model.toml"] {
        std::os::unix::fs::symlink("/nowhere", folder.0.join(file)).unwrap();
        assert!(said().contains(&format!("{file}: No such file")), "{}", said());
    }
    std::fs::remove_file(folder.0.join("m/model.toml")).unwrap();
    std::fs::create_dir(folder.0.join("m/model.toml")).unwrap();
    let want = "m/model.toml: must be a regular file, got a folder";
    assert!(said().contains(want), "{}", said());
}

#[test]
fn triton_config_is_read_without_model_toml() {
    let folder = Folder::new("pbtxt");
    let text = "name: \"m\" platform: \"onnxruntime_onnx\" max_batch_size: 4\n\
        dynamic_batching { max_queue_delay_microseconds: 100 }\n\
        instance_group { count: 2 } parameters { key: \"batch_rt\" value { string_value: \"true\" } }\n\
        version_policy: { specific: { versions: [1, 2] } }";
    folder.file("m/config.pbtxt", text);
    folder.file("m/1/model.onnx", "");
    folder.file("m/2/model.onnx", "");
    let repository = folder.open();
    let specs = || repository.all("m", None);
    let all = specs().unwrap();
    assert_eq!(all.iter().map(|spec| spec.version).collect::<Vec<_>>(), [1, 2]);
    let spec = &all[0];
    assert_eq!((spec.max_batch(), spec.batches_rt(), spec.instances.rt), (4, true, 2));
    let config = ModelConfig::from_json(&name("m"), r#"{ "version_policy": { "latest": {} } }"#);
    let given = Replacement { config: Some(config.unwrap()), upload: None };
    let changed = repository.specs(&name("m"), None, &given).unwrap();
    let (spec, versions) = (&changed[0], changed.iter().map(|spec| spec.version));
    assert_eq!(
        (versions.collect::<Vec<_>>(), spec.max_batch(), spec.instances.rt),
        (vec![2], 4, 2)
    );
    folder.file("m/config.pbtxt", "max_batch_size: 4\nname");
    let said = specs().unwrap_err().to_string();
    assert!(said.ends_with("m/config.pbtxt: line 2: must have a value or a message"), "{said}");
    folder.file("m/model.toml", "");
    assert_eq!(specs().unwrap()[0].max_batch(), 1, "it is not read if there is a model.toml");
}
