//! Other users of the machine, admitted or refused by the configuration.

use crate::daemon::Daemon;
use crate::{SOON, options, spawn_as, within};
use reef_serve::{Class, Client};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// A user and two groups that no machine has.
const USER: u32 = 54_321;
const GROUP: u32 = 54_322;
const OTHER_GROUP: u32 = 54_323;

/// The process of such a user: one real-time inference.
pub(super) fn play(folder: &Path) {
    match Client::connect("tiny", &options(folder, Some(Class::RealTime))) {
        Ok(mut client) => {
            client.infer(&vec![0.5; client.input_len()]).unwrap();
            println!("\nwas served");
        }
        Err(error) => println!("\nwas refused: {error}"),
    }
}

/// Connects as a user with this group and returns what happened.
fn visit(daemon: &Daemon, group: u32) -> String {
    let mut myself = Command::new(std::env::current_exe().unwrap());
    myself.uid(USER).gid(group);
    let mut child = spawn_as(myself, "visitor", daemon.folder(), &[]);
    within(SOON, "a visitor's end", || child.try_wait().unwrap().is_some());
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let line = said.lines().find(|line| line.starts_with("was "));
    line.unwrap_or_else(|| panic!("{said}")).into()
}

/// This test's program as such a user. `None`: such a user can't run it.
pub(crate) fn another_user() -> Option<Command> {
    let myself = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.uid(USER).gid(GROUP);
        command
    };
    let listed = myself().arg("--list").output();
    listed.is_ok_and(|output| output.status.success()).then(myself)
}

#[test]
fn other_users_come_in_as_far_as_the_configuration_says() {
    if another_user().is_none() {
        return reef_conformance::skip("not root, or others may not read this program");
    }
    let right = "rights.user 54321={ rt = true }";
    let start = |test: &str, users: &str| Daemon::start(test, &[users, right]);
    let closed = start("users-owner", "listen.users=owner");
    assert!(visit(&closed, GROUP).starts_with("was refused: "), "the folder is closed");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(closed.folder(), open).unwrap();
    assert!(visit(&closed, GROUP).contains("Permission denied"), "the socket is closed");

    let group = start("users-group", &format!("listen.users=group {GROUP}"));
    assert_eq!(visit(&group, GROUP), "was served");
    assert!(visit(&group, OTHER_GROUP).starts_with("was refused: "));
    let text = group.get("/metrics");
    let client = format!("reef_client_device_seconds_total{{client=\"user {USER}\",class=\"rt\"}}");
    assert!(text.contains(&client), "it has its own share and right: {text}");

    let all = start("users-all", "listen.users=all");
    assert_eq!(visit(&all, OTHER_GROUP), "was served");
}
