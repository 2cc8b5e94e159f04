//! The kernel's own limit of device memory: the controller `dmem` of cgroup v2.
//!
//! The library counts what a program asks the driver for, and the kernel what the driver allocates.
//! A process gets a kernel's limit in a cgroup of its own below the one that it is in:
//!
//! 1. It makes the child, and moves there.
//! 2. It has its former cgroup give `dmem` to children, which the kernel refuses while other
//!    processes are in that.
//! 3. It writes `REGION BYTES` to the child's `dmem.max` and `dmem.low`, for each region of a GPU.
//!
//! If a step fails, the process moves back, and the child is removed.

use super::quantity::format_bytes;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// PCI vendor of NVIDIA's devices.
const NVIDIA: &str = "0x10de";
/// Beginning of our cgroups' names. The number of the process follows.
const PREFIX: &str = "reef-exec-";

/// Files of a cgroup tree, by paths below its root.
pub trait CgroupFiles {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Writes to a file that is there.
    ///
    /// # Errors
    ///
    /// The kernel's refusal among others.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;

    /// Makes a cgroup.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    fn make(&self, path: &Path) -> io::Result<()>;

    /// Removes a cgroup without processes.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns the vendor of a PCI device, as sysfs has it.
    fn vendor(&self, address: &str) -> Option<String>;
}

/// Kernel's cgroup tree.
#[derive(Clone, Debug)]
pub struct Cgroups {
    root: PathBuf,
}

impl Default for Cgroups {
    fn default() -> Self {
        Self { root: "/sys/fs/cgroup".into() }
    }
}

impl CgroupFiles for Cgroups {
    #[expect(clippy::disallowed_methods, reason = "of the cgroup file system")]
    fn read(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(self.root.join(path))
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).open(self.root.join(path))?;
        io::Write::write_all(&mut file, text.as_bytes())
    }

    fn make(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(self.root.join(path))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(self.root.join(path))
    }

    #[expect(clippy::disallowed_methods, reason = "of /sys")]
    fn vendor(&self, address: &str) -> Option<String> {
        let file = Path::new("/sys/bus/pci/devices").join(address).join("vendor");
        Some(fs::read_to_string(file).ok()?.trim().to_owned())
    }
}

/// Returns the cgroup that this process is in, as a path below the tree's root.
///
/// # Errors
///
/// The process is in no cgroup of version 2.
pub fn own_cgroup() -> Result<PathBuf, String> {
    cgroup_of(std::process::id())
}

/// As [`own_cgroup`], of another process.
#[expect(clippy::disallowed_methods, reason = "of /proc")]
pub(super) fn cgroup_of(process: u32) -> Result<PathBuf, String> {
    let file = format!("/proc/{process}/cgroup");
    let text = fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"));
    own.map(PathBuf::from).ok_or_else(|| format!("{file}: no cgroup of version 2"))
}

/// Returns the regions of NVIDIA's GPUs that the kernel can limit for processes of a cgroup.
///
/// # Errors
///
/// The reason for which there are none.
pub fn regions(files: &impl CgroupFiles, cgroup: &Path) -> Result<Vec<String>, String> {
    let file = cgroup.join("cgroup.controllers");
    let controllers = files.read(&file).map_err(|error| match error.kind() {
        ErrorKind::NotFound => "no cgroup of version 2 is mounted here".to_owned(),
        _ => format!("cgroup {}: {error}", file.display()),
    })?;
    if !has(&controllers, "dmem") {
        return Err("the kernel has no controller dmem for this cgroup".into());
    }
    // The root alone has capacities, and all others what is in use.
    let root = Path::new("dmem.capacity");
    let text = files.read(root).or_else(|_| files.read(&cgroup.join("dmem.current")));
    let text = text.map_err(|error| format!("dmem: {error}"))?;
    let names = text.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0));
    let found: Vec<_> = names.filter(|name| is_nvidia(files, name)).map(str::to_owned).collect();
    if found.is_empty() {
        return Err("the controller dmem has no region of an NVIDIA GPU".into());
    }
    Ok(found)
}

