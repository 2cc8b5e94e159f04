//! Alnair's registration: a container's process says which container it is of, and finds its
//! processes' numbers, as the host sees them, in a file.
//!
//! A client sends `<cgroup path> <id>` and a newline, and gets `ok`, or a line that says why not.
//! `<root>/<id>/cgroup.procs` has a process number in each line then, and `<root>/<id>/containerID`
//! the container's name. Who a client is the system says, and which container it is in; the path
//! that it sends is what it sees from inside, and isn't believed.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Most characters of an id. Alnair's have five.
const MOST_ID: usize = 64;
/// Most characters of a request.
pub(super) const MOST_REQUEST: usize = 4096;

/// Most ids of a container. Alnair's have one.
const MOST_IDS: usize = 8;

/// Where registrations go, and what the system says of processes.
#[derive(Debug)]
pub(super) struct Containers {
    /// A folder with one for each container.
    pub(super) root: PathBuf,
    /// `/proc`, and `/sys/fs/cgroup`.
    pub(super) proc: PathBuf,
    pub(super) cgroup: PathBuf,
    /// Held while an id is looked at and taken.
    pub(super) taking: Mutex<()>,
}

/// A container's control group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    /// Its folder, below that of all groups.
    path: PathBuf,
    /// The container's name.
    container: String,
}

impl Containers {
    /// The answer to what a process sent, once its files are written.
    pub(super) fn answer(&self, pid: u32, request: &str) -> String {
        self.register(pid, request).map_or_else(|why| why, |()| "ok".into())
    }

    fn register(&self, pid: u32, request: &str) -> Result<(), String> {
        let id = id(request)?;
        let group = self.group(pid).ok_or(format!("process {pid} is in no container"))?;
        let folder = self.root.join(id);
        let _taking = self.taking.lock();
        self.check_count(&folder, &group.container)?;
        self.check(&folder, id, &group.container)?;
        let mut pids = self.pids(&group);
        pids.insert(pid);
        let lines: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
        let written = std::fs::create_dir_all(&folder)
            .and_then(|()| replace(&folder.join("containerID"), &group.container))
            .and_then(|()| replace(&folder.join("cgroup.procs"), &lines));
        written.map_err(|error| format!("{}: {error}", folder.display()))
    }

    /// A container has so many ids, and no more.
    fn check_count(&self, folder: &Path, container: &str) -> Result<(), String> {
        let its = |path: &Path| {
            std::fs::read_to_string(path.join("containerID")).is_ok_and(|name| name == container)
        };
        let folders = std::fs::read_dir(&self.root).into_iter().flatten().flatten();
        match its(folder) || folders.filter(|entry| its(&entry.path())).count() < MOST_IDS {
            true => Ok(()),
            false => Err(format!("container {container} has {MOST_IDS} ids already")),
        }
    }

    /// An id is one container's for as long as a process lives that it has registered.
    fn check(&self, folder: &Path, id: &str, container: &str) -> Result<(), String> {
        let read = |name| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let (known, pids) = (read("containerID"), read("cgroup.procs"));
        let lives = |pid: u32| self.group(pid).is_some_and(|group| group.container == known);
        match known == container || !numbers(&pids).into_iter().any(lives) {
            true => Ok(()),
            false => Err(format!("{id} is container {known}'s, whose processes live")),
        }
    }

    /// The control group of a process: of version 2, or that of memory in version 1.
    fn group(&self, pid: u32) -> Option<Group> {
        let text = std::fs::read_to_string(self.proc.join(pid.to_string()).join("cgroup")).ok()?;
        let fields = text.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            Some((fields.next()?, fields.next()?))
        });
        let path = |wanted: &str| {
            let mut its =
                fields.clone().filter(|(names, _)| names.split(',').any(|of| of == wanted));
            its.next().map(|(_, path)| path.trim_start_matches('/').to_owned())
        };
        let (path, folder) = match path("memory") {
            Some(path) => (path, self.cgroup.join("memory")),
            None => (path("")?, self.cgroup.clone()),
        };
        let container = container(&path)?;
        Some(Group { path: folder.join(path), container })
    }

    /// The processes of a group that the system lists; none if it doesn't.
    fn pids(&self, group: &Group) -> BTreeSet<u32> {
        numbers(&std::fs::read_to_string(group.path.join("cgroup.procs")).unwrap_or_default())
    }
}

/// The id of a request.
fn id(request: &str) -> Result<&str, String> {
    let (_, id) = request
        .trim_end_matches(['\r', '\n'])
        .rsplit_once(' ')
        .ok_or("a cgroup's path, a space and an id are wanted")?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match id.len() {
        0 => Err("no id behind the cgroup's path".into()),
        length if length > MOST_ID => Err(format!("an id of {length} bytes, {MOST_ID} at most")),
        _ if !id.chars().all(is_plain) => Err("an id has letters, digits, - and _ alone".into()),
        _ => Ok(id),
    }
}

