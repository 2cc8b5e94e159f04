//! The thread that listens.

use super::connection::{Caller, EndWatch};
use super::gates::Gates;
use super::guests::Guests;
use super::listener::{Listener, PendingConnection};
use super::rules::Rules;
use super::view::{GuestView, History};
use crate::join::guest_info::GuestInfo;
use crate::join::wire::{JoinRequest, Uuid};
use crate::join::wire::{Message, receive, send};
use crate::page::layout::Class;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a connection may stay silent before it has joined.
const JOIN_TIMEOUT: Duration = Duration::from_secs(2);
/// How many connections may be joining at a time.
const MAX_JOINING: usize = 64;
/// What is said to whom there is no descriptor for.
const NO_ROOM: &str = "it has no file descriptor left: raise its limit of open files";

/// Which class a caller gets: the one it wishes for, a lesser one, or none, with the reason.
pub type Policy = dyn Fn(&Caller, &JoinRequest) -> Result<Class, String> + Send;

/// A socket at which guests register, and the thread that serves it. Dropping it ends both.
pub struct Registry {
    guests: Arc<Mutex<Guests>>,
    path: PathBuf,
    stop: io::PipeWriter,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Registry").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Registry {
    /// Listens at `path`, where no file may be.
    ///
    /// # Errors
    ///
    /// The socket can't be made there.
    pub fn open(path: &Path, policy: Box<Policy>) -> io::Result<Self> {
        Self::open_with(path, Rules::default(), policy)
    }

    /// As [`open`](Self::open), by rules of one's own.
    ///
    /// # Errors
    ///
    /// The socket can't be made there.
    pub fn open_with(path: &Path, rules: Rules, policy: Box<Policy>) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, 128)?;
        let (stopped, stop) = io::pipe()?;
        let guests = Arc::new(Mutex::new(Guests::new(rules)));
        let listener = Listener::new(socket)?;
        let server = Server { listener, stopped, policy, joining: vec![], guests: guests.clone() };
        let thread = std::thread::Builder::new().name("reef-guests".into());
        let thread = Some(thread.spawn(move || server.serve())?);
        Ok(Self { guests, path: path.to_owned(), stop, thread })
    }

    /// The guests at this moment.
    pub fn guests(&self) -> Vec<GuestView> {
        lock(&self.guests).views()
    }

    /// The guests at this moment, with the spans in which they were held, or held others.
    pub fn histories(&self) -> Vec<History> {
        lock(&self.guests).histories()
    }

    /// EndWatch a guest's connection: what it held is released, and it has no class until it joins
    /// again, which the policy may refuse.
    pub fn revoke(&self, guest: u32) {
        lock(&self.guests).revoke(guest);
    }

    /// Holds or releases the best-effort guests of a device in the daemon's own name.
    pub fn hold(&self, device: Uuid, is_held: bool) {
        self.gates(device).hold(is_held);
    }

    /// The gates of a device's best-effort guests, for whoever holds them often: that takes no lock
    /// of the registry.
    pub fn gates(&self, device: Uuid) -> Arc<Gates> {
        lock(&self.guests).gates(device)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = io::Write::write(&mut self.stop, b"."); // the thread is there, or ended already
        let _ = self.thread.take().map(JoinHandle::join);
        let _ = std::fs::remove_file(&self.path);
    }
}

fn lock(guests: &Mutex<Guests>) -> MutexGuard<'_, Guests> {
    guests.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

struct Server {
    listener: Listener,
    stopped: io::PipeReader,
    policy: Box<Policy>,
    /// Connections that have said nothing yet.
    joining: Vec<PendingConnection>,
    guests: Arc<Mutex<Guests>>,
}

impl Server {
    fn serve(mut self) {
        while let Some(ended) = self.wait() {
            ended.into_iter().for_each(|guest| lock(&self.guests).leave(guest));
            self.accept();
            self.greet();
        }
    }

    /// Sleeps until something happens: which guests have left. `None`: stop.
    fn wait(&self) -> Option<Vec<u32>> {
        // Who was taken out meanwhile isn't there when this wakes up.
        let guests: Vec<(u32, Arc<EndWatch>)> =
            lock(&self.guests).iter().map(|guest| (guest.who.guest, guest.ends.clone())).collect();
        let fixed = [self.stopped.as_fd()].into_iter().chain(self.listener.as_fd());
        let joining = self.joining.iter().map(|one| one.socket.as_fd());
        let ends = guests.iter().flat_map(|(_, ends)| ends.fds());
        let all = fixed.chain(joining).chain(ends);
        let mut fds: Vec<_> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let _ = poll(&mut fds, Some(&self.listener.poll_timeout())); // interrupted: nothing is ready
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        // A guest says nothing after it has joined: whatever comes is the end.
        let ends = ready[ready.len() - 2 * guests.len()..].chunks(2);
        let ended = ends.zip(guests).filter(|(ends, _)| ends.contains(&true));
        (!ready[0]).then(|| ended.map(|(_, (guest, _))| guest).collect())
    }

    fn accept(&mut self) {
        while let Some(one) = self.listener.accept() {
            if self.joining.len() < MAX_JOINING {
                self.joining.push(one);
            }
        }
    }

    /// Answers those who have said what they request.
    fn greet(&mut self) {
        for one in std::mem::take(&mut self.joining) {
            match receive(&one.socket) {
                Ok(None) if one.since.elapsed() < JOIN_TIMEOUT => self.joining.push(one),
                Ok(None) => {}
                _ if one.is_too_much => refuse(&one.socket, NO_ROOM.into()),
                Ok(Some((Message::Join(request, info), page))) => {
                    self.join(one.socket, request, info, page);
                }
                Ok(Some((Message::Ask(request, info), program))) => {
                    self.answer(&one.socket, request, info, program);
                }
                Ok(Some(_)) => {}
                Err(error) => refuse(&one.socket, error.to_string()),
            }
        }
    }

    /// Says what a program would get. That it is another one's executable changes nothing: nothing
    /// is given.
    fn answer(
        &self,
        socket: &OwnedFd,
        request: JoinRequest,
        info: GuestInfo,
        program: Option<OwnedFd>,
    ) {
        let caller = Caller::of(socket, info).map_err(|error| error.to_string());
        let granted = caller.and_then(|mut caller| {
            let program = program.ok_or("a question without a program")?;
            caller.exe = std::fs::read_link(format!("/proc/self/fd/{}", program.as_raw_fd())).ok();
            (self.policy)(&caller, &request)
        });
        let answer = granted.map_or_else(Message::Refused, Message::Granted);
        let _ = send(socket, &answer, None); // who doesn't listen needn't know
    }

    fn join(
        &self,
        socket: OwnedFd,
        mut request: JoinRequest,
        info: GuestInfo,
        page: Option<OwnedFd>,
    ) {
        let caller = Caller::of(&socket, info).map_err(|error| error.to_string());
        let granted = caller.and_then(|caller| {
            request.class = (self.policy)(&caller, &request)?;
            Ok(caller)
        });
        match granted {
            Err(why) => refuse(&socket, why),
            Ok(caller) => {
                let joined = lock(&self.guests).join(socket, &caller, &request, page);
                joined.unwrap_or_else(|(socket, why)| refuse(&socket, why));
            }
        }
    }
}

/// Says why not; the connection ends with its socket.
fn refuse(socket: &OwnedFd, why: String) {
    let _ = send(socket, &Message::Refused(why), None); // who doesn't listen needn't know
}