/// Returns the bytes that the kernel lets the processes of a cgroup have of a GPU of NVIDIA's: the
/// smallest limit of the cgroup and those above it.
pub(super) fn lowest_max(files: &impl CgroupFiles, cgroup: &Path) -> Option<u64> {
    let texts = cgroup.ancestors().filter_map(|of| files.read(&of.join("dmem.max")).ok());
    let of_line = |line: &str| {
        let (region, bytes) = line.rsplit_once(' ')?;
        bytes.parse().ok().filter(|_| is_nvidia(files, region)) // "max" is none
    };
    texts.filter_map(|text| text.lines().filter_map(of_line).min()).min()
}

/// Limits of a process and all that it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelLimits {
    /// Bytes that it may have at most, of each GPU.
    pub max: Option<u64>,
    /// Bytes that others' needs don't take from it.
    pub low: Option<u64>,
}

/// Gives a process limits by the kernel. Returns its new cgroup.
///
/// # Errors
///
/// The step that failed. The process is where it was.
pub fn limit(
    files: &impl CgroupFiles,
    cgroup: &Path,
    process: u32,
    limits: KernelLimits,
) -> Result<PathBuf, String> {
    let regions = regions(files, cgroup)?;
    limits.low.map_or(Ok(()), |low| check_above(files, cgroup, &regions, low))?;
    let child = cgroup.join(format!("{PREFIX}{process}"));
    let made = files.make(&child);
    made.map_err(|error| format!("cgroup {}: {error}", child.display()))?;
    let result = enter(files, cgroup, &child, process)
        .and_then(|()| set(files, &child, &regions, "dmem.max", limits.max))
        .and_then(|()| set(files, &child, &regions, "dmem.low", limits.low));
    if let Err(why) = result {
        // It may not have moved at all; a child that is in use stays.
        let _ = files.write(&cgroup.join("cgroup.procs"), &process.to_string());
        let _ = files.remove(&child);
        return Err(why);
    }
    Ok(child)
}

/// Checks that a cgroup and those above it protect as much as one below is to have: the kernel
/// protects no more in a cgroup than in the one around it.
fn check_above(
    files: &impl CgroupFiles,
    cgroup: &Path,
    regions: &[String],
    low: u64,
) -> Result<(), String> {
    for of in cgroup.ancestors().filter(|of| !of.as_os_str().is_empty()) {
        let text = read(files, &of.join("dmem.low"))?;
        let least = regions.iter().map(|region| value(&text, region)).min().unwrap_or(0);
        if least < low {
            let (of, [low, least]) = (of.display(), [low, least].map(format_bytes));
            return Err(format!(
                "dmem.low of cgroup {of} must be at least {low}, got {least}: the kernel protects no more below it"
            ));
        }
    }
    Ok(())
}

/// Returns the number of a region in the text of a file; 0 without a line, and for "max" all.
fn value(text: &str, region: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let value = lines.find(|(name, _)| *name == region).map_or("0", |(_, value)| value);
    value.parse().unwrap_or(u64::MAX)
}

fn enter(
    files: &impl CgroupFiles,
    cgroup: &Path,
    child: &Path,
    process: u32,
) -> Result<(), String> {
    write(files, &child.join("cgroup.procs"), &process.to_string())?;
    let given = cgroup.join("cgroup.subtree_control");
    if has(&read(files, &given)?, "dmem") {
        return Ok(());
    }
    files.write(&given, "+dmem").map_err(|error| match error.kind() {
        ErrorKind::ResourceBusy => {
            let scope = "systemd-run --user --scope -p Delegate=yes reef exec …";
            format!("cgroup {} has other processes: {scope} makes one", cgroup.display())
        }
        _ => format!("{}: {error}", given.display()),
    })
}

