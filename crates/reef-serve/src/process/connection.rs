//! Connection to a process: one request at a time, or one batch.

use super::frame::{self, Frame};
use super::message::{FromProcess, PROTOCOL, ToProcess, declared, infer, outputs};
use super::patience::{Ask, Patient, is_readable};
use crate::class::Class;
use crate::engine::call::{Call, CallOutput, TextAbilities};
use crate::error::{Error, Result};
use crate::tensor::{TensorInfos, short};
use bytes::Bytes;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Time for which a worker stays awake for the answer to a real-time request. An empty request
/// takes less, and a wake-up takes a part of it. Others keep a processor busy for this time.
const AWAKE_TIME: Duration = Duration::from_micros(100);

/// Inputs and outputs of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tensors {
    pub(super) inputs: TensorInfos,
    pub(super) outputs: TensorInfos,
    /// True if requests are answered in parts.
    pub(super) streams: bool,
    /// True if the program takes several requests together.
    pub(super) batches: bool,
    /// True if the program reads inputs in clients' shared memory by itself.
    pub(super) files: bool,
    /// True if the program opens inputs in clients' device memory by itself.
    pub(super) device_memory: bool,
    /// Set if it generates text.
    pub(super) text: Option<TextAbilities>,
}

impl Tensors {
    /// Reads the first message of a program.
    ///
    /// # Errors
    ///
    /// Errors of the program; `Failed` if it breaks the protocol.
    pub(super) fn read(frame: &Frame) -> Result<Self> {
        match parse(frame)? {
            FromProcess::Ready {
                protocol: PROTOCOL,
                inputs,
                outputs,
                streams,
                batches,
                files,
                device_memory,
                text,
            } => {
                let inputs = declared("inputs", inputs)?;
                let outputs = declared("outputs", outputs)?;
                let text = text.map(|text| text.abilities(streams, &inputs, &outputs));
                let text = text.transpose()?;
                Ok(Self { inputs, outputs, streams, batches, files, device_memory, text })
            }
            FromProcess::Ready { protocol, .. } => {
                Err(Error::Failed(format!("protocol must be {PROTOCOL}, got {protocol}")))
            }
            FromProcess::Error { request: None, error, .. } => Err(Error::Program(error)),
            _ => Err(Error::Failed("its first message must be ready or error".into())),
        }
    }
}

/// Limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Maximum bytes of an answer's tensors.
    pub(super) bytes: u64,
    /// Maximum time until the process reacts to a cancelled request.
    pub(super) cancel: Duration,
}

/// Number and limits of a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity {
    pub(super) bounds: Bounds,
    /// Number of the process among those of the daemon.
    pub(super) generation: u64,
}

/// A ready process.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: UnixStream,
    pub(super) bounds: Bounds,
    /// Number of the last request.
    pub(super) request: u64,
    /// Number of its process among those of the daemon.
    pub(super) generation: u64,
}

/// Reason for which a process must be killed.
#[derive(Debug)]
pub(super) enum Broken {
    /// It had ended, or sent something unasked, before the request was sent.
    Before,
    /// It broke the protocol, ended, or did not react to the end of the request's time.
    During(Error),
}

impl Connection {
    /// Starts the conversation. Blocks until the program answers. Returns its first message.
    ///
    /// # Errors
    ///
    /// Errors of `ask`; `Failed` if the program breaks the protocol.
    pub(super) fn open(
        stream: UnixStream,
        start: &[u8],
        identity: Identity,
        ask: &mut Ask<'_>,
    ) -> Result<(Self, Frame)> {
        let wrong = |error: io::Error| broken_by(&error, "before it was ready");
        let mut patient = Patient { stream: &stream, ask, awake_until: None };
        frame::write(&mut patient, start, &[]).map_err(wrong)?;
        let frame = frame::read(&mut patient, 0).map_err(wrong)?;
        Ok((Self::go_on(stream, identity, 0), frame))
    }

    /// Returns the conversation with a process that is ready, after this number of requests.
    pub(super) fn go_on(stream: UnixStream, identity: Identity, request: u64) -> Self {
        let Identity { bounds, generation } = identity;
        Self { stream, bounds, request, generation }
    }

