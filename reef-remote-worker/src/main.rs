//! `reef-remote-worker`: serves one program, or starts a server of such processes.

use reef_remote::server::Security;
use reef_remote_worker::{WorkerOptions, Workers, serve_connection};
use rustix::process::{Signal, getpid, getppid, kill_process, set_parent_process_death_signal};
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: reef-remote-worker serve ADDRESS [--driver FILE] [--token-file FILE] [--cert FILE --key FILE]";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("reef-remote-worker: {text}");
            ExitCode::from(2)
        }
    }
}

/// Arguments after the command.
#[derive(Default)]
struct Args {
    parent: Option<i32>,
    driver: Option<PathBuf>,
    security: Security,
}

fn run() -> Result<(), String> {
    let mut args = std::env::args_os().skip(1);
    let usage = || USAGE.to_owned();
    let (command, what) = args.next().zip(args.next()).ok_or_else(usage)?;
    let rest = parse(args)?;
    let what = what.to_str().ok_or_else(usage)?;
    match command.to_str() {
        Some("serve") => serve(what, rest),
        Some("session") => session(what == "tcp", rest),
        _ => Err(usage()),
    }
}

fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Args, String> {
    let mut parsed = Args::default();
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| USAGE.to_owned())?;
        let file = Some(PathBuf::from(&value));
        match name.to_str() {
            Some("--driver") => parsed.driver = file,
            Some("--token-file") => parsed.security.token = file,
            Some("--cert") => parsed.security.cert = file,
            Some("--key") => parsed.security.key = file,
            Some("--parent") => parsed.parent = value.to_str().and_then(|pid| pid.parse().ok()),
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(parsed)
}

fn serve(address: &str, args: Args) -> Result<(), String> {
    let address = address.parse().map_err(|e: reef_wire::Error| e.to_string())?;
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut options = WorkerOptions::new(program);
    (options.driver, options.security) = (args.driver, args.security);
    let workers = Workers::bind(&address, options).map_err(|e| e.to_string())?;
    println!("listening on {}", workers.address());
    workers.run();
    Ok(())
}

fn session(is_tcp: bool, args: Args) -> Result<(), String> {
    // This process ends with its server.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| e.to_string())?;
    if args.parent != getppid().map(|parent| parent.as_raw_nonzero().get()) {
        return Ok(());
    }
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map_err(|e| e.to_string())?;
    let end = serve_connection(socket, is_tcp, &args.security, args.driver);
    if let (Err(error), Some(_)) = (&end, std::env::var_os("REEF_LOG")) {
        eprintln!("reef-remote-worker: {error}");
    }
    // At once, whatever the driver's threads do: the device's memory is free then.
    let _ = kill_process(getpid(), Signal::KILL);
    Ok(())
}
