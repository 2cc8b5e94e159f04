//! Memory for real-time programs: best-effort guests are suspended until enough memory is free, and
//! resumed when theirs fits again.
//!
//! One thread serves requests in their order, and looks after returns. A request waits for the
//! copies, so a program that asks waits in its allocation.

use super::gpu_memory::GpuMemory;
use super::plan::{Candidate, choose};
use super::reservations::Reservations;
use super::returns::Returns;
use super::suspensions::Suspensions;
use crate::config::guests::MemorySettings;
use crate::tenants::user_slots::{UserSlot, UserSlots};
use parking_lot::Mutex;
use reef_guest::join::{MemoryRequest, Uuid};
use reef_guest::page::Class;
use reef_guest::registry::{Caller, GuestView, MemoryReply};
use reef_guest::slots::{Full, SlotShares};
use reef_suspend::helper::Op;
use reef_suspend::{MARGIN, Process};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel,
};
use std::time::{Duration, Instant};

/// Interval between readings of free memory while processes are suspended.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Longest time for the work of a guest to end.
const TIMEOUT_MS: u64 = 10_000;
/// Time for which a guest that can't be suspended isn't tried again.
const REFUSED_TIME: Duration = Duration::from_secs(60);
/// Bytes beyond a refused allocation: the driver takes more than a program asks for.
const SPARE: u64 = 64 << 20;
/// Maximum number of requests that wait, and of those of one user.
const MAX_WAITING: usize = 64;
const MAX_WAITING_OF_USER: usize = 32;

/// Numbers of requests by their end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcomes {
    pub(crate) granted: u64,
    pub(crate) refused: u64,
}

/// The end that takes requests. Its thread ends with it.
#[derive(Clone, Debug)]
pub(crate) struct MemoryPolicy {
    requests: SyncSender<Request>,
    /// Slots of requests by user, so that one user's keep no other's out.
    slots: UserSlots,
    outcomes: Arc<Mutex<Outcomes>>,
}

#[derive(Debug)]
struct Request {
    process: Process,
    asked: MemoryRequest,
    reply: Reply,
    _slot: UserSlot,
}

/// Place for the answer.
#[derive(Debug)]
enum Reply {
    Guest(MemoryReply),
    /// A model of the daemon itself is being loaded.
    Load(Sender<Result<(), String>>),
}

impl Reply {
    fn is_over(&self) -> bool {
        match self {
            Self::Guest(reply) => reply.is_over(),
            Self::Load(_) => false,
        }
    }

    fn send(self, made: Result<(), String>) {
        match (self, made) {
            (Self::Guest(reply), Ok(())) => reply.grant(),
            (Self::Guest(reply), Err(why)) => reply.refuse(why),
            (Self::Load(reply), made) => drop(reply.send(made)), // it waits
        }
    }
}

/// Opens the source of figures, when it is first needed.
type Open = dyn Fn() -> Result<Box<dyn GpuMemory>, String> + Send;

impl MemoryPolicy {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system refuses it.
    pub(crate) fn start(
        suspensions: Arc<Suspensions>,
        settings: impl Fn() -> MemorySettings + Send + 'static,
        open: Box<Open>,
    ) -> io::Result<Self> {
        let (requests, waiting) = sync_channel(MAX_WAITING);
        let outcomes = Arc::<Mutex<Outcomes>>::default();
        let worker = Worker {
            suspensions,
            settings: Box::new(settings),
            open,
            memory: None,
            reservations: Reservations::default(),
            returns: Returns::default(),
            refused: Vec::new(),
            outcomes: outcomes.clone(),
        };
        std::thread::Builder::new()
            .name("reef-memory".into())
            .spawn(move || worker.run(&waiting))?;
        let parts = SlotShares::with_owner(MAX_WAITING, MAX_WAITING_OF_USER);
        Ok(Self { requests, slots: UserSlots::new(parts), outcomes })
    }

    /// Takes a request. Doesn't block.
    pub(crate) fn ask(&self, caller: &Caller, asked: MemoryRequest, reply: MemoryReply) {
        let process = Process::of(caller.pid);
        let process = process.map_err(|error| format!("process {}: {error}", caller.pid));
        match process.and_then(|process| Ok((process, self.enter(caller.uid)?))) {
            Ok((process, _slot)) => {
                self.send(Request { process, asked, reply: Reply::Guest(reply), _slot });
            }
            Err(why) => reply.refuse(why),
        }
    }

    /// Takes a slot for a request of this user.
    fn enter(&self, uid: u32) -> Result<UserSlot, String> {
        let user = format!("user {uid}");
        let told = |full: Full| full.text("requests for memory", &user);
        self.slots.enter(uid).map_err(told)
    }

