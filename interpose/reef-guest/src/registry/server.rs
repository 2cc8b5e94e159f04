//! Server thread of the registry.

use super::connection::{Caller, EndWatch, program_at};
use super::gates::Gates;
use super::guests::Guests;
use super::listener::{Listener, PendingConnection};
use super::rules::Rules;
use super::view::{GuestView, History};
use crate::colocation::allowance::Caps;
use crate::join::guest_info::GuestInfo;
use crate::join::wire::{JoinRequest, MemoryRequest, Uuid};
use crate::join::wire::{Message, receive, send};
use crate::page::layout::Class;
use crate::slots::{Activity, SlotShares, Slots, Standing, Timeouts};
use crate::unix_peer::Peer;
use reef_files::SocketFile;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time within which a connection must send its first message.
const JOIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Time after which a connection without a message gives its slot to one that needs it.
const SILENCE: Duration = Duration::from_millis(100);
/// Maximum connections that are joining at a time, and of one user.
const MAX_JOINING: usize = 64;
const MAX_JOINING_OF_USER: usize = 24;
/// Reason for which a connection without a descriptor is refused.
const NO_ROOM: &str = "it has no file descriptor left: raise its limit of open files";

/// Policy that grants a caller a class: the requested one, a lesser one, or none, with the reason.
pub type Policy = dyn Fn(&Caller, &JoinRequest) -> Result<Class, String> + Send;

/// Handler of requests for memory. It must not block: it answers later, from another thread.
pub type MemoryHandler = dyn Fn(&Caller, MemoryRequest, MemoryReply) + Send;

/// Upper bounds of a caller's shares next to busy real-time programs.
pub type CapsOf = dyn Fn(&Caller) -> Caps + Send;

/// Answer to a request for memory. Dropping it without an answer closes the connection, which the
/// caller takes for a refusal.
#[derive(Debug)]
pub struct MemoryReply(OwnedFd);

impl MemoryReply {
    /// Tells the caller that there is room.
    pub fn grant(self) {
        let _ = send(&self.0, &Message::Granted(Class::RealTime), None); // it may have gone
    }

    /// Tells the caller that there is none, and why.
    pub fn refuse(self, why: String) {
        refuse(&self.0, why);
    }

    /// Returns whether the caller has gone, so that the memory is not needed.
    pub fn is_over(&self) -> bool {
        !matches!(receive(&self.0), Ok(None))
    }
}

/// Socket at which guests register, and the thread that serves it. Dropping it ends both.
pub struct Registry {
    guests: Arc<Mutex<Guests>>,
    name: SocketFile,
    stop: io::PipeWriter,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Registry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Registry {
    /// Listens at `path`, which must not exist.
    ///
    /// # Errors
    ///
    /// The socket can't be created there.
    pub fn open(path: &Path, policy: Box<Policy>) -> io::Result<Self> {
        Self::open_with(path, Rules::default(), policy)
    }

    /// Listens as [`open`](Self::open) does, with other rules than the default ones.
    ///
    /// # Errors
    ///
    /// The socket can't be created there.
    pub fn open_with(path: &Path, rules: Rules, policy: Box<Policy>) -> io::Result<Self> {
        let memory = Box::new(|_: &Caller, _, reply: MemoryReply| {
            reply.refuse("it suspends no programs for memory".into());
        });
        Self::open_with_caps(path, rules, policy, Box::new(|_| Caps::default()), memory)
    }

    /// Listens as [`open_with`](Self::open_with) does, and bounds by `caps` what callers wish to
    /// pass while real-time programs are busy. Hands requests for memory to `memory`: those of
    /// programs that the policy would make real-time.
    ///
    /// # Errors
    ///
    /// The socket can't be created there.
    pub fn open_with_caps(
        path: &Path,
        rules: Rules,
        policy: Box<Policy>,
        caps: Box<CapsOf>,
        memory: Box<MemoryHandler>,
    ) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        let name = SocketFile::of(path)?;
        listen(&socket, 128)?;
        let (stopped, stop) = io::pipe()?;
        let guests = Arc::new(Mutex::new(Guests::new(rules)));
        let listener = Listener::new(socket)?;
        let joining = Slots::new(SlotShares::with_owner(MAX_JOINING, MAX_JOINING_OF_USER));
        let of = guests.clone();
        let server = Server { listener, stopped, policy, caps, memory, joining, guests: of };
        let thread = std::thread::Builder::new().name("reef-guests".into());
        let thread = Some(thread.spawn(move || server.serve())?);
        Ok(Self { guests, name, stop, thread })
    }

    /// Returns the current guests.
    pub fn guests(&self) -> Vec<GuestView> {
        lock(&self.guests).views()
    }

    /// Returns the current guests, with the spans in which they were held, or held others.
    pub fn histories(&self) -> Vec<History> {
        lock(&self.guests).histories()
    }

    /// Ends a guest's connection. Its peers are released, and it has no class until it joins again,
    /// which the policy may refuse.
    pub fn revoke(&self, guest: u32) {
        lock(&self.guests).revoke(guest);
    }

    /// Opens the gates of these guests and keeps them open, whatever process holds their device, or
    /// ends that: a process that is being suspended must be able to end its work.
    pub fn exempt(&self, guests: &[u32], is_exempt: bool) {
        lock(&self.guests).exempt(guests, is_exempt);
    }

