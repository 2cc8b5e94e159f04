//! Best-effort work next to real-time work: narrow queues against CU masks, in work and not in
//! time.
//!
//! A software gfx906 says which workgroup ran on which unit next to which others, and how many
//! instructions it had. A seed decides their order, so a number here is the same in every run:
//! `REEF_GFX906_SEED=N`.
//!
//! `cargo test -p reef-hip --test padding -- --nocapture` prints the table of docs/hip.md.

mod account;
mod scene;

use account::Account;
use reef_conformance::cases::padding::a_queue_changes_its_width_in_order;
use reef_core::PreemptLevel;
use reef_gfx906::Record;
use scene::{RT_KERNELS, Sharing, UNITS, run_padded};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

/// Blocks that capped queues run at a time unless an option says otherwise: one on every second
/// unit that best-effort work may use.
const NARROW: Sharing = Sharing::Narrow(29);
/// A third of the units for real-time work alone.
const THIRD: u32 = 20;
const SHARED: [Sharing; 7] = [
    Sharing::Alone,
    Sharing::Streams,
    NARROW,
    Sharing::Narrow(60),
    Sharing::Masks(THIRD),
    Sharing::MasksAlone(THIRD),
    Sharing::Masks(40),
];
/// Blocks of real-time kernels: half of the units, two on each, more than all places (600).
const RT_BLOCKS: [u32; 3] = [30, 120, 1200];
/// Blocks of best-effort kernels; at most 16 parts of 30.
const BE_BLOCKS: u32 = 464;

const HEAD: &str = "\
| RT blocks | shared how | RT units | RT path | at worst | BE units | BE places: most, mean | BE blocks that shared a unit |
|---|---|---|---|---|---|---|---|";

/// The accounts of one kind of real-time task, by how the device is shared.
struct Rows {
    rt_blocks: u32,
    accounts: Vec<(Sharing, Account)>,
}

impl Rows {
    fn measure(rt_blocks: u32) -> Option<Self> {
        let account = |sharing: &Sharing| {
            let account = Account::of(&sharing.run(rt_blocks, BE_BLOCKS)?);
            Some((*sharing, account))
        };
        let accounts = SHARED.iter().map(account).collect::<Option<_>>()?;
        Some(Self { rt_blocks, accounts })
    }

    fn of(&self, sharing: Sharing) -> &Account {
        &self.accounts.iter().find(|(of, _)| *of == sharing).expect("it was measured").1
    }

    /// Work of the real-time task on its busiest units, over its work alone on the whole device: at
    /// best and at worst.
    fn cost(&self, sharing: Sharing) -> (f64, f64) {
        let (alone, account) = (self.of(Sharing::Alone).path as f64, self.of(sharing));
        (account.path as f64 / alone, account.worst as f64 / alone)
    }

    fn print(&self) {
        for (sharing, account) in &self.accounts {
            let (path, worst) = self.cost(*sharing);
            let be = match account.be_units.len() {
                0 => "– | – | –".into(),
                units => format!(
                    "{units} | {}, {:.0} | {}",
                    account.be_most, account.be_places, account.be_shared
                ),
            };
            let (blocks, units) = (self.rt_blocks, account.rt_units.len());
            println!("| {blocks} | {sharing} | {units} | {path:.2} | {worst:.2} | {be} |");
        }
    }
}

/// All that is measured, once; `None` where AMD's runtime is not installed.
fn table() -> Option<&'static [Rows]> {
    static TABLE: OnceLock<Option<Vec<Rows>>> = OnceLock::new();
    let measure = || {
        let table: Vec<Rows> = RT_BLOCKS.into_iter().map(Rows::measure).collect::<Option<_>>()?;
        println!("{HEAD}");
        table.iter().for_each(Rows::print);
        Some(table)
    };
    TABLE.get_or_init(measure).as_deref()
}

/// Returns whether a block of one ran at the same time as one of the other.
fn meet(some: &[Record], others: &[Record]) -> bool {
    let overlap = |a: &Record, b: &Record| a.start < b.end && b.start < a.end;
    some.iter().any(|a| others.iter().any(|b| overlap(a, b)))
}

fn within(units: &std::collections::BTreeSet<u32>, range: Range<u32>) -> bool {
    !units.is_empty() && units.iter().all(|unit| range.contains(unit))
}

#[test]
fn best_effort_work_is_there_until_real_time_work_has_ended() {
    for rows in table().into_iter().flatten() {
        for (sharing, account) in &rows.accounts {
            let none = matches!(sharing, Sharing::Alone | Sharing::MasksAlone(_));
            assert_eq!(account.lasted, !none, "{sharing:?} next to {}", rows.rt_blocks);
        }
    }
}

