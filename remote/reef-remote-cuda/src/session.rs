//! The connection to the server: one for the process, opened at the first call that needs it.

use crate::state::host_functions::run_host_function;
use crate::state::leases::{keep_window, release_window};
use crate::state::lock::lock;
use crate::state::thread::{Thread, in_thread};
use reef_cuda_abi::codes::{DEVICE_UNAVAILABLE, NO_DEVICE, NOT_INITIALIZED, NOT_PERMITTED};
use reef_remote_calls::{
    Advance, Barrier, Class, Define, Facts, Failed, HostCalled, HostReturned, KernelPrinted,
    Request, SCHEMA, SetCurrent, TableCall, WINDOW_SLOTS,
};
use reef_replay::{Line as Replayed, Numbers, Op, Player};
use reef_wire::little_endian::{U16, U32, U64};
use reef_wire::{
    Address, Client, ClientOptions, Endpoint, Error, Growth, Handler, Hot, Line, Link, Message,
    TlsClient, Token, codec, hot_bytes,
};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::collections::HashMap;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Time within which the server must answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Round trip from which on repeated calls are replayed: on shorter ones that was slower.
const FAR: Duration = Duration::from_micros(75);
/// Round trips that are measured, one after another until one is short.
const ROUND_TRIPS: u32 = 3;
/// Messages without reply after which the program waits until they have been handled.
const MAX_QUIET: u32 = 8192;
/// Bytes of them.
const MAX_QUIET_LEN: usize = 64 << 20;
/// Port of a server whose address has none; a program's number is added to it.
const PORT: u16 = 7733;

/// Session of this process.
pub(crate) struct Session {
    client: Client,
    pub(crate) facts: Facts,
    /// Names and texts of errors, which the program gets the addresses of.
    pub(crate) errors: HashMap<u32, [CString; 2]>,
    /// Each call waits for its code.
    is_strict: bool,
    /// Numbers of templates, if calls are recorded and replayed.
    replay: Option<Numbers>,
    /// Calls that were sent. Counted after a call is sent and before it returns, so a thread that
    /// knows of a call counts it.
    sent: AtomicU64,
    quiet: AtomicU32,
    quiet_len: AtomicUsize,
}

/// The session was opened by this process's parent.
static IS_CHILD: AtomicBool = AtomicBool::new(false);
/// There may be a failure in `FAILED`.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);
/// A code has come that the driver gives for good.
static IS_BROKEN: AtomicBool = AtomicBool::new(false);
/// Codes that all later calls of a context return: faults of kernels, and the end of an MPS client.
const STICKY: [u32; 12] = [226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810];

/// First failed call of a thread that the program has not been told of.
static FAILED: Mutex<Vec<(u32, u32)>> = Mutex::new(Vec::new());

unsafe extern "C" fn in_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// Returns the session.
///
/// # Errors
///
/// The driver's code: no server, a forked child, a call within a host function.
pub(crate) fn session() -> Result<&'static Session, u32> {
    static SESSION: OnceLock<Option<Session>> = OnceLock::new();
    if IS_CHILD.load(Ordering::Relaxed) {
        return Err(NOT_INITIALIZED);
    }
    let open = || match open() {
        Ok(session) => {
            // SAFETY: a function that touches an atomic alone.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            Some(session)
        }
        Err(text) => {
            eprintln!("reef: no remote device: {text}");
            None
        }
    };
    SESSION.get_or_init(open).as_ref().ok_or(NO_DEVICE)
}

/// Returns the server's address: `REEF_REMOTE`, or what Cricket's clients have.
fn address() -> Result<Address, String> {
    if let Some(address) = variable("REEF_REMOTE") {
        return address.parse().map_err(|e| format!("REEF_REMOTE: {e}"));
    }
    if reef_files::is_privileged() {
        return Err("a program with more rights than its caller ignores REEF_REMOTE".into());
    }
    let host = variable("REMOTE_GPU_ADDRESS").ok_or("REEF_REMOTE must be a server's address")?;
    let id: u16 = variable("RRTO_RPCID").and_then(|id| id.parse().ok()).unwrap_or(0);
    let text =
        if host.contains(':') { host } else { format!("{host}:{}", PORT.saturating_add(id)) };
    text.parse().map_err(|e| format!("REMOTE_GPU_ADDRESS: {e}"))
}

