//! Slots: one rule for the connections of all sockets of a daemon.
//!
//! Each connection has a slot. The slots are divided:
//!
//! | share | bound |
//! |---|---|
//! | one holder, such as a user or a token | [`SlotShares::each`] |
//! | all holders that have shown nothing | [`SlotShares::anonymous`] |
//! | all holders but the owner | [`SlotShares::others`]: the rest is for the owner alone |
//! | all | [`SlotShares::max`] |
//!
//! A slot is kept by progress. [`Timeouts`] says for how long a connection may make none: after
//! `yields` its slot goes to a connection that needs it, and after `ends` it goes in any case.
//! A newcomer takes the slot of a connection from the share that is full, in this order:
//!
//! 1. of those that have asked for nothing, then of those that owe data or must read, then of
//!    those that are idle;
//! 2. of those that have shown nothing, then of users and tokens, then of the owner;
//! 3. of the holder with the most slots;
//! 4. the one that has made no progress for the longest time.
//!
//! Idle connections of a holder with fewer slots than the newcomer's holder keep them, unless the
//! newcomer is the owner's. A connection that is active now ([`Slots::asking`]) keeps its slot
//! for five seconds without progress, unless it owes something.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Time without progress for which an active connection keeps its slot once another needs it: the
/// daemon may be late by that. A client that sends without a pause keeps it no longer.
const ACTIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Division of slots among their holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotShares {
    /// All slots.
    pub max: usize,
    /// Maximum of one holder other than the owner.
    pub each: usize,
    /// Maximum of all holders that have shown nothing.
    pub anonymous: usize,
    /// Maximum of all holders other than the owner.
    pub others: usize,
}

impl SlotShares {
    /// Divides `max` slots: one holder has at most `each`, and an eighth is for the owner alone.
    pub fn with_owner(max: usize, each: usize) -> Self {
        let others = (max - max / 8).max(1);
        Self { max, each: each.min(others), anonymous: others, others }
    }

    /// Returns why a holder that has `own` slots, when others than the owner have `others` and all
    /// have `all`, may have no more.
    pub fn full(&self, standing: Standing, used: Used) -> Option<Full> {
        let Self { max, each, anonymous, others } = *self;
        let is_owner = standing == Standing::Owner;
        let bounds = [
            (SlotShare::Anonymous, standing == Standing::Anonymous, used.anonymous, anonymous),
            (SlotShare::Holder, !is_owner, used.own, each),
            (SlotShare::Others, !is_owner, used.others, others),
            (SlotShare::All, true, used.all, max),
        ];
        let full = bounds.into_iter().find(|&(_, applies, used, most)| applies && used >= most);
        full.map(|(share, _, _, most)| Full { share, most })
    }
}

/// Slots in use: of a holder, of all that have shown nothing, of all but the owner, and of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Slots of the holder.
    pub own: usize,
    /// Slots of all that have shown nothing.
    pub anonymous: usize,
    /// Slots of all but the owner.
    pub others: usize,
    /// All slots in use.
    pub all: usize,
}

/// Evidence that the holder of a slot has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Nothing: its address is all that is known.
    Anonymous,
    /// Its user, by the kernel, or a token or a certificate.
    Known,
    /// It is the daemon's user, or root.
    Owner,
}

impl Standing {
    /// Returns the standing of a user that the system states.
    pub fn of_user(uid: u32) -> Self {
        let is_owner = uid == 0 || uid == rustix::process::getuid().as_raw();
        if is_owner { Self::Owner } else { Self::Known }
    }
}

/// Activity of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// It has asked for nothing yet.
    New,
    /// It must send the rest of a request, or read an answer.
    Owing,
    /// It has no open request, or waits for an answer.
    Resting,
}

/// Timeouts of a connection that makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Its activity.
    pub activity: Activity,
    /// After this time its slot goes to a connection that needs it. `None`: never.
    pub yields: Option<Duration>,
    /// After this time its slot goes in any case. `None`: never.
    pub ends: Option<Duration>,
}

impl Timeouts {
    /// Timeouts of a connection for which the daemon works.
    pub const WORKING: Self = Self { activity: Activity::Resting, yields: None, ends: None };
}

/// Share of the slots that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotShare {
    /// Share of one holder.
    Holder,
    /// Share of all that have shown nothing.
    Anonymous,
    /// Share of all but the owner.
    Others,
    /// All.
    All,
}

