//! A line that is made longer, thinner or less reliable than it is.
//!
//! Each piece gets the time at which it arrives, from when it was sent and the pieces before it,
//! and waits in order until then. There is no sleep for each message, which would hide how many of
//! them are under way at once.

use super::link::{Control, Link, ReceiveHalf, SendHalf};
use crate::error::{Error, Result};
use std::collections::VecDeque;
use std::io;
use std::str::FromStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Properties of an emulated line. The default is the line as it is.
///
/// As text: `rtt:5ms,bw:100mbit,jitter:1ms,cut:5000`, each at most once.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Line {
    /// Time of a byte there and another one back, in addition to the real one.
    pub rtt: Duration,
    /// Bytes per second in each direction; `None` for no bound.
    pub bandwidth: Option<u64>,
    /// Upper bound of a random addition to each direction's time.
    pub jitter: Duration,
    /// Number of bytes after which the line breaks, of both directions together.
    pub cut_after: Option<u64>,
    /// Beginning of the random numbers.
    pub seed: u64,
}

impl FromStr for Line {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut line = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once(':').unwrap_or((part, ""));
            let invalid = || {
                let forms = "rtt:5ms, jitter:100us, bw:100mbit or cut:BYTES";
                Error::Invalid(format!("line: must be {forms}, got {part:?}"))
            };
            match key {
                "rtt" => line.rtt = duration(value).ok_or_else(invalid)?,
                "jitter" => line.jitter = duration(value).ok_or_else(invalid)?,
                "bw" => line.bandwidth = Some(bandwidth(value).ok_or_else(invalid)?),
                "cut" => line.cut_after = Some(value.parse().map_err(|_| invalid())?),
                _ => return Err(invalid()),
            }
        }
        Ok(line)
    }
}

/// Reads a number with a unit.
fn quantity(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<f64>().ok().map(|number| number * factor)
}

fn duration(text: &str) -> Option<Duration> {
    let seconds = quantity(text, &[("us", 1e-6), ("ms", 1e-3), ("s", 1.0)])?;
    (seconds <= 3600.0).then(|| Duration::from_secs_f64(seconds))
}

fn bandwidth(text: &str) -> Option<u64> {
    let bytes = quantity(text, &[("kbit", 125.0), ("mbit", 125e3), ("gbit", 125e6)])? as u64;
    (bytes > 0).then_some(bytes)
}

impl Link {
    /// Puts an emulated line before this one. Two threads carry its bytes.
    ///
    /// # Errors
    ///
    /// An error of the system, if there is no thread.
    pub fn emulated(self, line: Line) -> io::Result<Self> {
        let cut = Arc::new(Cut::new(line.cut_after, self.control.clone()));
        let (out, back) = (Arc::new(Pipe::new(line, 1)), Arc::new(Pipe::new(line, 2)));
        let control =
            Arc::new(LineControl { inner: self.control, pipes: [out.clone(), back.clone()] });
        let (pipe, closer) = (out.clone(), control.clone());
        let mut inner = self.send;
        thread::Builder::new().name("reef-line-out".into()).spawn({
            let cut = cut.clone();
            move || {
                while let Some(piece) = pipe.pop() {
                    if cut.pass(&piece, |bytes| inner.send(bytes)).is_err() {
                        break;
                    }
                }
                closer.cut();
            }
        })?;
        let (pipe, closer) = (back.clone(), control.clone());
        let mut inner = self.receive;
        thread::Builder::new().name("reef-line-back".into()).spawn(move || {
            let mut buffer = vec![0; 256 << 10];
            while let Ok(count) = inner.receive(&mut buffer) {
                let push = |bytes: &[u8]| pipe.push(bytes);
                if cut.pass(&buffer[..count], push).is_err() {
                    break;
                }
            }
            pipe.close(); // what has arrived before the end is still delivered
            closer.inner.cut();
        })?;
        Ok(Self {
            send: Box::new(Out(out)),
            receive: Box::new(Back { pipe: back, rest: Vec::new(), read: 0 }),
            control,
            binding: self.binding,
            peer: self.peer,
        })
    }
}

/// Bytes until the line breaks.
#[derive(Debug)]
struct Cut {
    left: Mutex<Option<u64>>,
    inner: Arc<dyn Control>,
}

