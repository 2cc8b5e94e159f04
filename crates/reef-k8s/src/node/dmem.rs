//! The kernel's limit of a container's device memory: the controller `dmem` of cgroup v2.
//!
//! *In*: a claim's limit and GPUs. *Out*: a hook for its CDI file, by which the container runtime
//! runs `reef k8s dmem-hook` on the node. The container has its cgroup then, and its program does
//! not run yet. The hook has the cgroups above give the controller on, and writes the limit.
//! *Invariant*: a container whose limit can't be set does not start.

use crate::error::{Error, Result};
use reef_guest::limit::{CgroupFiles, Cgroups, regions};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

/// Longest time that a container runtime gives a hook, in seconds.
const TIMEOUT_SECONDS: u32 = 10;
/// Most bytes of a container's state.
const MAX_STATE: u64 = 1 << 20;

/// Limit of device memory that the kernel keeps for a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerLimit {
    /// Bytes that the container may have at most, of each GPU.
    pub max: u64,
    /// PCI addresses of the GPUs, such as `0000:3b:00.0`.
    pub gpus: Vec<String>,
}

/// The part that is read of the state that a runtime gives to hooks.
#[derive(Debug, Deserialize)]
struct State {
    pid: u32,
}

impl ContainerLimit {
    /// Sets the limit of the container whose state a runtime writes to a hook's standard input.
    ///
    /// # Errors
    ///
    /// `Failed`, with the step: the container must not start.
    pub fn set(&self, state: impl Read) -> Result<()> {
        let set = || self.set_in(&Cgroups::default(), &cgroup_of(process_of(state)?)?);
        set().map_err(|why| Error::Failed(format!("limit of device memory: {why}")))
    }

    fn set_in(&self, files: &impl CgroupFiles, cgroup: &Path) -> std::result::Result<(), String> {
        let all = regions(files, Path::new(""))?;
        let own: Vec<_> =
            self.gpus.iter().map(|gpu| of_gpu(&all, gpu)).collect::<std::result::Result<_, _>>()?;
        let above: Vec<_> = cgroup.ancestors().skip(1).collect();
        above.into_iter().rev().try_for_each(|of| give(files, of))?;
        let file = cgroup.join("dmem.max");
        let mut lines = own.into_iter().flatten().map(|region| format!("{region} {}\n", self.max));
        lines.try_for_each(|line| files.write(&file, &line).map_err(|error| named(&file, &error)))
    }

    /// Hook of a CDI file that runs this command of the node.
    pub(crate) fn hook(&self, command: &Path) -> Value {
        let name = command.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut args = vec![name, "k8s".into(), "dmem-hook".into(), format!("--max={}", self.max)];
        args.extend(self.gpus.iter().map(|gpu| format!("--gpu={gpu}")));
        json!({ "hookName": "createRuntime", "path": command, "args": args, "timeout": TIMEOUT_SECONDS })
    }
}

/// Checks whether the kernel can limit memory of a GPU of this node.
///
/// # Errors
///
/// `Refused`, with the reason for which it can't.
pub(crate) fn check(flag: &str) -> Result<()> {
    let regions = regions(&Cgroups::default(), Path::new(""));
    let none = |why| format!("{flag}: the kernel keeps no limit of device memory here: {why}");
    regions.map(drop).map_err(|why| Error::Refused(none(why)))
}

fn process_of(state: impl Read) -> std::result::Result<u32, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("the container's state: {why}");
    let read = serde_json::from_reader(state.take(MAX_STATE));
    let State { pid } = read.map_err(|error| wrong(&error))?;
    if pid == 0 { Err(wrong(&"pid must be a process, got 0")) } else { Ok(pid) }
}

fn cgroup_of(process: u32) -> std::result::Result<PathBuf, String> {
    let file = format!("/proc/{process}/cgroup");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    cgroup(&text).map_err(|why| format!("{file}: {why}"))
}

