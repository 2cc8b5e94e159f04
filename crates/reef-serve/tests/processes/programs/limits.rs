//! Limits and users of programs. `reef exec` keeps the limits: the tests of the command have these.

use super::{RAW, TRUSTED, children, error, post, put};
use crate::Folder;
use crate::daemon::Daemon;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Says its user and its groups, in place of being ready.
const USER: &str = r#"
text="{\"type\":\"error\",\"error\":\"user $(id -u) groups $(id -G)\"}"
printf "\\$(printf %03o ${#text})\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000" >&0
printf %s "$text" >&0
exec cat >/dev/null
"#;

fn load(daemon: &Daemon, name: &str) -> (u16, String) {
    error(&post(daemon, &format!("/v2/repository/models/{name}/load"), &json!({})))
}

/// Puts a model there with this line in its `[process]`.
fn put_with(folder: &Folder, name: &str, line: &str) {
    put(folder.path(), name, RAW, "", "");
    let toml = folder.path().join("models").join(name).join("model.toml");
    let text = std::fs::read_to_string(&toml).unwrap();
    std::fs::write(toml, format!("{text}{line}\n")).unwrap();
}

#[test]
fn wrong_key_of_a_program_is_refused_at_load() {
    let folder = Daemon::place("process-limits");
    let models = [
        ("unit", "memory = \"8GB\"", "process.memory 8GB: GB isn't one of the units "),
        ("none", "compute = \"0\"", "process.compute 0: not a share of 1% to 100%"),
        ("exec", "memory = \"8MiB\"", " must be of a daemon of the command reef, got "),
        ("folder", "folder = \"absent\"", "process.folder must be a folder, got "),
        ("user", "user = \"no:one\"", "process.user must be a user in /etc/passwd, got \"no:one\""),
    ];
    models.iter().for_each(|(name, line, _)| put_with(&folder, name, line));
    let daemon = Daemon::start_in(folder, &[TRUSTED]);
    for (name, _, want) in models {
        let (status, said) = load(&daemon, name);
        assert!(status == 400 && said.contains(want), "{name}: {status} {said}");
    }
    assert!(children(&daemon).is_empty());
}

#[test]
fn program_starts_as_its_user_or_is_refused() {
    let folder = Daemon::place("process-user");
    let is_root = rustix::process::geteuid().as_raw() == 0;
    let user = if is_root { "daemon" } else { "root" };
    let model = folder.path().join("models/user");
    std::fs::create_dir_all(model.join("1")).unwrap();
    std::fs::write(model.join("1/program"), USER).unwrap();
    let text = format!(
        "engine = \"process\"\n[process]\ncommand = [\"/bin/sh\", \"./program\"]\nuser = {user:?}\n"
    );
    std::fs::write(model.join("model.toml"), text).unwrap();
    // The user has to reach the version's folder, whatever the umask is.
    for path in ["", "models", "models/user", "models/user/1"] {
        let path = folder.path().join(path);
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::fs::set_permissions(model.join("1/program"), PermissionsExt::from_mode(0o644)).unwrap();
    let myself = std::env::current_exe().unwrap();
    let mut command = Command::new(if is_root { Path::new("setpriv") } else { &*myself });
    if is_root {
        command.arg("--groups=54321").arg(&myself); // a group that the program must not keep
    }
    let daemon = Daemon::start_by(command, folder, &[TRUSTED]);
    let (status, said) = load(&daemon, "user");
    if !is_root {
        assert!(status == 403 && said.contains("process.user must be the daemon's"), "{said}");
        return;
    }
    let id = |what: &str| {
        let output = Command::new("id").args([what, user]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let want = format!("model user/1: user {} groups {}", id("-u"), id("-g"));
    assert_eq!((status, said), (500, want));
}
