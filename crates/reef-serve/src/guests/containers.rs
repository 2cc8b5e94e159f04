//! Alnair's registration: a container's process sends an id, and finds its processes' numbers on
//! the host in a file.
//!
//! A client sends `<cgroup path> <id>` and a newline, and gets `ok`, or a line with the reason for
//! a refusal. Then `<root>/<id>/cgroup.procs` holds a process number in each line, and
//! `<root>/<id>/containerID` the container's name. The system states the client's process and
//! container. The path that it sends is its own view from inside, and is not trusted.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Maximum number of characters of an id. Alnair's have five.
const MAX_ID_CHARS: usize = 64;
/// Maximum number of characters of a request.
pub(super) const MAX_REQUEST_CHARS: usize = 4096;

/// Maximum number of ids of a container. Alnair's have one.
const MAX_IDS: usize = 8;

/// Folder of registrations, and the system's folders about processes.
#[derive(Debug)]
pub(super) struct Containers {
    /// Folder that holds one for each container.
    pub(super) root: PathBuf,
    /// `/proc`, and `/sys/fs/cgroup`.
    pub(super) proc: PathBuf,
    pub(super) cgroup: PathBuf,
    /// Held while an id is checked and taken.
    pub(super) taking: Mutex<()>,
}

/// Control group of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    /// Its folder, below that of all groups.
    path: PathBuf,
    /// Name of the container.
    container: String,
}

impl Containers {
    /// Registers a process and returns the answer, after its files are written.
    pub(super) fn answer(&self, pid: u32, request: &str) -> String {
        self.register(pid, request).map_or_else(|why| why, |()| "ok".into())
    }

    fn register(&self, pid: u32, request: &str) -> Result<(), String> {
        let id = id(request)?;
        let group = self.group(pid).ok_or(format!("process {pid} must be in a container"))?;
        let folder = self.root.join(id);
        let _taking = self.taking.lock();
        self.check_count(&folder, &group.container)?;
        self.check(&folder, id, &group.container)?;
        let mut pids = self.pids(&group);
        pids.insert(pid);
        let lines: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
        let written = std::fs::create_dir_all(&folder)
            .and_then(|()| reef_files::write(folder.join("containerID"), &group.container))
            .and_then(|()| reef_files::write(folder.join("cgroup.procs"), &lines));
        written.map_err(|error| format!("{}: {error}", folder.display()))
    }

    /// Refuses more ids of a container than the maximum.
    fn check_count(&self, folder: &Path, container: &str) -> Result<(), String> {
        let its = |path: &Path| text(&path.join("containerID")) == container;
        let folders = std::fs::read_dir(&self.root).into_iter().flatten().flatten();
        if its(folder) || folders.filter(|entry| its(&entry.path())).count() < MAX_IDS {
            return Ok(());
        }
        Err(format!("ids of container {container} must be at most {MAX_IDS}"))
    }

    /// Refuses an id of another container with a live registered process.
    fn check(&self, folder: &Path, id: &str, container: &str) -> Result<(), String> {
        let (known, pids) = (text(&folder.join("containerID")), text(&folder.join("cgroup.procs")));
        let lives = |pid: u32| self.group(pid).is_some_and(|group| group.container == known);
        if known == container || !numbers(&pids).into_iter().any(lives) {
            return Ok(());
        }
        Err(format!("id {id} must be unused, got that of the live container {known}"))
    }

    /// Returns the control group of a process: of version 2, or that of memory in version 1.
    #[expect(clippy::disallowed_methods, reason = "of /proc")]
    fn group(&self, pid: u32) -> Option<Group> {
        let text = std::fs::read_to_string(self.proc.join(pid.to_string()).join("cgroup")).ok()?;
        let fields = text.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            Some((fields.next()?, fields.next()?))
        });
        let path = |controller: &str| {
            let mut its =
                fields.clone().filter(|(names, _)| names.split(',').any(|of| of == controller));
            its.next().map(|(_, path)| path.trim_start_matches('/').to_owned())
        };
        let (path, folder) = match path("memory") {
            Some(path) => (path, self.cgroup.join("memory")),
            None => (path("")?, self.cgroup.clone()),
        };
        let container = container(&path)?;
        Some(Group { path: folder.join(path), container })
    }

    /// Returns the processes of a group; none if the system does not list them.
    #[expect(clippy::disallowed_methods, reason = "of the cgroup file system")]
    fn pids(&self, group: &Group) -> BTreeSet<u32> {
        numbers(&std::fs::read_to_string(group.path.join("cgroup.procs")).unwrap_or_default())
    }
}

