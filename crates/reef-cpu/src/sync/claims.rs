//! Claims of a launch's blocks: each block is given out to one unit at a time, and again only if it
//! comes back.
//!
//! New blocks are drawn from both ends, so units take the blocks of one kernel without a lock.
//! Blocks that were stopped come back and go out first. A unit that finds none may have missed one
//! that comes back meanwhile: blocks are given back, and the last poll is made, under the device's
//! lock.

use crate::sync::primitives::{AtomicU32, AtomicU64, Mutex, Ordering};
use std::ops::Range;

/// A block that was stopped this often runs to its end the next time, however often real-time work
/// arrives: best-effort work is slowed down, never starved.
pub(crate) const MAX_STOPS: u8 = 2;

/// One block from the back, in [`Claims::drawn`].
const BACK: u64 = 1 << 32;

/// The right to run one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) index: u32,
    stops: u8,
}

impl Claim {
    /// Returns whether the block may be stopped once more.
    pub(crate) fn may_stop(self) -> bool {
        self.stops < MAX_STOPS
    }
}

/// The blocks of one launch: given out, given back, finished.
#[derive(Debug)]
pub(crate) struct Claims {
    total: u32,
    /// Blocks that have not finished.
    remaining: AtomicU32,
    /// Blocks that have been given out from the front, and [`BACK`] for each from the back.
    drawn: AtomicU64,
    /// Length of `back`. Written under its lock.
    returned: AtomicU32,
    /// Blocks that were stopped, and how often.
    back: Mutex<Vec<Claim>>,
}

impl Claims {
    pub(crate) fn new(total: u32) -> Self {
        Self {
            total,
            remaining: AtomicU32::new(total),
            drawn: AtomicU64::new(0),
            returned: AtomicU32::new(0),
            back: Mutex::default(),
        }
    }

    /// Claims of a launch that has only the blocks in `left`, ranges in order below `total`: none
    /// of them was stopped before.
    ///
    /// The longest range is drawn as if those around it had been; the others came back.
    pub(crate) fn of_left(total: u32, left: &[Range<u32>]) -> Self {
        let length = |range: &&Range<u32>| range.end - range.start;
        let drawn = left.iter().max_by_key(length).cloned().unwrap_or(total..total);
        let others = left.iter().filter(|range| **range != drawn).cloned().flatten();
        let back: Vec<Claim> = others.map(|index| Claim { index, stops: 0 }).collect();
        let remaining = drawn.end - drawn.start + back.len() as u32;
        let from_back = u64::from(total - drawn.end) * BACK;
        Self {
            total,
            remaining: AtomicU32::new(remaining),
            drawn: AtomicU64::new(u64::from(drawn.start) + from_back),
            returned: AtomicU32::new(back.len() as u32),
            back: Mutex::new(back),
        }
    }

    /// Blocks that have not finished, in any order but each once; `None` if some of them run. Exact
    /// only while no unit takes any.
    pub(crate) fn remainder(&self) -> Option<Vec<u32>> {
        let mut left = self.change(|back| back.iter().map(|claim| claim.index).collect::<Vec<_>>());
        let drawn = self.drawn.load(Ordering::Relaxed);
        let (front, back) = ((drawn % BACK) as u32, (drawn / BACK) as u32);
        left.extend(front..self.total - back);
        (left.len() as u64 == u64::from(self.remaining())).then_some(left)
    }

    /// A block to run for `unit`, if one is left. It must be finished or given back.
    pub(crate) fn claim(&self, unit: u32) -> Option<Claim> {
        self.take_back().or_else(|| self.draw(unit))
    }

    /// A block that came back.
    fn take_back(&self) -> Option<Claim> {
        if self.returned.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.change(Vec::pop)
    }

    /// A block that has never been given out. Even units take them from the front, odd ones from
    /// the back, so that of launches over the same pixels each of two units has its own half in its
    /// caches.
    fn draw(&self, unit: u32) -> Option<Claim> {
        let from_back = !unit.is_multiple_of(2);
        let draw = |drawn: u64| {
            let is_left = drawn % BACK + drawn / BACK < u64::from(self.total);
            is_left.then_some(drawn + if from_back { BACK } else { 1 })
        };
        let drawn = self.drawn.fetch_update(Ordering::Relaxed, Ordering::Relaxed, draw).ok()?;
        let (front, back) = (drawn % BACK, drawn / BACK);
        let index = if from_back { u64::from(self.total) - 1 - back } else { front };
        Some(Claim { index: index as u32, stops: 0 })
    }

    /// The block took effect.
    pub(crate) fn finish(&self, _: Claim) {
        self.remaining.fetch_sub(1, Ordering::AcqRel);
    }

    /// Finishes the block, and makes `claim` another one for `unit`, unless none is left. The end
    /// of the launch is never passed here: the next block is claimed before this one is finished.
    pub(crate) fn go_on(&self, claim: &mut Claim, unit: u32) -> bool {
        let Some(next) = self.claim(unit) else { return false };
        self.finish(std::mem::replace(claim, next));
        true
    }

    /// The block was stopped before it changed anything.
    pub(crate) fn give_back(&self, claim: Claim) {
        let stops = claim.stops.saturating_add(1);
        self.change(|back| back.push(Claim { stops, ..claim }));
    }

    fn change<R>(&self, f: impl FnOnce(&mut Vec<Claim>) -> R) -> R {
        let mut back = self.back.lock();
        let result = f(&mut back);
        self.returned.store(back.len() as u32, Ordering::Release);
        result
    }

    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// Blocks that have not finished.
    pub(crate) fn remaining(&self) -> u32 {
        self.remaining.load(Ordering::Acquire)
    }