    fn send(&self, request: Request) {
        if let Err(TrySendError::Full(it) | TrySendError::Disconnected(it)) =
            self.requests.try_send(request)
        {
            it.reply.send(Err(format!("{MAX_WAITING} requests for memory wait already")));
        }
    }

    /// Frees memory for a real-time model that the daemon is about to load. Blocks until the copies
    /// are done.
    ///
    /// # Errors
    ///
    /// Why there is no room, in words.
    pub(crate) fn make_room(&self, device: Uuid, bytes: u64) -> Result<(), String> {
        let process = Process::of(std::process::id()).map_err(|error| error.to_string())?;
        let (reply, answer) = channel();
        let asked = MemoryRequest { device, bytes, is_reserved: false };
        let _slot = self.enter(rustix::process::getuid().as_raw())?;
        self.send(Request { process, asked, reply: Reply::Load(reply), _slot });
        answer.recv().unwrap_or_else(|_| Err("the thread for memory has ended".into()))
    }

    /// Numbers of requests since the start.
    pub(crate) fn outcomes(&self) -> Outcomes {
        *self.outcomes.lock()
    }
}

struct Worker {
    suspensions: Arc<Suspensions>,
    settings: Box<dyn Fn() -> MemorySettings + Send>,
    open: Box<Open>,
    memory: Option<Box<dyn GpuMemory>>,
    reservations: Reservations,
    returns: Returns,
    /// Processes that could not be suspended, with the time of the try.
    refused: Vec<(Process, Instant)>,
    outcomes: Arc<Mutex<Outcomes>>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Worker").field("returns", &self.returns).finish_non_exhaustive()
    }
}

