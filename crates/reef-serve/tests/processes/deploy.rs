//! The files in deploy/: units that systemd takes, a dashboard that asks for metrics there are,
//! manifests with the fields that are required.

use crate::daemon::Daemon;
use crate::options;
use reef_serve::config::from_sources;
use reef_serve::{Class, Client, Options};
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use yaml_rust2::{Yaml, YamlLoader};

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(deploy(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// Words of a query that are names of metrics: not labels, functions or variables.
fn metrics_of(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("reef_") || word.starts_with("process_"))
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let budget = "rights.owner={ rt = true, control = true, period_us = 10000, budget_us = 4000 }";
    let daemon = Daemon::start("dashboard", &[budget]);
    for class in Class::ALL {
        let mut client = Client::connect("tiny", &options(daemon.folder(), Some(class))).unwrap();
        client.infer(&vec![0.5; client.input_len()]).unwrap();
    }
    let late =
        Options { timeout: Some(Duration::from_micros(1)), ..options(daemon.folder(), None) };
    let mut client = Client::connect("tiny", &late).unwrap();
    assert!(client.infer(&vec![0.5; client.input_len()]).is_err(), "there is a failure to count");
    daemon.get("/v2/no/such/path");
    let text = daemon.get("/metrics");
    let declared = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let kinds: Vec<(&str, &str)> = declared.filter_map(|line| line.split_once(' ')).collect();
    let is_there = |name: &str| {
        kinds.iter().any(|(of, kind)| match *kind {
            "histogram" => {
                ["_bucket", "_sum", "_count"].iter().any(|end| name.strip_suffix(end) == Some(*of))
            }
            _ => *of == name,
        })
    };
    let dashboard: Value = serde_json::from_str(&read("grafana/reef-serve.json")).unwrap();
    for key in ["title", "uid", "schemaVersion", "templating", "panels"] {
        assert!(!dashboard[key].is_null(), "a dashboard has {key}");
    }
    let panels = dashboard["panels"].as_array().unwrap();
    let mut queries: Vec<&str> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"))
        .map(|target| target["expr"].as_str().expect("a query"))
        .collect();
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    queries.extend(variables.filter_map(|variable| variable["query"]["query"].as_str()));
    let asked: BTreeSet<&str> = queries.iter().flat_map(|query| metrics_of(query)).collect();
    assert!(asked.len() > 15, "{asked:?}");
    let missing: Vec<_> = asked.iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "not in /metrics: {missing:?}\n{text}");
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has its number");
}

/// Returns the value under a list of keys.
fn at<'a>(yaml: &'a Yaml, path: &[&str]) -> &'a Yaml {
    path.iter().fold(yaml, |yaml, &key| &yaml[key])
}

fn text<'a>(yaml: &'a Yaml, path: &[&str]) -> &'a str {
    at(yaml, path).as_str().unwrap_or_else(|| panic!("{path:?} must be a text"))
}

fn list<'a>(yaml: &'a Yaml, path: &[&str]) -> &'a [Yaml] {
    at(yaml, path).as_vec().unwrap_or_else(|| panic!("{path:?} must be a list"))
}

/// The daemon's configuration that arguments of `reef serve` make: flags with names, or `--set`.
fn configured(arguments: &[&str]) -> reef_serve::Config {
    let pair = |argument: &str| -> (String, String) {
        let (name, value) = argument.strip_prefix("--").unwrap().split_once('=').unwrap();
        let (key, value) = match name {
            "set" => value.split_once('=').unwrap(),
            "http" | "grpc" => return (format!("listen.{name}"), value.into()),
            "repository" => ("models.repository", value),
            "load" => return ("models.load".into(), format!("[{value:?}]")),
            other => (other, value),
        };
        (key.into(), value.into())
    };
    let flags: Vec<_> = arguments.iter().map(|argument| pair(argument)).collect();
    from_sources(None, [], &flags).unwrap()
}