/// The container's name in a path such as `kubepods/pod7/NAME` or `…/cri-containerd-NAME.scope`.
/// `None`: the process is in no group of its own, or its path leads elsewhere.
fn container(path: &str) -> Option<String> {
    if Path::new(path).components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
        return None;
    }
    let last = path.rsplit('/').next().filter(|last| !last.is_empty())?;
    let name =
        last.strip_suffix(".scope").map_or(last, |scope| scope.rsplit('-').next().unwrap_or(scope));
    Some(name.to_owned())
}

fn numbers(text: &str) -> BTreeSet<u32> {
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Puts a text in the place of a file: who reads finds the old one or the new one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension("new");
    std::fs::write(&temporary, text)?;
    std::fs::rename(&temporary, path)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A system with these processes, and what their `cgroup` says.
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
    fn a_container_is_found_in_groups_of_both_versions() {
        let one = "12:cpu,cpuacct:/x\n9:memory:/kubepods/pod7/c0ffee\n0::/\n";
        let two = "0::/kubepods.slice/pod8.slice/cri-containerd-beef.scope\n";
        let system = System::new("both", &[(11, one), (21, two)]);
        system.write("cgroup/memory/kubepods/pod7/c0ffee/cgroup.procs", "11\n12\nx\n");
        let containers = system.containers();
        assert_eq!(containers.answer(11, "/ abcde\n"), "ok");
        assert_eq!(system.read("root/abcde/cgroup.procs"), "11\n12\n");
        assert_eq!(system.read("root/abcde/containerID"), "c0ffee");
        assert_eq!(containers.answer(21, "/any thing fghij"), "ok");
        assert_eq!(system.read("root/fghij/cgroup.procs"), "21\n", "the system doesn't list them");
        assert_eq!(system.read("root/fghij/containerID"), "beef");
    }

    #[test]
    fn an_id_is_one_containers_while_that_lives() {
        let groups = [(1, "0::/a/one\n"), (2, "0::/a/two\n")];
        let system = System::new("taken", &groups);
        let containers = system.containers();
        assert_eq!(containers.answer(1, "/ abcde\n"), "ok");
        assert_eq!(containers.answer(1, "/ abcde\n"), "ok", "again");
        let refused = containers.answer(2, "/ abcde\n");
        assert_eq!(refused, "abcde is container one's, whose processes live");
        std::fs::remove_dir_all(system.0.join("proc/1")).unwrap();
        assert_eq!(containers.answer(2, "/ abcde\n"), "ok");
        assert_eq!(system.read("root/abcde/containerID"), "two");
    }

    #[test]
    fn a_container_has_a_few_ids() {
        let system = System::new("many", &[(1, "0::/a/one\n"), (2, "0::/a/two\n")]);
        let containers = system.containers();
        for id in 0..MOST_IDS {
            assert_eq!(containers.answer(1, &format!("/ id{id}\n")), "ok");
        }
        assert_eq!(containers.answer(1, "/ more\n"), "container one has 8 ids already");
        assert_eq!(containers.answer(1, "/ id0\n"), "ok", "again");
        assert_eq!(containers.answer(2, "/ more\n"), "ok");
    }

    /// Two containers that want one id at the same time: one of them has it, with all that is
    /// written.
    #[test]
    fn an_id_is_taken_by_one() {
        let groups: Vec<_> = (1..9).map(|n| (n, format!("0::/a/c{n}\n"))).collect();
        let groups: Vec<_> = groups.iter().map(|(pid, text)| (*pid, text.as_str())).collect();
        let system = System::new("race", &groups);
        let containers = &system.containers();
        for id in 0..MOST_IDS {
            let ask = |pid| containers.answer(pid, &format!("/ id{id}\n")) == "ok";
            let taken = std::thread::scope(|scope| {
                let asked: Vec<_> = (1..9).map(|pid| scope.spawn(move || ask(pid))).collect();
                asked.into_iter().map(|one| one.join().unwrap()).filter(|ok| *ok).count()
            });
            assert_eq!(taken, 1);
        }
    }

    #[test]
    fn what_is_no_registration_is_one_line() {
        let groups = [(1, "0::/a/one\n"), (3, "0::/\n"), (4, "0::/../../x\n"), (5, "nonsense")];
        let system = System::new("wrong", &groups);
        let containers = system.containers();
        for (pid, request, want) in [
            (1, "abcde\n", "a cgroup's path, a space and an id are wanted"),
            (1, "", "a cgroup's path, a space and an id are wanted"),
            (1, "/ \n", "no id behind the cgroup's path"),
            (1, "/ ../x\n", "an id has letters, digits, - and _ alone"),
            (1, "/ ..\n", "an id has letters, digits, - and _ alone"),
            (3, "/ abcde\n", "process 3 is in no container"),
            (4, "/ abcde\n", "process 4 is in no container"),
            (5, "/ abcde\n", "process 5 is in no container"),
            (6, "/ abcde\n", "process 6 is in no container"),
        ] {
            assert_eq!(containers.answer(pid, request), want, "{request:?}");
        }
        let long = containers.answer(1, &format!("/ {}", "x".repeat(65)));
        assert_eq!(long, "an id of 65 bytes, 64 at most");
        assert!(!system.0.join("root").exists());
    }
}