fn open() -> Result<Session, String> {
    let address = address()?;
    let file = |name| reef_files::variable(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let token = match file("REEF_REMOTE_TOKEN_FILE") {
        Some(path) => {
            let token = reef_files::token(&path)
                .map_err(|e| format!("REEF_REMOTE_TOKEN_FILE {}: {e}", path.display()))?;
            Some(Token::new(token.as_bytes()))
        }
        None => None,
    };
    let tls = file("REEF_REMOTE_CA").map(|path| authorities(&path)).transpose()?;
    let line = line()?;
    let made = move |link: Link| {
        let Some(line) = line else { return Ok(link) };
        link.emulated(line).map_err(|e| Error::Broken(format!("emulated line: {e}")))
    };
    let (from, of_moved) = (address.clone(), tls.clone());
    let is_near = Arc::new(AtomicBool::new(false));
    let was_near = is_near.clone();
    let dial = move || {
        let link = address.connect(CONNECT_TIMEOUT, tls.as_ref())?;
        is_near.store(link.is_loopback(), Ordering::Relaxed);
        made(link)
    };
    let mut options = ClientOptions::new(SCHEMA, dial);
    options.dial_moved = Some(Box::new(move |to| {
        let is_near = was_near.load(Ordering::Relaxed);
        made(from.follow(to, is_near, CONNECT_TIMEOUT, of_moved.as_ref())?)
    }));
    options.token = token;
    options.program = program();
    let windows: Vec<u64> = WINDOW_SLOTS.into_iter().filter(|slot| keep_window(*slot)).collect();
    let class = variable("REEF_CLASS").map(|name| {
        Class::of(&name).ok_or_else(|| format!("REEF_CLASS: must be rt or be, got {name:?}"))
    });
    let class = class.transpose()?;
    let request = Request { windows: windows.clone(), is_migrated: false, class };
    options.request = codec::write(&request).map_err(|e| e.to_string())?;
    let opened = Client::open(options, Box::new(Receiver)).map_err(|e| e.to_string());
    let facts = opened.and_then(|client| {
        let facts: Facts = codec::read(client.facts()).map_err(|e| e.to_string())?;
        if facts.window.is_some_and(|window| !windows.contains(&window)) {
            return Err("the server's window is none of those that were kept".into());
        }
        Ok((client, facts))
    });
    let window = facts.as_ref().ok().and_then(|(_, facts)| facts.window);
    windows.into_iter().filter(|slot| Some(*slot) != window).for_each(release_window);
    let (client, facts) = facts?;
    let text = |text: &str| CString::new(text).unwrap_or_default();
    let errors = facts.errors.iter().map(|(code, name, what)| (*code, [text(name), text(what)]));
    let errors = errors.collect();
    let is = |name, value| reef_files::variable(name).is_some_and(|is| is == value);
    let is_strict = is("REEF_REMOTE_STRICT", "1");
    let replays = is("REEF_REMOTE_REPLAY", "1")
        || !is_strict && !is("REEF_REMOTE_REPLAY", "0") && is_far(&client);
    let replay = (replays && !is_strict).then(Numbers::default);
    let (sent, quiet, quiet_len) = (AtomicU64::new(0), AtomicU32::new(0), AtomicUsize::new(0));
    Ok(Session { client, facts, errors, is_strict, replay, sent, quiet, quiet_len })
}

/// Returns whether the least of a few round trips is longer than within a machine.
fn is_far(client: &Client) -> bool {
    let body = Barrier { reserved: U64::new(0) };
    (0..ROUND_TRIPS).all(|_| {
        let begin = Instant::now();
        let _ = client.call(Barrier::OP, 0, &[hot_bytes(&body)]); // later calls tell of an error
        begin.elapsed() >= FAR
    })
}

/// Returns the line that is to be emulated: `REEF_REMOTE_EMULATE`, such as `rtt:5ms+bw:100mbit`.
fn line() -> Result<Option<Line>, String> {
    let Some(text) = variable("REEF_REMOTE_EMULATE") else { return Ok(None) };
    let line = text.replace('+', ",").parse();
    line.map(Some).map_err(|e| format!("REEF_REMOTE_EMULATE: {e}"))
}

/// Name of this program and its process, for people at the server.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{name} {}", std::process::id())
}

fn variable(name: &str) -> Option<String> {
    let value = reef_files::variable(name)?.into_string().ok()?;
    Some(value).filter(|value| !value.is_empty())
}

fn authorities(path: &std::path::Path) -> Result<TlsClient, String> {
    let invalid = |e: &dyn std::fmt::Display| format!("REEF_REMOTE_CA {}: {e}", path.display());
    let mut roots = RootCertStore::empty();
    let text = reef_files::read(path, reef_files::MAX_PEM_BYTES).map_err(|e| invalid(&e))?;
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|e| invalid(&e))?;
        roots.add(certificate).map_err(|e| invalid(&e))?;
    }
    Ok(TlsClient::new(roots))
}

/// Receiver of the worker's messages.
struct Receiver;