/// The fields that KServe's definition of a ServingRuntime (serving.kserve.io/v1alpha1) requires,
/// and their types.
#[test]
fn the_serving_runtime_has_what_kserve_requires() {
    let yaml = YamlLoader::load_from_str(&read("kserve/serving-runtime.yaml")).unwrap().remove(0);
    assert_eq!(text(&yaml, &["apiVersion"]), "serving.kserve.io/v1alpha1");
    assert_eq!(text(&yaml, &["kind"]), "ServingRuntime");
    assert!(!text(&yaml, &["metadata", "name"]).is_empty());
    for format in list(&yaml, &["spec", "supportedModelFormats"]) {
        assert!(!text(format, &["name"]).is_empty());
        assert!(format["version"].is_badvalue() || format["version"].as_str().is_some());
        let priority = format["priority"].as_i64();
        assert!(format["priority"].is_badvalue() || priority.is_some_and(|priority| priority > 0));
    }
    for version in list(&yaml, &["spec", "protocolVersions"]) {
        assert!(["v1", "v2", "grpc-v1", "grpc-v2"].contains(&version.as_str().unwrap()));
    }
    let containers = list(&yaml, &["spec", "containers"]);
    let [container] = containers else { panic!("there must be one container") };
    assert_eq!(text(container, &["name"]), "kserve-container", "by which KServe knows it");
    assert!(!text(container, &["image"]).is_empty());
    let ports: Vec<_> = list(container, &["ports"])
        .iter()
        .map(|port| port["containerPort"].as_i64().expect("a port"))
        .collect();
    let arguments: Vec<_> =
        list(container, &["args"]).iter().map(|argument| argument.as_str().unwrap()).collect();
    assert_eq!(arguments[0], "serve");
    let config = configured(&arguments[1..]);
    let served = [config.listen.http, config.listen.grpc].map(|it| i64::from(it.unwrap().port()));
    assert!(ports.iter().all(|port| served.contains(port)), "{ports:?} of {served:?}");
    for probe in ["readinessProbe", "livenessProbe"] {
        assert_eq!(at(container, &[probe, "httpGet", "port"]).as_i64(), Some(served[0]));
    }
}

#[test]
fn inference_service_asks_for_what_the_runtime_has() {
    let document = |file: &str| YamlLoader::load_from_str(&read(file)).unwrap().remove(0);
    let runtime = document("kserve/serving-runtime.yaml");
    let service = document("kserve/inference-service.yaml");
    assert_eq!(text(&service, &["apiVersion"]), "serving.kserve.io/v1beta1");
    let model = at(&service, &["spec", "predictor", "model"]);
    assert_eq!(text(model, &["runtime"]), text(&runtime, &["metadata", "name"]));
    let formats = list(&runtime, &["spec", "supportedModelFormats"]);
    let format = text(model, &["modelFormat", "name"]);
    assert!(formats.iter().any(|it| text(it, &["name"]) == format), "{format}");
    let version = at(model, &["protocolVersion"]);
    assert!(list(&runtime, &["spec", "protocolVersions"]).contains(version), "{version:?}");
}

/// Manifest of a pod with programs as models.
const EIGHT_MODELS: &str = "kubernetes/models.yaml";

/// Returns the document of this kind.
fn of_kind<'a>(documents: &'a [Yaml], kind: &str) -> &'a Yaml {
    documents.iter().find(|it| text(it, &["kind"]) == kind).unwrap()
}

/// Writes the files of a manifest's ConfigMap into a folder.
fn write_config_map(documents: &[Yaml], folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let files = at(of_kind(documents, "ConfigMap"), &["data"]).as_hash().unwrap();
    for (name, content) in files {
        std::fs::write(folder.join(name.as_str().unwrap()), content.as_str().unwrap()).unwrap();
    }
}

