//! One session with a server, and the names that the client has made up in it.

use super::lane::{Lanes, Pushed};
use super::options::Options;
use crate::error::{NAME, of_ended, of_wire};
use crate::messages::{
    Ask, AskClock, AskEach, BUFFER, CHECKPOINT, Facts, Free, GRAPH, LAUNCHES, PREEMPTOR, Question,
    Request,
};
use crate::schema::schema;
use parking_lot::Mutex;
use reef_core::{Error, Result};
use reef_files::MAX_PEM_BYTES;
use reef_wire::little_endian::U64;
use reef_wire::{
    Client, ClientOptions, Cold, Hot, Id, Link, Mint, TlsClient, Token, codec, hot_bytes, printable,
};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::de::DeserializeOwned;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time within which a server must accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// First address of buffers as clients see them, and distance of their beginnings. They mean
/// nothing on the device: the server puts its own in their place.
const FIRST_ADDRESS: u64 = 1 << 46;
const ADDRESS_ALIGNMENT: u64 = 4096;

/// Round trips that estimate the offset of the server's clock.
const CLOCK_ROUNDS: usize = 8;

/// Maximum number of questions of a message.
const MAX_QUESTIONS: usize = 256;

/// Objects that are being made, while the client goes on.
#[derive(Debug, Default)]
struct Making {
    /// Numbers of the messages that make them, and their names.
    begun: Vec<(u64, Id)>,
    /// Names of those that were not made.
    failed: HashSet<u64>,
    /// The first error of them that no call has returned.
    error: Option<Error>,
}

#[derive(Debug)]
pub(crate) struct Connection {
    client: Client,
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) facts: Facts,
    mints: [Mutex<Mint>; 5],
    next_address: AtomicU64,
    next_lane: AtomicU32,
    /// Answers by question: they depend on nothing else.
    answers: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    making: Mutex<Making>,
    opened: Instant,
    /// The server's time when `opened` was now.
    offset: Duration,
}

impl Connection {
    /// Begins a session.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no server or it has no such device, or refuses; `Invalid` for a file.
    pub(crate) fn open(options: &Options) -> Result<Self> {
        let Some(address) = options.address.clone() else {
            return Err(Error::invalid("remote device", "must be remote:ADDRESS/DEVICE"));
        };
        let tls = options.ca.as_deref().map(authorities).transpose()?.map(TlsClient::new);
        let (line, spin) = (options.line, options.spin);
        let made = move |link: Link| {
            let link = link.spin_for(spin);
            match line {
                None => Ok(link),
                Some(line) => link
                    .emulated(line)
                    .map_err(|e| reef_wire::Error::Broken(format!("emulated line: {e}"))),
            }
        };
        let (from, of_moved) = (address.clone(), tls.clone());
        let is_near = Arc::new(AtomicBool::new(false));
        let was_near = is_near.clone();
        let dial = move || {
            let link = address.connect(CONNECT_TIMEOUT, tls.as_ref())?;
            is_near.store(link.is_loopback(), Ordering::Relaxed);
            made(link)
        };
        let mut wire = ClientOptions::new(schema(), dial);
        wire.dial_moved = Some(Box::new(move |to| {
            let is_near = was_near.load(Ordering::Relaxed);
            made(from.follow(to, is_near, CONNECT_TIMEOUT, of_moved.as_ref())?)
        }));
        wire.token = options.token_file.as_deref().map(token).transpose()?;
        let request = Request { device: options.device.clone(), is_migrated: false };
        wire.request = codec::write(&request).map_err(of_wire)?;
        let lanes = Arc::<Lanes>::default();
        let client = Client::open(wire, Box::new(Pushed(lanes.clone()))).map_err(|e| match e {
            reef_wire::Error::Refused(text) => Error::NotFound(format!("{NAME}: refused: {text}")),
            other => Error::NotFound(format!("{NAME}: {other}")),
        })?;
        let mut facts: Facts = codec::read(client.facts()).map_err(of_wire)?;
        facts.name = printable(&facts.name);
        facts.features.iter_mut().for_each(|feature| *feature = printable(feature));
        let mut connection = Self {
            client,
            lanes,
            facts,
            mints: [BUFFER, LAUNCHES, GRAPH, CHECKPOINT, PREEMPTOR]
                .map(|tag| Mutex::new(Mint::new(tag))),
            next_address: AtomicU64::new(FIRST_ADDRESS),
            next_lane: AtomicU32::new(1),
            answers: Mutex::default(),
            making: Mutex::default(),
            opened: Instant::now(),
            offset: Duration::ZERO,
        };
        connection.offset = connection.estimate_offset()?;
        Ok(connection)
    }