impl Handler for Receiver {
    fn handle(&mut self, message: &Message<'_>, _: &Endpoint) -> reef_wire::Result<()> {
        match message.op {
            Failed::OP => {
                let failed = Failed::split(message.body)?.0;
                note(failed.code.get());
                let mut all = lock(&FAILED);
                if all.iter().all(|(lane, _)| *lane != message.lane) {
                    all.push((message.lane, failed.code.get()));
                }
                HAS_FAILED.store(true, Ordering::Release);
            }
            KernelPrinted::OP => print(KernelPrinted::split(message.body)?.1),
            HostCalled::OP => {
                let called = HostCalled::split(message.body)?.0;
                let is_once = called.is_once.get() == 1;
                run_host_function(called.token.get(), is_once, called.call.get(), post_returned);
            }
            op => return Err(Error::Protocol(format!("operation {op}: cannot come here"))),
        }
        Ok(())
    }

    fn ended(&mut self, why: &Error) {
        report(why);
    }
}

/// Notes a code that is given for good.
fn note(code: u32) {
    if STICKY.contains(&code) {
        IS_BROKEN.store(true, Ordering::Relaxed);
    }
}

/// Says, once, that the session is over.
fn report(why: &Error) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        eprintln!("reef: the remote device is lost: {why}");
    }
}

/// Takes the failure of an earlier call of this thread.
fn earlier(lane: u32) -> u32 {
    if !HAS_FAILED.load(Ordering::Acquire) {
        return 0;
    }
    let mut all = lock(&FAILED);
    let found = all.iter().position(|(of, _)| *of == lane);
    let code = found.map_or(0, |at| all.swap_remove(at).1);
    HAS_FAILED.store(!all.is_empty(), Ordering::Release);
    code
}

/// Tells the worker that a host function has returned.
fn post_returned(call: u64) {
    if let Ok(session) = session() {
        let body = HostReturned { call: U64::new(call) };
        let _ = session.client.post(HostReturned::OP, 0, &[hot_bytes(&body)]);
    }
}

impl Session {
    /// Tells the worker which context is current in this thread, if that has changed. Returns the
    /// thread's number.
    fn enter(&self) -> Result<u32, u32> {
        let told = in_thread(|thread| {
            if thread.is_callback.get() {
                return Err(NOT_PERMITTED);
            }
            let context = thread.context();
            if thread.told.get() != context {
                let body = SetCurrent { context: U64::new(context) };
                let sent = self.client.push(SetCurrent::OP, thread.lane, &[hot_bytes(&body)]);
                sent.map_err(|e| lost(&e))?;
                thread.told.set(context);
            }
            Ok(thread.lane)
        });
        told?
    }

    /// Sends a message, and waits for the code and what the call returned.
    ///
    /// # Errors
    ///
    /// The code, if there is no answer.
    pub(crate) fn call(&self, op: u16, parts: &[&[u8]]) -> Result<(u32, Vec<u8>), u32> {
        let result = self.call_without_end(op, parts);
        self.end_segment()?;
        result
    }

    /// Notes that a stream had no work left when the last call of this thread ended. `before` is
    /// the number of calls before that one.
    pub(crate) fn note_done(&self, stream: u64, before: u64) {
        let _ = in_thread(|thread| thread.done.set((stream, before + 1)));
    }

    /// Number of calls that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns whether a stream has no work left, as far as is known here: nothing at all was sent
    /// after the call of this thread that ended with the stream's work.
    pub(crate) fn is_done(&self, stream: u64) -> bool {
        let known = in_thread(|thread| thread.done.get()) == Ok((stream, self.sent()));
        known && !self.is_strict && !self.is_broken() && !HAS_FAILED.load(Ordering::Acquire)
    }

    /// Calls without ending the segment of the thread.
    fn call_without_end(&self, op: u16, parts: &[&[u8]]) -> Result<(u32, Vec<u8>), u32> {
        let lane = self.enter()?;
        let mut reply = self.client.call(op, lane, parts).map_err(|e| lost(&e))?;
        self.sent.fetch_add(1, Ordering::Relaxed);
        if reply.len() < 8 {
            return Err(DEVICE_UNAVAILABLE);
        }
        let bytes = reply.split_off(8);
        let code = u32::from_le_bytes(reply[..4].try_into().expect("it has 8 bytes"));
        note(code);
        match (code, earlier(lane)) {
            (0, 0) => Ok((0, bytes)),
            (0, earlier) => Ok((earlier, bytes)),
            (code, _) => Ok((code, bytes)),
        }
    }

    /// Returns whether a call has failed for good: the worker's driver answers all others then.
    pub(crate) fn is_broken(&self) -> bool {
        IS_BROKEN.load(Ordering::Relaxed) || self.client.ended().is_some()
    }