/// Refusal of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// The share that is full.
    pub share: SlotShare,
    /// Its maximum.
    pub most: usize,
}

impl Full {
    /// Returns the refusal in words; `what` is the plural of what has the slots.
    pub fn text(&self, what: &str, holder: &dyn Display) -> String {
        let most = self.most;
        match self.share {
            SlotShare::Holder => {
                format!("{what} of {holder} must be at most {most}: all are in use")
            }
            SlotShare::Anonymous => {
                format!(
                    "{what} without token or certificate must be at most {most}: all are in use"
                )
            }
            SlotShare::Others => {
                format!("{what} of others than the owner must be at most {most}: all are in use")
            }
            SlotShare::All => format!("open {what} must be at most {most}: all are in use"),
        }
    }
}

/// A slot in use.
struct TakenSlot<H, T> {
    holder: H,
    standing: Standing,
    timeouts: Timeouts,
    /// Time of the last progress.
    since: Instant,
    /// Time at which it was first found active since.
    active: Option<Instant>,
    kept: T,
}

impl<H, T> TakenSlot<H, T> {
    fn is_over(&self, bound: Option<Duration>, now: Instant) -> bool {
        bound.is_some_and(|bound| now.saturating_duration_since(self.since) >= bound)
    }
}

/// Slots by age, each with its holder and a value that is dropped when the slot is lost.
pub struct Slots<H, T> {
    shares: SlotShares,
    /// Returns whether a connection is active now, by its kept value.
    is_active: fn(&T) -> bool,
    next: u64,
    taken: BTreeMap<u64, TakenSlot<H, T>>,
}

impl<H, T> fmt::Debug for Slots<H, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken = self.taken.len();
        f.debug_struct("Slots").field("shares", &self.shares).field("taken", &taken).finish()
    }
}

impl<H: Clone + Eq + Hash, T> Slots<H, T> {
    /// Creates slots without connections.
    pub fn new(shares: SlotShares) -> Self {
        Self::asking(shares, |_| false)
    }

    /// Creates slots that ask whether a connection is active, by its kept value, before its slot
    /// goes to a newcomer. An active connection keeps it for five seconds without progress, unless
    /// it is [`Activity::Owing`].
    pub fn asking(shares: SlotShares, is_active: fn(&T) -> bool) -> Self {
        Self { shares, is_active, next: 0, taken: BTreeMap::new() }
    }

    /// Takes a slot for a connection of `holder`, and returns its number.
    ///
    /// # Errors
    ///
    /// The share that is full, with `kept`.
    pub fn enter(
        &mut self,
        holder: H,
        standing: Standing,
        timeouts: Timeouts,
        kept: T,
        now: Instant,
    ) -> Result<u64, (Full, T)> {
        if let Err(full) = self.make_room(None, &holder, standing, now) {
            return Err((full, kept));
        }
        let number = self.next;
        self.next += 1;
        let slot = TakenSlot { holder, standing, timeouts, since: now, active: None, kept };
        self.taken.insert(number, slot);
        Ok(number)
    }

    /// Gives a slot to another holder, whose share may take the slot of another of its
    /// connections.
    ///
    /// # Errors
    ///
    /// The share that is full.
    pub fn pass_on(
        &mut self,
        number: u64,
        holder: &H,
        standing: Standing,
        now: Instant,
    ) -> Result<(), Full> {
        let is_same = |slot: &TakenSlot<H, T>| slot.holder == *holder && slot.standing == standing;
        if self.taken.get(&number).is_some_and(is_same) {
            return Ok(());
        }
        self.make_room(Some(number), holder, standing, now)?;
        if let Some(slot) = self.taken.get_mut(&number) {
            (slot.holder, slot.standing) = (holder.clone(), standing);
        }
        Ok(())
    }

    /// Notes progress of a connection, and what may follow.
    pub fn set(&mut self, number: u64, timeouts: Timeouts, now: Instant) {
        if let Some(slot) = self.taken.get_mut(&number) {
            (slot.timeouts, slot.since, slot.active) = (timeouts, now, None);
        }
    }

    /// Returns whether a connection still has its slot.
    pub fn has(&self, number: u64) -> bool {
        self.taken.contains_key(&number)
    }

