//! The GPUs of a node, as NVIDIA's kernel module lists them.
//!
//! `/proc/driver/nvidia/gpus/PCI-ADDRESS/information` has lines `Name: value`, of which `GPU UUID`,
//! `Device Minor` and `Model` are read. Nothing of the driver is loaded for it.

use std::path::Path;

/// Folder in which the kernel module lists GPUs.
const LIST: &str = "proc/driver/nvidia/gpus";

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Gpu {
    /// `GPU-` and 36 characters: the same at each boot.
    pub(crate) uuid: String,
    /// The number of its device node.
    pub(crate) minor: u32,
    /// Its PCI address, such as `0000:3b:00.0`.
    pub(crate) address: String,
    /// The vendor's name of the model; empty if the module doesn't say.
    pub(crate) model: String,
    /// It is listed, and its device node exists.
    pub(crate) is_there: bool,
}

/// GPUs that are listed below `root`, by UUID. Without the module there are none, and one that the
/// driver hasn't looked at yet has no UUID and isn't among them.
pub(crate) fn gpus(root: &Path) -> Vec<Gpu> {
    let entries = std::fs::read_dir(root.join(LIST)).into_iter().flatten().flatten();
    let read = |entry: std::fs::DirEntry| {
        let text = std::fs::read_to_string(entry.path().join("information")).ok()?;
        parse(&text, entry.file_name().to_str()?, root)
    };
    let mut gpus: Vec<_> = entries.filter_map(read).collect();
    gpus.sort();
    gpus.dedup_by(|a, b| a.uuid == b.uuid);
    gpus
}

/// Lists the GPUs that are there now, and those of `known` that have gone.
pub(crate) fn poll(root: &Path, known: &[Gpu]) -> Vec<Gpu> {
    let mut found = gpus(root);
    let gone = known.iter().filter(|old| !found.iter().any(|new| new.uuid == old.uuid));
    let gone: Vec<_> = gone.map(|old| Gpu { is_there: false, ..old.clone() }).collect();
    found.extend(gone);
    found.sort();
    found
}

fn parse(text: &str, address: &str, root: &Path) -> Option<Gpu> {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim)
    };
    let uuid = value("GPU UUID").filter(|uuid| is_uuid(uuid))?.to_owned();
    let minor: u32 = value("Device Minor")?.parse().ok()?;
    let address = address.to_owned();
    let model = value("Model").unwrap_or_default().to_owned();
    let is_there = root.join(format!("dev/nvidia{minor}")).exists();
    Some(Gpu { uuid, minor, address, model, is_there })
}

/// The module writes question marks until the driver has looked at the GPU.
fn is_uuid(text: &str) -> bool {
    let rest = text.strip_prefix("GPU-").unwrap_or_default();
    rest.len() == 36 && rest.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Model: \t\t NVIDIA H200\nIRQ:   \t\t 66\n\
        GPU UUID: \t GPU-0a1b2c3d-0000-1111-2222-333344445555\nBus Type: \t PCIe\nDevice Minor: \t 3\n";

    #[test]
    fn a_gpu_is_read_and_one_without_uuid_is_none() {
        let parse = |text: &str| parse(text, "0000:3b:00.0", Path::new("/nowhere"));
        let gpu = parse(TEXT).unwrap();
        assert_eq!((gpu.uuid.len(), gpu.minor, gpu.is_there), (40, 3, false));
        assert_eq!((gpu.model.as_str(), gpu.address.as_str()), ("NVIDIA H200", "0000:3b:00.0"));
        let new = TEXT.replace("0a1b2c3d-0000-1111-2222-333344445555", &"?".repeat(36));
        assert_eq!(parse(&new), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_gpu_that_has_gone_stays_known() {
        let known = [parse(TEXT, "0000:3b:00.0", Path::new("/nowhere")).unwrap()];
        let known = [Gpu { is_there: true, ..known[0].clone() }];
        let now = poll(Path::new("/nowhere"), &known);
        assert_eq!(now, [Gpu { is_there: false, ..known[0].clone() }]);
    }
}
