//! One client: a process that does what its parent says, through the fast local path of the daemon.

use super::message::{Assignment, Order, Play, Reply, clock};
use crate::commands::bench::disb::requests::{Phases, Requests};
use crate::commands::bench::disb::task_loop::{Launch, Mailbox, TaskLoop};
use crate::report::output::print;
use anyhow::{Context, Result, bail};
use reef::models::Seeded;
use reef_serve::{Class, Client, Error, Options};
use std::io::BufRead;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Seed of what the network looks at.
const IMAGE: Seeded = Seeded(2022);

/// A connection to the daemon, and what is sent through it.
struct Connected {
    client: Client,
    image: Vec<f32>,
    output: Vec<f32>,
}

/// An order, with the mail of the benchmark that it begins.
type Received = Result<(Order, Option<Arc<Mailbox>>)>;

/// Obeys until there are no more orders.
pub(crate) fn run() -> Result<()> {
    let (sender, orders) = sync_channel(1);
    thread::spawn(move || receive(&sender));
    match obey(&orders) {
        Ok(()) => Ok(()),
        Err(error) => {
            let (why, input) = (format!("{error:#}"), crate::report::usage::is_input(&error));
            say(&Reply::Failed { why, input })
        }
    }
}

fn say(reply: &Reply) -> Result<()> {
    print(serde_json::to_string(reply)?)
}

/// Reads orders. Their end is that of the process, whatever it is doing: there is no parent to
/// report to.
fn receive(orders: &SyncSender<Received>) {
    let mut mail: Option<Arc<Mailbox>> = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let order = serde_json::from_str(&line).with_context(|| format!("no order: {line:?}"));
        match order {
            Ok(Order::Result { number, from }) => mail.iter().for_each(|m| m.put(number, from)),
            order => {
                if let Ok(Order::Play(play)) = &order {
                    mail =
                        play.load.dependency_count().map(|wanted| Arc::new(Mailbox::new(wanted)));
                }
                let _ = orders.send(order.map(|order| (order, mail.clone()))); // it has failed
            }
        }
    }
    std::process::exit(0);
}

fn obey(orders: &Receiver<Received>) -> Result<()> {
    let mut connected: Option<Connected> = None;
    loop {
        let (order, mail) = orders.recv().context("orders")??;
        let reply = match (order, &mut connected) {
            (Order::Connect(assignment), None) => {
                connected = Some(Connected::new(&assignment)?);
                Reply::Ready
            }
            (Order::WarmUp { requests }, Some(client)) => {
                client.measure_alone(requests)?;
                Reply::Ready
            }
            (Order::Alone { requests }, Some(client)) => {
                Reply::Alone(client.measure_alone(requests)?)
            }
            (Order::Play(play), Some(client)) => {
                Reply::Played(client.play(&play, mail.as_deref())?.into())
            }
            (order, _) => bail!("not now: {order:?}"),
        };
        say(&reply)?;
    }
}

impl Connected {
    fn new(assignment: &Assignment) -> Result<Self> {
        let class = if assignment.real_time { Class::RealTime } else { Class::BestEffort };
        let options = Options {
            folder: Some(assignment.folder.clone()),
            class: Some(class),
            timeout: Some(assignment.timeout),
            ..Options::default()
        };
        let client = Client::connect(&assignment.model, &options)?;
        let (image, output) = (IMAGE.input(client.input_len()), vec![0.0; client.output_len()]);
        Ok(Self { client, image, output })
    }

    /// The mean of requests one after the other.
    fn measure_alone(&mut self, count: u32) -> Result<Phases> {
        let mut requests = Requests::default();
        for _ in 0..count {
            let phases = self.request(Duration::MAX)?.context("a request timed out")?;
            requests.note(&phases, Duration::ZERO);
        }
        Ok(requests.mean())
    }

    fn play(&mut self, play: &Play, mail: Option<&Mailbox>) -> Result<Requests> {
        let &Play { ref load, delay, time, seed, begin, tells } = play;
        let task_loop = TaskLoop { load, delay, time, seed, begin, mail };
        task_loop.play(self, |number| if tells { say(&Reply::Finished { number }) } else { Ok(()) })
    }
}

impl Launch for Connected {
    fn clock(&self) -> Duration {
        clock()
    }

    /// The image goes to shared memory. Then this waits for the output, and reads it. The daemon's
    /// own timeout ends the wait.
    fn request(&mut self, _until: Duration) -> Result<Option<Phases>> {
        let begin = clock();
        self.client.submit(&self.image)?;
        let submitted = clock();
        if !is_finished(self.client.receive(&mut self.output))? {
            return Ok(None);
        }
        let (preprocess, infer) = (submitted - begin, clock() - submitted);
        Ok(Some(Phases { preprocess, infer, postprocess: Duration::ZERO }))
    }
}

/// Returns whether a request was answered in time.
fn is_finished<T>(how: Result<T, Error>) -> Result<bool, Error> {
    match how {
        Ok(_) => Ok(true),
        Err(Error::Deadline(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_takes_too_long_is_no_error() {
        assert_eq!(is_finished(Ok(())), Ok(true));
        assert_eq!(is_finished::<()>(Err(Error::Deadline("late".into()))), Ok(false));
        let gone = Error::Unavailable("gone".into());
        assert_eq!(is_finished::<()>(Err(gone.clone())), Err(gone));
    }
}