    /// Holds or releases the best-effort guests of a device in the daemon's own name.
    pub fn hold(&self, device: Uuid, is_held: bool) {
        self.gates(device).hold(is_held);
    }

    /// Returns the gates of a device's best-effort guests. Holding by them takes no lock of the
    /// registry.
    pub fn gates(&self, device: Uuid) -> Arc<Gates> {
        lock(&self.guests).gates(device)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = io::Write::write(&mut self.stop, b"."); // the thread is there, or ended already
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn lock(guests: &Mutex<Guests>) -> MutexGuard<'_, Guests> {
    guests.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

struct Server {
    listener: Listener,
    stopped: io::PipeReader,
    policy: Box<Policy>,
    caps: Box<CapsOf>,
    memory: Box<MemoryHandler>,
    /// Connections without a message so far.
    joining: Slots<u32, PendingConnection>,
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

    /// Sleeps until an event. Returns the guests that have left. `None`: the server must stop.
    fn wait(&self) -> Option<Vec<u32>> {
        // A guest that is removed in the meantime is ignored by `leave`.
        let guests: Vec<(u32, Arc<EndWatch>)> =
            lock(&self.guests).iter().map(|guest| (guest.who.guest, guest.ends.clone())).collect();
        let fixed = [self.stopped.as_fd()].into_iter().chain(self.listener.as_fd());
        let joining = self.joining.iter().map(|(_, one)| one.socket.as_fd());
        let ends = guests.iter().flat_map(|(_, ends)| ends.fds());
        let all = fixed.chain(joining).chain(ends);
        let mut fds: Vec<_> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let _ = poll(&mut fds, Some(&self.listener.poll_timeout())); // interrupted: none is ready
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        // A guest sends nothing after it has joined: any event is the end.
        let ends = ready[ready.len() - 2 * guests.len()..].chunks(2);
        let ended = ends.zip(guests).filter(|(ends, _)| ends.contains(&true));
        (!ready[0]).then(|| ended.map(|(_, (guest, _))| guest).collect())
    }

    /// Accepts some connections: those that join meanwhile don't wait until all have come.
    fn accept(&mut self) {
        for _ in 0..MAX_JOINING {
            let Some(one) = self.listener.accept() else { return };
            let Ok(Peer { uid, .. }) = Peer::of(&one.socket) else { continue };
            let silent = Timeouts {
                activity: Activity::New,
                yields: Some(SILENCE),
                ends: Some(JOIN_TIMEOUT),
            };
            let entered =
                self.joining.enter(uid, Standing::of_user(uid), silent, one, Instant::now());
            if let Err((full, one)) = entered {
                refuse(&one.socket, full.text("joining programs", &format_args!("user {uid}")));
            }
        }
    }

    /// Answers connections that have sent a message.
    fn greet(&mut self) {
        self.joining.sweep(Instant::now());
        let ready = self.joining.iter().filter_map(|(number, one)| {
            receive(&one.socket).transpose().map(|received| (number, received))
        });
        for (number, received) in ready.collect::<Vec<_>>() {
            let Some(one) = self.joining.remove(number) else { continue };
            match received {
                _ if one.is_too_much => refuse(&one.socket, NO_ROOM.into()),
                Ok((Message::Join(request, info), page)) => {
                    self.join(one.socket, request, info, page);
                }
                Ok((Message::Ask(request, info), program)) => {
                    self.answer(&one.socket, request, info, program);
                }
                Ok((Message::Memory(request, info), _)) => {
                    self.pass_on(one.socket, request, info);
                }
                Ok(_) => {}
                Err(error) => refuse(&one.socket, error.to_string()),
            }
        }
    }

    /// Answers which class a program would get. The file may be any program's, because nothing is
    /// granted.
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
            let link = format!("/proc/self/fd/{}", program.as_raw_fd());
            caller.exe = program_at(Path::new(&link));
            (self.policy)(&caller, &request)
        });
        let answer = granted.map_or_else(Message::Refused, Message::Granted);
        let _ = send(socket, &answer, None); // the other side may have closed its end
    }

    /// Passes on a request for memory, if the caller may be real-time.
    fn pass_on(&self, socket: OwnedFd, request: MemoryRequest, info: GuestInfo) {
        let caller = Caller::of(&socket, info).map_err(|error| error.to_string());
        let wish = JoinRequest { class: Class::RealTime, device: request.device };
        let granted = caller.and_then(|caller| match (self.policy)(&caller, &wish)? {
            Class::RealTime => Ok(caller),
            Class::BestEffort => Err("memory is freed for real-time programs alone".into()),
        });
        match granted {
            Ok(caller) => (self.memory)(&caller, request, MemoryReply(socket)),
            Err(why) => refuse(&socket, why),
        }
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
                let joined = {
                    let caps = (self.caps)(&caller);
                    lock(&self.guests).join(socket, &caller, &request, &caps, page)
                };
                joined.unwrap_or_else(|(socket, why)| refuse(&socket, why));
            }
        }
    }
}

/// Sends a refusal. The connection ends with its socket.
fn refuse(socket: &OwnedFd, why: String) {
    let _ = send(socket, &Message::Refused(why), None); // the other side may have closed its end
}