#[test]
fn pod_of_eight_models_is_asked_where_its_daemon_listens() {
    let documents = YamlLoader::load_from_str(&read(EIGHT_MODELS)).unwrap();
    let folder = crate::Folder::new("pod-config");
    write_config_map(&documents, folder.path());
    let file = folder.path().join("reef.toml");
    let config = from_sources(Some(&file), [], &[]).unwrap();
    let deployment = of_kind(&documents, "Deployment");
    let service = of_kind(&documents, "Service");
    let labels = at(deployment, &["spec", "template", "metadata", "labels"]);
    assert_eq!(at(deployment, &["spec", "selector", "matchLabels"]), labels);
    assert_eq!(at(service, &["spec", "selector"]), labels);
    let pod = at(deployment, &["spec", "template", "spec"]);
    let container = &list(pod, &["containers"])[0];
    let served = [config.listen.http, config.listen.grpc].map(|it| i64::from(it.unwrap().port()));
    let number = |port: &Yaml, key: &str| port[key].as_i64().expect("a port");
    let ports = list(container, &["ports"]).iter().map(|port| number(port, "containerPort"));
    assert_eq!(ports.collect::<Vec<_>>(), served);
    let ports = list(service, &["spec", "ports"]).iter().map(|port| number(port, "port"));
    assert_eq!(ports.collect::<Vec<_>>(), served);
    for (probe, path) in [
        ("startupProbe", "/v2/health/ready"),
        ("readinessProbe", "/v2/health/ready"),
        ("livenessProbe", "/v2/health/live"),
    ] {
        assert_eq!(text(container, &[probe, "httpGet", "path"]), path);
        assert_eq!(at(container, &[probe, "httpGet", "port"]).as_i64(), Some(served[0]));
    }
    assert!(config.listen.open_probes, "the kubelet has no token");
    let grace = at(pod, &["terminationGracePeriodSeconds"]).as_i64().unwrap();
    let drain = config.times.drain().as_secs();
    assert!(u64::try_from(grace).unwrap() > drain, "{grace} s to stop, {drain} s to drain");
    assert_eq!(at(container, &["resources", "limits", "nvidia.com/gpu"]).as_i64(), Some(1));
    let mounts = list(container, &["volumeMounts"]);
    let volumes = list(pod, &["volumes"]);
    let named = |name: &str| volumes.iter().any(|volume| text(volume, &["name"]) == name);
    assert!(mounts.iter().all(|mount| named(text(mount, &["name"]))), "{mounts:?}");
    let (token, models) = (config.listen.token_file.unwrap(), config.models.repository.unwrap());
    for path in [Path::new("/etc/reef/reef.toml"), &token, &models] {
        let mut places = mounts.iter().map(|mount| text(mount, &["mountPath"]));
        assert!(places.any(|place| path.starts_with(place)), "{}", path.display());
    }
}

/// The init container makes them. The daemon here is not the command, and refuses them for that
/// alone, once it has read all keys.
#[test]
fn pod_of_eight_models_has_folders_that_its_daemon_reads() {
    let documents = YamlLoader::load_from_str(&read(EIGHT_MODELS)).unwrap();
    let folder = Daemon::place("pod-models");
    let (config, models) = (folder.path().join("config"), folder.path().join("models"));
    write_config_map(&documents, &config);
    let pod = at(of_kind(&documents, "Deployment"), &["spec", "template", "spec"]);
    let init = &list(pod, &["initContainers"])[0];
    let script = list(init, &["args"])[0].as_str().unwrap();
    let script = script.replace("/etc/reef", config.to_str().unwrap());
    let script = script.replace("/models/repository", models.to_str().unwrap());
    let status = Command::new("sh").args(["-euc", &script]).status().unwrap();
    assert!(status.success(), "{script}");
    let daemon = Daemon::start_in(folder, &["models.processes=true"]);
    for name in (1..=8).map(|n| format!("m{n}")) {
        for part in [".", "model.toml", "1", "1/model.py"] {
            let mode = std::fs::metadata(models.join(&name).join(part)).unwrap().mode();
            assert_eq!(mode & 0o022, 0, "{name}/{part}: others may write to it");
        }
        let said = daemon.say(
            format!(
                "POST /v2/repository/models/{name}/load HTTP/1.1\r\nhost: localhost\r\n\
                 content-length: 2\r\nconnection: close\r\n\r\n{{}}"
            )
            .as_bytes(),
        );
        assert!(said.contains(" must be of a daemon of the command reef, got "), "{name}: {said}");
    }
}

