//! `reef-remote-worker`: serves one program, or starts a server of such processes.

use reef_remote_worker::{
    Arguments, Destination, SessionName, WorkerOptions, Workers, migrate, restore, run_worker,
    snapshot,
};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: reef-remote-worker migrate SESSION ADDRESS | snapshot SESSION FOLDER [end] | restore FOLDER ADDRESS | serve ADDRESS [--driver FILE] [--token-file FILE] [--cert FILE --key FILE] [--allow-host-access 1] [--closed-timeout MILLISECONDS]";

fn main() -> ExitCode {
    reef_files::on_large_stack(run_command)
}

fn run_command() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("reef-remote-worker: {text}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let mut args = std::env::args_os().skip(1);
    let command = args.next().ok_or(USAGE)?;
    match command.to_str() {
        Some("session") => run_worker(args),
        Some(command @ ("migrate" | "snapshot" | "restore")) => {
            let words: Vec<String> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            migrate_by(command, &words)
        }
        Some("serve") => {
            let address = args.next().ok_or(USAGE)?;
            let address = address.to_str().ok_or(USAGE)?.parse();
            let address = address.map_err(|e: reef_wire::Error| e.to_string())?;
            let program = std::env::current_exe().map_err(|e| e.to_string())?;
            let parsed = Arguments::parse(args)?;
            let mut options = WorkerOptions::new(program);
            (options.driver, options.security) = (parsed.driver, parsed.security);
            options.allow_host_access = parsed.allow_host_access;
            options.closed_timeout = parsed.closed_timeout.unwrap_or(options.closed_timeout);
            let workers = Workers::bind(&address, options).map_err(|e| e.to_string())?;
            println!("listening on {}", workers.address());
            workers.run();
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

/// Moves, writes or reads a session. The address may have an emulated line after a comma.
fn migrate_by(command: &str, words: &[&str]) -> Result<(), String> {
    let place = |text: &str| {
        let (address, line) = text.split_once(',').unwrap_or((text, ""));
        let mut place = Destination::new(address);
        place.emulate = (!line.is_empty()).then(|| line.into());
        place
    };
    let migrated = match (command, words) {
        ("restore", &[folder, to]) => {
            let bytes = restore(Path::new(folder), &place(to))?;
            println!("restored {bytes} bytes");
            return Ok(());
        }
        ("migrate", &[session, to]) => migrate(session.parse::<SessionName>()?, &place(to))?,
        ("snapshot", &[session, folder, ref rest @ ..]) => {
            let session = session.parse::<SessionName>()?;
            snapshot(session, Path::new(folder), rest == ["end"])?
        }
        _ => return Err(USAGE.into()),
    };
    let reef_remote_worker::MigrationReport { pause, memory, read, delta, .. } = migrated;
    let millis = pause.as_secs_f64() * 1e3;
    println!("pause {millis:.1} ms, memory {memory} bytes, {read} read and {delta} sent in it");
    Ok(())
}
