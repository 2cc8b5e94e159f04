//! Events: what threads of the host wait for and the device raises.

use crate::abi;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// As many as the kernel driver gives to a process.
const MAX_EVENTS: u32 = 4096;

#[derive(Debug, Clone, Copy)]
struct State {
    set: bool,
    /// It stays set until it is reset; others last for one wait.
    manual: bool,
    /// Number of times that it was set.
    age: u64,
}

/// All events.
#[derive(Debug)]
pub(crate) struct Events {
    states: Mutex<BTreeMap<u32, State>>,
    changed: Condvar,
    /// A word for each event, where the device writes the event's number before it raises it.
    mailboxes: Box<[AtomicU64]>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            states: Mutex::default(),
            changed: Condvar::new(),
            mailboxes: (0..MAX_EVENTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Events {
    /// A new event; `None` if there are too many.
    pub(crate) fn create(
        &self,
        descriptor: abi::EventDescriptor,
        manual: bool,
        set: bool,
    ) -> Option<Box<abi::Event>> {
        let mut states = self.states.lock();
        let id = (1..MAX_EVENTS).find(|id| !states.contains_key(id))?;
        states.insert(id, State { set, manual, age: 1 });
        let variable = descriptor.variable;
        let (data, bytes) = (variable.user_data, variable.bytes);
        let data = [data as u32, (data >> 32) as u32, bytes as u32, (bytes >> 32) as u32, 0];
        let mailbox = &raw const self.mailboxes[id as usize] as u64;
        let kind = descriptor.kind;
        Some(Box::new(abi::Event { id, kind, data, handle: id.into(), mailbox, hardware_id: id }))
    }

    /// Forgets an event; false if there is none.
    pub(crate) fn destroy(&self, id: u32) -> bool {
        self.states.lock().remove(&id).is_some()
    }

    /// Wakes the threads that wait for an event; false if there is no such event.
    pub(crate) fn set(&self, id: u32) -> bool {
        let mut states = self.states.lock();
        let Some(state) = states.get_mut(&id) else { return false };
        state.set = true;
        state.age += 1;
        self.changed.notify_all();
        true
    }

    /// Resets an event: a thread that waits from now on waits for the next time. False if there is
    /// no such event.
    pub(crate) fn reset(&self, id: u32) -> bool {
        self.states.lock().get_mut(&id).map(|state| state.set = false).is_some()
    }

    /// Waits for one or all of the events; false if `millis` have passed first. `ages` are what the
    /// caller knew last, or 0: an event that was set since then counts, even if another wait has
    /// taken it. All threads that wait when an event is set go on.
    pub(crate) fn wait(&self, ids: &[u32], all: bool, millis: u32, ages: &mut [u64]) -> bool {
        let deadline =
            (millis < u32::MAX - 1).then(|| Instant::now() + Duration::from_millis(millis.into()));
        let mut states = self.states.lock();
        let age_of = |(index, id)| match ages.get(index) {
            Some(&age) if age > 0 => age,
            _ => states.get(id).map_or(0, |state: &State| state.age),
        };
        let known: Vec<u64> = ids.iter().enumerate().map(age_of).collect();
        while !is_over(&states, ids, all, &known) {
            let timed_out = match deadline {
                Some(deadline) => self.changed.wait_until(&mut states, deadline).timed_out(),
                None => {
                    self.changed.wait(&mut states);
                    false
                }
            };
            if timed_out && !is_over(&states, ids, all, &known) {
                return false;
            }
        }
        take(&mut states, ids, ages);
        true
    }

    /// Memory to which the device writes the numbers of events: address and bytes.
    pub(crate) fn mailboxes(&self) -> (u64, u64) {
        (self.mailboxes.as_ptr() as u64, 8 * u64::from(MAX_EVENTS))
    }
}

/// A destroyed event will never come, so it is not waited for.
fn is_over(states: &BTreeMap<u32, State>, ids: &[u32], all: bool, known: &[u64]) -> bool {
    let over = |(id, &known)| states.get(id).is_none_or(|state| state.set || state.age > known);
    let mut each = ids.iter().zip(known).map(over);
    if all { each.all(|over| over) } else { each.any(|over| over) }
}

/// Resets what lasts for one wait and tells the ages.
fn take(states: &mut BTreeMap<u32, State>, ids: &[u32], ages: &mut [u64]) {
    for (index, id) in ids.iter().enumerate() {
        let Some(state) = states.get_mut(id) else { continue };
        state.set &= state.manual;
        if let Some(age) = ages.get_mut(index) {
            *age = state.age;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(events: &Events, manual: bool, set: bool) -> u32 {
        let variable = abi::SyncVariable { user_data: 7, bytes: 8 };
        let descriptor = abi::EventDescriptor { kind: 0, node: 1, variable };
        events.create(descriptor, manual, set).expect("there are few").id
    }

    #[test]
    fn an_event_lasts_for_one_wait_unless_it_is_manual() {
        let events = Events::default();
        let (once, manual) = (event(&events, false, true), event(&events, true, false));
        assert!(events.wait(&[once], true, 0, &mut []));
        assert!(!events.wait(&[once], true, 0, &mut []));
        assert!(events.set(manual));
        assert!(events.wait(&[manual], true, 0, &mut []));
        assert!(events.wait(&[once, manual], false, 0, &mut []));
        assert!(!events.wait(&[once, manual], true, 1, &mut []));
        assert!(events.reset(manual));
        assert!(!events.wait(&[manual], true, 0, &mut []));
    }

    #[test]
    fn an_event_that_another_wait_took_is_known_by_its_age() {
        let events = Events::default();
        let id = event(&events, false, false);
        let mut age = [1];
        events.set(id);
        assert!(events.wait(&[id], true, 0, &mut []));
        assert!(events.wait(&[id], true, 0, &mut age));
        assert_eq!(age, [2]);
        assert!(!events.wait(&[id], true, 0, &mut age));
    }

    #[test]
    fn all_waiting_threads_go_on_when_an_event_is_set_once() {
        // On a busy machine one may not wait yet when it is set.
        assert!((0..20).any(|_| all_go_on()), "not all of three in 20 tries");
    }

    fn all_go_on() -> bool {
        let events = Events::default();
        let id = event(&events, false, false);
        let gone_on = std::thread::scope(|scope| {
            let wait = || events.wait(&[id], true, 2000, &mut []);
            let waiters = [0; 3].map(|_| scope.spawn(wait));
            // sleep: all wait; where one does not yet, it is tried again
            std::thread::sleep(Duration::from_millis(100));
            events.set(id);
            waiters.map(|waiter| waiter.join().expect("no panic"))
        });
        assert!(!events.wait(&[id], true, 0, &mut []));
        gone_on == [true; 3]
    }

    #[test]
    fn destroying_an_event_makes_room_for_another() {
        let events = Events::default();
        let ids: Vec<u32> = (1..MAX_EVENTS).map(|_| event(&events, false, false)).collect();
        let descriptor = abi::EventDescriptor {
            kind: 0,
            node: 1,
            variable: abi::SyncVariable { user_data: 0, bytes: 0 },
        };
        assert!(events.create(descriptor, false, false).is_none());
        assert!(events.destroy(ids[5]));
        assert!(!events.destroy(ids[5]));
        assert_eq!(event(&events, false, false), ids[5]);
    }
}