#[test]
fn the_image_is_made_of_files_that_there_are() {
    let recipe = read("container/Containerfile");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let steps: Vec<_> = recipe.lines().filter(|line| !line.starts_with('#')).map(words).collect();
    assert_eq!(steps[0][0], "FROM");
    let rust = format!("docker.io/library/rust:{}-slim", env!("CARGO_PKG_RUST_VERSION"));
    assert_eq!(steps[0][1], rust, "the least version that builds it");
    let text = read("kubernetes/Containerfile");
    let of_models: Vec<_> = text.lines().map(words).collect();
    let steps_of_both = steps.iter().chain(&of_models);
    let copied = steps_of_both.filter(|step| step.first().is_some_and(|first| first == "COPY"));
    for step in copied.filter(|step| !step[1].starts_with("--from=")) {
        let path = deploy("..").join(&step[1]);
        assert!(path.exists(), "{}", path.display());
    }
    let file = deploy("container/reef.toml");
    let config = from_sources(Some(&file), [], &[]).unwrap();
    let exposed = steps.iter().find(|step| step.first().is_some_and(|first| first == "EXPOSE"));
    let ports = [config.listen.http, config.listen.grpc].map(|it| it.unwrap().port().to_string());
    assert_eq!(exposed.unwrap()[1..], ports);
}

/// Of a unit's file: the values of a key.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

#[test]
fn units_name_what_the_daemon_listens_on() {
    let file = deploy("systemd/reef.toml");
    let config = from_sources(Some(&file), [], &[]).unwrap();
    assert_eq!(config.listen.users, reef_serve::config::Users::Group("reef".into()));
    for name in ["local", "grpc", "http"] {
        let unit = read(&format!("systemd/reef-{name}.socket"));
        assert_eq!(values(&unit, "FileDescriptorName"), [name]);
        assert_eq!(values(&unit, "ListenStream")[0], format!("/run/reef/{name}.sock"));
        assert_eq!(values(&unit, "SocketMode"), ["0660"]);
        assert_eq!(values(&unit, "SocketGroup"), ["reef"]);
    }
    let service = read("systemd/reef.service");
    // Guests register in the folder of the sockets, which is the daemon's and outlives it.
    let folder = ["RuntimeDirectory", "RuntimeDirectoryPreserve"].map(|key| values(&service, key));
    assert_eq!(folder, [["reef"], ["yes"]]);
    let drain = config.times.drain().as_secs();
    let stop: u64 = values(&service, "TimeoutStopSec")[0].parse().unwrap();
    assert!(stop > drain, "{stop} s to stop, {drain} s to drain");
}

#[test]
fn systemd_takes_the_units() {
    let verifies = |folder: &Path| {
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--recursive-errors=no", "--man=no"]);
        let units = ["reef.service", "reef-local.socket", "reef-grpc.socket", "reef-http.socket"];
        command.args(units.map(|unit| folder.join(unit))).output()
    };
    let folder = crate::Folder::new("units");
    let program = std::env::current_exe().unwrap();
    for unit in ["reef.service", "reef-local.socket", "reef-grpc.socket", "reef-http.socket"] {
        let text = read(&format!("systemd/{unit}"));
        // It checks whether the program is there, which it is where the unit is installed.
        let text = text.replace("/usr/local/bin/reef ", &format!("{} ", program.display()));
        std::fs::write(folder.path().join(unit), text).unwrap();
    }
    match verifies(folder.path()) {
        Err(error) => reef_conformance::skip(&format!("systemd-analyze: {error}")),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{said}");
        }
    }
}