impl Worker {
    fn run(mut self, waiting: &Receiver<Request>) {
        self.adopt();
        loop {
            let next = if self.returns.is_empty() {
                waiting.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                waiting.recv_timeout(POLL_INTERVAL)
            };
            match next {
                Ok(request) => self.serve(request),
                Err(RecvTimeoutError::Timeout) => self.bring_back(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes over those that the policy of an earlier daemon has suspended, oldest first.
    fn adopt(&mut self) {
        let mut all = self.suspensions.all();
        all.retain(|one| one.for_memory);
        all.sort_by_key(|one| one.since);
        all.iter().for_each(|one| self.returns.note_away(std::slice::from_ref(one)));
    }

    fn serve(&mut self, request: Request) {
        if let Reply::Load(reply) = &request.reply
            && !(self.settings)().is_on
        {
            let _ = reply.send(Ok(())); // it waits
            return;
        }
        let made = self.make_room(&request);
        let Request { process, asked: MemoryRequest { bytes, .. }, reply, _slot } = request;
        let (pid, mib) = (process.pid, bytes >> 20);
        match &made {
            Ok(()) => {
                self.outcomes.lock().granted += 1;
                tracing::info!(pid, mib, "a real-time program has its memory");
            }
            Err(why) => {
                self.outcomes.lock().refused += 1;
                tracing::warn!(pid, mib, why, "a real-time program has no memory");
            }
        }
        reply.send(made);
    }

    /// Suspends guests until there is room, if all that may leave are enough.
    fn make_room(&mut self, request: &Request) -> Result<(), String> {
        if !(self.settings)().is_on {
            return Err("it suspends no programs for memory: guests.suspend is false".into());
        }
        let MemoryRequest { device, bytes, is_reserved } = request.asked;
        let wanted = if is_reserved { bytes } else { bytes.saturating_add(SPARE) };
        loop {
            if request.reply.is_over() {
                return Err("the program has gone".into());
            }
            let have = self.available(&device, request.process.pid)?;
            if have >= wanted {
                if is_reserved {
                    self.reservations.set(request.process, device, bytes);
                }
                return Ok(());
            }
            let candidates = self.candidates(&device);
            let Some(at) = choose(&candidates, wanted - have) else {
                let others: u64 = candidates.iter().map(|one| one.bytes).sum();
                return Err(format!(
                    "{} MiB must be free, {} are, and best-effort programs that can leave have {}",
                    wanted >> 20,
                    have >> 20,
                    others >> 20
                ));
            };
            self.suspend(&candidates[at]);
        }
    }

    /// Suspends processes. Those that can't be are not tried again for a while.
    fn suspend(&mut self, one: &Candidate) {
        let op = Op::Suspend { timeout_ms: TIMEOUT_MS, for_memory: true };
        match self.suspensions.suspend_processes(one.pids.clone(), op) {
            Ok(all) => self.returns.note_away(&all),
            Err(why) => {
                tracing::warn!(pids = ?one.pids, %why, "not suspended for a real-time program");
                let processes = one.pids.iter().filter_map(|pid| Process::of(*pid).ok());
                self.refused.extend(processes.map(|process| (process, Instant::now())));
            }
        }
    }

    /// Free bytes that are not reserved for others than `asker`.
    fn available(&mut self, device: &Uuid, asker: u32) -> Result<u64, String> {
        let memory = match &mut self.memory {
            Some(memory) => memory,
            none => none.insert((self.open)()?),
        };
        let free = memory.free(device).ok_or("the free memory of the device is not known")?;
        let reserved = self.reservations.unallocated(&**memory, device, asker);
        Ok(free.saturating_sub(reserved))
    }

    /// Best-effort guests of a device, those of a job together.
    fn candidates(&mut self, device: &Uuid) -> Vec<Candidate> {
        self.refused.retain(|(process, at)| at.elapsed() < REFUSED_TIME && process.is_alive());
        let away = self.suspensions.all();
        let is_out = |pid: u32| {
            away.iter().any(|one| one.process.pid == pid)
                || self.refused.iter().any(|(process, _)| process.pid == pid)
        };
        let memory = self.memory.as_ref();
        let used = memory.and_then(|memory| memory.processes(device)).unwrap_or_default();
        let mut groups = BTreeMap::<(u32, String), Vec<GuestView>>::new();
        for guest in self.suspensions.guests() {
            let job =
                if guest.job.is_empty() { guest.who.pid.to_string() } else { guest.job.clone() };
            groups.entry((guest.uid, job)).or_default().push(guest);
        }
        let may_leave = |group: &&Vec<GuestView>| {
            group.iter().any(|guest| guest.device == *device)
                && group
                    .iter()
                    .all(|guest| guest.who.class == Class::BestEffort && !is_out(guest.who.pid))
        };
        let candidate = |group: &Vec<GuestView>| {
            let mut pids: Vec<u32> = group.iter().map(|guest| guest.who.pid).collect();
            pids.sort_unstable();
            pids.dedup();
            let own = used.iter().filter(|(pid, _)| pids.contains(pid));
            Candidate {
                weight: group.iter().map(|guest| guest.part).max().unwrap_or(0),
                bytes: own.map(|(_, bytes)| *bytes).sum(),
                returned: self.returns.last_return(&pids),
                pids,
            }
        };
        groups.values().filter(may_leave).map(candidate).filter(|one| one.bytes > 0).collect()
    }

    /// Brings those back for which there is room.
    fn bring_back(&mut self) {
        self.returns.keep(&self.suspensions.all());
        let free = |worker: &mut Self, device: &Uuid| worker.available(device, 0).unwrap_or(0);
        let mut known = BTreeMap::<Uuid, u64>::new();
        for device in self.returns.devices() {
            known.insert(device, free(self, &device));
        }
        let has_room = |held: &[(Uuid, u64)]| {
            held.iter().all(|(device, bytes)| {
                known.get(device).is_some_and(|free| *free >= bytes.saturating_add(MARGIN))
            })
        };
        let interval = (self.settings)().interval;
        let Some(pids) = self.returns.next(interval, Instant::now(), has_room) else { return };
        let back = self.suspensions.resume_processes(pids.clone());
        if let Err(why) = &back {
            tracing::warn!(?pids, %why, "not brought back");
        }
        self.returns.note_return(&pids, Instant::now(), back.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Weak;

    fn policy(is_on: bool) -> MemoryPolicy {
        let suspensions = Suspensions::new(Weak::new(), "/nowhere".into(), "/nowhere".into());
        let settings = move || MemorySettings { is_on, interval: Duration::ZERO };
        let open = Box::new(|| Err("no library".to_owned()));
        MemoryPolicy::start(Arc::new(suspensions), settings, open).unwrap()
    }

    #[test]
    fn requests_of_a_user_leave_places_to_others() {
        let (policy, own) = (policy(false), rustix::process::getuid().as_raw());
        let mut held = Vec::new();
        let mut fill = |uid: u32| {
            let before = held.len();
            held.extend((0..100).map_while(|_| policy.enter(uid).ok()));
            held.len() - before
        };
        assert_eq!([fill(own + 1), fill(own + 2), fill(own)], [32, 24, 8]);
        let said = policy.enter(own + 1).unwrap_err();
        let want = format!("requests for memory of user {} must be at most 32", own + 1);
        assert!(said.starts_with(&want), "{said}");
        drop(held);
        policy.enter(own + 1).unwrap();
    }

    #[test]
    fn load_asks_for_no_memory_while_the_policy_is_off() {
        let (off, on) = (policy(false), policy(true));
        assert_eq!((off.make_room([1; 16], 1), off.outcomes().refused), (Ok(()), 0));
        assert_eq!(on.make_room([1; 16], 1), Err("no library".into()));
        assert_eq!(on.outcomes().refused, 1);
    }
}
