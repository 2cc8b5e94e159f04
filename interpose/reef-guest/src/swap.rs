//! Requests to a swappable program, whose memory leaves the GPU and returns without the driver's
//! help.
//!
//! The program listens at an abstract UNIX socket that its process number names. A caller checks
//! that the process itself answers, and the program that the caller is of its user, or root. One
//! line asks and one line answers; a connection is one request.
//!
//! The socket is closed while the process is written to a folder ([`hide`]): the thread that has it
//! has a file table of its own, which is not written. In a process that starts from the folder that
//! thread shares the program's table, where its numbers are those of other files.

use crate::limit::process::{is_stopped, start_of};
use crate::unix_peer::Peer;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::mem::{forget, zeroed};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// Device memory that stays free while a program returns: a restore by the driver that runs out of
/// memory loses the process, and other programs allocate at the same time.
pub const MARGIN: u64 = 512 << 20;

/// Refusal of a return: the program has moved nothing.
pub const ON_DEVICE: &str = "its memory is on the device";

/// Refusal of a departure: the program would answer nothing before it goes on.
const STOPPED: &str = "it is stopped: SIGCONT, or its debugger, must continue it first";

/// Maximum length of a line.
const MAX_LINE: u64 = 4096;
/// Line that asks for the socket to be closed.
const HIDE: &str = "hide";
/// Refusal of a line that is not a request. Programs of earlier releases have it for newer ones.
const UNKNOWN: &str = "the request is not one";
/// Interval between polls of a connection, and of a socket that is opened again.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Number of polls in a row at which a stopped program is stopped. One whose calls are traced stops
/// for a moment at each of them.
const STOPPED_POLLS: usize = 5;
/// Maximum time in which a program opens its socket again.
const REOPEN_TIMEOUT: Duration = Duration::from_secs(60);

/// Request to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Its memory leaves the GPU. The time is for the work that is under way to end.
    Out(Duration),
    /// Its memory returns, and the program goes on.
    In,
    /// As [`In`](Self::In), while another program leaves: it waits for room, and leaves
    /// [`MARGIN`] free, until the caller says that no more memory becomes free.
    InWithRoom,
}

/// Moved memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moved {
    /// Bytes by device.
    pub devices: Vec<([u8; 16], u64)>,
    /// Time that it took, in seconds.
    pub seconds: f64,
}

impl Request {
    fn line(self) -> String {
        match self {
            Self::Out(timeout) => format!("out {}\n", timeout.as_millis()),
            Self::In => "in\n".into(),
            Self::InWithRoom => "in with room\n".into(),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            Some(("out", millis)) => Some(Self::Out(Duration::from_millis(millis.parse().ok()?))),
            Some(("in", "with room")) => Some(Self::InWithRoom),
            None if line == "in" => Some(Self::In),
            _ => None,
        }
    }
}

fn answer_line(answer: &Result<Moved, String>) -> String {
    match answer {
        Ok(moved) => {
            let device = |(uuid, bytes): &([u8; 16], u64)| {
                let uuid: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
                format!(" {uuid}:{bytes}")
            };
            let devices: String = moved.devices.iter().map(device).collect();
            format!("moved {}{devices}\n", moved.seconds)
        }
        Err(why) => format!("refused {}\n", why.replace('\n', " ")),
    }
}

fn parse_answer(line: &str) -> Option<Result<Moved, String>> {
    if let Some(why) = line.strip_prefix("refused ") {
        return Some(Err(why.to_owned()));
    }
    let mut words = line.strip_prefix("moved ")?.split(' ');
    let seconds = words.next()?.parse().ok()?;
    let device = |word: &str| {
        let (uuid, bytes) = word.split_once(':')?;
        let number = u128::from_str_radix(uuid, 16).ok().filter(|_| uuid.len() == 32)?;
        Some((number.to_be_bytes(), bytes.parse().ok()?))
    };
    let devices = words.map(device).collect::<Option<_>>()?;
    Some(Ok(Moved { devices, seconds }))
}

fn address(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("reef-swap-{pid}"))
}

