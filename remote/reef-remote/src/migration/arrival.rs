//! Arrival of a session: messages that make it, failures that refuse it, and the last message.

use reef_wire::{Endpoint, Error, Handler, Message, Result};

/// A session's side of its arrival at this server.
///
/// A text within `Ok` refuses the session: the other server has it still, and is told the reason.
/// An error ends the connection.
pub trait MigrationTarget: Send {
    /// Operation that asks whether all that came was made. `None`: nothing asks.
    const CHECK: Option<u16>;
    /// Operation after which all of the session is there.
    const PREPARE: u16;
    /// Operation that has the session run.
    const COMMIT: u16;

    /// Session that was made, and does not run.
    type Session: Send;

    /// Takes a part of the session.
    ///
    /// # Errors
    ///
    /// The message breaks a rule of the protocol.
    fn take(&mut self, message: &Message<'_>) -> Result<Result<(), String>>;

    /// Makes the session of its parts.
    ///
    /// # Errors
    ///
    /// The part that differs, or that the device refuses.
    fn prepare(&mut self) -> Result<Self::Session, String>;

    /// Has the session run, as the body of the last message says.
    ///
    /// # Errors
    ///
    /// The message breaks a rule of the protocol.
    fn commit(&mut self, made: Self::Session, body: &[u8]) -> Result<Result<(), String>>;
}

/// Text for a part that comes after the session was made of its parts.
const LATE: &str = "a part of the session has come after all of it";

/// Receiver of a session. The first failure refuses the session, and what follows it is not taken.
/// Only a session that was made runs, and once. It is made once, and no part follows.
#[derive(Debug)]
pub struct Arrival<T: MigrationTarget> {
    target: T,
    /// First failure.
    failed: Option<String>,
    made: Option<T::Session>,
    is_whole: bool,
}

impl<T: MigrationTarget> Arrival<T> {
    /// A session of which nothing has come.
    pub fn new(target: T) -> Self {
        Self { target, failed: None, made: None, is_whole: false }
    }

    fn check(&self) -> Result<(), String> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// As [`check`](Self::check), before a part is taken.
    fn check_part(&mut self) -> Result<(), String> {
        if self.is_whole {
            self.failed.get_or_insert_with(|| LATE.into());
        }
        self.check()
    }

    fn prepare(&mut self) -> Result<(), String> {
        self.check_part()?;
        self.is_whole = true;
        match self.target.prepare() {
            Ok(made) => self.made = Some(made),
            Err(why) => self.failed = Some(why),
        }
        self.check()
    }

    fn commit(&mut self, body: &[u8]) -> Result<Result<(), String>> {
        if let Err(why) = self.check() {
            return Ok(Err(why));
        }
        match self.made.take() {
            Some(made) => self.target.commit(made, body),
            None => Ok(Err("nothing is prepared".into())),
        }
    }

