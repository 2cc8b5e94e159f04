//! `reef remote ps`: the sessions of this machine's servers.

use crate::remote::servers::{Server, Session, ask_all};
use crate::report::columns::{Column, as_table};
use crate::report::output::{self, print};
use crate::report::time;
use crate::report::usage::Usage;
use anyhow::{Result, bail};
use reef_guest::limit::format_bytes;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// One server: an address at which it listens, or the number of its process.
    server: Option<String>,
    /// Folder of the servers' control sockets [default: $XDG_RUNTIME_DIR/reef, or /tmp/reef-UID].
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,
    /// Print JSON, an object for each server.
    #[arg(long)]
    json: bool,
}

/// A session, and the process of its server.
struct Row(u32, Session);

const COLUMNS: [Column<Row>; 12] = [
    Column::new("session", "session", 0, |Row(server, of)| format!("{server}.{}", of.id).into()),
    Column::new("program", "program", 0, |Row(_, of)| text(&of.program)),
    Column::new("worker", "worker", 0, |Row(_, of)| of.pid.map_or(Value::Null, Value::from)),
    Column::new("kind", "kind", 0, |Row(_, of)| of.kind.clone().into()),
    Column::new("client", "client", 0, |Row(_, of)| text(&of.peer)),
    Column::new("tenant", "tenant", 0, |Row(_, of)| text(of.tenant.as_deref().unwrap_or(""))),
    Column::new("state", "state", 0, |Row(_, of)| of.state().into()),
    Column::new("age", "age", 0, |Row(_, of)| age(of.age_seconds).into()),
    Column::new("memory", "memory", 0, |Row(_, of)| format_bytes(of.memory_bytes).into()),
    Column::new("up", "up", 0, |Row(_, of)| format_bytes(of.received_bytes).into()),
    Column::new("down", "down", 0, |Row(_, of)| format_bytes(of.sent_bytes).into()),
    Column::new("replayed", "replayed", 0, |Row(_, of)| {
        let part = of.replayed_part().map(|part| format!("{:.0} %", 100.0 * part));
        part.map_or(Value::Null, Value::from)
    }),
];

fn text(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { text.into() }
}

fn age(seconds: f64) -> String {
    let whole = seconds as u64;
    match (whole / 86400, whole / 3600 % 24, whole / 60 % 60) {
        (0, 0, 0) => time::show(Duration::from_secs(whole)),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let (mut all, mut silent) = ask_all(args.socket_dir.as_deref());
    if let Some(name) = &args.server {
        let is_it =
            |server: &Server| server.pid.to_string() == *name || server.listening.contains(name);
        all.retain(is_it);
        // An address may be that of any server that does not answer.
        let may_be = |pid: u32| name.parse::<u32>().ok().is_none_or(|number| number == pid);
        silent.retain(|(pid, _)| all.is_empty() && may_be(*pid));
        if all.is_empty() && silent.is_empty() {
            let text = format!("no server at {name:?}: `reef remote ps` lists those of this user");
            return Err(Usage(text).into());
        }
    }
    if args.json {
        print(serde_json::to_string(&all)?)?;
    } else if !all.is_empty() || silent.is_empty() {
        print_table(all)?;
    }
    if silent.is_empty() {
        return Ok(());
    }
    let why: Vec<String> = silent.into_iter().map(|(_, why)| why).collect();
    bail!("not all servers have answered: {}", why.join("; "))
}

fn print_table(all: Vec<Server>) -> Result<()> {
    let count = all.len();
    let rows = |of: Server| of.sessions.into_iter().map(move |one| Row(of.pid, one));
    let rows: Vec<Row> = all.into_iter().flat_map(rows).collect();
    match (count, rows.len()) {
        (0, _) => print("no server of this user runs here: `reef remote serve` starts one"),
        (servers, 0) => print(format!("no session ({})", output::count(servers, "server"))),
        _ => print(as_table(&COLUMNS, &rows)),
    }
}