fn read_line(stream: &UnixStream) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(MAX_LINE)).read_line(&mut line)?;
    match line.strip_suffix('\n') {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Asks a program. Blocks until it has answered: as long as its copies take. `None`: the process
/// is not swappable, or can't be reached.
///
/// # Errors
///
/// The program refuses, in words, and runs on after a refused [`Request::Out`]; or it ended. A
/// stopped one refuses to leave.
pub fn ask(pid: u32, request: Request) -> Option<Result<Moved, String>> {
    if matches!(request, Request::Out(_)) && stays_stopped(pid) {
        return Some(Err(STOPPED.into()));
    }
    Some(call(&connect(pid)?, &request.line()))
}

/// Returns whether a process is stopped at each of several polls. Blocks only if it is at first.
fn stays_stopped(pid: u32) -> bool {
    (0..STOPPED_POLLS).all(|at| {
        if at > 0 {
            std::thread::sleep(POLL_INTERVAL);
        }
        is_stopped(pid)
    })
}

/// Asks a program whose socket may be about to open again, as one that has just started from a
/// folder. Otherwise as [`ask`].
///
/// # Errors
///
/// Returns the errors of [`ask`].
pub fn ask_again(pid: u32, request: Request) -> Option<Result<Moved, String>> {
    Some(call(&connect_again(pid)?, &request.line()))
}

/// Asks a program for its return, [with room](Request::InWithRoom) that another one leaves as long
/// as `waits`. A program that doesn't know this request is asked for its return after that.
/// Otherwise as [`ask_again`].
///
/// # Errors
///
/// Returns the errors of [`ask`].
pub fn ask_with_room(pid: u32, waits: &dyn Fn() -> bool) -> Option<Result<Moved, String>> {
    let stream = connect_again(pid)?;
    let answer = send(&stream, &Request::InWithRoom.line()).and_then(|()| {
        while !has_input(&stream, POLL_INTERVAL) {
            if !waits() {
                let _ = stream.shutdown(Shutdown::Write); // refused: it has ended
                break;
            }
        }
        receive(&stream)
    });
    if !answer.as_ref().is_err_and(|why| why == UNKNOWN) {
        return Some(answer);
    }
    while waits() {
        std::thread::sleep(POLL_INTERVAL);
    }
    ask_again(pid, Request::In)
}

/// Connects to a program whose socket may be about to open again.
fn connect_again(pid: u32) -> Option<UnixStream> {
    let begin = Instant::now();
    loop {
        let stream = connect(pid);
        if stream.is_some() || begin.elapsed() >= REOPEN_TIMEOUT {
            return stream;
        }
        start_of(pid)?; // `None`: it has ended
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Program whose socket is closed as long as this value lives.
#[derive(Debug)]
pub struct Hidden {
    _connection: UnixStream,
}

/// Has a program close its socket, so that its process can be written to a folder. Blocks until it
/// is closed. `None`: the process is not swappable, or can't be reached.
///
/// # Errors
///
/// The program does not answer, in words.
pub fn hide(pid: u32) -> Option<Result<Hidden, String>> {
    let stream = connect(pid)?;
    Some(call(&stream, &format!("{HIDE}\n")).map(|_| Hidden { _connection: stream }))
}

fn connect(pid: u32) -> Option<UnixStream> {
    let stream = UnixStream::connect_addr(&address(pid).ok()?).ok()?;
    let is_it = Peer::of(&stream).and_then(|peer| peer.process()).is_ok_and(|peer| peer == pid);
    is_it.then_some(stream)
}

fn call(stream: &UnixStream, line: &str) -> Result<Moved, String> {
    send(stream, line)?;
    receive(stream)
}

fn send(mut to: &UnixStream, line: &str) -> Result<(), String> {
    to.write_all(line.as_bytes()).map_err(no_answer)
}

fn receive(stream: &UnixStream) -> Result<Moved, String> {
    let line = read_line(stream).map_err(no_answer)?;
    parse_answer(&line).unwrap_or_else(|| Err(format!("its answer is not one: {line:?}")))
}

fn no_answer(error: io::Error) -> String {
    format!("it does not answer: {error}")
}

/// Waits for bytes of a connection, or for its end. Returns false after `time`.
fn has_input(stream: &UnixStream, time: Duration) -> bool {
    let mut one = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let millis = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one struct, which lives as long as the call.
    unsafe { libc::poll(&raw mut one, 1, millis) > 0 }
}

/// Returns whether the other end sends no more. Takes nothing from the connection.
fn has_ended(stream: &UnixStream) -> bool {
    let mut byte = 0_u8;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the kernel checks the number, and writes at most one byte to a byte.
    let read = unsafe { libc::recv(stream.as_raw_fd(), (&raw mut byte).cast(), 1, flags) };
    read == 0
}

/// Caller whose request is under way.
#[derive(Debug)]
pub struct WaitingCaller<'a>(&'a UnixStream);

impl WaitingCaller<'_> {
    /// Returns whether it waits for no room any more, or has gone. Doesn't block.
    pub fn has_ended(&self) -> bool {
        has_ended(self.0)
    }
}

/// Caller for which the socket has to close.
#[derive(Debug)]
pub struct HidingCaller(UnixStream);

impl HidingCaller {
    /// Device and inode of this thread's file of that number.
    fn id(&self) -> Option<(u64, u64)> {
        // SAFETY: all zero is a value of this struct.
        let mut stat: libc::stat = unsafe { zeroed() };
        // SAFETY: the kernel checks the number, and writes to a struct that lives as long as the
        // call.
        let code = unsafe { libc::fstat(self.0.as_raw_fd(), &raw mut stat) };
        (code == 0).then_some((stat.st_dev, stat.st_ino))
    }

    /// Answers, and waits until the caller has gone, or until this process runs again from a
    /// folder. Returns true then: this thread's files are the program's, and none of them is
    /// touched.
    fn wait(self) -> io::Result<bool> {
        let own = self.id();
        let mut to = &self.0;
        to.write_all(answer_line(&Ok(Moved::default())).as_bytes())?;
        loop {
            std::thread::sleep(POLL_INTERVAL);
            let has_gone = has_ended(&self.0);
            if self.id() != own {
                forget(self); // its number is another file's
                return Ok(true);
            }
            if has_gone {
                return Ok(false);
            }
        }
    }
}

/// Socket of a swappable program.
#[derive(Debug)]
pub struct Listener(UnixListener);

impl Listener {
    /// Listens for this process.
    ///
    /// # Errors
    ///
    /// An error of the system; another process has the name.
    pub fn open() -> io::Result<Self> {
        UnixListener::bind_addr(&address(std::process::id())?).map(Self)
    }

    /// Serves one request of this user or root. Blocks. Returns the caller if the socket has to
    /// close, for [`hide`](Self::hide).
    ///
    /// # Errors
    ///
    /// An error of the system: there is no request.
    pub fn serve(
        &self,
        run: impl FnOnce(Request, &WaitingCaller<'_>) -> Result<Moved, String>,
    ) -> io::Result<Option<HidingCaller>> {
        let (mut stream, _) = self.0.accept()?;
        // SAFETY: asks for a number.
        let own = unsafe { libc::geteuid() };
        if Peer::of(&stream).is_ok_and(|peer| peer.uid == own || peer.uid == 0) {
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            let line = read_line(&stream)?;
            if line == HIDE {
                return Ok(Some(HidingCaller(stream)));
            }
            let answer = match Request::parse(&line) {
                Some(request) => run(request, &WaitingCaller(&stream)),
                None => Err(UNKNOWN.into()),
            };
            stream.write_all(answer_line(&answer).as_bytes())?;
        }
        Ok(None)
    }

    /// Closes the socket, and waits until the caller has gone, or until this process runs again
    /// from a folder. Returns true then: the calling thread has lost its files, and shares the
    /// program's table.
    ///
    /// # Errors
    ///
    /// An error of the system: the caller has gone before.
    pub fn hide(self, caller: HidingCaller) -> io::Result<bool> {
        drop(self);
        caller.wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::{Command, Stdio};

    proptest! {
        #[test]
        fn answers_are_read_as_they_were_written(
            devices in proptest::collection::vec((any::<[u8; 16]>(), any::<u64>()), 0..4),
            seconds in 0.0..1e6_f64,
            why in "[^\n]{0,80}",
        ) {
            for answer in [Ok(Moved { devices, seconds }), Err(why)] {
                let line = answer_line(&answer);
                prop_assert_eq!(parse_answer(line.trim_end_matches('\n')), Some(answer));
            }
        }

        #[test]
        fn requests_are_read_as_they_were_written(millis in any::<u32>()) {
            let out = Request::Out(Duration::from_millis(millis.into()));
            for request in [out, Request::In, Request::InWithRoom] {
                prop_assert_eq!(Request::parse(request.line().trim_end()), Some(request));
            }
        }

        #[test]
        fn other_lines_are_not_answers(line in ".{0,60}") {
            prop_assume!(!line.starts_with("refused ") && !line.starts_with("moved "));
            prop_assert_eq!(parse_answer(&line), None);
        }
    }

    #[test]
    fn stopped_program_refuses_to_leave() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let stop = Command::new("kill").args(["-s", "STOP", &pid.to_string()]).status();
        assert!(stop.unwrap().success());
        while !is_stopped(pid) {
            std::thread::yield_now();
        }
        let out = Request::Out(Duration::from_secs(1));
        assert_eq!(ask(pid, out), Some(Err(STOPPED.into())));
        assert_eq!(ask(pid, Request::In), None, "it does not listen");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn program_answers_its_callers_and_hides() {
        let listener = Listener::open().unwrap();
        assert!(Listener::open().is_err(), "the name is taken");
        let (tell, told) = std::sync::mpsc::channel();
        let served = std::thread::spawn(move || {
            let earlier = |request: Request, _: &WaitingCaller<'_>| match request {
                Request::In => Ok(Moved::default()),
                Request::Out(_) | Request::InWithRoom => Err("the request is not one".into()),
            };
            (0..2).for_each(|_| assert!(listener.serve(earlier).unwrap().is_none()));
            let run = |request: Request, caller: &WaitingCaller<'_>| match request {
                Request::In => Ok(Moved { devices: vec![([3; 16], 7)], seconds: 0.5 }),
                Request::Out(_) => Err("two\nlines".into()),
                Request::InWithRoom => {
                    while !caller.has_ended() {
                        std::thread::yield_now();
                    }
                    Err("no room".into())
                }
            };
            (0..3).for_each(|_| assert!(listener.serve(run).unwrap().is_none()));
            let hides = |listener: Listener| {
                let caller = listener.serve(run).unwrap().expect("a caller that hides it");
                tell.send(caller.0.as_raw_fd()).unwrap();
                listener.hide(caller).unwrap()
            };
            let first = hides(listener);
            (first, hides(Listener::open().unwrap()))
        });
        let pid = std::process::id();
        let polls = std::cell::Cell::new(0);
        let waits = || polls.replace(polls.get() + 1) < 3;
        assert_eq!(ask_with_room(pid, &waits), Some(Ok(Moved::default())), "an earlier release");
        assert!(polls.get() >= 4, "it was asked again at the end");
        let moved = Moved { devices: vec![([3; 16], 7)], seconds: 0.5 };
        assert_eq!(ask(pid, Request::In), Some(Ok(moved)));
        let out = ask(pid, Request::Out(Duration::from_secs(1)));
        assert_eq!(out, Some(Err("two lines".into())));
        polls.set(0);
        assert_eq!(ask_with_room(pid, &waits), Some(Err("no room".into())));
        assert_eq!(polls.get(), 4, "it waited until it was told");
        let hidden = hide(pid).unwrap().unwrap();
        // A child that another test starts has the socket until it runs its program.
        while ask(pid, Request::In).is_some() {
            std::thread::yield_now();
        }
        told.recv().unwrap();
        drop(hidden);
        let _hidden = loop {
            match hide(pid) {
                Some(hidden) => break hidden.unwrap(),
                None => std::thread::yield_now(), // not open again yet
            }
        };
        // As in a process that starts from a folder: the number is another file's.
        let number = told.recv().unwrap();
        let other = std::fs::OpenOptions::new().read(true).open("/dev/null").unwrap();
        // SAFETY: numbers of open files; the thread takes nothing from its one any more.
        let copied = unsafe { libc::dup2(other.as_raw_fd(), number) };
        assert_eq!(copied, number);
        assert_eq!(served.join().unwrap(), (false, true));
        // SAFETY: a number of an open file that nothing owns, as the thread has left it open.
        let closed = unsafe { libc::close(number) };
        assert_eq!(closed, 0, "it was open");
        assert_eq!(ask(pid, Request::In), None, "nothing listens");
    }
}