    /// The server's time at the middle of the shortest of some round trips.
    fn estimate_offset(&self) -> Result<Duration> {
        let mut best = (Duration::MAX, Duration::ZERO);
        for _ in 0..CLOCK_ROUNDS {
            let begin = self.opened.elapsed();
            let nanos: u64 = self.call(&AskClock {})?;
            let end = self.opened.elapsed();
            let middle = begin + (end - begin) / 2;
            let offset = Duration::from_nanos(nanos).saturating_sub(middle);
            best = best.min((end - begin, offset));
        }
        Ok(best.1)
    }

    /// The device's time, as far as this end knows.
    pub(crate) fn clock(&self) -> Duration {
        self.offset + self.opened.elapsed()
    }

    pub(crate) fn mint(&self, tag: u8) -> Id {
        self.mint_of(tag).lock().mint()
    }

    fn mint_of(&self, tag: u8) -> &Mutex<Mint> {
        &self.mints[usize::from(tag - BUFFER)]
    }

    /// Releases an object at the server. Doesn't wait.
    pub(crate) fn free(&self, id: Id) {
        if id.tag() == BUFFER {
            self.settle();
            if self.making.lock().failed.remove(&id.bits()) {
                return self.release(id); // it was not made
            }
        }
        let free = Free { id: U64::new(id.bits()) };
        // Without a session there is nothing to release. The order of frames is that of names: the
        // next object of this index comes after it.
        let _ = self.client.post(Free::OP, 0, &[hot_bytes(&free)]);
        self.release(id);
    }

    /// Returns an error unless the device is the session's own.
    pub(crate) fn check_own(&self, what: &str) -> Result<()> {
        if self.facts.is_own {
            return Ok(());
        }
        let what =
            format!("{what}, on a device that sessions share: needs `reef remote serve --own`");
        Err(Error::Unsupported { backend: NAME, what })
    }

    /// Takes back a name that names nothing.
    pub(crate) fn release(&self, id: Id) {
        self.mint_of(id.tag()).lock().release(id);
    }

    /// Takes a range of addresses for a buffer.
    pub(crate) fn address(&self, bytes: usize) -> u64 {
        let len = (bytes as u64).max(1).next_multiple_of(ADDRESS_ALIGNMENT) + ADDRESS_ALIGNMENT;
        self.next_address.fetch_add(len, Ordering::Relaxed)
    }

