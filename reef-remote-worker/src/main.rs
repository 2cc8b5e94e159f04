//! `reef-remote-worker`: serves one program, or starts a server of such processes.

use reef_remote_worker::{Arguments, WorkerOptions, Workers, run_worker};
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

fn run() -> Result<(), String> {
    let mut args = std::env::args_os().skip(1);
    let command = args.next().ok_or(USAGE)?;
    match command.to_str() {
        Some("session") => run_worker(args),
        Some("serve") => {
            let address = args.next().ok_or(USAGE)?;
            let address = address.to_str().ok_or(USAGE)?.parse();
            let address = address.map_err(|e: reef_wire::Error| e.to_string())?;
            let program = std::env::current_exe().map_err(|e| e.to_string())?;
            let parsed = Arguments::parse(args)?;
            let mut options = WorkerOptions::new(program);
            (options.driver, options.security) = (parsed.driver, parsed.security);
            let workers = Workers::bind(&address, options).map_err(|e| e.to_string())?;
            println!("listening on {}", workers.address());
            workers.run();
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}
