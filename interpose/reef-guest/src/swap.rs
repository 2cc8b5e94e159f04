//! Requests to a swappable program, whose memory leaves the GPU and returns without the driver's
//! help.
//!
//! The program listens at an abstract UNIX socket that its process number names. A caller checks
//! that the process itself answers, and the program that the caller is of its user, or root. One
//! line asks and one line answers; a connection is one request.

use crate::unix_peer::Peer;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// Maximum length of a line.
const MAX_LINE: u64 = 4096;

/// Request to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Its memory leaves the GPU. The time is for the work that is under way to end.
    Out(Duration),
    /// Its memory returns, and the program goes on.
    In,
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
        }
    }

    fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            Some(("out", millis)) => Some(Self::Out(Duration::from_millis(millis.parse().ok()?))),
            None if line == "in" => Some(Self::In),
            _ => None,
        }
    }
}

/// Returns the line of an answer.
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
/// The program refuses, in words, and runs on after a refused [`Request::Out`]; or it ended.
pub fn ask(pid: u32, request: Request) -> Option<Result<Moved, String>> {
    let stream = UnixStream::connect_addr(&address(pid).ok()?).ok()?;
    let is_it = Peer::of(&stream).and_then(|peer| peer.process()).is_ok_and(|peer| peer == pid);
    is_it.then(|| {
        let gone = |error: io::Error| format!("it does not answer: {error}");
        (&stream).write_all(request.line().as_bytes()).map_err(gone)?;
        let line = read_line(&stream).map_err(gone)?;
        parse_answer(&line).unwrap_or_else(|| Err(format!("its answer is not one: {line:?}")))
    })
}

/// Socket of a swappable program.
#[derive(Debug)]
pub struct Listener(UnixListener);

impl Listener {
    /// Listens for this process.
    ///
    /// # Errors
    ///
    /// The system's; another process has the name.
    pub fn open() -> io::Result<Self> {
        UnixListener::bind_addr(&address(std::process::id())?).map(Self)
    }

    /// Serves one request of this user or root. Blocks.
    ///
    /// # Errors
    ///
    /// The system's: there is no request.
    pub fn serve(&self, run: impl FnOnce(Request) -> Result<Moved, String>) -> io::Result<()> {
        let (mut stream, _) = self.0.accept()?;
        // SAFETY: asks for a number.
        let own = unsafe { libc::geteuid() };
        if Peer::of(&stream).is_ok_and(|peer| peer.uid == own || peer.uid == 0) {
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            let answer = match Request::parse(&read_line(&stream)?) {
                Some(request) => run(request),
                None => Err("the request is not one".into()),
            };
            stream.write_all(answer_line(&answer).as_bytes())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            for request in [Request::Out(Duration::from_millis(millis.into())), Request::In] {
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
    fn program_answers_its_callers() {
        let listener = Listener::open().unwrap();
        assert!(Listener::open().is_err(), "the name is taken");
        let served = std::thread::spawn(move || {
            let run = |request| match request {
                Request::In => Ok(Moved { devices: vec![([3; 16], 7)], seconds: 0.5 }),
                Request::Out(_) => Err("two\nlines".into()),
            };
            (0..2).for_each(|_| listener.serve(run).unwrap());
        });
        let pid = std::process::id();
        let moved = Moved { devices: vec![([3; 16], 7)], seconds: 0.5 };
        assert_eq!(ask(pid, Request::In), Some(Ok(moved)));
        let out = ask(pid, Request::Out(Duration::from_secs(1)));
        assert_eq!(out, Some(Err("two lines".into())));
        served.join().unwrap();
        assert_eq!(ask(pid, Request::In), None, "nothing listens");
    }
}