fn id(request: &str) -> Result<&str, String> {
    let (_, id) = request
        .trim_end_matches(['\r', '\n'])
        .rsplit_once(' ')
        .ok_or("must be a cgroup's path, a space and an id")?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match id.len() {
        0 => Err("must have an id after the cgroup's path".into()),
        length if length > MAX_ID_CHARS => {
            Err(format!("an id must have at most {MAX_ID_CHARS} bytes, got {length}"))
        }
        _ if !id.chars().all(is_plain) => {
            Err("an id must have letters, digits, - and _ only".into())
        }
        _ => Ok(id),
    }
}

/// Returns the container's name in a path such as `kubepods/pod7/NAME` or
/// `…/cri-containerd-NAME.scope`. Below its own group a container may have others, of any names:
/// the first name that is an id counts. `None` if the process is in no group of its own, or its
/// path leads elsewhere.
fn container(path: &str) -> Option<String> {
    if Path::new(path).components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
        return None;
    }
    let mut names = path.split('/').filter(|part| !part.is_empty()).map(name);
    names.clone().find(|name| is_id(name)).or(names.next_back()).map(str::to_owned)
}

/// Returns the name in a part of a path.
fn name(part: &str) -> &str {
    part.strip_suffix(".scope").map_or(part, |scope| scope.rsplit('-').next().unwrap_or(scope))
}