    /// Returns whether nothing is under way to the daemon.
    pub(super) fn is_quiet(&self) -> bool {
        !is_readable(&self.stream)
    }

    /// Runs a request. The inner result is that of the program, which can be used again; it is
    /// empty after the last part.
    ///
    /// # Errors
    ///
    /// The process must be killed.
    pub(super) fn exchange(
        &mut self,
        call: &Call<'_>,
        tensors: &Tensors,
    ) -> Result<Result<Vec<CallOutput>>, Broken> {
        if is_readable(&self.stream) {
            return Err(Broken::Before);
        }
        if !self.has_state(call) {
            return Ok(Err(process_ended()));
        }
        self.request += 1;
        let mut limit = Limit::new(call, self.bounds.cancel);
        let header = infer(self.request, call, &tensors.outputs);
        let header = to_json(&header).map_err(Broken::During)?;
        if header.len() > frame::MAX_HEADER_BYTES {
            return Ok(Err(too_long()));
        }
        self.send(&header, call, &mut limit).map_err(|e| limit.broken(&e))?;
        let answer = self.answers(call, tensors, &mut limit)?;
        self.note_process(call);
        Ok(if limit.cancelled.is_some() { Err(limit.error()) } else { answer })
    }

    /// True if its process has the state of the request's sequence, or needs none.
    pub(super) fn has_state(&self, call: &Call<'_>) -> bool {
        let process = call.sequence.and_then(|sequence| sequence.process);
        process.is_none_or(|process| process.number == self.generation)
    }

    /// Notes that a request of a sequence has run here.
    pub(super) fn note_process(&self, call: &Call<'_>) {
        if let Some(sequence) = call.sequence {
            let _ = sequence.cell.number.set(self.generation); // a request runs once
        }
    }

    /// Receives the answers of a request, up to the last one.
    fn answers(
        &self,
        call: &Call<'_>,
        tensors: &Tensors,
        limit: &mut Limit<'_>,
    ) -> Result<Result<Vec<CallOutput>>, Broken> {
        loop {
            let frame = self.receive(call.class, limit).map_err(|e| limit.broken(&e))?;
            match self.answer(frame, call, tensors)? {
                Answer::Last(answer) => return Ok(answer),
                Answer::Part(part) if limit.cancelled.is_none() => {
                    if let Err(why) = (call.part)(part.map_err(Broken::During)?) {
                        limit.cancel(why);
                    }
                }
                Answer::Part(_) => {}
            }
        }
    }

    fn send(&self, header: &[u8], call: &Call<'_>, limit: &mut Limit<'_>) -> io::Result<()> {
        let ask = &mut |_: &UnixStream| limit.check().map(drop);
        let mut patient = Patient { stream: &self.stream, ask, awake_until: None };
        send_files(&mut patient, call)?;
        frame::write(&mut patient, header, &bytes_of(call))
    }

    /// Receives an answer. One of a real-time request that comes soon wakes no thread.
    fn receive(&self, class: Class, limit: &mut Limit<'_>) -> io::Result<Frame> {
        self.check(limit)?; // also if the process never lets this wait
        let ask = &mut |_: &UnixStream| self.check(limit);
        let awake_until = (class == Class::RealTime).then(|| Instant::now() + AWAKE_TIME);
        let mut patient = Patient { stream: &self.stream, ask, awake_until };
        frame::read(&mut patient, self.bounds.bytes)
    }

    /// Tells the process once that its request is cancelled.
    fn check(&self, limit: &mut Limit<'_>) -> io::Result<()> {
        if limit.check()? && !limit.is_told {
            self.tell(self.request, limit)?;
        }
        Ok(())
    }

    /// Tells the process that a request is cancelled.
    pub(super) fn tell(&self, request: u64, limit: &mut Limit<'_>) -> io::Result<()> {
        // Small enough to be sent as a whole, or not at all: then again once the process has read
        // more of its request.
        let header = to_json(&ToProcess::Cancel { request }).map_err(io::Error::other)?;
        limit.is_told = frame::write(&mut &self.stream, &header, &[]).is_ok();
        Ok(())
    }

