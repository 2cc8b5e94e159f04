//! Requests that a process has together.

use super::connection::{
    Connection, Limit, Tensors, broken_by, bytes_of, parse, process_ended, send_files, to_json,
    too_long,
};
use super::frame::{self, Frame};
use super::message::{FromProcess, ToProcess, infer, outputs};
use super::patience::{Patient, is_readable};
use crate::engine::call::{Call, CallOutput};
use crate::error::{Error, Result};
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Moment at which a process may break, for errors.
const DURING: &str = "during the request";

/// End of the exchange of a batch.
#[derive(Debug)]
pub(super) struct BatchEnd {
    /// Result of each request, in their order.
    pub(super) results: Vec<Result<Vec<CallOutput>>>,
    /// Set if the process must be killed.
    pub(super) broken: Option<Error>,
}

/// Requests of a batch.
struct OpenBatch<'a> {
    each: Vec<BatchRequest<'a>>,
    /// Time of the last answer, or of the start.
    answered: Instant,
}

/// A request of a batch; it is open until it has a result.
struct BatchRequest<'a> {
    number: u64,
    call: &'a Call<'a>,
    limit: Limit<'a>,
    header: Vec<u8>,
    result: Option<Result<Vec<CallOutput>>>,
}

impl Connection {
    /// Runs requests together. Returns `None` if the process had ended, or sent something unasked,
    /// before they were sent.
    pub(super) fn exchange_all(
        &mut self,
        calls: &[Call<'_>],
        tensors: &Tensors,
    ) -> Option<BatchEnd> {
        if is_readable(&self.stream) {
            return None;
        }
        let each = calls.iter().map(|call| self.pending(call, tensors)).collect();
        let mut batch = OpenBatch { each, answered: Instant::now() };
        let broken = self.run(&mut batch, tensors).err();
        if let Some(error) = &broken {
            batch.fail(error);
        }
        let results = batch.each.into_iter().filter_map(|one| one.result).collect();
        Some(BatchEnd { results, broken })
    }

    /// Gives a request its number. One that cannot be sent has a result already.
    fn pending<'a>(&mut self, call: &'a Call<'a>, tensors: &Tensors) -> BatchRequest<'a> {
        self.request += 1;
        let number = self.request;
        let mut limit = Limit::new(call, self.bounds.cancel);
        let is_late = limit.note(Instant::now()).is_some();
        let (header, result) = match to_json(&infer(number, call, &tensors.outputs)) {
            Err(error) => (Vec::new(), Some(Err(error))),
            Ok(header) if header.len() > frame::MAX_HEADER_BYTES => (header, Some(Err(too_long()))),
            Ok(header) if !self.has_state(call) => (header, Some(Err(process_ended()))),
            Ok(header) if is_late => (header, Some(Err(limit.error()))),
            Ok(header) => (header, None),
        };
        BatchRequest { number, call, limit, header, result }
    }

    /// Sends all open requests, and receives their answers in any order.
    ///
    /// # Errors
    ///
    /// The process must be killed.
    fn run(&self, batch: &mut OpenBatch<'_>, tensors: &Tensors) -> Result<()> {
        batch.open().for_each(|one| self.note_process(one.call));
        self.send_all(batch).map_err(|e| broken_by(&e, DURING))?;
        while batch.each.iter().any(BatchRequest::is_open) {
            let frame = self.receive_any(batch).map_err(|e| broken_by(&e, DURING))?;
            batch.take(frame, tensors)?;
        }
        Ok(())
    }

    fn send_all(&self, batch: &mut OpenBatch<'_>) -> io::Result<()> {
        let requests: Vec<u64> = batch.open().map(|one| one.number).collect();
        let mut frames: Vec<(Vec<u8>, Option<&Call<'_>>)> = Vec::new();
        if requests.len() > 1 {
            let first = to_json(&ToProcess::Batch { requests }).map_err(io::Error::other)?;
            frames.push((first, None));
        }
        for one in batch.open() {
            frames.push((std::mem::take(&mut one.header), Some(one.call)));
        }
        let ask = &mut |_: &UnixStream| batch.check(self.bounds.cancel);
        let mut patient = Patient { stream: &self.stream, ask, awake_until: None };
        for (header, call) in frames {
            if let Some(call) = call {
                send_files(&mut patient, call)?;
            }
            let bytes = call.map(bytes_of).unwrap_or_default();
            frame::write(&mut patient, &header, &bytes)?;
        }
        Ok(())
    }

    fn receive_any(&self, batch: &mut OpenBatch<'_>) -> io::Result<Frame> {
        self.check_all(batch)?; // also if the process never lets this wait
        let ask = &mut |_: &UnixStream| self.check_all(batch);
        let mut patient = Patient { stream: &self.stream, ask, awake_until: None };
        frame::read(&mut patient, self.bounds.bytes)
    }

    /// Tells the process of each cancelled request, once.
    fn check_all(&self, batch: &mut OpenBatch<'_>) -> io::Result<()> {
        batch.check(self.bounds.cancel)?;
        let untold = batch.open().map(|one| (one.number, &mut one.limit));
        let mut untold = untold.filter(|(_, limit)| limit.cancelled.is_some() && !limit.is_told);
        untold.try_for_each(|(number, limit)| self.tell(number, limit))
    }
}

impl<'a> OpenBatch<'a> {
    fn open(&mut self) -> impl Iterator<Item = &mut BatchRequest<'a>> {
        self.each.iter_mut().filter(|one| one.is_open())
    }

    /// Notes the ends of requests' times.
    ///
    /// # Errors
    ///
    /// `TimedOut` if all open requests are cancelled, and the process has not reacted for `cancel`.
    /// A process that works on a request that a client waits for may take its time, and so may one
    /// that cannot react.
    fn check(&mut self, cancel: Duration) -> io::Result<()> {
        let (now, answered) = (Instant::now(), self.answered);
        let times: Vec<Option<Instant>> = self.open().map(|one| one.limit.note(now)).collect();
        let all: Option<Vec<Instant>> = times.into_iter().collect();
        let Some(last) = all.and_then(|all| all.into_iter().max()) else { return Ok(()) };
        if self.open().any(|one| (one.call.is_held)()) {
            self.answered = now; // its time begins once it may react
        } else if now - last.max(answered) >= cancel {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Takes an answer.
    ///
    /// # Errors
    ///
    /// `Failed` if it is not that of an open request.
    fn take(&mut self, frame: Frame, tensors: &Tensors) -> Result<()> {
        let wrong = |text: &str| Error::Failed(format!("the model's process must answer {text}"));
        let parsed = parse(&frame)?;
        let number = parsed.request();
        let Some(one) = self.open().find(|one| Some(one.number) == number) else {
            return Err(wrong("an open request of its batch, got another message"));
        };
        let result = match parsed {
            FromProcess::Answer { outputs: answered, .. } => {
                outputs(answered, frame.tensors, one.call.outputs, &tensors.outputs)
            }
            FromProcess::Error { error, kind, .. } => Err(kind.error(error)),
            _ => return Err(wrong("each request of a batch once, got a part")),
        };
        one.end(result);
        self.answered = Instant::now();
        Ok(())
    }

    /// Ends all open requests with an error.
    fn fail(&mut self, error: &Error) {
        self.open().for_each(|one| one.end(Err(error.clone())));
    }
}

impl BatchRequest<'_> {
    fn is_open(&self) -> bool {
        self.result.is_none()
    }

    /// Sets its result, unless it has been cancelled.
    fn end(&mut self, result: Result<Vec<CallOutput>>) {
        let is_cancelled = self.limit.cancelled.is_some();
        self.result = Some(if is_cancelled { Err(self.limit.error()) } else { result });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;

    fn is_in_time(each: Vec<BatchRequest<'_>>, answered: Instant, cancel: Duration) -> bool {
        OpenBatch { each, answered }.check(cancel).is_ok()
    }

    fn open<'a>(call: &'a Call<'a>, cancelled: Option<Instant>) -> BatchRequest<'a> {
        let mut limit = Limit::new(call, Duration::ZERO);
        limit.cancelled = cancelled;
        BatchRequest { number: 1, call, limit, header: Vec::new(), result: None }
    }

    #[test]
    fn batch_is_late_once_no_client_waits_for_it() {
        let (begun, hour) = (Instant::now(), Duration::from_secs(3600));
        let call = Call {
            id: "",
            class: Class::BestEffort,
            time: hour,
            gone: &|| false,
            is_held: &|| false,
            sequence: None,
            inputs: &[],
            outputs: &[],
            part: &|_| Ok(()),
        };
        let cancelled = Some(begun);
        assert!(!is_in_time(vec![open(&call, cancelled)], begun, Duration::ZERO));
        let held = Call { is_held: &|| true, ..call };
        assert!(is_in_time(vec![open(&held, cancelled)], begun, Duration::ZERO), "it cannot react");
        let answered = begun.checked_sub(Duration::from_secs(1)).unwrap();
        let mut batch = OpenBatch { each: vec![open(&held, cancelled)], answered };
        batch.check(hour).unwrap();
        assert!(batch.answered > answered, "it has all of its time once it can");
        let both = vec![open(&call, cancelled), open(&call, None)];
        assert!(is_in_time(both, begun, Duration::ZERO), "a client waits for the second one");
        let soon = Duration::from_nanos(1);
        assert!(
            is_in_time(vec![open(&call, cancelled)], begun + hour, soon),
            "another was just answered"
        );
    }
}
