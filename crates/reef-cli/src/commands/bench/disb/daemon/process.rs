//! The processes of clients, which end with their parent: each ends itself when its stdin does.

use super::message::{Order, Reply};
use crate::commands::bench::disb::config::{Task, Workload};
use crate::report::usage::Usage;
use anyhow::{Context, Result, anyhow};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Number of a client and its message; `None` at the end of its output.
type ClientReply = (usize, Option<Reply>);

/// A process for each task.
pub(crate) struct Processes {
    all: Vec<Process>,
    replies: Receiver<ClientReply>,
}

/// A process, killed when this is dropped.
struct Process {
    id: String,
    child: Child,
    orders: Option<ChildStdin>,
}

impl Processes {
    /// Starts them; `file` is what the list of processes shows.
    pub(crate) fn start(workload: &Workload, file: &Path) -> Result<Self> {
        let (sender, replies) = channel();
        let start = |(k, task): (usize, &Task)| Process::start(k, &task.id, file, &sender);
        let all = workload.tasks.iter().enumerate().map(start).collect::<Result<_>>()?;
        Ok(Self { all, replies })
    }

    /// Sends an order to client `k`. If the client is gone, its next message says so.
    pub(crate) fn order(&mut self, k: usize, order: &Order) -> Result<()> {
        let line = serde_json::to_string(order)? + "\n";
        if let Some(orders) = &mut self.all[k].orders {
            let _ = orders.write_all(line.as_bytes()); // it is gone
        }
        Ok(())
    }

    /// Sends an order to client `k` and waits for its reply.
    pub(crate) fn ask(&mut self, k: usize, order: &Order) -> Result<Reply> {
        self.order(k, order)?;
        Ok(self.hear(None)?.1)
    }

    /// The next that any client says, which is an error if it fails, or if all are silent for
    /// `most`.
    pub(crate) fn hear(&mut self, most: Option<Duration>) -> Result<(usize, Reply)> {
        let heard = match most {
            Some(most) => self.replies.recv_timeout(most),
            None => self.replies.recv().map_err(RecvTimeoutError::from),
        };
        let (k, reply) = heard.map_err(|_| anyhow!("no client says anything any more"))?;
        let id = &self.all[k].id;
        match reply {
            Some(Reply::Failed { why, input: true }) => Err(Usage(format!("{id}: {why}")).into()),
            Some(Reply::Failed { why, input: false }) => Err(anyhow!("{id}: {why}")),
            Some(reply) => Ok((k, reply)),
            None => Err(self.all[k].ended()),
        }
    }
}

impl Process {
    fn start(k: usize, id: &str, file: &Path, replies: &Sender<ClientReply>) -> Result<Self> {
        let reef = std::env::current_exe().context("our own executable")?;
        let mut child = Command::new(&reef)
            .args(["bench", "disb"])
            .arg(file)
            .args(["--daemon", "--as-client", id])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| reef.display().to_string())?;
        let (orders, said) = (child.stdin.take(), child.stdout.take().expect("piped"));
        let replies = replies.clone();
        thread::spawn(move || pass_on(k, said, &replies));
        Ok(Self { id: id.into(), child, orders })
    }

    /// Why nothing more is heard of it.
    fn ended(&mut self) -> anyhow::Error {
        match self.child.wait() {
            Ok(status) => anyhow!("{}: its process ended: {status}", self.id),
            Err(error) => anyhow!("{}: its process ended: {error}", self.id),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.child.kill(); // it has nothing to lose
        let _ = self.child.wait();
    }
}

/// Reads what a client says until it ends.
fn pass_on(k: usize, said: ChildStdout, replies: &Sender<ClientReply>) {
    for line in BufReader::new(said).lines().map_while(Result::ok) {
        let wrong = |error| Reply::Failed { why: format!("{error}: {line:?}"), input: false };
        let said = serde_json::from_str(&line).unwrap_or_else(wrong);
        if replies.send((k, Some(said))).is_err() {
            return; // the receiver is gone
        }
    }
    let _ = replies.send((k, None)); // likewise
}