    fn answer(&self, frame: Frame, call: &Call<'_>, tensors: &Tensors) -> Result<Answer, Broken> {
        let wrong = |text: String| Broken::During(Error::Failed(text));
        let parsed = parse(&frame).map_err(Broken::During)?;
        if let Some(other) = parsed.request().filter(|request| *request != self.request) {
            let request = self.request;
            return Err(wrong(format!(
                "the model's process must answer request {request}, got an answer to {other}"
            )));
        }
        let read = |answered| outputs(answered, frame.tensors, call.outputs, &tensors.outputs);
        match parsed {
            FromProcess::Answer { outputs, .. } => Ok(Answer::Last(read(outputs))),
            FromProcess::Error { request: Some(_), error, kind } => {
                Ok(Answer::Last(Err(kind.error(error))))
            }
            FromProcess::Part { outputs, .. } if tensors.streams => Ok(Answer::Part(read(outputs))),
            FromProcess::End { .. } if tensors.streams => Ok(Answer::Last(Ok(Vec::new()))),
            _ => Err(wrong("the model's process must answer, got another message".into())),
        }
    }

    /// Tells the process that no request follows.
    pub(super) fn end(&self) {
        let _ = self.stream.shutdown(Shutdown::Both); // it may have ended
    }
}

/// Returns the data that follows the header of a request.
pub(super) fn bytes_of(call: &Call<'_>) -> Vec<Bytes> {
    call.inputs.iter().filter_map(|input| input.data.bytes().cloned()).collect()
}

/// Sends the files of inputs that the process reads by itself, before their request.
pub(super) fn send_files(patient: &mut Patient<'_, '_>, call: &Call<'_>) -> io::Result<()> {
    let files: Vec<_> = call.inputs.iter().filter_map(|input| input.data.file()).collect();
    if files.is_empty() {
        return Ok(());
    }
    let mut message: Vec<u8> = Vec::new();
    frame::write(&mut message, &to_json(&ToProcess::File).map_err(io::Error::other)?, &[])?;
    files.iter().try_for_each(|part| patient.send(&message, part.file.as_fd()))
}

/// One answer of a process.
enum Answer {
    Part(Result<Vec<CallOutput>>),
    Last(Result<Vec<CallOutput>>),
}

/// End of a request's time.
pub(super) struct Limit<'a> {
    gone: &'a dyn Fn() -> bool,
    is_held: &'a dyn Fn() -> bool,
    time: Duration,
    deadline: Instant,
    pub(super) cancelled: Option<Instant>,
    /// Reason for which it was cancelled, if that is not its client or its time.
    why: Option<Error>,
    /// True if the process has been told.
    pub(super) is_told: bool,
    cancel: Duration,
}

impl<'a> Limit<'a> {
    pub(super) fn new(call: &Call<'a>, cancel: Duration) -> Self {
        let deadline = Instant::now() + call.time;
        let (gone, is_held, time) = (call.gone, call.is_held, call.time);
        let (cancelled, why, is_told) = (None, None, false);
        Self { gone, is_held, time, deadline, cancelled, why, is_told, cancel }
    }

    /// Ends its time now.
    fn cancel(&mut self, why: Error) {
        self.cancelled.get_or_insert_with(Instant::now);
        self.why.get_or_insert(why);
    }

    /// Notes the end of its time. Returns the time at which the request was cancelled.
    pub(super) fn note(&mut self, now: Instant) -> Option<Instant> {
        if self.cancelled.is_none() && (now >= self.deadline || (self.gone)()) {
            self.cancelled = Some(now);
        }
        self.cancelled
    }

