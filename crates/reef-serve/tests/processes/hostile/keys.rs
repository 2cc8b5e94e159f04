//! Tenants that name each other's shared memory.

use crate::Folder;
use crate::daemon::Daemon;
use crate::wire::{Http, VALUES};
use rustix::fs::Mode;
use rustix::shm;
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Bytes of an input, and of an output behind it.
const INPUT: usize = 4 * VALUES;
const OUTPUT: usize = 4 * 1000;

/// Shared memory of this user, removed when this is dropped.
struct Memory(String, File);

impl Memory {
    fn new(name: &str) -> Self {
        let key = format!("/{name}-{}", std::process::id());
        let flags = shm::OFlags::RDWR | shm::OFlags::CREATE | shm::OFlags::EXCL;
        let file = File::from(shm::open(&key, flags, Mode::RUSR | Mode::WUSR).unwrap());
        file.write_all_at(&[7; INPUT + OUTPUT], 0).unwrap();
        Self(key, file)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; INPUT + OUTPUT];
        self.1.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = shm::unlink(&self.0);
    }
}

fn token(of: &str) -> String {
    format!("{of:a<16}")
}

/// Starts a daemon with tenants `a` and `b`; `a` also has the keys of `of_a` in its rights.
fn daemon(test: &str, of_a: &str) -> Daemon {
    let folder = Daemon::place(test);
    let mut text = String::new();
    for (name, more) in [("a", of_a), ("b", "")] {
        let path = folder.path().join(name);
        std::fs::write(&path, token(name)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        text += &format!("[rights.\"token {name}\"]\ntoken_file = {path:?}\n{more}\n");
    }
    std::fs::write(folder.path().join("reef.toml"), text).unwrap();
    Daemon::start_in(folder, &[])
}

/// Posts as `tenant`, or with `None` as a user at the Unix socket, and returns the answer.
/// A request whose connection ends, or stays for more.
fn request(tenant: Option<&str>, connection: &str, path: &str, body: &str) -> String {
    let shown = tenant.map(|tenant| format!("authorization: Bearer {}\r\n", token(tenant)));
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: {connection}\r\n{}content-length: {}\r\n\r\n",
        shown.unwrap_or_default(),
        body.len()
    );
    head + body
}

fn post(daemon: &Daemon, tenant: Option<&str>, path: &str, body: &str) -> String {
    daemon.say(request(tenant, "close", path, body).as_bytes())
}