    /// Takes a message. Returns the answer, if the other server waits for one.
    fn take(&mut self, message: &Message<'_>) -> Result<Option<Result<(), String>>> {
        if !message.wants_reply {
            if self.check_part().is_ok() {
                self.failed = self.target.take(message)?.err();
            }
            return Ok(None);
        }
        match message.op {
            op if T::CHECK == Some(op) => Ok(Some(self.check())),
            op if op == T::PREPARE => Ok(Some(self.prepare())),
            op if op == T::COMMIT => self.commit(message.body).map(Some),
            op => Err(Error::Protocol(format!("operation {op}: cannot come here"))),
        }
    }
}

impl<T: MigrationTarget> Handler for Arrival<T> {
    fn handle(&mut self, message: &Message<'_>, endpoint: &Endpoint) -> Result<()> {
        match self.take(message)? {
            Some(Ok(())) => endpoint.reply(message.number, Ok(&[])),
            Some(Err(why)) => endpoint.reply(message.number, Err((1, &why))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session of bytes, of which zero is refused.
    #[derive(Debug, Default)]
    struct Bytes {
        taken: Vec<u8>,
        runs: Vec<u8>,
    }

    impl MigrationTarget for Bytes {
        const CHECK: Option<u16> = Some(21);
        const PREPARE: u16 = 22;
        const COMMIT: u16 = 23;

        type Session = Vec<u8>;

        fn take(&mut self, message: &Message<'_>) -> Result<Result<(), String>> {
            if message.op != 20 {
                return Err(Error::Protocol("another operation".into()));
            }
            self.taken.extend_from_slice(message.body);
            Ok(if message.body == [0] { Err("zero".into()) } else { Ok(()) })
        }

        fn prepare(&mut self) -> Result<Vec<u8>, String> {
            let made = std::mem::take(&mut self.taken);
            if made.is_empty() { Err("it is empty".into()) } else { Ok(made) }
        }

        fn commit(&mut self, made: Vec<u8>, _: &[u8]) -> Result<Result<(), String>> {
            self.runs.extend(made);
            Ok(Ok(()))
        }
    }

    fn post(arrival: &mut Arrival<Bytes>, byte: u8) {
        let body = &[byte];
        let message = Message { op: 20, lane: 0, number: 1, wants_reply: false, body };
        assert_eq!(arrival.take(&message), Ok(None));
    }

    fn call(arrival: &mut Arrival<Bytes>, op: u16) -> Result<(), String> {
        let message = Message { op, lane: 0, number: 1, wants_reply: true, body: &[] };
        arrival.take(&message).unwrap().unwrap()
    }

    #[test]
    fn session_that_was_made_runs_once() {
        let mut arrival = Arrival::new(Bytes::default());
        assert_eq!(call(&mut arrival, 23), Err("nothing is prepared".into()));
        post(&mut arrival, 1);
        post(&mut arrival, 2);
        for op in [21, 22, 23] {
            assert_eq!(call(&mut arrival, op), Ok(()));
        }
        assert_eq!(call(&mut arrival, 23), Err("nothing is prepared".into()));
        assert_eq!(arrival.target.runs, [1, 2]);
    }

    #[test]
    fn first_failure_refuses_what_follows() {
        let mut arrival = Arrival::new(Bytes::default());
        post(&mut arrival, 0);
        post(&mut arrival, 1);
        assert_eq!(arrival.target.taken, [0], "what follows is not taken");
        for op in [21, 22, 23] {
            assert_eq!(call(&mut arrival, op), Err("zero".into()));
        }
        assert!(arrival.target.runs.is_empty());
    }

    #[test]
    fn part_after_preparation_refuses_the_session() {
        for byte in [0, 1] {
            let mut arrival = Arrival::new(Bytes::default());
            post(&mut arrival, 1);
            assert_eq!(call(&mut arrival, 22), Ok(()));
            post(&mut arrival, byte);
            assert_eq!(call(&mut arrival, 23), Err(LATE.into()));
            assert!(arrival.target.taken.is_empty() && arrival.target.runs.is_empty());
        }
    }

    #[test]
    fn session_that_runs_takes_no_part_and_is_not_made_again() {
        let mut arrival = Arrival::new(Bytes::default());
        post(&mut arrival, 1);
        assert_eq!([22, 23].map(|op| call(&mut arrival, op)), [Ok(()), Ok(())]);
        post(&mut arrival, 2);
        assert_eq!([22, 23].map(|op| call(&mut arrival, op)), [Err(LATE.into()), Err(LATE.into())]);
        assert!(arrival.target.taken.is_empty());
        assert_eq!(arrival.target.runs, [1]);
    }

    #[test]
    fn failed_preparation_refuses_a_second_one() {
        let mut arrival = Arrival::new(Bytes::default());
        assert_eq!(call(&mut arrival, 22), Err("it is empty".into()));
        post(&mut arrival, 1);
        for op in [22, 23] {
            assert_eq!(call(&mut arrival, op), Err("it is empty".into()));
        }
    }

    #[test]
    fn unknown_message_ends_the_arrival() {
        let mut arrival = Arrival::new(Bytes::default());
        for wants_reply in [false, true] {
            let message = Message { op: 24, lane: 0, number: 1, wants_reply, body: &[] };
            assert!(matches!(arrival.take(&message), Err(Error::Protocol(_))));
        }
    }
}