/// Returns whether a name is one that runtimes make up: 64 hexadecimal digits.
fn is_id(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn numbers(text: &str) -> BTreeSet<u32> {
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Returns the text of a file that a container may have changed; none if it can't be read.
fn text(path: &Path) -> String {
    reef_files::read_to_string(path, reef_files::MAX_TEXT_BYTES).unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A fake system with these processes and their `cgroup` files.
    pub(in crate::guests) struct System(pub(in crate::guests) PathBuf);

    impl System {
        pub(in crate::guests) fn new(name: &str, processes: &[(u32, &str)]) -> Self {
            let name = format!("reef-containers-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            let _ = std::fs::remove_dir_all(&folder); // of a test that was killed
            let system = Self(folder);
            processes
                .iter()
                .for_each(|(pid, text)| system.write(&format!("proc/{pid}/cgroup"), text));
            system
        }

        pub(in crate::guests) fn containers(&self) -> Containers {
            let [root, proc, cgroup] = ["root", "proc", "cgroup"].map(|name| self.0.join(name));
            Containers { root, proc, cgroup, taking: Mutex::default() }
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        pub(in crate::guests) fn read(&self, path: &str) -> String {
            std::fs::read_to_string(self.0.join(path)).unwrap()
        }
    }

    impl Drop for System {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn container_is_found_in_both_cgroup_versions() {
        let one = "12:cpu,cpuacct:/x\n9:memory:/kubepods/pod7/c0ffee\n0::/\n";
        let two = "0::/kubepods.slice/pod8.slice/cri-containerd-beef.scope\n";
        let system = System::new("both", &[(11, one), (21, two)]);
        system.write("cgroup/memory/kubepods/pod7/c0ffee/cgroup.procs", "11\n12\nx\n");
        let containers = system.containers();
        assert_eq!(containers.answer(11, "/ abcde\n"), "ok");
        assert_eq!(system.read("root/abcde/cgroup.procs"), "11\n12\n");
        assert_eq!(system.read("root/abcde/containerID"), "c0ffee");
        assert_eq!(containers.answer(21, "/any thing fghij"), "ok");
        assert_eq!(system.read("root/fghij/cgroup.procs"), "21\n", "the system does not list them");
        assert_eq!(system.read("root/fghij/containerID"), "beef");
    }

    #[test]
    fn id_of_a_live_container_is_refused_to_others() {
        let groups = [(1, "0::/a/one\n"), (2, "0::/a/two\n")];
        let system = System::new("taken", &groups);
        let containers = system.containers();
        assert_eq!(containers.answer(1, "/ abcde\n"), "ok");
        assert_eq!(containers.answer(1, "/ abcde\n"), "ok", "again");
        let refused = containers.answer(2, "/ abcde\n");
        assert_eq!(refused, "id abcde must be unused, got that of the live container one");
        std::fs::remove_dir_all(system.0.join("proc/1")).unwrap();
        assert_eq!(containers.answer(2, "/ abcde\n"), "ok");
        assert_eq!(system.read("root/abcde/containerID"), "two");
    }

    #[test]
    fn group_below_that_of_a_container_is_not_another_one() {
        let id = "c0ffee00".repeat(8);
        let below = format!("0::/kubepods/pod7/cri-containerd-{id}.scope/one\n");
        let system = System::new("below", &[(1, "0::/a/one\n"), (2, below.as_str())]);
        let containers = system.containers();
        assert_eq!(containers.answer(1, "/ abcde\n"), "ok");
        let refused = containers.answer(2, "/ abcde\n");
        assert_eq!(refused, "id abcde must be unused, got that of the live container one");
        assert_eq!(containers.answer(2, "/ fghij\n"), "ok");
        assert_eq!(system.read("root/fghij/containerID"), id);
    }

    #[test]
    fn container_with_too_many_ids_is_refused() {
        let system = System::new("many", &[(1, "0::/a/one\n"), (2, "0::/a/two\n")]);
        let containers = system.containers();
        for id in 0..MAX_IDS {
            assert_eq!(containers.answer(1, &format!("/ id{id}\n")), "ok");
        }
        assert_eq!(containers.answer(1, "/ more\n"), "ids of container one must be at most 8");
        assert_eq!(containers.answer(1, "/ id0\n"), "ok", "again");
        assert_eq!(containers.answer(2, "/ more\n"), "ok");
    }

    /// Containers may have their folder to write.
    #[test]
    fn link_in_a_container_s_folder_is_not_followed() {
        let system = System::new("links", &[(1, "0::/a/one\n")]);
        system.write("precious", "precious");
        system.write("root/abcde/other", "");
        for name in ["containerID.new", "cgroup.new", "cgroup.procs"] {
            let link = system.0.join("root/abcde").join(name);
            std::os::unix::fs::symlink(system.0.join("precious"), link).unwrap();
        }
        let containers = system.containers();
        let refused = containers.answer(1, "/ abcde\n");
        assert!(refused.ends_with("must be absent or a regular file, got a symbolic link"));
        std::fs::remove_file(system.0.join("root/abcde/cgroup.procs")).unwrap();
        assert_eq!(containers.answer(1, "/ abcde\n"), "ok");
        assert_eq!(system.read("precious"), "precious");
    }

    /// Two containers that request one id at the same time: exactly one gets it, with all of its
    /// files.
    #[test]
    fn concurrent_requests_for_an_id_admit_one() {
        let groups: Vec<_> = (1..9).map(|n| (n, format!("0::/a/c{n}\n"))).collect();
        let groups: Vec<_> = groups.iter().map(|(pid, text)| (*pid, text.as_str())).collect();
        let system = System::new("race", &groups);
        let containers = &system.containers();
        for id in 0..MAX_IDS {
            let ask = |pid| containers.answer(pid, &format!("/ id{id}\n")) == "ok";
            let taken = std::thread::scope(|scope| {
                let asked: Vec<_> = (1..9).map(|pid| scope.spawn(move || ask(pid))).collect();
                asked.into_iter().map(|one| one.join().unwrap()).filter(|ok| *ok).count()
            });
            assert_eq!(taken, 1);
        }
    }

    #[test]
    fn invalid_registration_is_refused() {
        let groups = [(1, "0::/a/one\n"), (3, "0::/\n"), (4, "0::/../../x\n"), (5, "nonsense")];
        let system = System::new("wrong", &groups);
        let containers = system.containers();
        for (pid, request, want) in [
            (1, "abcde\n", "must be a cgroup's path, a space and an id"),
            (1, "", "must be a cgroup's path, a space and an id"),
            (1, "/ \n", "must have an id after the cgroup's path"),
            (1, "/ ../x\n", "an id must have letters, digits, - and _ only"),
            (1, "/ ..\n", "an id must have letters, digits, - and _ only"),
            (3, "/ abcde\n", "process 3 must be in a container"),
            (4, "/ abcde\n", "process 4 must be in a container"),
            (5, "/ abcde\n", "process 5 must be in a container"),
            (6, "/ abcde\n", "process 6 must be in a container"),
        ] {
            assert_eq!(containers.answer(pid, request), want, "{request:?}");
        }
        let long = containers.answer(1, &format!("/ {}", "x".repeat(65)));
        assert_eq!(long, "an id must have at most 64 bytes, got 65");
        assert!(!system.0.join("root").exists());
    }
}
