//! Networks in place of those that workloads name.

use super::config::Workload;
use crate::report::usage::Usage;
use reef::did_you_mean;
use reef::models::{NAMES, TENSOR_NAMES};
use std::collections::BTreeMap;
use std::path::Path;

/// DISB's and REEF's names, and the network of the same name here; REEF's files hold other networks
/// in part (its `vgg` is a ResNet-50).
const ALIASES: [(&str, &str); 9] = [
    ("densenet", "densenet201"),
    ("densenet201-imagenet", "densenet201"),
    ("inception", "inception_v3"),
    ("inceptionv3-imagenet", "inception_v3"),
    ("resnet", "resnet152"),
    ("resnet152-imagenet", "resnet152"),
    ("resnet50-imagenet", "resnet50"),
    ("vgg", "vgg19"),
    ("vgg19-imagenet", "vgg19"),
];

/// Networks that replace others, as `--map` gives them: NAME=NETWORK.
pub(crate) fn replacement(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, network)) if !name.is_empty() && !network.is_empty() => {
            Ok((name.into(), network.into()))
        }
        _ => Err(format!("must be NAME=NETWORK, such as vgg19=resnet50, got {text:?}")),
    }
}

/// The network for each name in `workload`: one of ours, or a model of a daemon, which knows what
/// it has.
pub(crate) fn networks(
    workload: &Workload,
    replaced: &[(String, String)],
    of_daemon: bool,
) -> Result<BTreeMap<String, String>, Usage> {
    let names = workload.tasks.iter().map(|task| task.model.as_str());
    if let Some((unknown, _)) = replaced.iter().find(|(name, _)| !names.clone().any(|n| n == name))
    {
        return Err(Usage(format!("--map {unknown}: the workload has no such network")));
    }
    names.map(|name| Ok((name.to_owned(), network(name, replaced, of_daemon)?))).collect()
}

fn network(name: &str, replaced: &[(String, String)], of_daemon: bool) -> Result<String, Usage> {
    if let Some((_, network)) = replaced.iter().find(|(replaced, _)| replaced == name) {
        return Ok(network.clone());
    }
    if let Some((_, network)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
        return Ok((*network).into());
    }
    if of_daemon
        || NAMES.contains(&name)
        || TENSOR_NAMES.contains(&name)
        || Path::new(name).exists()
    {
        return Ok(name.into());
    }
    let names = [NAMES, TENSOR_NAMES].concat();
    let (have, meant) = (names.join(", "), did_you_mean(name, names.iter().copied()));
    Err(Usage(format!(
        "no network {name:?} here: put another in its place, as with --map {name}=resnet50 (have: {have}, \
         folders, .onnx files){meant}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::disb::config;

    #[test]
    fn workloads_that_are_shipped_name_networks_that_there_are() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("disb");
        let files = ["A", "B", "C", "D", "E", "REAL", "reef-sample/C", "reef-artefact/D"];
        for file in files {
            let workload = config::load(&folder.join(format!("{file}.json"))).unwrap();
            let networks = networks(&workload, &[], false);
            assert!(networks.is_ok(), "{file}: {}", networks.unwrap_err().0);
        }
    }
}
