//! What the daemon counts, from its metrics.

use anyhow::{Context, Result};
use reef::Stats;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const REQUEST: &[u8] = b"GET /metrics HTTP/1.0\r\nhost: reef\r\nconnection: close\r\n\r\n";

/// How often what happened, since the daemon began.
pub(super) fn stats(folder: &Path) -> Result<Stats> {
    let socket = folder.join("http.sock");
    let text = get(&socket).with_context(|| socket.display().to_string())?;
    Ok(Stats {
        preemptions: number(&text, "reef_preemptions")?,
        rt_finished: number(&text, "reef_rt_finished")?,
        padded_launches: number(&text, "reef_padded_launches")?,
    })
}

/// How often since `before`.
pub(super) fn since(before: Stats, now: Stats) -> Stats {
    Stats {
        preemptions: now.preemptions.saturating_sub(before.preemptions),
        rt_finished: now.rt_finished.saturating_sub(before.rt_finished),
        padded_launches: now.padded_launches.saturating_sub(before.padded_launches),
    }
}

fn get(socket: &Path) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(REQUEST)?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn number(text: &str, name: &str) -> Result<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.and_then(|value| value.trim().parse().ok());
    value.with_context(|| format!("the daemon's metrics: no {name}"))
}
