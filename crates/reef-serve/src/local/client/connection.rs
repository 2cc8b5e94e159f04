//! An accepted client: its requests and their answers.

use super::options::{Options, Timing};
use super::pending::Pending;
use super::tensor_buffers::{OpenRequest, TensorBuffers};
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

/// Time that a daemon has to state why it closes a connection.
const REASON_TIMEOUT: Duration = Duration::from_millis(500);

/// Values of an input that are copied while a sleeping daemon wakes up: the copy takes at least as
/// long as the wake, and not longer than the daemon polls then
/// ([`EARLY_WAKE_POLL_TIMEOUT`](crate::local::channel::EARLY_WAKE_POLL_TIMEOUT)).
const COPY_AFTER_WAKE: usize = 256 << 10;

/// Margin by which inferences must exceed the client's polling time for it to sleep at once: the
/// daemon wakes it in time.
const SLEEP_MARGIN: Duration = Duration::from_micros(60);

/// A connection to a daemon for one model, with an instance for this client alone.
///
/// If the model is reloaded, the client reconnects by itself and repeats its open requests. If the
/// new version has tensors of other lengths, the open requests are lost, and the error states the
/// reload.
///
/// ```no_run
/// use reef_serve::{Class, Client, Options};
///
/// let options = Options { class: Some(Class::RealTime), ..Options::default() };
/// let mut client = Client::connect("resnet50", &options)?;
/// let image = vec![0.0; client.input_len()];
/// let logits = client.infer(&image)?;
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
    buffers: TensorBuffers,
    /// Duration of the last inference.
    last: Duration,
    /// True if the tensor of the next request is staged.
    is_staged: bool,
}