impl Cut {
    fn new(left: Option<u64>, inner: Arc<dyn Control>) -> Self {
        Self { left: Mutex::new(left), inner }
    }

    /// Passes on as many bytes as are left, then cuts.
    fn pass(&self, bytes: &[u8], pass: impl FnOnce(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut left = self.left.lock().expect("no panic under this lock");
        let Some(left) = &mut *left else { return pass(bytes) };
        let count = (*left).min(bytes.len() as u64) as usize;
        *left -= count as u64;
        pass(&bytes[..count])?;
        if *left == 0 {
            self.inner.cut();
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

/// Pieces in one direction, each with the time at which it arrives.
#[derive(Debug)]
struct Pipe {
    line: Line,
    state: Mutex<PipeState>,
    changed: Condvar,
}

#[derive(Debug)]
struct PipeState {
    pieces: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    /// Time at which the line has carried all that it has been given.
    free_at: Instant,
    random: u64,
    is_closed: bool,
    is_woken: bool,
}

/// Bytes that a line holds before its sender waits.
const CAPACITY: usize = 16 << 20;

impl Pipe {
    fn new(line: Line, salt: u64) -> Self {
        let state = PipeState {
            pieces: VecDeque::new(),
            bytes: 0,
            free_at: Instant::now(),
            random: (line.seed ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            is_closed: false,
            is_woken: false,
        };
        Self { line, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, PipeState> {
        self.state.lock().expect("no panic under this lock")
    }

    fn push(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        while state.bytes > CAPACITY && !state.is_closed {
            state = self.changed.wait(state).expect("no panic under this lock");
        }
        if state.is_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let now = Instant::now();
        let transfer = self.line.bandwidth.map_or(Duration::ZERO, |bytes_per_second| {
            Duration::from_secs_f64(bytes.len() as f64 / bytes_per_second as f64)
        });
        state.free_at = state.free_at.max(now) + transfer;
        // xorshift64
        state.random ^= state.random << 13;
        state.random ^= state.random >> 7;
        state.random ^= state.random << 17;
        let jitter = self.line.jitter.mul_f64((state.random >> 11) as f64 / (1_u64 << 53) as f64);
        let at = state.free_at + self.line.rtt / 2 + jitter;
        let at = state.pieces.back().map_or(at, |(last, _)| at.max(*last)); // in order
        state.bytes += bytes.len();
        state.pieces.push_back((at, bytes.to_vec()));
        self.changed.notify_all();
        Ok(())
    }

    /// Waits for the next piece to arrive. `None`: the line is closed and empty.
    fn pop(&self) -> Option<Vec<u8>> {
        let mut state = self.lock();
        loop {
            let due = match state.pieces.front() {
                None if state.is_closed => return None,
                None => None,
                Some((at, _)) => Some(at.saturating_duration_since(Instant::now())),
            };
            state = match due {
                Some(Duration::ZERO) => {
                    let (_, piece) = state.pieces.pop_front().expect("it was just there");
                    state.bytes -= piece.len();
                    self.changed.notify_all();
                    return Some(piece);
                }
                Some(left) => {
                    self.changed.wait_timeout(state, left).expect("no panic under this lock").0
                }
                None => self.changed.wait(state).expect("no panic under this lock"),
            };
        }
    }

    /// Waits until a piece has arrived (true), for a wake, or for `timeout`.
    fn wait(&self, timeout: Option<Duration>) -> bool {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let due = state.pieces.front().map(|(at, _)| at.saturating_duration_since(now));
            if due == Some(Duration::ZERO) || (due.is_none() && state.is_closed) {
                return true;
            }
            let left = end.map(|end| end.saturating_duration_since(now));
            if std::mem::take(&mut state.is_woken) || left == Some(Duration::ZERO) {
                return false;
            }
            let next = [due, left].into_iter().flatten().min();
            state = match next {
                Some(left) => {
                    self.changed.wait_timeout(state, left).expect("no panic under this lock").0
                }
                None => self.changed.wait(state).expect("no panic under this lock"),
            };
        }
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}

#[derive(Debug)]
struct LineControl {
    inner: Arc<dyn Control>,
    pipes: [Arc<Pipe>; 2],
}

impl Control for LineControl {
    fn cut(&self) {
        self.inner.cut();
        for pipe in &self.pipes {
            let mut state = pipe.lock();
            state.pieces.clear();
            (state.bytes, state.is_closed) = (0, true);
            pipe.changed.notify_all();
        }
    }

    fn wake(&self) {
        self.pipes[1].lock().is_woken = true;
        self.pipes[1].changed.notify_all();
    }
}

#[derive(Debug)]
struct Out(Arc<Pipe>);

impl SendHalf for Out {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.push(bytes)
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[derive(Debug)]
struct Back {
    pipe: Arc<Pipe>,
    rest: Vec<u8>,
    read: usize,
}

impl ReceiveHalf for Back {
    fn receive(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.read == self.rest.len() {
            self.rest = self.pipe.pop().ok_or(io::ErrorKind::UnexpectedEof)?;
            self.read = 0;
        }
        let count = to.len().min(self.rest.len() - self.read);
        to[..count].copy_from_slice(&self.rest[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        Ok(self.read < self.rest.len() || self.pipe.wait(timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn pair(line: Line) -> (Link, Link) {
        let (a, b) = UnixStream::pair().unwrap();
        (Link::unix(a).unwrap().emulated(line).unwrap(), Link::unix(b).unwrap())
    }

    fn receive_all(link: &mut Link) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count) = link.receive.receive(&mut buffer) {
            all.extend_from_slice(&buffer[..count]);
        }
        all
    }

    #[test]
    fn line_text_names_its_properties() {
        let line: Line = "rtt:5ms,bw:100mbit,jitter:10us,cut:7".parse().unwrap();
        assert_eq!((line.rtt, line.jitter), (Duration::from_millis(5), Duration::from_micros(10)));
        assert_eq!((line.bandwidth, line.cut_after), (Some(12_500_000), Some(7)));
        for text in ["rtt:5", "bw:0mbit", "cut:x", "speed:1", "rtt:9999s"] {
            assert!(text.parse::<Line>().unwrap_err().to_string().contains("must be"), "{text}");
        }
    }

    /// Messages overlap: their delays are not added up.
    #[test]
    fn delayed_messages_are_under_way_together() {
        let rtt = Duration::from_secs(2); // one after the other, they would take 200 s
        let (mut near, mut far) = pair(Line { rtt, ..Line::default() });
        let begin = Instant::now();
        for number in 0..200 {
            near.send.send(&[number]).unwrap();
        }
        let mut got = Vec::new();
        while got.len() < 200 {
            let mut buffer = [0; 64];
            let count = far.receive.receive(&mut buffer).unwrap();
            got.extend_from_slice(&buffer[..count]);
        }
        let took = begin.elapsed();
        assert!(got.iter().copied().eq(0..200));
        assert!(took >= rtt / 2 && took < rtt * 50, "{took:?}");
        far.send.send(&[1]).unwrap();
        near.receive.receive(&mut [0]).unwrap();
        assert!(begin.elapsed() >= rtt);
    }

    #[test]
    fn bandwidth_bounds_the_bytes_of_a_time() {
        let (mut near, far) = pair(Line { bandwidth: Some(1_000_000), ..Line::default() });
        let begin = Instant::now();
        near.send.send(&vec![0; 30_000]).unwrap();
        drop(near);
        let mut far = far;
        assert_eq!(receive_all(&mut far).len(), 30_000);
        assert!(begin.elapsed() >= Duration::from_millis(29), "{:?}", begin.elapsed());
    }

    #[test]
    fn cut_comes_after_its_bytes() {
        let (mut near, mut far) = pair(Line { cut_after: Some(5), ..Line::default() });
        near.send.send(b"abcdefgh").unwrap();
        assert_eq!(receive_all(&mut far), b"abcde");
        assert!(near.receive.receive(&mut [0; 8]).is_err());
        while near.send.send(b"x").is_ok() {
            thread::yield_now();
        }
    }

    #[test]
    fn wait_ends_with_a_wake_or_with_bytes() {
        let (mut near, mut far) = pair(Line::default());
        near.control.wake();
        assert!(!near.receive.wait(None).unwrap());
        assert!(!near.receive.wait(Some(Duration::from_millis(1))).unwrap());
        far.send.send(b"x").unwrap();
        assert!(near.receive.wait(None).unwrap());
    }
}