    /// Takes the failure of an earlier call of this thread.
    ///
    /// # Errors
    ///
    /// Its code; that of a call within a host function.
    pub(crate) fn check_earlier(&self) -> Result<(), u32> {
        match earlier(self.enter()?) {
            0 => Ok(()),
            code => Err(code),
        }
    }

    /// Sends an operation whose code is not waited for. Returns that of an earlier one.
    pub(crate) fn quiet(&self, op: &Op<'_>) -> u32 {
        let parts = [op.shape, op.words, op.payload];
        let Some(numbers) = &self.replay else { return self.quiet_plain(op.kind, &parts) };
        let len = parts.iter().map(|part| part.len()).sum();
        self.send_quiet(len, |lane| {
            let issue = |thread: &Thread| {
                let mut player = thread.player.borrow_mut();
                let player = player.get_or_insert_with(|| Player::new(numbers.clone()));
                player.issue(op, &mut Sender { client: &self.client, lane })
            };
            in_thread(issue)?.map_err(|e| lost(&e))
        })
    }

    /// Sends a message whose code is not waited for, and which is never replayed. Returns the code
    /// of an earlier one.
    pub(crate) fn quiet_plain(&self, op: u16, parts: &[&[u8]]) -> u32 {
        if self.is_strict {
            return self.call(op, parts).map_or_else(|code| code, |(code, _)| code);
        }
        if let Err(code) = self.end_segment() {
            return code;
        }
        let len = parts.iter().map(|part| part.len()).sum();
        self.send_quiet(len, |lane| {
            self.client.post(op, lane, parts).map(|_| ()).map_err(|e| lost(&e))
        })
    }

    /// Ends what the thread has issued since it waited.
    fn end_segment(&self) -> Result<(), u32> {
        let end = |thread: &Thread| {
            let mut player = thread.player.borrow_mut();
            let sender = &mut Sender { client: &self.client, lane: thread.lane };
            player.as_mut().map_or(Ok(()), |player| player.wait(sender))
        };
        in_thread(end)?.map_err(|e| lost(&e))
    }

    fn send_quiet(&self, len: usize, send: impl FnOnce(u32) -> Result<(), u32>) -> u32 {
        let sent = self.enter().and_then(|lane| send(lane).map(|()| lane));
        self.sent.fetch_add(1, Ordering::Relaxed);
        let lane = match sent {
            Ok(lane) => lane,
            Err(code) => return code,
        };
        let count = self.quiet.fetch_add(1, Ordering::Relaxed);
        let bytes = self.quiet_len.fetch_add(len, Ordering::Relaxed);
        if count >= MAX_QUIET || bytes >= MAX_QUIET_LEN {
            self.quiet.store(0, Ordering::Relaxed);
            self.quiet_len.store(0, Ordering::Relaxed);
            let body = Barrier { reserved: U64::new(0) };
            return self
                .call_without_end(Barrier::OP, &[hot_bytes(&body)])
                .map_or_else(|code| code, |(code, _)| code);
        }
        earlier(lane)
    }

    /// Sends a call of the table without a wait.
    pub(crate) fn quiet_table(&self, head: &TableCall, words: &[u8]) -> u32 {
        let shape = hot_bytes(head);
        self.quiet(&Op { kind: TableCall::OP, shape, words, payload: &[] })
    }
}

/// The session, for what a thread issues.
struct Sender<'a> {
    client: &'a Client,
    lane: u32,
}

impl Replayed for Sender<'_> {
    type Error = Error;

    fn plain(&mut self, op: &Op<'_>) -> Result<(), Error> {
        let parts = [op.shape, op.words, op.payload];
        self.client.post(op.kind, self.lane, &parts).map(|_| ())
    }

    fn define(&mut self, number: u16, definition: &[u8]) -> Result<(), Error> {
        let (template, reserved) = (U16::new(number), U16::new(0));
        let head = Define { template, reserved, reserved2: U32::new(0) };
        self.client.post(Define::OP, self.lane, &[hot_bytes(&head), definition]).map(|_| ())
    }

    fn advance(&mut self, growth: &reef_replay::Growth<'_>) -> Result<bool, Error> {
        let &reef_replay::Growth { replace, more, fresh } = growth;
        self.client.grow(Advance::OP, self.lane, &Growth { replace, more, fresh })
    }
}

/// Writes to the program's output, in order with what the program has printed by C's functions.
fn print(text: &[u8]) {
    unsafe extern "C" {
        static stdout: *mut libc::FILE;
    }
    // SAFETY: C's stream, which is there as long as the process, and bytes of this length.
    unsafe { libc::fwrite(text.as_ptr().cast(), 1, text.len(), stdout) };
}

fn lost(why: &Error) -> u32 {
    report(why);
    DEVICE_UNAVAILABLE
}
