//! Steps of migrations and snapshots, and which server has the session after each failure.
//!
//! | step | if it fails |
//! |---|---|
//! | another server begins a copy, which gets what can be sent early | the session runs on |
//! | the session stands still, within `PAUSE_TIMEOUT` | it runs on |
//! | what has changed is sent, once; the other server makes all of it | it runs on |
//! | the client may go to the other address | it runs on |
//! | the other server has it run | refused: it runs on here; no answer: it has ended |
//! | the client is told where it is, within 2 s | it runs there, and this server tells it later |
//!
//! So a session never runs at both servers. A snapshot has the same steps with a file in the other
//! server's place, without the last message.

use super::outgoing::Outgoing;
use super::session::Report;
use super::target::Target;
use reef_wire::{Address, Error, Held, Key, Moved};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Time within which a session must come to stand still.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two polls of work that has not ended.
pub const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// Reason why a session does not run at the other server, as far as this end knows.
#[derive(Debug)]
pub enum NotBegun {
    /// It doesn't: it runs on here.
    Refused(String),
    /// There was no answer: it runs nowhere that this end knows of, and never here again.
    Unknown(String),
}

impl NotBegun {
    /// Reason of an error that the last message had, with its text.
    pub fn new(error: &Error, why: String) -> Self {
        match error {
            Error::Remote { .. } => Self::Refused(why),
            _ => Self::Unknown(why),
        }
    }
}

impl From<NotBegun> for String {
    fn from(why: NotBegun) -> Self {
        match why {
            NotBegun::Refused(why) | NotBegun::Unknown(why) => why,
        }
    }
}

/// A session that stands still, and all of which is where it goes. It doesn't run there yet.
#[derive(Debug)]
pub struct Prepared {
    /// The session without its connection. Its client waits.
    pub held: Held,
    /// Bytes of its memory.
    pub memory: u64,
    /// Bytes of it that were read while it stood still.
    pub read: u64,
}

/// A session's side of its migrations and snapshots.
pub trait MigrationSource {
    /// The other server's end of a migration, with what was sent.
    type Copy;
    /// The session while it stands still. It runs on when this is dropped.
    type Pause;

    /// Returns the secret by which the session's client is known to the next server.
    fn key(&self) -> &Key;

    /// Begins a session at another server, which has to be equal to this one.
    ///
    /// # Errors
    ///
    /// There is no such server, it refuses, or it differs.
    fn begin(&self, to: &Target) -> Result<Self::Copy, String>;

    /// Returns the connection to the other server.
    fn outgoing(copy: &mut Self::Copy) -> &mut Outgoing;

    /// Sends what there is while the session runs.
    ///
    /// # Errors
    ///
    /// The other server's, or those of the session's memory.
    fn send_early(&self, copy: &mut Self::Copy) -> Result<(), String>;

    /// Has the session stand still, within `timeout`.
    ///
    /// # Errors
    ///
    /// Work that does not end, or that cannot migrate.
    fn pause(&self, timeout: Duration) -> Result<Self::Pause, String>;

    /// Sends what has changed, and waits until the other server has made all of the session.
    ///
    /// # Errors
    ///
    /// The other server's, or contents that cannot be read.
    fn prepare(&self, pause: &mut Self::Pause, copy: &mut Self::Copy) -> Result<Prepared, String>;

    /// Has the session run at the other server.
    ///
    /// # Errors
    ///
    /// It does not, or there is no answer.
    fn commit(&self, pause: &Self::Pause, copy: &Self::Copy) -> Result<(), NotBegun>;

    /// Ends the pause of a session that never runs here again.
    fn leave(pause: Self::Pause);

    /// Tells the client where the session is. Returns whether it was told.
    fn redirect(&self, held: &Held, moved: &Moved) -> bool {
        held.redirect(moved)
    }
}

/// Moves a session to another server. `done` takes the outcome before the session ends here.
///
/// # Errors
///
/// Reason why it runs on here. Or it has ended, as it is not known whether it runs there.
pub fn migrate<S: MigrationSource>(
    session: &S,
    to: &Target,
    done: impl FnOnce(&Result<Report, String>),
) -> Result<Report, String> {
    let mut copy = session.begin(to)?;
    session.send_early(&mut copy)?;
    let begin = Instant::now();
    let mut pause = session.pause(PAUSE_TIMEOUT)?;
    S::outgoing(&mut copy).restart_count();
    let Prepared { held, memory, read } = session.prepare(&mut pause, &mut copy)?;
    if let Some(why) = kept_away(&held.peer(), &to.address) {
        drop(pause); // then its client comes
        drop(held);
        return Err(why);
    }
    match session.commit(&pause, &copy) {
        Ok(()) => {
            S::leave(pause);
            let delta = S::outgoing(&mut copy).sent();
            let moved = Moved { address: to.address.to_string(), key: session.key().clone() };
            let took = begin.elapsed();
            let is_client_told = session.redirect(&held, &moved);
            let report = Report { pause: took, memory, read, delta, is_client_told };
            done(&Ok(report));
            held.end(Error::ended_by(&moved));
            Ok(report)
        }
        Err(NotBegun::Refused(why)) => {
            drop(pause); // then its client comes
            drop(held);
            Err(why)
        }
        Err(NotBegun::Unknown(why)) => {
            S::leave(pause);
            let failed = Err(format!("{why}: the session has ended"));
            done(&failed);
            let text = format!("it was being moved to {}, which does not answer", to.address);
            held.end(Error::Ended(text));
            failed
        }
    }
}

