//! A client that has come in: its requests and their answers.

use super::options::{Options, Timing};
use super::tensor_buffers::{Open, Places};
use crate::class::Class;
use crate::error::{Error, Result};
use crate::local::clock;
use crate::local::fd_passing::{POLL_INTERVAL, is_over, receive, send};
use crate::local::handshake::{ClientHello, RELOADED, SERVER_HELLO_LEN, ServerHello, error};
use crate::local::segment::{FIRST, Segment};
use crate::name::ModelName;
use crate::net::folder::connect;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How long a daemon may take to say why it closes a connection.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Values of an input that are copied while a daemon that sleeps wakes up: at least as long as that
/// takes, and not longer than it looks for a request then
/// ([`ROUSED`](crate::local::channel::ROUSED)).
const LAST_VALUES: usize = 256 << 10;

/// How much longer inferences have to take than the client looks for their answers, so that it
/// sleeps at once: the daemon will wake it in time.
const SLEEP_BEYOND: Duration = Duration::from_micros(60);

/// A connection to a daemon, for one model: an instance of it for this client alone.
///
/// If the model is reloaded, the client connects anew by itself and asks again for what is open. If
/// the new one takes or gives tensors of other lengths, what is open is lost, and the error says
/// that it was reloaded.
///
/// ```no_run
/// use reef_serve::{Class, Client, Options};
///
/// let options = Options { class: Some(Class::RealTime), ..Options::default() };
/// let mut client = Client::connect("resnet50", &options)?;
/// let picture = vec![0.0; client.input_len()];
/// let logits = client.infer(&picture)?;
/// assert_eq!(logits.len(), client.output_len());
/// # Ok::<(), reef_serve::Error>(())
/// ```
#[derive(Debug)]
pub struct Client {
    id: u32,
    class: Class,
    has_budget: bool,
    model: ModelName,
    options: Options,
    stream: UnixStream,
    segment: Segment,
    submitted: u32,
    received: u32,
    places: Places,
    /// How long the last inference took.
    last: Duration,
    /// Whether the next request has its tensor.
    staged: bool,
}

impl Client {
    /// Connects to the daemon and gets an instance of `model`, which is loaded if it is not. Blocks
    /// until it is.
    ///
    /// # Errors
    ///
    /// `Unavailable` if there is no daemon; `Denied` if it may be another user's; what it says
    /// against the model or the client.
    pub fn connect(model: &str, options: &Options) -> Result<Self> {
        let model = ModelName::new(model)?;
        let stream = connect(options.folder.as_deref(), "local.sock")?;
        let hello = ClientHello { model: model.clone(), class: options.class, rate: options.rate };
        let sent = send(&stream, &hello.to_bytes(), None);
        let mut bytes = [0; SERVER_HELLO_LEN];
        // A daemon that is full says so without hearing what the client wants.
        let fd = receive(&stream, &mut bytes).map_err(|error| sent.err().unwrap_or(error))?;
        match (ServerHello::from_bytes(&bytes)?, fd) {
            (ServerHello::Refused(error), _) => Err(error),
            (ServerHello::Accepted { .. }, None) => {
                Err(Error::Invalid("welcome without memory".into()))
            }
            (ServerHello::Accepted { id, class, has_budget, layout }, Some(fd)) => Ok(Self {
                id,
                class,
                has_budget,
                model,
                options: options.clone(),
                stream,
                segment: Segment::open(fd, layout)?,
                submitted: FIRST,
                received: FIRST,
                places: Places::new(layout.slots),
                last: Duration::ZERO,
                staged: false,
            }),
        }
    }

    /// Connects anew, as after the daemon's end. Requests that are open are lost.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect); the client then stays as it is.
    pub fn reconnect(&mut self) -> Result<()> {
        *self = Self::connect(self.model.as_str(), &self.options)?;
        Ok(())
    }

    /// Its number at the daemon.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Class of its requests.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Whether the rate that it stated was admitted: as much of the device is its own until it
    /// disconnects. Without, the daemon's `rt.unfit` says whether it is served late or, as
    /// [`class`](Self::class) tells, best-effort.
    pub fn has_budget(&self) -> bool {
        self.has_budget
    }

