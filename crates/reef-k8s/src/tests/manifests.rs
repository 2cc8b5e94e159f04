//! The files in deploy/kubernetes and deploy/helm: what is mounted is what the plugin is told, what
//! pods ask for is what it offers, and what the chart can be told is in its schema.
//! `tools/helm_check.sh` renders the chart.

use crate::resource::Resource;
use reef_guest::page::Class;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use yaml_rust2::{Yaml, YamlLoader};

pub(crate) fn documents(file: &str) -> Vec<Yaml> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    YamlLoader::load_from_str(&text).unwrap()
}

fn list<'a>(yaml: &'a Yaml, key: &str) -> impl Iterator<Item = &'a Yaml> {
    yaml[key].as_vec().unwrap_or_else(|| panic!("{key}: must be a list")).iter()
}

fn text<'a>(yaml: &'a Yaml, key: &str) -> &'a str {
    yaml[key].as_str().unwrap_or_else(|| panic!("{key}: must be a text"))
}

/// Volumes of a container by their mount paths.
fn mounts(container: &Yaml) -> BTreeMap<&str, &str> {
    list(container, "volumeMounts").map(|m| (text(m, "mountPath"), text(m, "name"))).collect()
}

#[test]
fn the_plugin_finds_at_the_nodes_paths_what_it_is_told_of() {
    let documents = documents("node.yaml");
    let set = documents.iter().find(|it| text(it, "kind") == "DaemonSet").unwrap();
    assert_eq!(text(set, "apiVersion"), "apps/v1");
    let (spec, template) = (&set["spec"], &set["spec"]["template"]);
    assert_eq!(spec["selector"]["matchLabels"], template["metadata"]["labels"]);
    assert_eq!(spec["updateStrategy"]["rollingUpdate"]["maxSurge"].as_i64(), Some(0));
    let pod = &template["spec"];
    assert_eq!(pod["hostPID"].as_bool(), Some(true));
    let on_node: BTreeMap<_, _> = list(pod, "volumes")
        .filter_map(|volume| Some((text(volume, "name"), volume["hostPath"]["path"].as_str()?)))
        .collect();
    let plugin = list(pod, "containers").find(|it| text(it, "name") == "plugin").unwrap();
    let mounts = mounts(plugin);
    let mut arguments = list(plugin, "args").map(|argument| argument.as_str().unwrap());
    assert_eq!([arguments.next(), arguments.next()], [Some("k8s"), Some("plugin")]);
    let paths =
        arguments.filter_map(|flag| Some(flag.split_once('=')?.1).filter(|it| it.starts_with('/')));
    let paths: Vec<_> = paths.collect();
    assert_eq!(paths.len(), 4, "{paths:?}");
    for path in paths {
        let (at, volume) = mounts.iter().find(|(at, _)| path.starts_with(**at)).expect(path);
        assert_eq!(on_node.get(volume), Some(at), "{path}: elsewhere on the node");
    }
}

#[test]
fn containers_mount_volumes_that_there_are() {
    let documents = documents("node.yaml");
    let sets: Vec<_> = documents.iter().filter(|it| text(it, "kind") == "DaemonSet").collect();
    assert!(!sets.is_empty());
    for set in sets {
        let pod = &set["spec"]["template"]["spec"];
        let volumes: BTreeSet<_> =
            list(pod, "volumes").map(|volume| text(volume, "name")).collect();
        for container in list(pod, "initContainers").chain(list(pod, "containers")) {
            let used: BTreeSet<_> = mounts(container).into_values().collect();
            assert!(used.is_subset(&volumes), "{used:?} of {volumes:?}");
        }
    }
}

#[test]
fn pods_ask_for_what_is_offered() {
    let name = |class| Resource { class, replicas: 1, memory: None, compute: None }.name();
    let offered = [Class::RealTime, Class::BestEffort].map(name);
    let pods = documents("pods.yaml");
    let asked = pods.iter().map(|pod| {
        let container = list(&pod["spec"], "containers").next().unwrap();
        let limits = container["resources"]["limits"].as_hash().unwrap();
        let (name, count) = limits.iter().next().unwrap();
        assert_eq!(count.as_i64(), Some(1));
        name.as_str().unwrap().to_owned()
    });
    assert_eq!(asked.collect::<Vec<_>>(), offered);
}

const CHART: &str = "helm/reef";