#[test]
fn masks_keep_the_classes_on_units_of_their_own() {
    for rows in table().into_iter().flatten() {
        for part in [THIRD, 40] {
            let account = rows.of(Sharing::Masks(part));
            assert!(within(&account.rt_units, 0..part), "{:?}", account.rt_units);
            assert!(within(&account.be_units, part..UNITS), "{:?}", account.be_units);
            assert_eq!(account.be_shared, 0);
            assert_eq!(account.path, account.worst);
        }
    }
}

/// And they do so whether or not there is best-effort work.
#[test]
fn masks_take_from_real_time_work_what_it_could_have_used() {
    for rows in table().into_iter().flatten() {
        let units = rows.of(Sharing::Alone).rt_units.len();
        let most =
            f64::from(rows.rt_blocks.div_ceil(THIRD)) / f64::from(rows.rt_blocks.div_ceil(UNITS));
        for sharing in [Sharing::Masks(THIRD), Sharing::MasksAlone(THIRD)] {
            let (path, _) = rows.cost(sharing);
            assert!(path > 0.9 * most && path < 1.1 * most, "{path} of {most} on {units} units");
        }
    }
}

#[test]
fn narrow_queue_never_exceeds_its_blocks_on_the_device() {
    for rows in table().into_iter().flatten() {
        for blocks in [29, 60] {
            assert_eq!(rows.of(Sharing::Narrow(blocks)).be_most, blocks as usize);
        }
        assert!(rows.of(Sharing::Streams).be_most > 300, "what it would have had");
    }
}

#[test]
fn queue_that_is_capped_and_widened_keeps_its_order() {
    NARROW.alone_with(|device| {
        for level in [PreemptLevel::DeviceQueue, PreemptLevel::All] {
            a_queue_changes_its_width_in_order(&device, level);
        }
    });
}

#[test]
fn a_narrow_queue_leaves_real_time_work_its_units() {
    for rows in table().into_iter().flatten() {
        let (alone, narrow) = (rows.of(Sharing::Alone), rows.of(NARROW));
        assert_eq!(narrow.rt_units, alone.rt_units);
        let ((path, worst), (_, streams)) = (rows.cost(NARROW), rows.cost(Sharing::Streams));
        assert!(path < 1.1, "{path}: its blocks found other places");
        assert!(worst < 2.0 && worst < streams, "{worst} at worst, {streams} next to streams");
    }
}

/// Units that real-time work leaves alone get best-effort blocks.
#[test]
fn a_narrow_queue_takes_what_is_free() {
    let Some([few, ..]) = table() else { return };
    assert_eq!(few.of(NARROW).be_shared, 0);
    assert_eq!(few.cost(NARROW), (1.0, 1.0));
}

/// A kernel becomes 16 launches at most.
#[test]
fn a_narrow_queue_runs_large_grids_wider() {
    let Some(ran) = NARROW.run(120, 2 * BE_BLOCKS) else { return };
    assert_eq!(Account::of(&ran).be_most, 58);
}

/// Blocks that pad a kernel begin behind what is ahead of that in its queue, and some run at the
/// same time as it.
#[test]
fn padding_runs_next_to_its_kernel_alone() {
    let Some(ran) = run_padded(30, 29, 4 * 29) else { return };
    let kernels: Vec<_> = ran.rt.chunk_by(|a, b| a.launch == b.launch).collect();
    let end = |kernel: &[Record]| kernel.iter().map(|record| record.end).max();
    assert_eq!(kernels.len() as u64, RT_KERNELS);
    let mut pads: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
    ran.be.iter().for_each(|record| pads.entry(record.launch).or_default().push(*record));
    assert_eq!(pads.len() as u64, RT_KERNELS);
    for (at, pad) in pads.into_values().enumerate().skip(1) {
        let begin = pad.iter().map(|record| record.start).min();
        assert!(
            begin > end(kernels[at - 1]),
            "padding {at} began next to the kernel before its own"
        );
    }
    assert!(meet(&ran.rt, &ran.be), "no block ran next to a kernel");
}

#[test]
fn the_same_seed_gives_the_same_account() {
    let Some(table) = table() else { return };
    let again = NARROW.run(RT_BLOCKS[2], BE_BLOCKS).expect("it ran before");
    assert_eq!(Account::of(&again), *table[2].of(NARROW));
}