    /// Values of the input.
    pub fn input_len(&self) -> usize {
        self.segment.layout().input / size_of::<f32>()
    }

    /// Values of the output.
    pub fn output_len(&self) -> usize {
        self.segment.layout().output / size_of::<f32>()
    }

    /// Runs the model and returns its output. Blocks.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit) and [`receive`](Self::receive).
    pub fn infer(&mut self, input: &[f32]) -> Result<Vec<f32>> {
        let mut output = vec![0.0; self.output_len()];
        self.infer_into(input, &mut output)?;
        Ok(output)
    }

    /// Runs the model into `output`. Blocks.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit) and [`receive`](Self::receive).
    pub fn infer_into(&mut self, input: &[f32], output: &mut [f32]) -> Result<Timing> {
        self.submit(input)?;
        self.receive(output)
    }

    /// Asks for an inference without waiting for it.
    ///
    /// # Errors
    ///
    /// `Exhausted` at once if as many are open as the ring has slots; `Invalid` for another length;
    /// `Unavailable` if the daemon is gone.
    pub fn submit(&mut self, input: &[f32]) -> Result<()> {
        length("input", input.len(), self.input_len())?;
        self.check_room()?;
        let tensor = self.segment.input(self.places.next());
        let last = input.len().saturating_sub(LAST_VALUES).next_multiple_of(2).min(input.len());
        let (most, rest) = input.split_at(last);
        tensor.copy_floats(0, most);
        self.segment.requests().rouse();
        tensor.copy_floats(last, rest);
        self.push(1);
        Ok(())
    }

    /// Copies the input of the next request where the device reads it, ahead of time:
    /// [`submit_staged`](Self::submit_staged) then asks for it. Any other request before that, and
    /// a model that is reloaded, make the client forget it.
    ///
    /// # Errors
    ///
    /// `Exhausted` if as many are open as the ring has slots; `Invalid` for another length.
    pub fn stage(&mut self, input: &[f32]) -> Result<()> {
        length("input", input.len(), self.input_len())?;
        self.check_room()?;
        self.segment.input(self.places.next()).copy_floats(0, input);
        self.staged = true;
        Ok(())
    }

    /// Asks for an inference of what was staged, without waiting for it.
    ///
    /// # Errors
    ///
    /// `Invalid` if nothing is staged.
    pub fn submit_staged(&mut self) -> Result<()> {
        if !self.staged {
            return Err(Error::Invalid("no input is staged".into()));
        }
        self.push(1);
        Ok(())
    }