    /// Returns whether any block was ever given out.
    pub(crate) fn is_touched(&self) -> bool {
        self.drawn.load(Ordering::Relaxed) > 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_block_is_given_out_once_unless_it_comes_back() {
        let claims = Claims::new(3);
        let [a, b, c] = std::array::from_fn(|_| claims.claim(0).unwrap());
        assert_eq!(claims.claim(0), None);
        claims.finish(a);
        claims.finish(c);
        assert_eq!(claims.remaining(), 1);
        claims.give_back(b);
        assert_eq!(claims.claim(0).unwrap().index, b.index);
        assert_eq!(claims.claim(0), None);
    }

    #[test]
    fn blocks_left_are_told_unless_one_runs() {
        let claims = Claims::new(6);
        let held: Vec<Claim> = [0, 1, 0].map(|unit| claims.claim(unit).unwrap()).into();
        assert_eq!(claims.remainder(), None, "three run");
        claims.finish(held[0]);
        claims.give_back(held[1]);
        assert_eq!(claims.remainder(), None, "one runs");
        claims.give_back(held[2]);
        let mut left = claims.remainder().unwrap();
        left.sort_unstable();
        assert_eq!(left, [1, 2, 3, 4, 5]);
    }

    /// All sets of blocks of a launch of seven, each from both ends.
    #[test]
    fn exactly_the_blocks_left_are_given_out() {
        const TOTAL: u32 = 7;
        for set in 0_u32..1 << TOTAL {
            let want: Vec<u32> = (0..TOTAL).filter(|block| set & (1 << block) != 0).collect();
            let left: Vec<Range<u32>> = want
                .chunk_by(|a, b| a + 1 == *b)
                .map(|run| run[0]..run[run.len() - 1] + 1)
                .collect();
            let claims = Claims::of_left(TOTAL, &left);
            assert_eq!(claims.remaining() as usize, want.len());
            let mut told = claims.remainder().unwrap();
            told.sort_unstable();
            assert_eq!(told, want);
            let mut given: Vec<u32> = Vec::new();
            for unit in 0.. {
                let Some(claim) = claims.claim(unit) else { break };
                claims.finish(claim);
                given.push(claim.index);
            }
            given.sort_unstable();
            assert_eq!((given, claims.remaining()), (want, 0), "of {left:?}");
        }
    }

    #[test]
    fn units_begin_at_both_ends_and_share_what_is_left() {
        let claims = Claims::new(5);
        let order = [0, 1, 2, 3, 1].map(|unit| claims.claim(unit).unwrap().index);
        assert_eq!(order, [0, 4, 1, 3, 2]);
        assert_eq!([0, 1].map(|unit| claims.claim(unit)), [None; 2]);
    }

    #[test]
    fn a_block_that_is_stopped_again_and_again_runs_through() {
        let claims = Claims::new(1);
        for _ in 0..MAX_STOPS {
            let claim = claims.claim(0).unwrap();
            assert!(claim.may_stop());
            claims.give_back(claim);
        }
        assert!(!claims.claim(0).unwrap().may_stop());
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::primitives::{AtomicUsize, thread};
    use loom::sync::Arc;

    const BLOCKS: usize = 2;

    /// A kernel on two units, and the device's lock with whether the kernel's end was noticed.
    struct Scene {
        claims: Claims,
        ran: [AtomicUsize; BLOCKS],
        over: Mutex<bool>,
    }

    /// Step that a unit that finds no block without the lock leaves out.
    #[derive(Clone, Copy, PartialEq)]
    enum Rule {
        Kept,
        LastCheckUnderTheLock,
    }

    /// A unit; the first block of unit 1 is stopped.
    ///
    /// It stands for `Units::work` and for `Hardware::{finish, pick}`, which need queues and
    /// kernels. The rule is theirs by their types: the last block of a unit is finished, and a
    /// stopped one given back, by a method of `Hardware`, and the poll after that is one as well.
    /// The device's lock alone gives `&mut Hardware`.
    fn unit(scene: &Scene, unit: u32, broken: Rule) {
        let mut stopped = unit == 1;
        let mut held = scene.claims.claim(unit);
        while let Some(mut claim) = held {
            if !std::mem::take(&mut stopped) {
                scene.ran[claim.index as usize].fetch_add(1, Ordering::Relaxed);
                if scene.claims.go_on(&mut claim, unit) {
                    held = Some(claim);
                    continue;
                }
                let mut over = scene.over.lock();
                scene.claims.finish(claim);
                *over |= scene.claims.remaining() == 0;
                held = if broken == Rule::Kept { scene.claims.claim(unit) } else { None };
            } else {
                let _over = scene.over.lock();
                scene.claims.give_back(claim);
                held = if broken == Rule::Kept { scene.claims.claim(unit) } else { None };
            }
        }
    }

    fn two_units(broken: Rule) {
        loom::model(move || {
            let scene = Arc::new(Scene {
                claims: Claims::new(BLOCKS as u32),
                ran: Default::default(),
                over: Mutex::default(),
            });
            let other = thread::spawn({
                let scene = scene.clone();
                move || unit(&scene, 1, broken)
            });
            unit(&scene, 0, broken);
            other.join().unwrap();
            let ran: Vec<_> = scene.ran.iter().map(|ran| ran.load(Ordering::Relaxed)).collect();
            assert_eq!(ran, [1; BLOCKS], "not each block once");
            assert!(*scene.over.lock(), "the end was not noticed");
        });
    }

    #[test]
    fn each_block_runs_once_and_the_end_is_noticed() {
        two_units(Rule::Kept);
    }

    #[test]
    #[should_panic = "not each block once"]
    fn returned_block_is_lost_without_the_last_check() {
        two_units(Rule::LastCheckUnderTheLock);
    }
}