fn set(
    files: &impl CgroupFiles,
    child: &Path,
    regions: &[String],
    name: &str,
    bytes: Option<u64>,
) -> Result<(), String> {
    let Some(bytes) = bytes else { return Ok(()) };
    let file = child.join(name);
    regions.iter().try_for_each(|region| write(files, &file, &format!("{region} {bytes}\n")))
}

fn read(files: &impl CgroupFiles, path: &Path) -> Result<String, String> {
    files.read(path).map_err(|error| format!("cgroup {}: {error}", path.display()))
}

fn write(files: &impl CgroupFiles, path: &Path, text: &str) -> Result<(), String> {
    files.write(path, text).map_err(|error| format!("cgroup {}: {error}", path.display()))
}

/// Returns whether a list of controllers has this one.
fn has(list: &str, controller: &str) -> bool {
    list.split_whitespace().any(|name| name == controller)
}

/// Returns whether a region's name has the PCI address of an NVIDIA device, such as
/// `drm/0000:3b:00.0/vram0`.
fn is_nvidia(files: &impl CgroupFiles, region: &str) -> bool {
    let mut parts = region.split('/').map(str::to_ascii_lowercase);
    parts.any(|part| is_address(&part) && files.vendor(&part).as_deref() == Some(NVIDIA))
}