/// Reason why a client that is `peer` would not follow its session: [`Address::follow`].
fn kept_away(peer: &str, to: &Address) -> Option<String> {
    let peer: SocketAddr = peer.parse().ok()?; // by a UNIX socket it goes anywhere
    let is_socket = matches!(to, Address::Unix(_) | Address::Shared(_));
    let is_elsewhere = !peer.ip().to_canonical().is_loopback();
    (is_socket || is_elsewhere && to.is_local())
        .then(|| format!("its client came by TCP, from {peer}, and does not follow it to {to}"))
}

/// Writes a session by `write`, which returns the bytes of what it has written. The session runs
/// on, unless it is to end. Then `done` takes the outcome before it ends, and its client waits
/// until a server has it.
///
/// # Errors
///
/// Reason why it can't be written. The session runs on.
pub fn snapshot<S: MigrationSource>(
    session: &S,
    ends: bool,
    write: impl FnOnce(&mut S::Pause) -> Result<(Prepared, u64), String>,
    done: impl FnOnce(&Result<Report, String>),
) -> Result<Report, String> {
    let begin = Instant::now();
    let mut pause = session.pause(PAUSE_TIMEOUT)?;
    let (Prepared { held, memory, read }, delta) = write(&mut pause)?;
    let mut report = Report { pause: begin.elapsed(), memory, read, delta, is_client_told: true };
    if ends {
        S::leave(pause);
        let moved = Moved { address: String::new(), key: session.key().clone() };
        report.is_client_told = session.redirect(&held, &moved);
        done(&Ok(report));
        held.end(Error::ended_by(&moved));
    } else {
        drop(pause); // then its client comes
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_wire::{
        Authority, Client, ClientOptions, Endpoint, FIRST_OP, Handler, Hello, Link, Message,
        Server, ServerOptions,
    };
    use std::cell::Cell;
    use std::os::unix::net::UnixStream;
    use std::thread;

    const SCHEMA: u64 = 7;
    /// Name of the session.
    const NAME: [u8; 16] = [7; 16];
    /// Name of its copy.
    const COPY: [u8; 16] = [8; 16];

    /// Receiver that answers each message that wants it.
    struct Replier;

    impl Handler for Replier {
        fn handle(&mut self, message: &Message<'_>, endpoint: &Endpoint) -> reef_wire::Result<()> {
            if message.wants_reply { endpoint.reply(message.number, Ok(&[])) } else { Ok(()) }
        }
    }

    impl Authority for Replier {
        fn admit(&self, _: &Hello, _: &Server) -> Result<(Box<dyn Handler>, Vec<u8>), String> {
            Ok((Box::new(Self), Vec::new()))
        }
    }

    /// A way to a server, which gives a new session this name.
    fn options(server: &Server, name: [u8; 16]) -> ClientOptions {
        let server = server.clone();
        ClientOptions::new(SCHEMA, move || {
            let (near, far) = UnixStream::pair().unwrap();
            let server = server.clone();
            thread::spawn(move || {
                let mut link = Link::unix(far).unwrap();
                let hello = server.greet(&mut link)?;
                server.serve_greeted(link, &hello, name)
            });
            Ok(Link::unix(near).unwrap())
        })
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Fault {
        Begin,
        Early,
        Pause,
        Prepare,
        Refusal,
        Silence,
        None,
    }

    /// A session with a fault, and what it does.
    struct FaultySession<'a> {
        server: &'a Server,
        key: Key,
        fault: Fault,
        state: &'a Cell<&'static str>,
    }

    struct TestPause<'a>(&'a Cell<&'static str>);

    impl Drop for TestPause<'_> {
        fn drop(&mut self) {
            self.0.set("runs on");
        }
    }

    impl FaultySession<'_> {
        fn fails_at(&self, step: Fault) -> Result<(), String> {
            if self.fault == step { Err(format!("{step:?}")) } else { Ok(()) }
        }
    }

    impl<'a> MigrationSource for FaultySession<'a> {
        type Copy = Outgoing;
        type Pause = TestPause<'a>;

        fn key(&self) -> &Key {
            &self.key
        }

        fn begin(&self, _: &Target) -> Result<Outgoing, String> {
            self.fails_at(Fault::Begin)?;
            Outgoing::open(options(self.server, COPY)).map_err(|e| e.to_string())
        }

        fn outgoing(copy: &mut Outgoing) -> &mut Outgoing {
            copy
        }

        fn send_early(&self, copy: &mut Outgoing) -> Result<(), String> {
            copy.post(FIRST_OP, &[b"early"]).map_err(|e| e.to_string())?;
            self.fails_at(Fault::Early)
        }

        fn pause(&self, _: Duration) -> Result<TestPause<'a>, String> {
            self.fails_at(Fault::Pause)?;
            self.state.set("stands still");
            Ok(TestPause(self.state))
        }

        fn prepare(&self, _: &mut TestPause<'a>, copy: &mut Outgoing) -> Result<Prepared, String> {
            let held = self.server.hold(NAME).ok_or("it has ended")?;
            copy.post(FIRST_OP, &[b"rest"]).map_err(|e| e.to_string())?;
            self.fails_at(Fault::Prepare)?;
            Ok(Prepared { held, memory: 9, read: 4 })
        }

        fn commit(&self, _: &TestPause<'a>, _: &Outgoing) -> Result<(), NotBegun> {
            self.fails_at(Fault::Refusal).map_err(NotBegun::Refused)?;
            self.fails_at(Fault::Silence).map_err(NotBegun::Unknown)
        }

        fn leave(pause: TestPause<'a>) {
            pause.0.set("has left");
            std::mem::forget(pause);
        }
    }

    /// Moves a session with a fault. Returns the outcome, what the session does, how often `done`
    /// was called, and whether its client has it here.
    fn moved(fault: Fault) -> (Result<Report, String>, &'static str, u32, bool) {
        let server = Server::new(ServerOptions::new(SCHEMA), Replier);
        let client = Client::open(options(&server, NAME), Box::new(Replier)).unwrap();
        let (state, done) = (Cell::new("runs"), Cell::new(0));
        let session =
            FaultySession { server: &server, key: Key::make().unwrap(), fault, state: &state };
        let to = Target::new("unix:/other".parse().unwrap());
        let outcome = migrate(&session, &to, |_| done.set(done.get() + 1));
        (outcome, state.get(), done.get(), client.call(FIRST_OP, 0, &[]).is_ok())
    }

    #[test]
    fn session_runs_on_until_the_other_server_has_it() {
        for fault in [Fault::Begin, Fault::Early, Fault::Pause, Fault::Prepare, Fault::Refusal] {
            let (outcome, state, done, is_here) = moved(fault);
            assert_eq!(outcome.unwrap_err(), format!("{fault:?}"));
            assert!(state.starts_with("runs"), "{fault:?}: {state}");
            assert_eq!((done, is_here), (0, true), "{fault:?}");
        }
    }

    #[test]
    fn client_by_tcp_is_led_to_no_socket_of_its_machine() {
        let is_kept = |peer, to: &str| kept_away(peer, &to.parse().unwrap()).is_some();
        for (peer, to) in [
            ("192.0.2.1:5", "unix:/a"),
            ("192.0.2.1:5", "tls:127.0.0.1:1"),
            ("127.0.0.1:5", "shm:/a"),
            ("[::ffff:192.0.2.1]:5", "localhost:1"),
        ] {
            assert!(is_kept(peer, to), "{peer} {to}");
        }
        for (peer, to) in [
            ("192.0.2.1:5", "tls:other:1"),
            ("[::ffff:127.0.0.1]:5", "127.0.0.1:1"),
            ("pid 7", "unix:/a"),
            ("", "127.0.0.1:1"),
        ] {
            assert!(!is_kept(peer, to), "{peer} {to}");
        }
    }

    #[test]
    fn session_ends_without_an_answer_to_the_last_message() {
        let (outcome, state, done, is_here) = moved(Fault::Silence);
        assert_eq!(outcome.unwrap_err(), "Silence: the session has ended");
        assert_eq!((state, done, is_here), ("has left", 1, false));
    }

    #[test]
    fn report_of_a_move_counts_bytes_of_the_pause_alone() {
        let (outcome, state, done, is_here) = moved(Fault::None);
        let Report { memory, read, delta, .. } = outcome.unwrap();
        assert_eq!((memory, read, delta), (9, 4, 4));
        assert_eq!((state, done, is_here), ("has left", 1, false));
    }

    /// The second snapshot ends the session.
    #[test]
    fn snapshot_leaves_the_session_unless_it_ends() {
        let server = Server::new(ServerOptions::new(SCHEMA), Replier);
        let client = Client::open(options(&server, NAME), Box::new(Replier)).unwrap();
        let (state, done) = (Cell::new("runs"), Cell::new(0));
        let (key, fault) = (Key::make().unwrap(), Fault::None);
        let session = FaultySession { server: &server, key, fault, state: &state };
        for (ends, must) in [(false, ("runs on", 0)), (true, ("has left", 1))] {
            let hold = || server.hold(NAME).ok_or_else(|| "it has ended".to_owned());
            let report = snapshot(
                &session,
                ends,
                |_| Ok((Prepared { held: hold()?, memory: 9, read: 9 }, 5)),
                |_| done.set(done.get() + 1),
            );
            let report = report.unwrap();
            assert_eq!((report.read, report.delta), (9, 5));
            assert_eq!((state.get(), done.get()), must);
            assert_eq!(client.call(FIRST_OP, 0, &[]).is_ok(), !ends);
        }
    }
}