/// Returns the cgroup that a file of `/proc` names, as a path below the tree's root.
fn cgroup(text: &str) -> std::result::Result<PathBuf, String> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"));
    let path = Path::new(path.ok_or("no cgroup of version 2")?);
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
    match path.as_os_str().is_empty() {
        false if is_below => Ok(path.to_owned()),
        _ => Err(format!("must be a cgroup of the container's own, got /{}", path.display())),
    }
}

/// Returns the regions of a GPU, whose names have its PCI address.
fn of_gpu<'a>(all: &'a [String], gpu: &str) -> std::result::Result<Vec<&'a String>, String> {
    let is_of = |region: &&String| region.split('/').any(|part| part.eq_ignore_ascii_case(gpu));
    let found: Vec<_> = all.iter().filter(is_of).collect();
    if found.is_empty() {
        Err(format!("the controller dmem has no region of GPU {gpu}"))
    } else {
        Ok(found)
    }
}

/// Has a cgroup give the controller to those below it.
fn give(files: &impl CgroupFiles, cgroup: &Path) -> std::result::Result<(), String> {
    let file = cgroup.join("cgroup.subtree_control");
    let given = files.read(&file).map_err(|error| named(&file, &error))?;
    if given.split_whitespace().any(|name| name == "dmem") {
        return Ok(());
    }
    files.write(&file, "+dmem").map_err(|error| match error.kind() {
        ErrorKind::ResourceBusy => format!(
            "cgroup {}: has processes, so that it gives no dmem to those below",
            cgroup.display()
        ),
        _ => named(&file, &error),
    })
}