/// Returns whether a text is a PCI address: `0000:3b:00.0`.
fn is_address(text: &str) -> bool {
    let is_pattern = |(byte, like): (u8, u8)| match like {
        b'0' => byte.is_ascii_hexdigit(),
        like => byte == like,
    };
    let pattern = b"0000:00:00.0";
    text.len() == pattern.len() && text.bytes().zip(*pattern).all(is_pattern)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    const GPU: &str = "nvidia/0000:3B:00.0/vram0";
    const OTHER: &str = "drm/0000:03:00.0/vram0";

    /// A cgroup of the fake kernel.
    #[derive(Debug, Default)]
    struct Cgroup {
        processes: Vec<u32>,
        gives: bool,
        limits: BTreeMap<(String, String), u64>,
    }

    /// A tree by the kernel's rules: a cgroup with processes gives no controller to children, and
    /// only children that are given one have its files.
    #[derive(Debug)]
    struct Kernel {
        tree: RefCell<BTreeMap<PathBuf, Cgroup>>,
        has_dmem: bool,
        regions: Vec<&'static str>,
    }

    impl Kernel {
        fn new(processes: &[u32]) -> Self {
            let own = Cgroup { processes: processes.to_vec(), ..Cgroup::default() };
            let tree = RefCell::new(BTreeMap::from([(PathBuf::from("own"), own)]));
            let kernel = Self { tree, has_dmem: true, regions: vec![GPU, OTHER] };
            kernel.keep("own", 2 << 30);
            kernel
        }

        /// Has a cgroup keep bytes of the GPU for those below it.
        fn keep(&self, at: &str, bytes: u64) {
            let mut tree = self.tree.borrow_mut();
            let limits = &mut tree.entry(at.into()).or_default().limits;
            limits.insert(("dmem.low".into(), GPU.into()), bytes);
        }

        fn limits(&self, at: &str) -> Vec<(String, String, u64)> {
            let tree = self.tree.borrow();
            let limits = tree[Path::new(at)].limits.iter();
            limits.map(|((file, region), bytes)| (file.clone(), region.clone(), *bytes)).collect()
        }

        fn cgroups(&self) -> Vec<(String, Vec<u32>)> {
            let tree = self.tree.borrow();
            let name = |path: &PathBuf| path.display().to_string();
            tree.iter().map(|(path, of)| (name(path), of.processes.clone())).collect()
        }
    }

    fn split(path: &Path) -> (PathBuf, String) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (path.parent().unwrap().to_owned(), name)
    }

    impl CgroupFiles for Kernel {
        fn read(&self, path: &Path) -> io::Result<String> {
            let (of, name) = split(path);
            let tree = self.tree.borrow();
            let cgroup = tree.get(&of).ok_or(ErrorKind::NotFound)?;
            match name.as_str() {
                "cgroup.controllers" => Ok(if self.has_dmem { "cpu dmem" } else { "cpu" }.into()),
                "cgroup.subtree_control" => Ok(if cgroup.gives { "dmem" } else { "" }.into()),
                "dmem.max" | "dmem.low" if self.has_dmem => {
                    let default = if name == "dmem.max" { "max" } else { "0" };
                    let of = |region: &&str| {
                        let bytes = cgroup.limits.get(&(name.clone(), (*region).to_owned()));
                        let bytes = bytes.map_or(default.to_owned(), u64::to_string);
                        format!("{region} {bytes}\n")
                    };
                    Ok(self.regions.iter().map(of).collect())
                }
                "dmem.current" if self.has_dmem => {
                    Ok(self.regions.iter().map(|region| format!("{region} 4096\n")).collect())
                }
                _ => Err(ErrorKind::NotFound.into()),
            }
        }

        fn write(&self, path: &Path, text: &str) -> io::Result<()> {
            let (of, name) = split(path);
            let mut tree = self.tree.borrow_mut();
            let is_given =
                tree.get(of.parent().unwrap_or(Path::new(""))).is_some_and(|of| of.gives);
            if name == "cgroup.procs" {
                let process = text.parse().unwrap();
                if tree[&of].gives {
                    return Err(ErrorKind::ResourceBusy.into());
                }
                tree.values_mut().for_each(|of| of.processes.retain(|other| *other != process));
                tree.get_mut(&of).unwrap().processes.push(process);
                return Ok(());
            }
            let cgroup = tree.get_mut(&of).ok_or(ErrorKind::NotFound)?;
            match name.as_str() {
                "cgroup.subtree_control" if !cgroup.processes.is_empty() => {
                    Err(ErrorKind::ResourceBusy.into())
                }
                "cgroup.subtree_control" => {
                    cgroup.gives = text == "+dmem";
                    Ok(())
                }
                "dmem.max" | "dmem.low" if is_given => {
                    let (region, bytes) = text.trim_end().rsplit_once(' ').unwrap();
                    if !self.regions.contains(&region) {
                        return Err(ErrorKind::InvalidInput.into());
                    }
                    cgroup.limits.insert((name, region.into()), bytes.parse().unwrap());
                    Ok(())
                }
                _ => Err(ErrorKind::NotFound.into()),
            }
        }

        fn make(&self, path: &Path) -> io::Result<()> {
            self.tree.borrow_mut().insert(path.to_owned(), Cgroup::default());
            Ok(())
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            let mut tree = self.tree.borrow_mut();
            if !tree[path].processes.is_empty() {
                return Err(ErrorKind::ResourceBusy.into());
            }
            tree.remove(path);
            Ok(())
        }

        fn vendor(&self, address: &str) -> Option<String> {
            let vendor = if address == "0000:3b:00.0" { NVIDIA } else { "0x1002" };
            Some(vendor.into())
        }
    }

    const LIMITS: KernelLimits = KernelLimits { max: Some(8 << 30), low: Some(2 << 30) };

    #[test]
    fn process_alone_in_its_cgroup_gets_limits_of_each_gpu() {
        let kernel = Kernel::new(&[7]);
        let child = limit(&kernel, Path::new("own"), 7, LIMITS).unwrap();
        assert_eq!(child, Path::new("own/reef-exec-7"));
        let of = |file: &str, bytes| (file.to_owned(), GPU.to_owned(), bytes);
        let limits = kernel.limits("own/reef-exec-7");
        assert_eq!(limits, [of("dmem.low", 2 << 30), of("dmem.max", 8 << 30)]);
        assert_eq!(kernel.cgroups(), [("own".into(), vec![]), ("own/reef-exec-7".into(), vec![7])]);
    }

    /// The kernel keeps for a cgroup at most what it keeps for each one around it.
    #[test]
    fn protected_part_beyond_that_of_a_scope_is_refused() {
        let kernel = Kernel::new(&[]);
        kernel.keep("own/scope", 2 << 30);
        kernel.tree.borrow_mut().get_mut(Path::new("own/scope")).unwrap().processes = vec![7];
        let limit = || limit(&kernel, Path::new("own/scope"), 7, LIMITS);
        kernel.keep("own", 1 << 30);
        let why = "dmem.low of cgroup own must be at least 2 GiB, got 1 GiB: the kernel protects no more below it";
        assert_eq!(limit(), Err(why.into()));
        kernel.keep("own/scope", 0);
        assert!(limit().is_err_and(|why| why.contains("own/scope")), "the nearest one first");
        assert_eq!(kernel.tree.borrow()[Path::new("own/scope")].processes, [7], "it stays");
        kernel.keep("own", 2 << 30);
        kernel.keep("own/scope", 4 << 30);
        limit().unwrap();
    }

    #[test]
    fn limit_that_the_kernel_keeps_is_the_smallest_above() {
        let kernel = Kernel::new(&[7]);
        assert_eq!(lowest_max(&kernel, Path::new("own")), None);
        let child = limit(&kernel, Path::new("own"), 7, LIMITS).unwrap();
        assert_eq!(lowest_max(&kernel, &child), Some(8 << 30));
        assert_eq!(lowest_max(&kernel, &child.join("gone")), Some(8 << 30), "of the one above");
        assert_eq!(lowest_max(&kernel, Path::new("own")), None);
        let mut tree = kernel.tree.borrow_mut();
        let own = &mut tree.get_mut(Path::new("own")).unwrap().limits;
        own.insert(("dmem.max".into(), OTHER.into()), 1);
        own.insert(("dmem.max".into(), GPU.into()), 4 << 30);
        drop(tree);
        assert_eq!(lowest_max(&kernel, &child), Some(4 << 30));
        let none = Kernel { has_dmem: false, ..kernel };
        assert_eq!(lowest_max(&none, &child), None);
    }

    #[test]
    fn process_next_to_others_stays_where_it_is() {
        let kernel = Kernel::new(&[7, 8]);
        let why = limit(&kernel, Path::new("own"), 7, LIMITS).unwrap_err();
        assert!(why.starts_with("cgroup own has other processes: systemd-run "), "{why}");
        assert_eq!(kernel.cgroups(), [("own".into(), vec![8, 7])]);
    }

    #[test]
    fn kernel_without_controller_or_gpu_is_refused() {
        let mut kernel = Kernel::new(&[7]);
        kernel.regions = vec![OTHER, "drm/card0/vram0"];
        let why = |kernel: &Kernel| limit(kernel, Path::new("own"), 7, LIMITS).unwrap_err();
        assert_eq!(why(&kernel), "the controller dmem has no region of an NVIDIA GPU");
        kernel.has_dmem = false;
        assert_eq!(why(&kernel), "the kernel has no controller dmem for this cgroup");
        let none = regions(&kernel, Path::new("not-mounted"));
        assert_eq!(none, Err("no cgroup of version 2 is mounted here".into()));
        assert_eq!(kernel.cgroups(), [("own".into(), vec![7])]);
    }

    #[test]
    fn addresses_are_those_of_pci_devices() {
        let is = ["0000:3b:00.0", "0001:FF:1f.7"].map(is_address);
        assert_eq!(is, [true; 2]);
        let is_not = ["", "0000:3b:00", "0000-3b-00.0", "000g:3b:00.0", "0000:3b:00.00"];
        assert_eq!(is_not.map(is_address), [false; 5]);
    }
}