impl Client {
    /// Connects to the daemon and gets an instance of `model`, which is loaded if necessary. Blocks
    /// until then.
    ///
    /// # Errors
    ///
    /// `Unavailable` if there is no daemon; `Denied` if it may belong to another user; errors of
    /// the daemon about the model or the client.
    pub fn connect(model: &str, options: &Options) -> Result<Self> {
        let model = ModelName::new(model)?;
        let stream = connect(options.folder.as_deref(), "local.sock")?;
        let hello = ClientHello { model: model.clone(), class: options.class, rate: options.rate };
        let sent = send(&stream, &hello.to_bytes(), None);
        let mut bytes = [0; SERVER_HELLO_LEN];
        // A full daemon refuses before it reads the hello.
        let fd = receive(&stream, &mut bytes).map_err(|error| sent.err().unwrap_or(error))?;
        match (ServerHello::from_bytes(&bytes)?, fd) {
            (ServerHello::Refused(error), _) => Err(error),
            (ServerHello::Accepted { .. }, None) => {
                Err(Error::Invalid("the daemon's answer must have a file descriptor".into()))
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
                buffers: TensorBuffers::new(layout.slots),
                last: Duration::ZERO,
                is_staged: false,
            }),
        }
    }

    /// Reconnects, for example after the daemon's end. Open requests are lost.
    ///
    /// # Errors
    ///
    /// Errors of [`connect`](Self::connect); the client is then unchanged.
    pub fn reconnect(&mut self) -> Result<()> {
        *self = Self::connect(self.model.as_str(), &self.options)?;
        Ok(())
    }

    /// Returns its number at the daemon.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the class of its requests.
    pub fn class(&self) -> Class {
        self.class
    }

    /// True if its stated rate was admitted: that part of the device is reserved for it until it
    /// disconnects. Otherwise the daemon's `rt.unfit` decides whether it is served late or as
    /// best-effort, which [`class`](Self::class) reports.
    pub fn has_budget(&self) -> bool {
        self.has_budget
    }

    /// Number of values of the input.
    pub fn input_len(&self) -> usize {
        self.segment.layout().input / size_of::<f32>()
    }

    /// Number of values of the output.
    pub fn output_len(&self) -> usize {
        self.segment.layout().output / size_of::<f32>()
    }

    /// Runs the model and returns its output. Blocks.
    ///
    /// # Errors
    ///
    /// Errors of [`submit`](Self::submit) and [`receive`](Self::receive).
    pub fn infer(&mut self, input: &[f32]) -> Result<Vec<f32>> {
        let mut output = vec![0.0; self.output_len()];
        self.infer_into(input, &mut output)?;
        Ok(output)
    }

    /// Runs the model into `output`. Blocks.
    ///
    /// # Errors
    ///
    /// Errors of [`submit`](Self::submit) and [`receive`](Self::receive).
    pub fn infer_into(&mut self, input: &[f32], output: &mut [f32]) -> Result<Timing> {
        self.submit(input)?;
        self.receive(output)
    }

    /// Requests an inference without waiting for it.
    ///
    /// # Errors
    ///
    /// `Exhausted` at once if the ring has no free slot; `Invalid` for another length;
    /// `Unavailable` if the daemon is gone.
    pub fn submit(&mut self, input: &[f32]) -> Result<()> {
        length("input", input.len(), self.input_len())?;
        self.check_room()?;
        let tensor = self.segment.input(self.buffers.next());
        let last = input.len().saturating_sub(COPY_AFTER_WAKE).next_multiple_of(2).min(input.len());
        let (first, rest) = input.split_at(last);
        tensor.copy_floats(0, first);
        self.segment.requests().wake_early();
        tensor.copy_floats(last, rest);
        self.push(1);
        Ok(())
    }

    /// Copies the input of the next request into shared memory, ahead of time;
    /// [`submit_staged`](Self::submit_staged) then requests its inference. Any other request before
    /// that, and a reload of the model, discard it.
    ///
    /// # Errors
    ///
    /// `Exhausted` if the ring has no free slot; `Invalid` for another length.
    pub fn stage(&mut self, input: &[f32]) -> Result<()> {
        length("input", input.len(), self.input_len())?;
        self.check_room()?;
        self.segment.input(self.buffers.next()).copy_floats(0, input);
        self.is_staged = true;
        Ok(())
    }

    /// Requests an inference of the staged input, without waiting for it.
    ///
    /// # Errors
    ///
    /// `Invalid` if no input is staged.
    pub fn submit_staged(&mut self) -> Result<()> {
        if !self.is_staged {
            return Err(Error::Invalid("no input is staged".into()));
        }
        self.push(1);
        Ok(())
    }

    /// Requests an inference of values that are produced one by one. They are written directly into
    /// shared memory.
    ///
    /// # Errors
    ///
    /// Errors of [`submit`](Self::submit).
    pub fn submit_from(&mut self, input: impl IntoIterator<Item = f32>) -> Result<()> {
        self.check_room()?;
        let (mut input, want) = (input.into_iter(), self.input_len());
        let given = self.segment.input(self.buffers.next()).write_floats(input.by_ref().take(want));
        if input.next().is_some() {
            return Err(Error::Invalid(format!("input must have {want} values, got more")));
        }
        length("input", given, want)?;
        self.push(1);
        Ok(())
    }

    /// Waits for the oldest requested inference.
    ///
    /// # Errors
    ///
    /// `Invalid` for another length or if no request is open; `Unavailable` within a second if the
    /// daemon is gone; errors of the daemon.
    pub fn receive(&mut self, output: &mut [f32]) -> Result<Timing> {
        length("output", output.len(), self.output_len())?;
        let (n, OpenRequest { buffer, requested }) = self.pop()?;
        let seen = clock::now();
        self.segment.output(buffer).read_floats(output);
        let slot = self.segment.slot(n);
        let nanos = Duration::from_nanos;
        self.last = nanos(slot.infer.load(Relaxed));
        Ok(Timing {
            infer: self.last,
            delay: nanos(slot.delay.load(Relaxed)),
            way_in: nanos(slot.began.load(Relaxed).saturating_sub(requested)),
            way_out: nanos(seen.saturating_sub(slot.answered.load(Relaxed))),
        })
    }

    /// Returns the answer of the oldest requested inference if there is one. Doesn't wait, unless
    /// the daemon has ended or the model was reloaded.
    ///
    /// # Errors
    ///
    /// Errors of [`receive`](Self::receive). If [`open_requests`](Self::open_requests) is as
    /// before, the connection has ended, and with it all open requests.
    pub fn try_receive(&mut self) -> Result<Option<(Vec<f32>, Timing)>> {
        let answers = self.segment.answers();
        if self.open_requests() > 0 && answers.cursor() == self.received {
            if is_over(&self.stream) && answers.cursor() == self.received {
                let reason = self.end_reason();
                self.resume(reason)?;
            }
            return Ok(None);
        }
        let mut output = vec![0.0; self.output_len()];
        let timing = self.receive(&mut output)?;
        Ok(Some((output, timing)))
    }

    /// Returns the oldest open request, for a thread that waits while others use the client.
    pub fn pending(&self) -> Option<Pending> {
        let (segment, n, spin) = (self.segment.clone(), self.received, self.spin());
        (self.open_requests() > 0).then_some(Pending { segment, n, spin })
    }

    /// Number of requests whose answers were not received.
    pub fn open_requests(&self) -> u32 {
        self.submitted.wrapping_sub(self.received)
    }

    /// Sets the maximum time of the next requests; `None` for the daemon's.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.options.timeout = timeout;
    }

    /// Makes a round trip without an inference.
    ///
    /// # Errors
    ///
    /// Errors of [`submit`](Self::submit) and [`receive`](Self::receive).
    pub fn ping(&mut self) -> Result<()> {
        self.check_room()?;
        self.push(0);
        self.last = Duration::ZERO; // the next answer comes at once
        self.pop().map(drop)
    }

    fn check_room(&self) -> Result<()> {
        let open = self.open_requests();
        if open < self.segment.layout().slots {
            return Ok(());
        }
        Err(Error::Exhausted(format!("open requests must be at most {open}")))
    }

    fn push(&mut self, kind: u32) {
        let slot = self.segment.slot(self.submitted);
        let micros = self.options.timeout.map_or(0, |time| time.as_micros().max(1));
        slot.timeout.store(u64::try_from(micros).unwrap_or(u64::MAX), Relaxed);
        slot.kind.store(kind, Relaxed);
        self.is_staged = false;
        slot.buffer.store(self.buffers.take(self.submitted, clock::now()), Relaxed);
        self.submitted = self.submitted.wrapping_add(1);
        self.segment.requests().publish(self.submitted);
    }

    /// Waits for the oldest request, and returns its number and its tensors, which stay until the
    /// next request.
    fn pop(&mut self) -> Result<(u32, OpenRequest)> {
        let n = self.received;
        if n == self.submitted {
            return Err(Error::Invalid("no request is open".into()));
        }
        while let Err(error) = self.wait(self.received) {
            self.resume(error)?;
        }
        let n = self.received;
        self.received = n.wrapping_add(1);
        let open = self.buffers.give(n);
        let slot = self.segment.slot(n);
        match slot.code.load(Relaxed) {
            0 => Ok((n, open)),
            code => Err(error(code, slot.text())),
        }
    }

    /// Reconnects if `error` states a reload of the model, and repeats the open requests.
    fn resume(&mut self, error: Error) -> Result<()> {
        if error != Error::Unavailable(RELOADED.into()) {
            return Err(error);
        }
        let new = Self::connect(self.model.as_str(), &self.options)?;
        let old = std::mem::replace(self, new);
        if self.segment.layout() != old.segment.layout() {
            return Err(error);
        }
        let mut input = vec![0.0; self.input_len()];
        for open in 0..old.open_requests() {
            let from = old.received.wrapping_add(open);
            old.segment.input(old.buffers.of(from).buffer).read_floats(&mut input);
            self.segment.input(self.buffers.next()).copy_floats(0, &input);
            self.push(old.segment.slot(from).kind.load(Relaxed));
        }
        Ok(())
    }

    /// Returns the daemon's reason for closing the connection, if it sent one.
    fn end_reason(&self) -> Error {
        let _ = self.stream.set_read_timeout(Some(REASON_TIMEOUT)); // else the end is seen at once
        let mut bytes = [0; SERVER_HELLO_LEN];
        let said = receive(&self.stream, &mut bytes).and_then(|_| ServerHello::from_bytes(&bytes));
        match said {
            Ok(ServerHello::Refused(error)) => error,
            _ => Error::Unavailable("the daemon is gone".into()),
        }
    }

    /// Time for which it polls before it sleeps.
    fn spin(&self) -> Duration {
        let spin = self.options.spin;
        if self.last > spin + SLEEP_MARGIN { Duration::ZERO } else { spin }
    }

    /// Polls for a while, then sleeps, until request `n` is answered.
    fn wait(&self, n: u32) -> Result<()> {
        let answers = self.segment.answers();
        let mut spin = self.spin();
        // In this order, because answers before the daemon's end count.
        while !answers.wait(n, spin, POLL_INTERVAL) {
            if is_over(&self.stream) && answers.cursor() == n {
                return Err(self.end_reason());
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
    Err(Error::Invalid(format!("{what} must have {want} values, got {given}")))
}

#[cfg(test)]
mod tests;