fn chart(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(CHART).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Paths of what can be set, as a schema names them. Objects of free keys count as one.
fn paths(schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    match schema["properties"].as_object() {
        Some(properties) => {
            assert_eq!(schema["additionalProperties"], false, "{at}: unknown keys are refused");
            for (key, of) in properties.iter().filter(|(key, _)| *key != "global") {
                paths(of, &format!("{at}.{key}"), found);
            }
        }
        None => drop(found.insert(at.to_owned())),
    }
}

fn is_in(yaml: &Yaml, path: &str) -> bool {
    let keys = path.split('.').filter(|key| !key.is_empty());
    !keys.fold(yaml, |yaml, key| &yaml[key]).is_badvalue()
}

#[test]
fn chart_values_match_schema_and_templates() {
    let values = &YamlLoader::load_from_str(&chart("values.yaml")).unwrap()[0];
    let schema: Value = serde_json::from_str(&chart("values.schema.json")).unwrap();
    let mut known = BTreeSet::new();
    paths(&schema, "", &mut known);
    assert!(known.len() > 30, "{known:?}");
    for path in &known {
        assert!(is_in(values, path), "{path}: in the schema, and not in values.yaml");
    }
    let names = ["access", "classes", "config", "dashboard", "metrics", "node"]
        .map(|it| format!("{it}.yaml"));
    for name in names.iter().map(String::as_str).chain(["_names.tpl", "NOTES.txt"]) {
        let text = chart(&format!("templates/{name}"));
        let used = text.split(".Values.").skip(1).chain(text.split("$v.").skip(1));
        for used in used {
            let end =
                used.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(used.len());
            let path = used[..end].trim_end_matches('.');
            assert!(is_in(values, path), "{name}: {path} isn't in values.yaml");
        }
    }
}

#[test]
fn the_charts_dashboard_is_that_of_deploy() {
    let dashboard: Value = serde_json::from_str(&chart("dashboards/reef-serve.json")).unwrap();
    assert_eq!(dashboard["uid"], "reef-serve");
    let link = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/helm/reef/dashboards/reef-serve.json");
    let wanted = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/grafana/reef-serve.json");
    assert_eq!(link.canonicalize().unwrap(), wanted.canonicalize().unwrap());
}

#[test]
fn program_elsewhere_names_the_service_that_has_the_gpu() {
    let documents = documents("remote.yaml");
    let of = |kind: &str| documents.iter().find(|it| text(it, "kind") == kind).unwrap();
    let arguments = |container: &Yaml| -> Vec<String> {
        list(container, "args").map(|argument| argument.as_str().unwrap().to_owned()).collect()
    };
    let (service, template, pod) =
        (of("Service"), &of("Deployment")["spec"]["template"], &of("Pod")["spec"]);
    let port = list(&service["spec"], "ports").next().unwrap()["port"].as_i64().unwrap();
    assert_eq!(service["spec"]["selector"], template["metadata"]["labels"]);
    assert_eq!(of("Deployment")["spec"]["selector"]["matchLabels"], template["metadata"]["labels"]);
    let server = list(&template["spec"], "containers").next().unwrap();
    let ports: Vec<_> = list(server, "ports").map(|it| it["containerPort"].as_i64()).collect();
    assert_eq!(ports, [Some(port)]);
    assert!(arguments(server).contains(&format!("--programs=0.0.0.0:{port}")));
    assert_eq!(server["resources"]["limits"]["nvidia.com/gpu"].as_i64(), Some(1));
    let program = list(pod, "containers").next().unwrap();
    let address = format!("--remote=tls:{}:{port}", text(&service["metadata"], "name"));
    assert!(arguments(program).contains(&address), "{address}");
    assert!(program["resources"].is_badvalue() && pod["runtimeClassName"].is_badvalue());
    // Both read files of the secret where they are mounted, and the program gets no private key.
    for (container, of) in [(server, &template["spec"]), (program, pod)] {
        let mounted = mounts(container);
        let is_mounted = |file: &str| mounted.keys().any(|at| file.starts_with(&format!("{at}/")));
        let files: Vec<String> = arguments(container)
            .iter()
            .filter_map(|flag| Some(flag.split_once("=/")?.1.to_owned()))
            .collect();
        assert!(files.len() >= 2 && files.iter().all(|file| is_mounted(&format!("/{file}"))));
        assert_eq!(
            list(of, "volumes").next().unwrap()["secret"]["defaultMode"].as_i64(),
            Some(440)
        );
    }
    let secret = &list(pod, "volumes").next().unwrap()["secret"];
    let keys: Vec<_> = list(secret, "items").map(|item| text(item, "key")).collect();
    assert_eq!(keys, ["token", "certificate.pem"]);
}
