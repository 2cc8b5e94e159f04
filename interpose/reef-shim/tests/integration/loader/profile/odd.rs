//! Calls before the writer starts, unseen ends of memory, and links in the place of files.

use super::{COPIES, END, LAUNCHES, folder, metrics, piped, row, run, wait};
use crate::common::{FAKE, library};
use std::process::Command;

/// More than there is room for: each would wait for a second.
#[test]
fn calls_before_the_writer_starts_do_not_wait() {
    let folder = folder("profile-early");
    assert!(run("early", &folder, &[("PFLOG", "logs")]).status.success());
    let copies = metrics(&folder.join("logs"))["cuMemcpyD2H"].0;
    assert_eq!(copies, COPIES as u64 + 2);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn allocated_bytes_are_the_drivers_and_count_once() {
    let folder = folder("profile-memory");
    let set = [("REEF_PROFILE", "v3"), ("ALNAIR_WORKSPACE_PATH", folder.to_str().unwrap())];
    let said = String::from_utf8(run("memory", &folder, &set).stdout).unwrap();
    let live = said.lines().find_map(|line| Some(line.split_once("live: ")?.1)).unwrap();
    let text = std::fs::read_to_string(folder.join("metrics.log")).unwrap();
    assert!(text.contains(&format!("\nmem-used:{live}\n")), "{live}: {text}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A file that a link in the place of a profile's file leads to stays as it is.
#[test]
fn a_profile_is_not_written_through_links() {
    let folder = folder("profile-links");
    let victim = folder.join("victim");
    std::fs::write(&victim, "mine").unwrap();
    std::os::unix::fs::symlink("victim", folder.join("timeline.log")).unwrap();
    let output = run("return", &folder, &[("PFLOG", ".")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("reef: profile: "), "{said}");
    let script = "ln -s victim .metrics.log.$$ && exec \"$0\" --exact loader::profile::program --include-ignored";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(std::env::current_exe().unwrap()).current_dir(&folder);
    command.env("REEF_CUDA", library(FAKE)).env(END, "return");
    command.env("REEF_PROFILE", "v3").env("ALNAIR_WORKSPACE_PATH", &folder);
    assert!(wait(piped(&mut command), "links").status.success());
    let text = std::fs::read_to_string(folder.join("metrics.log")).unwrap();
    assert!(text.starts_with("pid:"), "{text}");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn range_has_only_the_calls_that_the_program_selects() {
    let folder = folder("profile-range");
    let launches = |list: &str| {
        let output = run("range", &folder, &[("REEF_PROFILE", list)]);
        let row = row(&String::from_utf8_lossy(&output.stderr), "cuLaunchKernel").unwrap();
        row[1].parse::<usize>().unwrap()
    };
    assert_eq!((launches("table,range"), launches("table")), (LAUNCHES, 3 * LAUNCHES));
    std::fs::remove_dir_all(&folder).unwrap();
}
