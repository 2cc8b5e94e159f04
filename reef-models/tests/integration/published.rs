//! REEF's ten published graphs: they load unchanged, and their counts and hazards are known.
//!
//! They are not ours and don't come along: `REEF_PUBLISHED` names the folder that has them, each as
//! `MODEL/MODEL.json` with `MODEL/MODEL.profile.json` (`resource/` of the repository
//! SJTU-IPADS/reef).

use reef_models::profile::Latencies;
use reef_models::{ScheduleGraph, hazards};
use std::path::PathBuf;

/// Directory, launches, kernels, storages, bytes, given storages, hazards at d = 1 and at d = 2.
const PUBLISHED: [(&str, [usize; 7]); 10] = [
    ("mocked_kernel", [2, 2, 5, 163_840, 3, 0, 0]),
    ("alexnet", [13, 13, 16, 205_381_568, 12, 9, 8]),
    ("bert", [205, 23, 112, 139_980_000, 102, 76, 98]),
    ("densenet", [207, 23, 411, 5_164_564, 404, 188, 193]),
    ("inception", [146, 75, 204, 181_462_796, 191, 50, 71]),
    ("mobilenet", [31, 23, 61, 22_311_328, 57, 27, 26]),
    ("resnet", [330, 43, 321, 347_596_268, 312, 62, 77]),
    ("resnet152", [207, 35, 317, 241_313_452, 312, 144, 146]),
    ("resnet18", [57, 54, 101, 123_733_996, 44, 0, 0]),
    ("vgg", [71, 35, 113, 102_966_956, 108, 42, 44]),
];

/// The folder of the published files, or `None` after saying so.
fn data() -> Option<PathBuf> {
    let data = std::env::var_os("REEF_PUBLISHED").map(PathBuf::from);
    if data.is_none() {
        reef_conformance::skip("REEF_PUBLISHED names no folder of REEF's published models");
    }
    data
}

#[test]
fn the_graphs_have_the_known_counts() {
    let Some(data) = data() else { return };
    for (name, [launches, kernels, storages, bytes, given, ..]) in PUBLISHED {
        let graph = ScheduleGraph::load(data.join(name).join(format!("{name}.json"))).unwrap();
        let have = [graph.steps.len(), graph.kernels().len(), graph.storages.len(), graph.bytes()];
        assert_eq!(have, [launches, kernels, storages, bytes], "{name}");
        assert_eq!(graph.given.len(), given, "{name}");
        assert_eq!(graph.name, name);
    }
}

#[test]
fn the_graphs_have_the_known_hazards() {
    let Some(data) = data() else { return };
    for (name, [.., d1, d2]) in PUBLISHED {
        let graph = ScheduleGraph::load(data.join(name).join(format!("{name}.json"))).unwrap();
        assert_eq!([1, 2].map(|d| hazards(&graph, d).len()), [d1, d2], "{name}");
        assert!(hazards(&graph, 0).is_empty(), "{name}: one launch overwrote its input");
    }
}

#[test]
fn the_profiles_cover_their_graphs() {
    let Some(data) = data() else { return };
    for (name, _) in PUBLISHED {
        let graph = ScheduleGraph::load(data.join(name).join(format!("{name}.json"))).unwrap();
        let latencies =
            Latencies::load(data.join(name).join(format!("{name}.profile.json"))).unwrap();
        assert!(latencies.kernels.keys().eq(graph.kernels()), "{name}");
        let profiles = latencies.profiles_of(&graph);
        assert_eq!(profiles.len(), graph.kernels().len(), "{name}");
        assert!(profiles.values().all(|profile| profile.blocks > 0 && profile.micros > 0));
        let text = latencies.to_json().unwrap();
        assert_eq!(Latencies::from_json(&text, name).unwrap(), latencies);
    }
}