/// Path and body of a registration.
fn registration(name: &str, key: &str) -> [String; 2] {
    let path = format!("/v2/systemsharedmemory/region/{name}/register");
    [path, format!(r#"{{"key":"{key}","offset":0,"byte_size":{}}}"#, INPUT + OUTPUT)]
}

fn register(daemon: &Daemon, tenant: &str, name: &str, key: &str) -> String {
    let [path, body] = registration(name, key);
    post(daemon, Some(tenant), &path, &body)
}

/// Has the output written behind the input of `region`.
fn infer(daemon: &Daemon, tenant: &str, region: &str) -> String {
    let at = |offset: usize, bytes: usize| {
        serde_json::json!({
            "shared_memory_region": region,
            "shared_memory_offset": offset,
            "shared_memory_byte_size": bytes,
        })
    };
    let body = serde_json::json!({
        "inputs": [{ "name": "input", "datatype": "FP32", "shape": [1, 3, 32, 32], "parameters": at(0, INPUT) }],
        "outputs": [{ "name": "logits", "parameters": at(INPUT, OUTPUT) }],
    });
    post(daemon, Some(tenant), "/v2/models/tiny/infer", &body.to_string())
}

#[track_caller]
fn is(said: &str, status: u16) {
    assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{status} expected: {said}");
}

#[test]
fn key_that_another_tenant_registered_is_refused() {
    let (daemon, memory) = (daemon("keys", ""), Memory::new("reef-keys"));
    let key = &memory.0;
    let mut stays = Http::connect_to(&daemon.http).unwrap(); // a region ends with its connections
    let [path, body] = registration("mine", key);
    let said = stays.ask(request(Some("a"), "keep-alive", &path, &body).as_bytes()).unwrap();
    assert_eq!(said.0, 200);
    for key in [key.clone(), key.replace('/', "")] {
        let said = register(&daemon, "b", "stolen", &key);
        assert!(said.contains("belongs to another tenant"), "{said}");
        is(&said, 403);
        is(&infer(&daemon, "b", "stolen"), 404);
    }
    assert!(memory.bytes() == [7; INPUT + OUTPUT], "a's bytes changed");
    let path = "/v2/systemsharedmemory/region/mine/unregister";
    is(&post(&daemon, Some("a"), path, ""), 200);
    let mut other = Http::connect_to(&daemon.http).unwrap();
    let [path, body] = registration("fresh", key);
    let said = other.ask(request(Some("b"), "keep-alive", &path, &body).as_bytes()).unwrap();
    assert_eq!(said.0, 200); // the claim has ended with the registration
    is(&infer(&daemon, "b", "fresh"), 200);
}

#[test]
fn key_with_the_prefix_of_another_tenant_is_refused() {
    let daemon = daemon("prefixes", "shared_memory_prefix = \"reef-of-a-\"");
    let (own, other) = (Memory::new("reef-of-a-in"), Memory::new("reef-plain"));
    is(&register(&daemon, "b", "stolen", &own.0), 403); // also if it comes first
    is(&register(&daemon, "a", "mine", &own.0), 200);
    let said = register(&daemon, "a", "other", &other.0);
    assert!(said.contains("must begin with \\\"reef-of-a-\\\""), "{said}");
    is(&said, 403);
    is(&register(&daemon, "b", "other", &other.0), 200);
}

/// A link in the folder that all users write to.
struct Link(PathBuf);

impl Drop for Link {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn link(name: &str, make: impl FnOnce(&Path) -> std::io::Result<()>) -> (Link, String) {
    let key = format!("{name}-{}", std::process::id());
    let path = Path::new("/dev/shm").join(&key);
    make(&path).unwrap();
    (Link(path), key)
}

/// Any user of the machine can make them, and what they lead to may be a file of the daemon's user.
#[test]
fn key_that_is_a_link_is_refused() {
    let (daemon, files) = (daemon("links", ""), Folder::new("links-files"));
    let secret = files.path().join("secret");
    std::fs::write(&secret, [7; INPUT + OUTPUT]).unwrap();
    let (_soft, soft) = link("reef-soft", |path| std::os::unix::fs::symlink(&secret, path));
    let memory = Memory::new("reef-linked");
    let own = Path::new("/dev/shm").join(&memory.0[1..]);
    let (_hard, hard) = link("reef-hard", |path| std::fs::hard_link(own, path));
    for key in [soft, hard] {
        let said = register(&daemon, "b", "stolen", &key);
        assert!(said.contains("must not be a link"), "{said}");
        is(&said, 400);
    }
    assert!(std::fs::read(&secret).unwrap() == [7; INPUT + OUTPUT]);
}

/// No process opens the other end of the pipe.
#[test]
fn key_that_is_no_memory_is_the_mistake_of_its_client() {
    let daemon = daemon("kinds", "");
    let (_folder, folder) = link("reef-folder", |path| std::fs::create_dir(path));
    let (_pipe, pipe) = link("reef-pipe", |path| {
        let kind = rustix::fs::FileType::Fifo;
        Ok(rustix::fs::mknodat(rustix::fs::CWD, path, kind, Mode::RUSR | Mode::WUSR, 0)?)
    });
    for key in [".", "..", "/.", "", "/", "a/b", &folder, &pipe] {
        is(&register(&daemon, "b", "x", key), 400);
    }
    is(&register(&daemon, "b", "x", "reef-there-is-none"), 404);
    let _ = std::fs::remove_dir(&_folder.0);
}
