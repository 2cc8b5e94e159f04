//! `reef exec` on a driver made of functions: the program that runs is this test.

use crate::common::daemon::{Daemon, metrics};
use crate::common::driver::{Driver, library};
use crate::common::{Folder, json, reef, refuses, says, text};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

fn exec(folder: &Folder, options: &[&str], program: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reef"));
    command.args(["exec", "--socket-dir", &folder.path("")]).args(options).arg("--").args(program);
    command.env("REEF_SHIM", library("libreef_cuda_shim.so"));
    command.env("REEF_CUDA", library("libfake_libcuda.so"));
    command
}

/// A misspelt option would be the program, and a right one behind it one of its arguments.
#[test]
fn unknown_option_is_refused_and_not_run() {
    for args in [
        &["--clas", "rt", "--", "true"][..],
        &["--clas=rt", "true"],
        &["--no-such", "true"],
        &["-x", "true"],
        &["--class", "rt", "--expalin", "true"],
    ] {
        let output = reef(&[&["exec"], args].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.starts_with("error: unexpected argument '-"), "{args:?}: {said}");
    }
    let said = reef(&["exec", "--clas", "rt", "--", "true"]);
    assert!(text(&said.stderr).contains("'--class'"), "{}", text(&said.stderr));
}

/// Words behind the program are its own, with and without `--`.
#[test]
fn options_of_a_program_are_its_own() {
    let folder = Folder::new("exec-options");
    let place = folder.path("");
    for separator in [&["--"][..], &[]] {
        let echo = ["echo", "--class", "-x", "--", "--help"];
        let options = ["exec", "--socket-dir", &place, "--allow-unprotected"];
        let said = says(&[&options[..], separator, &echo].concat());
        assert_eq!(said, "--class -x -- --help\n");
    }
}