fn named(path: &Path, error: &std::io::Error) -> String {
    format!("cgroup {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::{BTreeMap, BTreeSet};
    use std::io;

    const GPU: &str = "0000:3b:00.0";
    const POD: &str = "kubepods.slice/pod1.slice";
    const CONTAINER: &str = "kubepods.slice/pod1.slice/cri-1.scope";

    /// A tree by the kernel's rules: a cgroup has the controller if the one above gives it. It
    /// gives it on only if it has it and, but for the root, has no process.
    #[derive(Debug, Default)]
    struct Kernel {
        has_dmem: bool,
        busy: BTreeSet<PathBuf>,
        gives: RefCell<BTreeSet<PathBuf>>,
        limits: RefCell<BTreeMap<(PathBuf, String), u64>>,
    }

    impl Kernel {
        fn new() -> Self {
            Self { has_dmem: true, busy: [CONTAINER.into()].into(), ..Self::default() }
        }

        fn has(&self, cgroup: &Path) -> bool {
            self.has_dmem && cgroup.parent().is_none_or(|above| self.gives.borrow().contains(above))
        }

        fn regions() -> [String; 3] {
            ["nvidia/0000:3B:00.0/vram0", "nvidia/0000:5e:00.0/vram0", "drm/0000:03:00.0/vram0"]
                .map(str::to_owned)
        }
    }

    fn split(path: &Path) -> (&Path, &str) {
        (path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap())
    }

    impl CgroupFiles for Kernel {
        fn read(&self, path: &Path) -> io::Result<String> {
            let (of, name) = split(path);
            match name {
                "cgroup.controllers" => Ok(if self.has(of) { "cpu dmem" } else { "cpu" }.into()),
                "cgroup.subtree_control" => {
                    Ok(if self.gives.borrow().contains(of) { "cpu dmem" } else { "cpu" }.into())
                }
                "dmem.capacity" if of == Path::new("") && self.has_dmem => {
                    Ok(Self::regions().map(|region| format!("{region} 85899345920\n")).concat())
                }
                _ => Err(ErrorKind::NotFound.into()),
            }
        }

        fn write(&self, path: &Path, text: &str) -> io::Result<()> {
            let (of, name) = split(path);
            match name {
                "cgroup.subtree_control" if !self.has(of) => Err(ErrorKind::NotFound.into()),
                "cgroup.subtree_control" if self.busy.contains(of) => {
                    Err(ErrorKind::ResourceBusy.into())
                }
                "cgroup.subtree_control" if text == "+dmem" => {
                    self.gives.borrow_mut().insert(of.to_owned());
                    Ok(())
                }
                "dmem.max" if self.has(of) && of != Path::new("") => {
                    let (region, bytes) = text.trim_end().rsplit_once(' ').unwrap();
                    assert!(Self::regions().iter().any(|it| it == region), "{region}");
                    let key = (of.to_owned(), region.to_owned());
                    self.limits.borrow_mut().insert(key, bytes.parse().unwrap());
                    Ok(())
                }
                _ => Err(ErrorKind::NotFound.into()),
            }
        }

        fn make(&self, _: &Path) -> io::Result<()> {
            unreachable!("the container has its cgroup")
        }

        fn remove(&self, _: &Path) -> io::Result<()> {
            unreachable!("the container's cgroup is its runtime's")
        }

        fn vendor(&self, address: &str) -> Option<String> {
            Some(if address.starts_with("0000:03") { "0x1002" } else { "0x10de" }.into())
        }
    }

    fn limit(gpus: &[&str]) -> ContainerLimit {
        ContainerLimit { max: 8 << 30, gpus: gpus.iter().map(|gpu| (*gpu).to_owned()).collect() }
    }

    fn set(kernel: &Kernel, gpus: &[&str]) -> std::result::Result<(), String> {
        limit(gpus).set_in(kernel, Path::new(CONTAINER))
    }

    #[test]
    fn container_has_the_limit_of_its_gpus_alone() {
        let kernel = Kernel::new();
        set(&kernel, &[GPU]).unwrap();
        set(&kernel, &[GPU]).unwrap(); // a container that is started again
        let of_gpu = (PathBuf::from(CONTAINER), Kernel::regions()[0].clone());
        assert_eq!(*kernel.limits.borrow(), BTreeMap::from([(of_gpu, 8 << 30)]));
        let above = ["", "kubepods.slice", POD].map(PathBuf::from);
        assert_eq!(*kernel.gives.borrow(), BTreeSet::from(above));
    }

    #[test]
    fn limit_that_the_kernel_cannot_keep_is_refused_in_words() {
        let said = |kernel: &Kernel, gpus: &[&str]| set(kernel, gpus).unwrap_err();
        let none = Kernel { has_dmem: false, ..Kernel::new() };
        assert_eq!(said(&none, &[GPU]), "the kernel has no controller dmem for this cgroup");
        let kernel = Kernel::new();
        for gpu in ["0000:af:00.0", "0000:03:00.0", "vram", ""] {
            let wanted = format!("the controller dmem has no region of GPU {gpu}");
            assert_eq!(said(&kernel, &[GPU, gpu]), wanted);
        }
        assert!(kernel.limits.borrow().is_empty() && kernel.gives.borrow().is_empty());
        let busy = Kernel { busy: [POD.into()].into(), ..Kernel::new() };
        let wanted =
            format!("cgroup {POD}: has processes, so that it gives no dmem to those below");
        assert_eq!(said(&busy, &[GPU]), wanted);
        assert!(busy.limits.borrow().is_empty());
    }

    #[test]
    fn state_names_a_process_and_its_cgroup_is_below_the_root() {
        let state = br#"{"ociVersion": "1.2.0", "id": "c", "status": "creating", "pid": 42}"#;
        assert_eq!(process_of(&state[..]), Ok(42));
        for (state, wanted) in [
            ("", "the container's state: EOF"),
            (r#"{"pid": 0}"#, "the container's state: pid must be a process, got 0"),
            (r#"{"pid": -1}"#, "the container's state: invalid value"),
            (r#"{"id": "c"}"#, "the container's state: missing field `pid`"),
        ] {
            let line = process_of(state.as_bytes()).unwrap_err();
            assert!(line.starts_with(wanted), "{state}: {line}");
        }
        assert_eq!(cgroup("1:cpu:/a\n0::/kubepods/c\n"), Ok("kubepods/c".into()));
        for text in ["0::/\n", "0::/../x\n", "0::/a/../../b\n", "0::/../..\n"] {
            let line = cgroup(text).unwrap_err();
            assert!(line.starts_with("must be a cgroup of the container's own, got /"), "{line}");
        }
        assert_eq!(cgroup("4:memory:/a\n").unwrap_err(), "no cgroup of version 2");
    }
}
