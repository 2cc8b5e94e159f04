//! Dynamic kernel padding: the number of best-effort blocks that fit next to a real-time kernel.
//!
//! Pure arithmetic over device facts and profiles, so that it is tested without a device. It
//! follows the selection of REEF (OSDI'22, section 5): the padded kernel must not lower the
//! real-time kernel's occupancy, and its best-effort part must not run longer. Unlike REEF it
//! counts shared memory and registers by what a block needs, and it never plans a padding of no
//! blocks.
//!
//! ```
//! use reef_core::dkp::{Padding, Profile, plan};
//! use reef_core::{DeviceInfo, PreemptLevel};
//!
//! let mut info = DeviceInfo::new("60 units", 60, PreemptLevel::All);
//! info.blocks_per_unit = 40;
//! let rt = Profile { blocks: 40, micros: 30, ..Profile::default() };
//! let be = Profile { blocks: 1000, round_micros: vec![10, 12, 40], ..Profile::default() };
//! // 20 idle units x 2 rounds (30 / 12) x 2 blocks per unit.
//! let padding = Padding { rt_units: 40, be_per_unit: 2, be_blocks: 80 };
//! assert_eq!(plan(&rt, &be, 1000, &info), Some(padding));
//! ```

use crate::backend::info::DeviceInfo;

pub use crate::backend::resources::{Padding, Profile, Resources};

/// Units that `rt` needs so as to take no more rounds than it takes on all of them.
pub fn rt_units(blocks: u32, info: &DeviceInfo) -> u32 {
    let layers = blocks.div_ceil(info.units.max(1)).max(1);
    blocks.div_ceil(layers)
}

/// Sizes the padding of `rt` with at most `remaining` blocks of `be`, or `None` if none fits.
pub fn plan(rt: &Profile, be: &Profile, remaining: u32, info: &DeviceInfo) -> Option<Padding> {
    let rt_units = rt_units(rt.blocks, info);
    let free_units = info.units.checked_sub(rt_units)?;

    let merged = rt.resources.either(be.resources).per_unit(info);
    let rt_per_unit = rt.blocks.div_ceil(info.units.max(1)).min(rt.resources.per_unit(info));
    if merged < rt_per_unit {
        return None;
    }

    let be_per_unit = (1..=merged.min(be.round_micros.len() as u32))
        .rev()
        .find(|&n| be.round_micros[n as usize - 1] <= rt.micros)?;
    let rounds = rt.micros / be.round_micros[be_per_unit as usize - 1].max(1);
    let be_blocks = free_units.saturating_mul(rounds).saturating_mul(be_per_unit).min(remaining);
    (be_blocks > 0).then_some(Padding { rt_units, be_per_unit, be_blocks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::info::PreemptLevel;

    /// 60 compute units, limits wide enough that only the profile's length bounds the occupancy.
    fn mi50() -> DeviceInfo {
        DeviceInfo {
            name: "MI50".into(),
            units: 60,
            blocks_per_unit: 40,
            threads_per_unit: 2048,
            registers_per_unit: u32::MAX,
            shared_per_unit: 65536,
            level: PreemptLevel::All,
            memory: None,
            uuid: None,
            padded_micros: 0,
            features: Vec::new(),
        }
    }

    fn kernel(blocks: u32, threads: u32, micros: u32, round_micros: &[u32]) -> Profile {
        let resources = Resources { threads, ..Resources::default() };
        Profile { blocks, resources, micros, round_micros: round_micros.into() }
    }

    #[test]
    fn plan_fills_idle_units_while_the_rt_kernel_runs() {
        let rt = kernel(40, 256, 30, &[]);
        let be = kernel(1000, 256, 0, &[10, 12, 40]);
        // 20 idle units x 2 rounds (30 / 12) x 2 blocks per unit.
        let want = Padding { rt_units: 40, be_per_unit: 2, be_blocks: 80 };
        assert_eq!(plan(&rt, &be, 1000, &mi50()), Some(want));
    }

    /// ResNet-50 at 64x64 next to ResNet-152 at 64x64, with the MI50 profiles published with REEF.
    #[test]
    fn plan_agrees_with_reef_on_its_published_profiles() {
        let rt4 = kernel(64, 64, 88, &[]);
        let be1 = kernel(32, 64, 0, &[36, 48, 58, 72, 86]);
        let be7 = kernel(256, 64, 0, &[12, 12, 14, 14, 14, 16, 16, 16]);
        assert_eq!(rt_units(64, &mi50()), 32);
        assert_eq!(rt_units(256, &mi50()), 52);
        let want = Padding { rt_units: 32, be_per_unit: 5, be_blocks: 140 };
        assert_eq!(plan(&rt4, &be1, 1000, &mi50()), Some(want));
        assert_eq!(plan(&rt4, &be1, 32, &mi50()).unwrap().be_blocks, 32);
        assert_eq!(plan(&rt4, &be7, 2000, &mi50()).unwrap().be_blocks, 28 * 5 * 8);
        assert_eq!(plan(&kernel(64, 64, 14, &[]), &be1, 32, &mi50()), None, "would outlast");
    }

    #[test]
    fn plan_refuses_a_kernel_lowering_rt_occupancy() {
        let rt = kernel(100, 1024, 30, &[]); // 2 layers on 50 units
        let small = kernel(9, 256, 0, &[1]);
        assert!(plan(&rt, &small, 9, &mi50()).is_some());
        let mut large = small.clone();
        large.resources.shared = 40_000; // one block per unit
        assert_eq!(plan(&rt, &large, 9, &mi50()), None);
    }

    #[test]
    fn full_device_or_empty_queue_gives_no_padding() {
        let be = kernel(9, 64, 0, &[1]);
        assert_eq!(plan(&kernel(60, 64, 30, &[]), &be, 9, &mi50()), None, "no unit is free");
        assert_eq!(plan(&kernel(1, 64, 30, &[]), &be, 0, &mi50()), None, "nothing remains");
        let none = DeviceInfo { units: 0, ..mi50() };
        for blocks in [0, 9] {
            assert_eq!(plan(&kernel(blocks, 64, 30, &[]), &be, 9, &none), None, "no units");
        }
    }
}