/// An unmodified program: launches ten kernels and waits for the end of its input.
#[test]
#[ignore = "is a program that another test runs"]
fn program() {
    let driver = Driver::start();
    let sum = 0_u64;
    let add = driver.adder(&raw const sum as usize);
    (0..10).for_each(|_| add(2));
    driver.synchronize();
    // SAFETY: the number of this function; its work has ended.
    println!("sum {}", unsafe { (&raw const sum).read_volatile() });
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// A program that takes all the memory that it gets, in pieces of a mebibyte, and waits for the end
/// of its input.
#[test]
#[ignore = "is a program that another test runs"]
fn allocates() {
    let driver = Driver::start();
    let got = (0..1000).take_while(|_| driver.allocate(1 << 20).is_ok()).count();
    let code = driver.allocate(1 << 20).err().unwrap_or(0);
    println!("got {got} MiB, then code {code}");
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// A program that takes two mebibytes, says its number, and at each line of its input takes all the
/// memory that it gets.
#[test]
#[ignore = "is a program that another test runs"]
fn takes_more_when_asked() {
    let driver = Driver::start();
    driver.allocate(2 << 20).unwrap();
    println!("number {}", std::process::id());
    while std::io::stdin().read_line(&mut String::new()).unwrap() > 0 {
        let got = (0..1000).take_while(|_| driver.allocate(1 << 20).is_ok()).count();
        println!("got {got} MiB");
    }
}

/// A program that launches ten kernels at each line of its input, and says the sum of all.
#[test]
#[ignore = "is a program that another test runs"]
fn launches_when_asked() {
    let driver = Driver::start();
    let sum = 0_u64;
    let add = driver.adder(&raw const sum as usize);
    while std::io::stdin().read_line(&mut String::new()).unwrap() > 0 {
        (0..10).for_each(|_| add(2));
        driver.synchronize();
        // SAFETY: the number of this function; its work has ended.
        println!("sum {}", unsafe { (&raw const sum).read_volatile() });
    }
}

fn this_test(name: &str) -> Vec<String> {
    let this = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    let name = &format!("exec::{name}");
    [&this, "--exact", name, "--include-ignored", "--nocapture"].map(str::to_owned).into()
}

#[test]
fn a_guest_is_counted_and_says_what_was_intercepted() {
    let folder = Folder::new("exec");
    let _daemon = Daemon::start_with(&folder, &["--guests"]);
    let program = this_test("program");
    let options = ["--strict", "--explain", "--call-profile", "--job", "ten"];
    let mut command = exec(&folder, &options, &program);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A launch passes a daemon that is late, and is not counted: another program is started then.
    let in_time = (0..20).find_map(|_| {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.by_ref().any(|line| line.unwrap().ends_with("sum 20")));
        if kernels(&folder) == Some(10) {
            return Some((child, lines));
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        until("it has left", || kernels(&folder).is_none());
        None
    });
    let (mut child, _lines) = in_time.expect("one of twenty joins before it launches");
    let is_shown = |line: &str| {
        line.starts_with("reef_guest_call_seconds_count{") && line.ends_with("call=\"kernel\"} 10")
    };
    wait_until(&folder, "10 calls in a histogram", is_shown);
    let metrics = metrics(&folder);
    let steps = metrics.lines().filter(|line| {
        line.starts_with("reef_guest_call_seconds_bucket{") && line.contains("call=\"kernel\"")
    });
    let steps: Vec<_> = steps.collect();
    assert!(steps.len() == 12 && steps[11].contains("le=\"+Inf\""), "{steps:?}");
    let counted = metrics.lines().find(|line| line.starts_with("reef_guest_kernels_total{"));
    let counted = counted.unwrap_or_else(|| panic!("{metrics}"));
    assert!(counted.contains("class=\"be\"") && counted.ends_with("} 10"), "{counted}");
    let top =
        ["top", "--socket-dir", &folder.path(""), "--interval", "50ms", "--count", "1", "--json"];
    let view = json(&says(&top));
    let guest = &view["guests"][0];
    assert_eq!((&guest["class"], &guest["is_active"]), (&"be".into(), &false.into()), "{view}");
    assert_eq!(guest["job"], "ten", "{view}");
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("class be: kernels 10,"), "{said}");
    assert!(said.contains("  driver: ") && said.contains("libfake_libcuda.so"), "{said}");
}

/// Installs put a new file in the place of the library that a program has loaded, and removals take
/// it away; daemons come and go.
#[test]
fn program_runs_on_while_reef_is_upgraded_and_removed() {
    let folder = Folder::new("exec-upgraded");
    let (shim, new) = (folder.path("libreef_cuda_shim.so"), folder.path("new.so"));
    let install = || {
        std::fs::copy(library("libreef_cuda_shim.so"), &new).unwrap();
        std::fs::rename(&new, &shim).unwrap();
    };
    let end = |mut daemon: Daemon| {
        let number = rustix::process::Pid::from_raw(daemon.0.id() as i32).unwrap();
        rustix::process::kill_process(number, rustix::process::Signal::TERM).unwrap();
        assert!(daemon.0.wait().unwrap().success(), "a daemon ends as it should");
    };
    install();
    let daemon = Daemon::start_with(&folder, &["--guests"]);
    let program = this_test("launches_when_asked");
    let mut command = exec(&folder, &["--strict"], &program);
    command.env("REEF_SHIM", &shim);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut sum = 0_u32;
    let mut launch = |when: &str| {
        sum += 20;
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let said = lines.find_map(|line| line.split_once("sum ").map(|(_, sum)| sum.to_owned()));
        assert_eq!(said, Some(sum.to_string()), "{when}");
    };
    let counts = |count: u64| {
        until(&format!("{count} kernels"), || kernels(&folder) == Some(count));
    };
    // Launches pass a daemon that is late, and are not counted.
    until("it has joined", || {
        launch("under the first daemon");
        kernels(&folder).is_some_and(|count| count > 0)
    });
    let counted = kernels(&folder).expect("it has joined");
    install();
    end(daemon);
    launch("without a daemon");
    let daemon = Daemon::start_with(&folder, &["--guests"]);
    counts(counted + 10);
    launch("under the next daemon");
    counts(counted + 20);
    std::fs::remove_file(&shim).unwrap();
    end(daemon);
    launch("without daemon and library");
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn program_without_a_daemon_is_not_run_unless_allowed() {
    let folder = Folder::new("exec-alone");
    let run = |options: &[&str]| {
        let program = ["sh", "-c", "echo ran $LD_PRELOAD; exit 7"];
        let output = exec(&folder, options, &program).output().unwrap();
        let said = text(&output.stderr).to_owned();
        assert_eq!(said.lines().count(), 1, "{said}");
        (output.status.code(), text(&output.stdout).to_owned(), said)
    };
    // A class or a share that was named is not kept by limits or a profile.
    for options in [
        &[][..],
        &["--strict"],
        &["--class", "rt", "--memory", "8m"],
        &["--class", "be", "--call-profile"],
        &["--colocate", "30%", "--memory", "8m"],
        &["--floor", "5%", "--call-profile"],
        &["--slices", "--memory", "8m"],
    ] {
        let (code, out, said) = run(options);
        assert_eq!((code, &*out), (Some(1), ""), "{options:?}: {said}");
        let socket = folder.path("guests.sock");
        let want = format!(
            "reef: not run: no daemon at {socket}: start `reef serve --guests` or name it with \
             --socket-dir; or give --allow-unprotected; `reef doctor` says more\n"
        );
        assert_eq!(said, want);
    }
    let (code, out, said) = run(&["--allow-unprotected"]);
    assert_eq!((code, &*out), (Some(7), "ran\n"));
    assert!(said.ends_with("--socket-dir; the program runs without REEF\n"), "{said}");
    let both = exec(&folder, &["--strict", "--allow-unprotected"], &["true"]).output().unwrap();
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn exit_status_signals_and_programs_without_cuda_pass_through() {
    let folder = Folder::new("exec-through");
    let _daemon = Daemon::start_with(&folder, &["--guests"]);
    let run = |script| exec(&folder, &["--strict"], &["sh", "-c", script]).output().unwrap();
    let output = run("echo out; echo err >&2; exit 9");
    let said = (text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), said), (Some(9), ("out\n", "err\n")));
    assert_eq!(run("kill -TERM $$").status.signal(), Some(15));
    let output = exec(&folder, &["--strict"], &["/no/such/program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

#[test]
fn missing_driver_is_said_where_a_class_is_asked_for() {
    let folder = Folder::new("exec-no-driver");
    let _daemon = Daemon::start_with(&folder, &["--guests"]);
    let run = |options: &[&str]| {
        let mut command = exec(&folder, options, &["sh", "-c", "exit 7"]);
        let output = command.env("REEF_CUDA", "/no/libcuda.so.1").output().unwrap();
        (output.status.code(), text(&output.stderr).to_owned())
    };
    let missing = "reef: no libcuda.so.1 (tried /no/libcuda.so.1); ";
    let said = format!("{missing}without a GPU class rt has no effect\n");
    assert_eq!(run(&["--class", "rt"]), (Some(7), said));
    assert_eq!(run(&[]), (Some(7), String::new()));
    for options in [&["--strict"][..], &["--class", "rt", "--strict"]] {
        let (code, said) = run(options);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.starts_with(&missing.replace("reef: ", "reef: not run: ")), "{said}");
        assert!(said.contains("REEF_CUDA=FILE") && said.contains("leave out --strict"), "{said}");
    }
}

#[test]
fn class_not_granted_is_refused_under_strict_else_reported() {
    let folder = Folder::new("exec-refused");
    let _daemon = Daemon::start_with(&folder, &["--guests", "--set", "rights.owner.rt=false"]);
    let run = |options: &[&str]| exec(&folder, options, &["sh", "-c", "exit 7"]).output().unwrap();
    let output = run(&["--class", "rt", "--strict"]);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("the daemon refuses: class rt requires rights.\"user "), "{said}");
    let output = run(&["--class", "rt"]);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(7), 1), "{said}");
    assert_eq!(run(&["--strict"]).status.code(), Some(7), "best-effort is for all");
    let output = run(&["--job", &"x".repeat(41)]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

#[test]
fn strict_checks_the_program_not_reef_exec() {
    let folder = Folder::new("exec-named");
    let shell = std::fs::canonicalize("/bin/sh").unwrap();
    let programs = format!("guests.rt_programs=[{shell:?}]");
    let set = ["--guests", "--set", "rights.owner.rt=false", "--set", &programs];
    let _daemon = Daemon::start_with(&folder, &set);
    std::fs::write(folder.path("script"), "#!/usr/bin/env sh\nexit 8\n").unwrap();
    let script = folder.path("script");
    assert!(Command::new("chmod").args(["+x", &script]).status().unwrap().success());
    let run =
        |program: &[&str]| exec(&folder, &["--class", "rt", "--strict"], program).output().unwrap();
    for (program, code) in [(&["sh", "-c", "exit 7"][..], 7), (&[script.as_str()], 8)] {
        let output = run(program);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    }
    let output = run(&["true"]);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("/true"), "{said}");
}

#[test]
fn memory_is_limited_with_a_daemon_and_without_one() {
    let folder = Folder::new("exec-memory");
    let program = this_test("allocates");
    let run = |options: &[&str]| {
        let mut command = exec(&folder, options, &program);
        let output =
            command.env("REEF_ACCOUNTS", folder.path("accounts")).stdin(Stdio::null()).output();
        let output = output.unwrap();
        (text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    // A block of 2 MiB is reserved for each piece, so the last block has one of two.
    let (out, error) = run(&["--memory", "8MiB"]);
    assert!(out.contains("got 7 MiB, then code 2\n"), "{out} {error}");
    let line = "; the program runs within its limits, and without a class\n";
    assert!(error.starts_with("reef: ") && error.ends_with(line), "{error}");
    let _daemon = Daemon::start_with(&folder, &["--guests"]);
    let (out, error) = run(&["--memory", "10m", "--strict", "--explain"]);
    assert!(out.contains("got 9 MiB, then code 2\n"), "{out} {error}");
    assert!(error.contains("  device 0: memory 10 MiB of 10 MiB, 2 refused\n"), "{error}");
    assert!(run(&[]).0.contains("got 1000 MiB"), "without a limit");
}

#[test]
fn share_or_target_that_cannot_be_is_refused_with_the_rule() {
    let folder = Folder::new("exec-shares");
    for (options, wanted) in [
        (["--colocate", "101"], "--colocate must be a whole number from 0 to 100 %, got \"101\""),
        (["--floor", "x"], "--floor must be a whole number from 0 to 100 %, got \"x\""),
        (["--slo", "0.9"], "--slo must be a ratio from 1.01 to 10, got \"0.9\""),
        (["--slo", "1.1"], "--slo needs --class rt: a best-effort program has --colocate"),
        (["--threads", "200"], "--threads must be a whole number from 0 to 100 %, got \"200\""),
        (["--threads", "0%"], "--threads must be at least 1 %, got 0"),
    ] {
        let out = exec(&folder, &options, &["true"]).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{wanted}");
        assert_eq!(String::from_utf8_lossy(&out.stderr), format!("reef: {wanted}\n"));
    }
    for option in ["--floor=5", "--slices"] {
        let out = exec(&folder, &["--class", "rt", option], &["true"]).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        let (name, _) = option.split_once('=').unwrap_or((option, ""));
        assert!(said.starts_with(&format!("reef: {name} is for --class be")), "{said}");
    }
}

#[test]
fn slices_are_those_that_were_named() {
    let folder = Folder::new("exec-slices");
    let _daemon = Daemon::start_with(&folder, &["--guests"]);
    let run = |options: &[&str]| {
        let mut command = exec(&folder, options, &["sh", "-c", "echo slices $REEF_SLICES"]);
        let out = command.env_remove("REEF_SLICES").output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    assert_eq!(run(&["--slices"]), "slices 1\n");
    assert_eq!(run(&["--slices=no-stops"]), "slices no-stops\n");
    assert_eq!(run(&["--slices=any"]), "slices any\n");
    assert_eq!(run(&[]), "slices\n");
    let out = exec(&folder, &["--slices", "--swappable"], &["true"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn threads_need_mps_and_best_effort_programs_yield_there() {
    let folder = Folder::new("exec-threads");
    let _daemon = Daemon::start_with(&folder, &["--guests"]);
    let print = "echo $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE/$CUDA_MPS_CLIENT_PRIORITY";
    let run = |options: &[&str]| {
        let mut command = exec(&folder, options, &["sh", "-c", print]);
        let command = command.env("CUDA_MPS_PIPE_DIRECTORY", folder.path("mps"));
        let output = command.env_remove("CUDA_MPS_CLIENT_PRIORITY").output().unwrap();
        [output.stdout, output.stderr].map(|said| text(&said).trim().to_owned())
    };
    let [_, said] = run(&["--threads", "20%"]);
    assert!(said.starts_with("reef: --threads needs MPS, got no control daemon at "), "{said}");
    std::fs::create_dir_all(folder.path("mps")).unwrap();
    std::fs::write(folder.path("mps/control"), "").unwrap();
    assert_eq!(run(&["--threads", "20%"])[0], "20/1");
    assert_eq!(run(&["--class", "rt"])[0], "/0");
}

#[test]
fn priority_under_mps_that_is_set_stays() {
    let folder = Folder::new("exec-priority");
    let _daemon = Daemon::start_with(&folder, &["--guests"]);
    for class in ["rt", "be"] {
        let print = ["sh", "-c", "echo $CUDA_MPS_CLIENT_PRIORITY"];
        let mut command = exec(&folder, &["--class", class], &print);
        let output = command.env("CUDA_MPS_CLIENT_PRIORITY", "7").output().unwrap();
        assert_eq!(text(&output.stdout), "7\n", "{class}: {}", text(&output.stderr));
    }
}

#[test]
fn share_of_threads_stays_without_a_daemon() {
    let folder = Folder::new("exec-threads-alone");
    std::fs::create_dir_all(folder.path("mps")).unwrap();
    std::fs::write(folder.path("mps/control"), "").unwrap();
    for more in [&["--allow-unprotected"][..], &["--memory", "8m"]] {
        let options = [&["--threads", "20%"][..], more].concat();
        let print = ["sh", "-c", "echo $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"];
        let mut command = exec(&folder, &options, &print);
        command.env("CUDA_MPS_PIPE_DIRECTORY", folder.path("mps"));
        let output = command.env("REEF_ACCOUNTS", folder.path("accounts")).output().unwrap();
        assert_eq!(text(&output.stdout), "20\n", "{more:?}: {}", text(&output.stderr));
    }
}

#[test]
fn invalid_limit_is_refused_and_never_ignored() {
    let folder = Folder::new("exec-limits");
    let run = |options: &[&str], set: &[(&str, &str)]| {
        let mut command = exec(&folder, options, &["sh", "-c", "exit 7"]);
        let output = command
            .env("REEF_ACCOUNTS", folder.path("accounts"))
            .envs(set.iter().copied())
            .output();
        let output = output.unwrap();
        (output.status.code(), text(&output.stderr).to_owned())
    };
    let memory = |text: &str| run(&["--memory", text], &[]);
    let unit = "GB isn't one of the units k, m, g, t, KiB, MiB, GiB, TiB (of 1024)\n";
    assert_eq!(memory("8GB"), (Some(2), format!("reef: --memory 8GB: {unit}")));
    assert_eq!(memory("0"), (Some(2), "reef: --memory 0: no program runs in 0 bytes\n".into()));
    let least = "reef: --memory 8: must be at least 1 MiB, such as 8GiB, got 8 bytes\n";
    assert_eq!(memory("8"), (Some(2), least.into()));
    let alone = "reef: --compute-policy needs --compute\n";
    assert_eq!(run(&["--compute-policy", "soft"], &[]), (Some(2), alone.into()));
    let (code, said) = run(&["--compute", "0"], &[]);
    assert_eq!((code, said), (Some(2), "reef: --compute 0: not a share of 1% to 100%\n".into()));
    let (code, said) = run(&[], &[("CUDA_DEVICE_MEMORY_LIMIT", "8GB")]);
    assert_eq!((code, said), (Some(2), format!("reef: CUDA_DEVICE_MEMORY_LIMIT=8GB: {unit}")));
    let (code, said) = run(&["--memory", "8m"], &[("REEF_SHIM", "/no/library")]);
    assert_eq!(code, Some(1));
    assert!(
        said.starts_with("reef: not run: limits and --swappable need the library: no "),
        "{said}"
    );
    assert!(said.ends_with(": name it with --shim or REEF_SHIM\n"), "{said}");
    let (code, said) = run(&["--memory", "8m"], &[("REEF_ACCOUNTS", "/proc/accounts")]);
    assert_eq!(code, Some(1));
    assert!(
        said.starts_with("reef: not run: limits need accounts: accounts in /proc/accounts: "),
        "{said}"
    );
    let (code, said) =
        run(&["--memory", "8G", "--compute", "30%", "--compute-policy", "soft"], &[]);
    assert_eq!((code, said.lines().count()), (Some(7), 1), "{said}");
}

/// Kernels that the daemon has counted of its guest, if it has one.
fn kernels(folder: &Folder) -> Option<u64> {
    let said = metrics(folder);
    let line = said.lines().find(|line| line.starts_with("reef_guest_kernels_total{"))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !is_so() {
        assert!(
            begin.elapsed() < std::time::Duration::from_secs(60),
            "{what}: not within a minute"
        );
        std::thread::sleep(std::time::Duration::from_millis(50)); // sleep: poll of a condition
    }
}

/// Waits until the daemon says this of a job.
fn wait_for(folder: &Folder, line: &str) {
    wait_until(folder, line, |said| said == line);
}

/// Waits until a line of the daemon's numbers is so.
fn wait_until(folder: &Folder, what: &str, is_so: impl Fn(&str) -> bool) {
    let begin = std::time::Instant::now();
    loop {
        let text = metrics(folder);
        if text.lines().any(&is_so) {
            return;
        }
        assert!(begin.elapsed() < std::time::Duration::from_secs(60), "{what}: {text}");
        std::thread::sleep(std::time::Duration::from_millis(50)); // sleep: poll of a condition
    }
}

#[test]
fn contexts_are_charged_and_limits_are_shown() {
    let folder = Folder::new("exec-charged");
    let (accounts, processes) = (folder.path("accounts"), folder.path("processes"));
    let nvml = library("libfake_libnvml.so");
    let nvml = ("REEF_NVML_LIBRARY", nvml.to_str().unwrap());
    let set = [("REEF_ACCOUNTS", &*accounts), ("REEF_FAKE_NVML", &*processes), nvml];
    let _daemon = Daemon::start_in(&folder, &["--guests"], &set);
    let program = this_test("takes_more_when_asked");
    let options = ["--memory", "8MiB", "--compute", "50%", "--job", "ctx", "--strict"];
    let mut command = exec(&folder, &options, &program);
    command.env("REEF_ACCOUNTS", &accounts).env("REEF_SHIM", library("libreef_cuda_shim.so"));
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut said = |what: &str| {
        lines.find_map(|line| line.split_once(what).map(|(_, said)| said.to_owned())).unwrap()
    };
    let pid = said("number ");
    let of = format!("device=\"{}\",job=\"ctx\"", "66616b6520646576696365206e6f2030");
    // Replaced as a whole: the library may read it at any time.
    let lists = |bytes: &str, percent: u32| {
        let whole = folder.path("processes.new");
        std::fs::write(&whole, format!("{pid} {bytes} {percent}\n")).unwrap();
        std::fs::rename(whole, &processes).unwrap();
    };
    let takes = |mib: u64| lists(&(mib << 20).to_string(), 37);
    let is_busy = |ratio: &str| {
        wait_for(&folder, &format!("reef_limit_process_busy_ratio{{{of},pid=\"{pid}\"}} {ratio}"));
    };
    takes(5);
    wait_for(&folder, &format!("reef_limit_memory_overhead_bytes{{{of}}} 3145728.0"));
    is_busy("0.37");
    let gpu = "{gpu_uuid=\"GPU-66616b65-2064-6576-6963-65206e6f2030\"}";
    for (name, value) in [
        ("nv_gpu_utilization", "0.37"),
        ("nv_gpu_memory_total_bytes", "1073741824.0"),
        ("nv_gpu_memory_used_bytes", "5242880.0"),
        ("nv_gpu_power_usage", "87.0"),
        ("nv_energy_consumption", "5242.88"),
    ] {
        wait_for(&folder, &format!("{name}{gpu} {value}"));
    }
    // A reading between two allocations would count the first one as a part of these 5 MiB.
    lists("-", 38);
    is_busy("0.38"); // the last reading of 5 MiB is over
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    // A block of 2 MiB is reserved for each piece. There is no room for another block.
    assert_eq!(said("got "), "1 MiB", "8 MiB less 2 of its own and 3 of its context");
    takes(8); // four of its own, and four of its context
    wait_for(&folder, &format!("reef_limit_memory_used_bytes{{{of}}} 8388608.0"));
    let top =
        ["top", "--socket-dir", &folder.path(""), "--interval", "50ms", "--count", "1", "--json"];
    let view = json(&says(&top));
    let job = &view["jobs"][0];
    assert_eq!((&job["job"], &job["compute"]), (&"ctx".into(), &0.5.into()), "{view}");
    let [limit, used, refused] = ["memory_bytes", "memory_used_bytes", "refused"];
    assert_eq!((job[limit].as_u64(), job[used].as_u64()), (Some(8 << 20), Some(8 << 20)), "{view}");
    assert_eq!(job[refused], 1, "{view}");
    // A context that takes more than the limit leaves nothing for allocations, and that is said.
    takes(50);
    wait_for(&folder, &format!("reef_limit_memory_overhead_bytes{{{of}}} 48234496.0"));
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert_eq!(said("got "), "0 MiB");
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let line = "reef: device 0: a limit of 8 MiB is below the 46 MiB that contexts take: all memory is refused";
    let said = text(&output.stderr);
    assert!(said.lines().any(|said| said == line), "{said}");
}

/// Name or path by which the program below opens the driver.
const OPENS: &str = "REEF_TEST_OPENS";

/// A program that opens the driver by a name of its own, and says how much memory the device has.
#[test]
#[ignore = "is a program that another test runs"]
fn opens() {
    let name = std::env::var_os(OPENS).unwrap();
    // SAFETY: a driver of the tests, whose functions have these arguments.
    let (init, total) = unsafe {
        let driver = libloading::Library::new(&name).unwrap();
        let init: extern "C" fn(u32) -> u32 = *driver.get(b"cuInit\0").unwrap();
        let total: extern "C" fn(*mut usize, i32) -> u32 =
            *driver.get(b"cuDeviceTotalMem_v2\0").unwrap();
        std::mem::forget(driver);
        (init, total)
    };
    let mut bytes = 0;
    let code = init(0).max(total(&raw mut bytes, 0));
    println!("total {} KiB, code {code}", bytes >> 10);
}

/// A copy of the driver under its own names, in a folder.
fn installed(folder: &Folder) -> std::path::PathBuf {
    let driver = std::path::PathBuf::from(folder.path("libcuda.so.580.1"));
    std::fs::copy(library("libfake_libcuda.so"), &driver).unwrap();
    for name in ["libcuda.so", "libcuda.so.1"] {
        std::os::unix::fs::symlink(&driver, folder.path(name)).unwrap();
    }
    driver
}

/// Runs the program that opens the driver, by `sh`: what it says is in the first string.
fn run_opens(command: &mut Command) -> (String, String) {
    let output = command.output().unwrap();
    let (out, said) = (text(&output.stdout).to_owned(), text(&output.stderr).to_owned());
    let line = out.lines().find_map(|line| line.split_once("total ")).map(|(_, it)| it.to_owned());
    (line.unwrap_or(out), said)
}

/// Returns false on a system that lets no test mount a file for itself.
pub(crate) fn may_bind(folder: &Folder) -> bool {
    let options = ["--memory", "8m", "--bind", "always"];
    exec(folder, &options, &["true"])
        .env("REEF_ACCOUNTS", folder.path("accounts"))
        .status()
        .unwrap()
        .success()
}

#[test]
fn limit_holds_for_each_name_and_path_of_the_driver() {
    let folder = Folder::new("exec-names");
    let driver = installed(&folder);
    let [by_link, by_path] = [folder.path("libcuda.so"), driver.to_str().unwrap().to_owned()];
    let program = this_test("opens");
    let run = |name: &str, options: &[&str]| {
        let options = [&["--memory", "8m"], options].concat();
        let mut command = exec(&folder, &options, &program);
        command.env("REEF_ACCOUNTS", folder.path("accounts")).env("REEF_CUDA", &driver);
        run_opens(command.env("LD_LIBRARY_PATH", folder.path("")).env(OPENS, name))
    };
    let limited = "8192 KiB, code 0";
    for name in ["libcuda.so.1", "libcuda.so"] {
        let (said, error) = run(name, &["--bind", "never"]);
        assert_eq!(said, limited, "{name}: {error}");
    }
    let (open, _) = run(&by_path, &["--bind", "never"]);
    assert_ne!(open, limited, "nothing holds a program that opens the driver by its path");
    if !may_bind(&folder) {
        let (_, said) = run(&by_path, &[]);
        return assert!(said.contains("not mounted over"), "{said}");
    }
    for name in ["libcuda.so", "libcuda.so.1", &by_link, &by_path] {
        let (said, error) = run(name, &[]);
        assert_eq!(said, limited, "{name}: {error}");
    }
}

/// A program of `sh`, one that loses the preloaded library on its way, and one under another `reef
/// exec`, find the limit and the driver.
#[test]
fn children_and_nested_commands_find_the_driver_that_is_covered() {
    let folder = Folder::new("exec-nested");
    let driver = installed(&folder);
    let program = this_test("opens").join(" ");
    let run = |line: &str| {
        let mut command = exec(&folder, &["--memory", "8m"], &["sh", "-c", line]);
        command.env("REEF_ACCOUNTS", folder.path("accounts")).env("REEF_CUDA", &driver);
        run_opens(command.env(OPENS, &driver))
    };
    if !may_bind(&folder) {
        return reef_conformance::skip("nothing may be mounted over the driver's files here");
    }
    let limited = "8192 KiB, code 0";
    let (said, error) = run(&format!("{program}; true"));
    assert_eq!(said, limited, "{error}");
    let (said, error) = run(&format!("unset LD_PRELOAD LD_LIBRARY_PATH; {program}; true"));
    assert_eq!(said, limited, "{error}");
    let reef = env!("CARGO_BIN_EXE_reef");
    let (said, error) = run(&format!("{reef} exec --memory 8m -- {program}"));
    assert_eq!(said, limited, "{error}");
    let (said, _) = run(&format!("env -i {OPENS}={} {program}; true", driver.display()));
    assert!(!said.contains("code 0"), "without its variables it has no driver: {said}");
    assert_eq!(std::fs::metadata(&driver).unwrap().len(), {
        std::fs::metadata(library("libfake_libcuda.so")).unwrap().len()
    });
}

#[test]
fn limited_program_sees_its_limit_in_nvml_unless_told_otherwise() {
    let folder = Folder::new("exec-nvml");
    let run = |options: &[&str], set: &[(&str, &str)]| {
        let mut command = exec(&folder, options, &["sh", "-c", "echo $LD_PRELOAD"]);
        command.env("REEF_ACCOUNTS", folder.path("accounts")).envs(set.iter().copied());
        let output = command.output().unwrap();
        (text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    let nvml = library("libreef_nvml_shim.so");
    let named = [("REEF_NVML_SHIM", nvml.to_str().unwrap()), ("REEF_NVML", "1")];
    for set in [&named[..1], &named] {
        let (preload, said) = run(&["--memory", "8m"], set);
        assert!(preload.trim().ends_with("libreef_nvml_shim.so"), "{preload} {said}");
        assert!(preload.contains("libreef_cuda_shim.so:"), "{preload}");
    }
    assert!(!run(&["--memory", "8m", "--nvml", "device"], &named[..1]).0.contains("nvml"));
    assert!(!run(&["--compute", "30%"], &named[..1]).0.contains("nvml"), "all of the memory");
    let missing = ("REEF_NVML_SHIM", "/no/library");
    let (_, said) = run(&["--memory", "8m"], &[missing]);
    let line = "no libreef_nvml_shim.so (tried /no/library)";
    assert!(said.contains(&format!("reef: {line}: NVML and nvidia-smi show")), "{said}");
    let (_, said) = run(&["--memory", "8m"], &[missing, ("REEF_NVML", "1")]);
    assert_eq!(said, format!("reef: not run: REEF_NVML=1: {line}\n"));
}

#[test]
fn a_profile_is_said_at_the_end_and_written_for_perfetto() {
    let folder = Folder::new("exec-profile");
    let program = this_test("program");
    let program: Vec<_> = program.iter().map(String::as_str).collect();
    let run = |options: &[&str], program: &[&str]| {
        let mut command = exec(&folder, options, program);
        let output = command.stdin(Stdio::null()).output().unwrap();
        (output.status.code(), text(&output.stderr).to_owned())
    };
    let file = folder.path("out.json");
    let (code, said) = run(&[&format!("--call-profile={file}")], &program);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("; the program runs with a profile, and without a class\n"), "{said}");
    let row = |name: &str| {
        let line = said.lines().find(|line| line.trim_start().starts_with(name));
        line.unwrap_or_else(|| panic!("{name}: {said}"))
            .split_whitespace()
            .nth(1)
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        (&*row("cuLaunchKernel"), &*row("add"), &*row("cuCtxSynchronize")),
        ("10", "10", "1")
    );
    let trace = json(&std::fs::read_to_string(&file).unwrap());
    let events = trace["traceEvents"].as_array().unwrap();
    assert_eq!(events.iter().filter(|event| event["name"] == "add").count(), 10, "{trace}");
    let (_, said) = run(&["--call-profile"], &["sh", "-c", "exit 0"]);
    assert!(!said.contains("cuLaunchKernel"), "{said}");
    let (code, said) = run(&["--call-profile=python"], &["true"]);
    let line = "reef: --call-profile must name a file that ends in .json, got python\n";
    assert_eq!((code, &*said), (Some(2), line));
    let link = folder.path("link.json");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let (code, said) = run(&[&format!("--call-profile={link}")], &["true"]);
    let why = "must be absent or a regular file, got a symbolic link";
    assert_eq!((code, said), (Some(2), format!("reef: --call-profile {link}: {why}\n")));
}

/// A program that says the name of its device.
#[test]
#[ignore = "is a program that another test runs"]
fn names_its_device() {
    // SAFETY: a library in the driver's place.
    let driver = unsafe { libloading::Library::new("libcuda.so.1") }.unwrap();
    let mut name = [0_u8; 32];
    // SAFETY: the driver's functions of these names have these arguments.
    let codes = unsafe {
        let init = driver.get::<extern "C" fn(u32) -> u32>("cuInit").unwrap();
        let ask = driver.get::<extern "C" fn(*mut u8, i32, i32) -> u32>("cuDeviceGetName").unwrap();
        (init(0), ask(name.as_mut_ptr(), 32, 0))
    };
    let name = std::ffi::CStr::from_bytes_until_nul(&name).unwrap();
    println!("codes {codes:?}, device {}", name.to_str().unwrap());
    // Both releases of the runtime are found by their names, too.
    for release in ["libcudart.so.12", "libcudart.so.13"] {
        let mut count = 0;
        // SAFETY: a library in the runtime's place, whose function has this argument.
        let code = unsafe {
            let runtime = libloading::Library::new(release).unwrap();
            let ask = runtime.get::<extern "C" fn(*mut i32) -> u32>("cudaGetDeviceCount").unwrap();
            ask(&raw mut count)
        };
        println!("{release} code {code}, devices {count}");
    }
}

#[test]
fn a_program_runs_on_the_driver_of_a_server() {
    let folder = Folder::new("exec-remote");
    let [own, programs] = ["own", "programs"].map(|name| format!("unix:{}", folder.path(name)));
    let mut server = Command::new(env!("CARGO_BIN_EXE_reef"));
    server.args(["remote", "serve", "--listen", &own, "--programs", &programs]);
    server.env("REEF_CUDA", library("libfake_libcuda.so")).stdout(Stdio::piped());
    let mut server = server.spawn().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    while !line.ends_with("for programs\n") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_reef"));
    command.args(["exec", "--remote", &programs, "--"]).args(this_test("names_its_device"));
    command.env("REEF_REMOTE_LIBRARY", library("libreef_remote_cuda.so"));
    command.env("REEF_CUDART", library("libreef_cudart.so"));
    command.env("REEF_CUDA", "/nowhere").env("XDG_RUNTIME_DIR", folder.path(""));
    let output = command.output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let said = text(&output.stdout);
    assert!(said.contains("codes (0, 0), device fake"), "{said} {}", text(&output.stderr));
    for release in [12, 13] {
        assert!(said.contains(&format!("libcudart.so.{release} code 0, devices 1")), "{said}");
    }
}

#[test]
fn token_file_without_a_token_is_refused() {
    let folder = Folder::new("exec-token");
    for content in ["", "\ntoken\n"] {
        let file = folder.file("token", content);
        let said = refuses(&["exec", "--token-file", &file, "--", "true"]);
        assert_eq!(said, format!("--token-file {file}: its first line is not a token"));
    }
}

/// The linker passes over such a file, and the program would run without REEF.
#[test]
fn program_is_not_run_with_a_file_that_is_no_library() {
    let folder = Folder::new("exec-no-library");
    let (place, words) = (folder.path(""), folder.file("words.so", "words"));
    let output = reef(&["exec", "--socket-dir", &place, "--shim", &words, "--", "true"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let line = format!("reef: not run: {words}: must be a shared library that can be read: name");
    assert!(said.starts_with(&line), "{said}");
}

/// The program would learn it at its first call of the driver, if it makes one.
#[test]
fn wrong_address_or_file_of_a_server_is_refused() {
    let forms = "--remote must be HOST:PORT, tls:HOST:PORT or unix:PATH, got ";
    for (options, want) in [
        (&["--remote", "gpu-server"][..], forms),
        (&["--remote", ""], forms),
        (&["--remote", "tls:gpu-server:99999"], forms),
        (&["--remote", "::1:7733"], forms),
        (&["--remote", "unix:"], forms),
        (&["--remote", "unix:/x", "--remote-ca", "/nowhere"], "--remote-ca /nowhere: No such file"),
        (&["--remote", "unix:/x", "--token-file", "/nowhere"], "--token-file /nowhere: No such"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reef"));
        command.arg("exec").args(options).args(["--", "true"]);
        command.env("REEF_REMOTE_LIBRARY", library("libreef_remote_cuda.so"));
        let output = command.output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
        assert!(said.starts_with(&format!("reef: {want}")), "{options:?}: {said}");
    }
}

/// None of them would have an effect there.
#[test]
fn options_of_a_local_guest_are_refused_next_to_remote() {
    for option in [
        "--job=mine",
        "--socket-dir=/run/reef",
        "--bind=never",
        "--nvml=device",
        "--slices",
        "--colocate=30%",
        "--floor=5%",
        "--slo=1.10",
        "--threads=20%",
        "--memory=8GiB",
        "--memory-low=1GiB",
        "--compute=30%",
        "--compute-policy=soft",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reef"));
        command.args(["exec", "--remote", "unix:/nowhere", option, "--", "true"]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{option}: {output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("cannot be used with"), "{option}: {said}");
    }
}