    /// Frees a slot.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        self.taken.remove(&number).map(|slot| slot.kept)
    }

    /// Frees the slots of all connections whose time is over. Returns their number.
    pub fn sweep(&mut self, now: Instant) -> usize {
        let before = self.taken.len();
        self.taken.retain(|_, slot| !slot.is_over(slot.timeouts.ends, now));
        before - self.taken.len()
    }

    /// Returns what is kept for a connection.
    pub fn get(&self, number: u64) -> Option<&T> {
        self.taken.get(&number).map(|slot| &slot.kept)
    }

    /// Returns what is kept for a connection, to change it.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.taken.get_mut(&number).map(|slot| &mut slot.kept)
    }

    /// Returns all connections with their numbers, by age.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.taken.iter().map(|(number, slot)| (*number, &slot.kept))
    }

    /// Returns the number of slots in use.
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    /// Returns whether no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Frees slots until there is one for `holder`, without that of `except`.
    fn make_room(
        &mut self,
        except: Option<u64>,
        holder: &H,
        standing: Standing,
        now: Instant,
    ) -> Result<(), Full> {
        while let Some(full) = self.shares.full(standing, self.used(except, holder)) {
            let yielding = self.yielding(except, full.share, holder, standing, now);
            let victim =
                yielding.into_iter().find(|number| self.yields(*number, now)).ok_or(full)?;
            self.taken.remove(&victim);
        }
        Ok(())
    }

    fn used(&self, except: Option<u64>, holder: &H) -> Used {
        let mut used = Used::default();
        for (_, slot) in self.taken.iter().filter(|(number, _)| Some(**number) != except) {
            used.all += 1;
            used.own += usize::from(slot.holder == *holder);
            used.anonymous += usize::from(slot.standing == Standing::Anonymous);
            used.others += usize::from(slot.standing < Standing::Owner);
        }
        used
    }

    /// Returns the connections of this share whose slots may go to a newcomer, in their order.
    fn yielding(
        &self,
        except: Option<u64>,
        share: SlotShare,
        holder: &H,
        standing: Standing,
        now: Instant,
    ) -> Vec<u64> {
        let mut counts: HashMap<&H, usize> = HashMap::new();
        self.taken.values().for_each(|slot| *counts.entry(&slot.holder).or_default() += 1);
        let own = counts.get(holder).copied().unwrap_or(0);
        let has = |slot: &TakenSlot<H, T>| counts.get(&slot.holder).copied().unwrap_or(0);
        let is_in_share = |slot: &TakenSlot<H, T>| match share {
            SlotShare::Holder => slot.holder == *holder,
            SlotShare::Anonymous => slot.standing == Standing::Anonymous,
            SlotShare::Others => slot.standing < Standing::Owner,
            SlotShare::All => true,
        };
        let may_take = |slot: &TakenSlot<H, T>| {
            let is_greater = slot.holder == *holder || has(slot) > own;
            standing == Standing::Owner || slot.timeouts.activity < Activity::Resting || is_greater
        };
        let yielding = self.taken.iter().filter(|(number, slot)| {
            Some(**number) != except
                && is_in_share(slot)
                && slot.is_over(slot.timeouts.yields, now)
                && may_take(slot)
        });
        let order = |slot: &TakenSlot<H, T>| {
            let most = std::cmp::Reverse(has(slot));
            (slot.timeouts.activity, slot.standing, most, slot.since)
        };
        let mut yielding: Vec<_> = yielding.collect();
        yielding.sort_by_key(|(_, slot)| order(slot));
        yielding.into_iter().map(|(number, _)| *number).collect()
    }

    /// Returns whether a connection whose time is over is not active, or has been for too long.
    fn yields(&mut self, number: u64, now: Instant) -> bool {
        let is_active = self.is_active;
        let Some(slot) = self.taken.get_mut(&number) else { return false };
        if slot.timeouts.activity == Activity::Owing || !is_active(&slot.kept) {
            slot.active = None;
            return true;
        }
        let since = *slot.active.get_or_insert(now);
        now.saturating_duration_since(since) >= ACTIVE_TIMEOUT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::rc::Rc;

    const SHORT: Duration = Duration::from_millis(500);
    const SHARES: SlotShares = SlotShares { max: 8, each: 4, anonymous: 4, others: 7 };

    fn timeouts(activity: Activity) -> Timeouts {
        Timeouts { activity, yields: Some(SHORT), ends: None }
    }

    /// Slots whose connections are watched.
    struct Table {
        slots: Slots<u32, Rc<()>>,
        now: Instant,
    }

    impl Table {
        fn new(shares: SlotShares) -> Self {
            Self { slots: Slots::new(shares), now: Instant::now() }
        }

        fn enter(
            &mut self,
            holder: u32,
            standing: Standing,
            timeouts: Timeouts,
        ) -> Option<(u64, Rc<()>)> {
            let kept = Rc::new(());
            let number = self.slots.enter(holder, standing, timeouts, kept.clone(), self.now);
            number.ok().map(|number| (number, kept))
        }

        fn fill(&mut self, holder: u32, count: usize, activity: Activity) -> Vec<(u64, Rc<()>)> {
            let all = (0..count).map(|_| self.enter(holder, Standing::Known, timeouts(activity)));
            all.map(|one| one.expect("room")).collect()
        }

        fn count(&self, all: &[(u64, Rc<()>)]) -> usize {
            all.iter().filter(|(number, _)| self.slots.has(*number)).count()
        }
    }

    #[test]
    fn holder_at_its_share_loses_its_own_oldest_slot() {
        let mut table = Table::new(SHARES);
        let own = table.fill(1, 4, Activity::Resting);
        let others = table.fill(2, 2, Activity::Resting);
        assert!(
            table.enter(1, Standing::Known, timeouts(Activity::New)).is_none(),
            "all are young"
        );
        table.now += SHORT;
        assert!(table.enter(1, Standing::Known, timeouts(Activity::New)).is_some());
        assert_eq!((table.count(&own), table.count(&others)), (3, 2));
        assert!(!table.slots.has(own[0].0), "the oldest");
        assert_eq!(Rc::strong_count(&own[0].1), 1, "what it kept is dropped");
    }

    #[test]
    fn owner_finds_its_share_next_to_busy_users() {
        let mut table = Table::new(SHARES);
        let mut busy = |holder| table.enter(holder, Standing::Known, Timeouts::WORKING);
        let taken = [1, 2, 3].into_iter().flat_map(|holder| (0..4).map(move |_| holder));
        let taken = taken.filter(|&holder| busy(holder).is_some()).count();
        assert_eq!(taken, 7, "the last one is the owner's");
        assert!(table.enter(9, Standing::Owner, Timeouts::WORKING).is_some());
        assert!(table.enter(9, Standing::Owner, Timeouts::WORKING).is_none(), "nothing yields");
    }

    #[test]
    fn idle_slot_of_a_smaller_holder_is_kept() {
        let mut table = Table::new(SlotShares { others: 8, ..SHARES });
        let small = table.fill(1, 1, Activity::Resting);
        let middle = table.fill(2, 3, Activity::Resting);
        let great = table.fill(3, 4, Activity::Resting);
        table.now += SHORT;
        assert!(table.enter(2, Standing::Known, Timeouts::WORKING).is_some());
        assert_eq!([&small, &middle, &great].map(|all| table.count(all)), [1, 3, 3]);
        table.slots.set(great[1].0, Timeouts::WORKING, table.now);
        assert!(table.enter(4, Standing::Known, Timeouts::WORKING).is_some());
        assert_eq!([&small, &middle, &great].map(|all| table.count(all)), [1, 2, 3]);
    }

    #[test]
    fn connection_that_owes_data_goes_before_an_idle_one() {
        let mut table = Table::new(SlotShares { others: 8, ..SHARES });
        let idle = table.fill(1, 4, Activity::Resting);
        let owing = table.fill(2, 4, Activity::Owing);
        table.now += SHORT;
        let young = table.enter(3, Standing::Anonymous, timeouts(Activity::New)).expect("room");
        assert_eq!((table.count(&idle), table.count(&owing)), (4, 3));
        table.now += SHORT;
        assert!(table.enter(3, Standing::Known, Timeouts::WORKING).is_some());
        assert!(!table.slots.has(young.0), "it has asked for nothing");
    }

    #[test]
    fn active_connection_keeps_its_slot_unless_it_owes() {
        let shares = SlotShares { max: 1, each: 1, anonymous: 1, others: 1 };
        for (activity, keeps) in
            [(Activity::New, true), (Activity::Owing, false), (Activity::Resting, true)]
        {
            let mut slots = Slots::asking(shares, |is_active: &bool| *is_active);
            let now = Instant::now();
            let first = slots.enter(1, Standing::Known, timeouts(activity), true, now).unwrap();
            let mut enter =
                |holder| slots.enter(holder, Standing::Known, Timeouts::WORKING, true, now + SHORT);
            assert_eq!(enter(2).is_err(), keeps, "{activity:?}");
            if keeps {
                *slots.get_mut(first).unwrap() = false;
            }
            assert_eq!(
                slots.enter(3, Standing::Known, Timeouts::WORKING, true, now + SHORT).is_ok(),
                keeps
            );
        }
    }

    /// Its client may send without a pause, so that there are always bytes to read.
    #[test]
    fn active_connection_loses_its_slot_without_progress() {
        let shares = SlotShares { max: 1, each: 1, anonymous: 1, others: 1 };
        let mut slots = Slots::asking(shares, |_: &()| true);
        let resting = timeouts(Activity::Resting);
        let mut now = Instant::now();
        let first = slots.enter(1, Standing::Known, resting, (), now).unwrap();
        let is_kept = |slots: &mut Slots<u32, ()>, now| {
            slots.enter(2, Standing::Known, Timeouts::WORKING, (), now).is_err()
        };
        for _ in 0..2 {
            now += ACTIVE_TIMEOUT;
            assert!(is_kept(&mut slots, now), "it is asked for the first time since");
            now += ACTIVE_TIMEOUT - Duration::from_millis(1);
            assert!(is_kept(&mut slots, now), "the daemon may be late");
            slots.set(first, resting, now); // progress
        }
        now += SHORT;
        assert!(is_kept(&mut slots, now));
        now += ACTIVE_TIMEOUT;
        assert!(!is_kept(&mut slots, now));
        assert!(!slots.has(first));
    }

    #[test]
    fn connection_that_shows_a_token_leaves_the_anonymous_share() {
        let mut table = Table::new(SHARES);
        let mut enter = || table.enter(1, Standing::Anonymous, timeouts(Activity::New));
        let all: Vec<_> = (0..4).map(|_| enter().expect("room")).collect();
        assert!(enter().is_none(), "the share is full");
        let now = table.now;
        table.slots.pass_on(all[0].0, &2, Standing::Known, now).unwrap();
        assert!(table.enter(1, Standing::Anonymous, timeouts(Activity::New)).is_some());
        let full = table.slots.pass_on(all[0].0, &1, Standing::Anonymous, now).unwrap_err();
        assert_eq!(full, Full { share: SlotShare::Anonymous, most: 4 });
        assert_eq!(
            full.text("connections", &"x"),
            "connections without token or certificate must be at most 4: all are in use"
        );
    }

    #[test]
    fn sweep_frees_only_slots_whose_time_is_over() {
        let mut table = Table::new(SHARES);
        let ends = Timeouts { ends: Some(2 * SHORT), ..timeouts(Activity::Owing) };
        let (one, other) =
            (table.enter(1, Standing::Known, ends), table.enter(1, Standing::Known, ends));
        let resting = table.enter(1, Standing::Known, timeouts(Activity::Resting));
        table.now += SHORT;
        table.slots.set(other.as_ref().unwrap().0, ends, table.now);
        table.now += SHORT;
        assert_eq!(table.slots.sweep(table.now), 1);
        assert!(!table.slots.has(one.unwrap().0));
        assert!(table.slots.has(other.unwrap().0) && table.slots.has(resting.unwrap().0));
    }

    proptest! {
        /// Whatever comes, no share is exceeded, and a newcomer of an idle table finds room.
        #[test]
        fn shares_are_never_exceeded(all in proptest::collection::vec((0..4_u32, 0..3_u32, 0..1000_u64), 1..64)) {
            let mut table = Table::new(SHARES);
            for (holder, kind, millis) in all {
                table.now += Duration::from_millis(millis);
                let standing = match holder { 0 => Standing::Anonymous, 3 => Standing::Owner, _ => Standing::Known };
                let activity = [Activity::New, Activity::Owing, Activity::Resting][kind as usize];
                let _ = table.enter(holder, standing, timeouts(activity)); // it may be refused
                let used = table.slots.used(None, &holder);
                prop_assert!(used.all <= 8 && used.others <= 7 && used.anonymous <= 4);
                prop_assert!(holder == 3 || used.own <= 4);
            }
            table.now += SHORT;
            for (holder, standing) in [(0, Standing::Anonymous), (1, Standing::Known), (3, Standing::Owner)] {
                prop_assert!(table.enter(holder, standing, timeouts(Activity::New)).is_some());
                table.now += SHORT;
            }
        }
    }
}