    pub(crate) fn next_lane(&self) -> u32 {
        self.next_lane.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a message that makes an object, whose reply the next call waits for.
    pub(crate) fn begin_making<M: Cold>(&self, id: Id, message: &M) -> Result<()> {
        let body = message.to_bytes().map_err(of_wire)?;
        let mut making = self.making.lock();
        let number = self.client.begin_call(M::OP, 0, &[&body]).map_err(of_wire)?;
        making.begun.push((number, id));
        Ok(())
    }

    /// Waits until all that was begun is made. The error of what was not is that of the next call.
    fn settle(&self) {
        let mut making = self.making.lock();
        for (number, id) in std::mem::take(&mut making.begun) {
            if let Err(error) = self.client.finish_call(number) {
                making.failed.insert(id.bits());
                making.error.get_or_insert_with(|| of_wire(error));
            }
        }
    }

    /// As [`settle`](Self::settle).
    ///
    /// # Errors
    ///
    /// Of what was not made, once.
    fn settled(&self) -> Result<()> {
        self.settle();
        self.making.lock().error.take().map_or(Ok(()), Err)
    }

    /// Sends a message, and reads the reply.
    pub(crate) fn call<M: Cold, R: DeserializeOwned>(&self, message: &M) -> Result<R> {
        self.call_on(0, message)
    }

    pub(crate) fn call_on<M: Cold, R: DeserializeOwned>(
        &self,
        lane: u32,
        message: &M,
    ) -> Result<R> {
        self.settled()?;
        let reply = self.exchange(lane, message)?;
        self.lanes.check()?;
        codec::read(&reply).map_err(of_wire)
    }

    /// As [`call`](Self::call), but the error of an earlier message is left to another call.
    pub(crate) fn call_unlatched<M: Cold, R: DeserializeOwned>(&self, message: &M) -> Result<R> {
        self.settled()?;
        codec::read(&self.exchange(0, message)?).map_err(of_wire)
    }

    /// As [`call`](Self::call), for an end whose errors are ignored: those of earlier messages are
    /// left to another call.
    pub(crate) fn call_aside<M: Cold, R: DeserializeOwned>(
        &self,
        lane: u32,
        message: &M,
    ) -> Result<R> {
        self.settle();
        codec::read(&self.exchange(lane, message)?).map_err(of_wire)
    }

    /// Sends a message, and returns the bytes of the reply.
    fn exchange<M: Cold>(&self, lane: u32, message: &M) -> Result<Vec<u8>> {
        let body = message.to_bytes().map_err(of_wire)?;
        self.client.call(M::OP, lane, &[&body]).map_err(of_wire)
    }

    /// As [`call`](Self::call), for a hot message; returns the reply's bytes.
    pub(crate) fn call_hot<M: Hot>(&self, message: &M) -> Result<Vec<u8>> {
        self.settled()?;
        let reply = self.client.call(M::OP, 0, &[hot_bytes(message)]).map_err(of_wire)?;
        self.lanes.check()?;
        Ok(reply)
    }

    /// Sends a message with bytes after it. Doesn't wait.
    pub(crate) fn post_hot<M: Hot>(&self, message: &M, bytes: &[u8]) -> Result<()> {
        let sent = self.client.post(M::OP, 0, &[hot_bytes(message), bytes]);
        sent.map(|_| ()).map_err(of_wire)
    }

    /// Sends a message of a lane. Doesn't wait.
    pub(crate) fn post_on<M: Cold>(&self, lane: u32, message: &M) -> Result<()> {
        self.push_on(lane, message)?;
        self.client.flush();
        Ok(())
    }

    /// As [`post_on`](Self::post_on), with bytes after the message.
    pub(crate) fn post_with<M: Cold>(&self, lane: u32, message: &M, bytes: &[u8]) -> Result<()> {
        let body = message.to_bytes().map_err(of_wire)?;
        self.client.push(M::OP, lane, &[&body, bytes]).map_err(of_wire)?;
        self.client.flush();
        Ok(())
    }

    /// As [`post_with`](Self::post_with), but the message may wait for the thread that sends, up to
    /// 100 µs, or for [`flush`](Self::flush).
    pub(crate) fn post_soon<M: Cold>(&self, lane: u32, message: &M, bytes: &[u8]) -> Result<()> {
        let body = message.to_bytes().map_err(of_wire)?;
        self.client.post(M::OP, lane, &[&body, bytes]).map(|_| ()).map_err(of_wire)
    }

    /// Sends what waits.
    pub(crate) fn flush(&self) {
        self.client.flush();
    }

    /// Returns an error if the session is over, or an earlier message had one.
    pub(crate) fn check(&self) -> Result<()> {
        self.client.ended().map_or(Ok(()), |why| Err(of_ended(why)))?;
        self.lanes.check()
    }

    /// As [`post_on`](Self::post_on), but a later message takes it along.
    pub(crate) fn push_on<M: Cold>(&self, lane: u32, message: &M) -> Result<()> {
        let body = message.to_bytes().map_err(of_wire)?;
        self.client.push(M::OP, lane, &[&body]).map(|_| ()).map_err(of_wire)
    }

    /// As [`post_on`](Self::post_on), of a hot message.
    pub(crate) fn post_hot_on<M: Hot>(&self, lane: u32, message: &M) -> Result<()> {
        self.client.push(M::OP, lane, &[hot_bytes(message)]).map_err(of_wire)?;
        self.client.flush();
        Ok(())
    }

    /// Asks all of these that were not asked before, some in each message. Without a session
    /// nothing is known afterwards.
    pub(crate) fn ask_each(&self, questions: impl Iterator<Item = Question>) {
        let (mut fresh, mut seen) = (Vec::new(), HashSet::new());
        for question in questions {
            let Ok(body) = (Ask { question: question.clone() }).to_bytes() else { continue };
            if !self.answers.lock().contains_key(&body) && seen.insert(body.clone()) {
                fresh.push((question, body));
            }
        }
        for some in fresh.chunks(MAX_QUESTIONS) {
            let questions = some.iter().map(|(question, _)| question.clone()).collect();
            let Ok(answers) = self.call::<_, Vec<Vec<u8>>>(&AskEach { questions }) else { return };
            let bodies = some.iter().map(|(_, body)| body.clone());
            self.answers.lock().extend(bodies.zip(answers));
        }
    }

    /// Asks once for each question.
    pub(crate) fn ask<M: Cold, R: DeserializeOwned>(&self, question: &M) -> Result<R> {
        let body = question.to_bytes().map_err(of_wire)?;
        let known = self.answers.lock().get(&body).cloned();
        let answer = match known {
            Some(answer) => answer,
            None => {
                let answer = self.client.call(M::OP, 0, &[&body]).map_err(of_wire)?;
                self.answers.lock().insert(body, answer.clone());
                answer
            }
        };
        codec::read(&answer).map_err(of_wire)
    }
}

fn authorities(path: &Path) -> Result<RootCertStore> {
    let invalid = |e: &dyn std::fmt::Display| {
        Error::invalid(format!("remote.ca {}", path.display()), e.to_string())
    };
    let mut roots = RootCertStore::empty();
    let text = reef_files::read(path, MAX_PEM_BYTES).map_err(|e| invalid(&e))?;
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|e| invalid(&e))?;
        roots.add(certificate).map_err(|e| invalid(&e))?;
    }
    if roots.is_empty() {
        return Err(invalid(&"no certificate (PEM) in it"));
    }
    Ok(roots)
}

fn token(path: &Path) -> Result<Token> {
    let token = reef_files::token(path).map_err(|e| {
        Error::invalid(format!("remote.token_file {}", path.display()), e.to_string())
    })?;
    Ok(Token::new(token.as_bytes()))
}