    /// Returns whether the request is cancelled.
    ///
    /// # Errors
    ///
    /// `TimedOut` if the process does not react to that, although it could.
    fn check(&mut self) -> io::Result<bool> {
        let now = Instant::now();
        let Some(since) = self.note(now) else { return Ok(false) };
        if (self.is_held)() {
            self.cancelled = Some(now); // its time begins once it may react
        } else if now - since >= self.cancel {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(true)
    }

    pub(super) fn error(&self) -> Error {
        match &self.why {
            Some(why) => why.clone(),
            None if (self.gone)() => {
                Error::Unavailable("cancelled: the client disconnected".into())
            }
            None => Error::Deadline(format!("timed out after {:?}", self.time)),
        }
    }

    fn broken(&self, error: &io::Error) -> Broken {
        Broken::During(match error.kind() {
            ErrorKind::TimedOut => self.error(),
            _ => broken_by(error, "during the request"),
        })
    }
}

/// Returns the error for a broken conversation.
pub(super) fn broken_by(error: &io::Error, when: &str) -> Error {
    match error.kind() {
        ErrorKind::InvalidData => Error::Failed(format!("the model's process: a frame: {error}")),
        ErrorKind::InvalidInput => Error::Invalid(error.to_string()),
        ErrorKind::TimedOut => Error::Unavailable(format!("the model's process: {error}")),
        _ => Error::Unavailable(format!("the model's process ended {when}")),
    }
}

/// Returns the error for a request whose sequence has lost its state.
pub(super) fn process_ended() -> Error {
    Error::Invalid("sequence: must begin with sequence_start: its process has ended".into())
}

/// Returns the error for a request whose header does not fit.
pub(super) fn too_long() -> Error {
    let max = frame::MAX_HEADER_BYTES;
    Error::Invalid(format!("names and shapes must be at most {max} bytes"))
}

pub(super) fn to_json(message: &ToProcess<'_>) -> Result<Vec<u8>> {
    serde_json::to_vec(message).map_err(|e| Error::system("JSON", e))
}

pub(super) fn parse(frame: &Frame) -> Result<FromProcess> {
    serde_json::from_slice(&frame.header).map_err(|error| {
        let text = error.to_string();
        Error::Failed(format!("the model's process: a header: {}", short(&text)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::cell::Cell;
    use std::io::{Read, Write};

    #[test]
    fn cancel_follows_once_the_process_has_read_its_request() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(more) = (&ours).write(&[0; 4096]) {
            sent += more;
        }
        let (cancel, gone) = (Duration::from_secs(60), &|| true);
        let bounds = Bounds { bytes: 0, cancel };
        let connection = Connection { stream: ours, bounds, request: 7, generation: 1 };
        let (time, deadline, is_told) = (cancel, Instant::now() + cancel, false);
        let (cancelled, why) = (None, None);
        let is_held = &|| false;
        let mut limit = Limit { gone, is_held, time, deadline, cancelled, why, is_told, cancel };
        connection.check(&mut limit).unwrap();
        theirs.read_exact(&mut vec![0; sent]).unwrap();
        connection.check(&mut limit).unwrap();
        connection.check(&mut limit).unwrap();
        connection.end();
        let frame = frame::read(&mut theirs, 0).unwrap();
        assert_eq!(frame.header, br#"{"type":"cancel","request":7}"#);
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0, "it is told once");
    }

    /// As one that an operator has suspended while it worked.
    #[test]
    fn process_that_is_held_has_its_time_to_react_afterwards() {
        let is_held = Cell::new(true);
        let call = Call {
            id: "",
            class: Class::BestEffort,
            time: Duration::ZERO,
            gone: &|| true,
            is_held: &|| is_held.get(),
            sequence: None,
            inputs: &[],
            outputs: &[],
            part: &|_| Ok(()),
        };
        let mut limit = Limit::new(&call, Duration::from_secs(3600));
        let before = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        limit.cancelled = Some(before);
        assert!(limit.check().unwrap(), "it is cancelled");
        assert!(limit.cancelled.unwrap() > before, "it has all of its time");
        limit.cancel = Duration::ZERO;
        assert!(limit.check().unwrap(), "it is held");
        is_held.set(false);
        assert_eq!(limit.check().unwrap_err().kind(), ErrorKind::TimedOut);
    }

    /// A message of a process, with the number of a request.
    #[derive(Debug, Clone)]
    enum Sent {
        Part(u64),
        Answer(u64),
        End(u64),
        Error(Option<u64>),
        Ready,
        Bytes(Vec<u8>),
    }

    impl Sent {
        fn bytes(&self) -> Vec<u8> {
            let header = match self {
                Self::Part(request) => json!({ "type": "part", "request": request, "outputs": [] }),
                Self::Answer(request) => {
                    json!({ "type": "answer", "request": request, "outputs": [] })
                }
                Self::End(request) => json!({ "type": "end", "request": request }),
                Self::Error(request) => json!({ "type": "error", "request": request, "error": "" }),
                Self::Ready => {
                    json!({ "type": "ready", "protocol": 1, "inputs": [], "outputs": [] })
                }
                Self::Bytes(bytes) => return bytes.clone(),
            };
            let mut frame: Vec<u8> = Vec::new();
            frame::write(&mut frame, header.to_string().as_bytes(), &[]).unwrap();
            frame
        }

        fn any() -> impl Strategy<Value = Self> {
            let number = || prop_oneof![9 => Just(1_u64), 1 => any::<u64>()];
            let wrong = proptest::collection::vec(any::<u8>(), 0..32);
            prop_oneof![
                6 => number().prop_map(Self::Part),
                2 => number().prop_map(Self::Answer),
                2 => number().prop_map(Self::End),
                2 => proptest::option::weighted(0.9, number()).prop_map(Self::Error),
                1 => Just(Self::Ready),
                1 => wrong.prop_map(Self::Bytes),
            ]
        }
    }

    /// End of an exchange.
    #[derive(Debug, PartialEq, Eq)]
    enum Outcome {
        Answered,
        Refused,
        Broken,
    }

    /// Returns the number of parts of request 1, and its end, as the protocol has them.
    fn expected(sent: &[Sent], streams: bool) -> (usize, Outcome) {
        let mut parts = 0;
        for one in sent {
            match one {
                Sent::Part(1) if streams => parts += 1,
                Sent::End(1) if streams => return (parts, Outcome::Answered),
                Sent::Answer(1) => return (parts, Outcome::Answered),
                Sent::Error(Some(1)) => return (parts, Outcome::Refused),
                Sent::Bytes(bytes) if bytes.is_empty() => {}
                _ => break,
            }
        }
        (parts, Outcome::Broken)
    }

    /// Has a process answer request 1 with these messages, and end.
    fn exchanged(sent: &[Sent], streams: bool) -> (usize, Outcome) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let none = || TensorInfos { each: Vec::new(), bytes: 0, has_checks: false };
        let tensors = Tensors {
            inputs: none(),
            outputs: none(),
            streams,
            batches: false,
            files: false,
            device_memory: false,
            text: None,
        };
        let parts = Cell::new(0);
        let call = Call {
            id: "",
            class: Class::BestEffort,
            time: Duration::from_secs(3600),
            gone: &|| false,
            is_held: &|| false,
            sequence: None,
            inputs: &[],
            outputs: &[],
            part: &|_| {
                parts.set(parts.get() + 1);
                Ok(())
            },
        };
        let bounds = Bounds { bytes: 64, cancel: Duration::from_secs(3600) };
        let mut connection = Connection::go_on(ours, Identity { bounds, generation: 1 }, 0);
        let ended = std::thread::scope(|scope| {
            scope.spawn(move || {
                frame::read(&mut theirs, 0).unwrap();
                sent.iter().for_each(|one| theirs.write_all(&one.bytes()).unwrap());
            });
            connection.exchange(&call, &tensors)
        });
        let outcome = match ended {
            Ok(Ok(_)) => Outcome::Answered,
            Ok(Err(_)) => Outcome::Refused,
            Err(_) => Outcome::Broken,
        };
        (parts.get(), outcome)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        /// Messages in any order, of other requests, twice, or none at all.
        #[test]
        fn exchange_ends_as_the_protocol_has_it(
            sent in proptest::collection::vec(Sent::any(), 0..8),
            streams in any::<bool>(),
        ) {
            prop_assert_eq!(exchanged(&sent, streams), expected(&sent, streams));
        }
    }
}