    /// The same of values that are made one by one: they are written where the device reads them,
    /// without a copy in between.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    pub fn submit_from(&mut self, input: impl IntoIterator<Item = f32>) -> Result<()> {
        self.check_room()?;
        let (mut input, want) = (input.into_iter(), self.input_len());
        let given = self.segment.input(self.places.next()).write_floats(input.by_ref().take(want));
        if input.next().is_some() {
            return Err(Error::Invalid(format!("input: more than {want} values given")));
        }
        length("input", given, want)?;
        self.push(1);
        Ok(())
    }

    /// Waits for the oldest inference that was asked for.
    ///
    /// # Errors
    ///
    /// `Invalid` for another length or if none is open; `Unavailable` within a second if the daemon
    /// is gone; what the daemon says.
    pub fn receive(&mut self, output: &mut [f32]) -> Result<Timing> {
        length("output", output.len(), self.output_len())?;
        let (n, Open { place, asked }) = self.pop()?;
        let seen = clock::now();
        self.segment.output(place).read_floats(output);
        let slot = self.segment.slot(n);
        let nanos = Duration::from_nanos;
        self.last = nanos(slot.infer.load(Relaxed));
        Ok(Timing {
            infer: self.last,
            delay: nanos(slot.delay.load(Relaxed)),
            way_in: nanos(slot.began.load(Relaxed).saturating_sub(asked)),
            way_out: nanos(seen.saturating_sub(slot.answered.load(Relaxed))),
        })
    }

    /// A round trip without an inference.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit) and [`receive`](Self::receive).
    pub fn ping(&mut self) -> Result<()> {
        self.check_room()?;
        self.push(0);
        self.last = Duration::ZERO; // its answer comes at once
        self.pop().map(drop)
    }

    fn check_room(&self) -> Result<()> {
        let open = self.submitted.wrapping_sub(self.received);
        if open < self.segment.layout().slots {
            return Ok(());
        }
        Err(Error::Exhausted(format!("{open} requests are open already")))
    }

    fn push(&mut self, kind: u32) {
        let slot = self.segment.slot(self.submitted);
        let micros = self.options.timeout.map_or(0, |time| time.as_micros().max(1));
        slot.timeout.store(u64::try_from(micros).unwrap_or(u64::MAX), Relaxed);
        slot.kind.store(kind, Relaxed);
        self.staged = false;
        slot.place.store(self.places.take(self.submitted, clock::now()), Relaxed);
        self.submitted = self.submitted.wrapping_add(1);
        self.segment.requests().publish(self.submitted);
    }

    /// Waits for the oldest request and returns its number, and where its output lies until the
    /// next one is asked for.
    fn pop(&mut self) -> Result<(u32, Open)> {
        let n = self.received;
        if n == self.submitted {
            return Err(Error::Invalid("no request is open".into()));
        }
        while let Err(error) = self.wait(self.received) {
            self.go_on(error)?;
        }
        let n = self.received;
        self.received = n.wrapping_add(1);
        let open = self.places.give(n);
        let slot = self.segment.slot(n);
        match slot.code.load(Relaxed) {
            0 => Ok((n, open)),
            code => Err(error(code, slot.text())),
        }
    }

    /// Connects anew if `error` says that the model was reloaded, and asks for what is open again.
    fn go_on(&mut self, error: Error) -> Result<()> {
        if error != Error::Unavailable(RELOADED.into()) {
            return Err(error);
        }
        let new = Self::connect(self.model.as_str(), &self.options)?;
        let old = std::mem::replace(self, new);
        if self.segment.layout() != old.segment.layout() {
            return Err(error);
        }
        let mut input = vec![0.0; self.input_len()];
        for open in 0..old.submitted.wrapping_sub(old.received) {
            let from = old.received.wrapping_add(open);
            old.segment.input(old.places.of(from).place).read_floats(&mut input);
            self.segment.input(self.places.next()).copy_floats(0, &input);
            self.push(old.segment.slot(from).kind.load(Relaxed));
        }
        Ok(())
    }

    /// Why the daemon has closed the connection, if it said so.
    fn why_over(&self) -> Error {
        let _ = self.stream.set_read_timeout(Some(LAST_WORDS)); // or the end is heard at once
        let mut bytes = [0; SERVER_HELLO_LEN];
        let said = receive(&self.stream, &mut bytes).and_then(|_| ServerHello::from_bytes(&bytes));
        match said {
            Ok(ServerHello::Refused(error)) => error,
            _ => Error::Unavailable("the daemon is gone".into()),
        }
    }

    /// Polls for a while, then sleeps, until request `n` is answered.
    fn wait(&self, n: u32) -> Result<()> {
        let answers = self.segment.answers();
        let mut spin = self.options.spin;
        if self.last > spin + SLEEP_BEYOND {
            spin = Duration::ZERO;
        }
        // In this order: what was answered before the end counts.
        while !answers.wait(n, spin, POLL_INTERVAL) {
            if is_over(&self.stream) && answers.cursor() == n {
                return Err(self.why_over());
            }
            spin = Duration::ZERO;
        }
        Ok(())
    }
}

fn length(what: &str, given: usize, want: usize) -> Result<()> {
    if given == want {
        return Ok(());
    }
    Err(Error::Invalid(format!("{what}: {given} values given, {want} wanted")))
}

#[cfg(test)]
mod tests;
