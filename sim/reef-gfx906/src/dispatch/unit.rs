//! A compute unit: what its workgroups share, and so how many fit.

const SIMDS: usize = 4;
const WAVES_PER_SIMD: u32 = 10;
const VGPRS_PER_SIMD: u32 = 256;
const LDS_BYTES: u32 = 64 << 10;
/// Workgroups of more than one wave need a barrier, and there are as many.
const BARRIERS: u32 = 16;

/// Resources that a workgroup takes of its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) waves: u32,
    /// Registers of each wave, in multiples of 4.
    pub(crate) vgprs: u32,
    pub(crate) lds: u32,
}

/// Places of a workgroup's waves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reservation {
    waves: [u32; SIMDS],
    need: Need,
}

/// Free resources of a compute unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit {
    slots: [u32; SIMDS],
    vgprs: [u32; SIMDS],
    lds: u32,
    barriers: u32,
}

impl Default for Unit {
    fn default() -> Self {
        Self {
            slots: [WAVES_PER_SIMD; SIMDS],
            vgprs: [VGPRS_PER_SIMD; SIMDS],
            lds: LDS_BYTES,
            barriers: BARRIERS,
        }
    }
}

impl Unit {
    /// Waves on the unit.
    pub(crate) fn waves(&self) -> u32 {
        SIMDS as u32 * WAVES_PER_SIMD - self.slots.iter().sum::<u32>()
    }

    /// Takes what a workgroup needs; `None` and unchanged if it doesn't fit.
    pub(crate) fn take(&mut self, need: Need) -> Option<Reservation> {
        let barriers = u32::from(need.waves > 1);
        if need.lds > self.lds || barriers > self.barriers {
            return None;
        }
        let mut after = *self;
        let mut reservation = Reservation { waves: [0; SIMDS], need };
        for _ in 0..need.waves {
            let simd = after.roomiest(need.vgprs)?;
            after.slots[simd] -= 1;
            after.vgprs[simd] -= need.vgprs;
            reservation.waves[simd] += 1;
        }
        after.lds -= need.lds;
        after.barriers -= barriers;
        *self = after;
        Some(reservation)
    }

    /// Takes back what a workgroup had.
    pub(crate) fn release(&mut self, reservation: Reservation) {
        for (simd, waves) in reservation.waves.into_iter().enumerate() {
            self.slots[simd] += waves;
            self.vgprs[simd] += waves * reservation.need.vgprs;
        }
        self.lds += reservation.need.lds;
        self.barriers += u32::from(reservation.need.waves > 1);
    }

    /// The SIMD with most free slots that has registers for one more wave.
    fn roomiest(&self, vgprs: u32) -> Option<usize> {
        (0..SIMDS)
            .filter(|&simd| self.slots[simd] > 0 && self.vgprs[simd] >= vgprs)
            .max_by_key(|&simd| (self.slots[simd], SIMDS - simd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(need: Need) -> usize {
        let mut unit = Unit::default();
        std::iter::from_fn(|| unit.take(need)).count()
    }

    #[test]
    fn waves_registers_lds_and_barriers_bound_how_many_fit() {
        assert_eq!(capacity(Need { waves: 1, vgprs: 24, lds: 0 }), 40);
        assert_eq!(capacity(Need { waves: 4, vgprs: 24, lds: 0 }), 10);
        assert_eq!(capacity(Need { waves: 4, vgprs: 64, lds: 0 }), 4);
        assert_eq!(capacity(Need { waves: 1, vgprs: 256, lds: 0 }), 4);
        assert_eq!(capacity(Need { waves: 1, vgprs: 4, lds: 32 << 10 }), 2);
        assert_eq!(capacity(Need { waves: 2, vgprs: 4, lds: 0 }), 16);
        assert_eq!(capacity(Need { waves: 16, vgprs: 68, lds: 0 }), 0);
    }

    #[test]
    fn released_resources_are_free_again() {
        let mut unit = Unit::default();
        let first = unit.take(Need { waves: 5, vgprs: 32, lds: 1024 }).expect("the unit is empty");
        let second = unit.take(Need { waves: 3, vgprs: 8, lds: 0 }).expect("there is room");
        assert_eq!(unit.waves(), 8);
        unit.release(first);
        unit.release(second);
        assert_eq!(unit, Unit::default());
    }
}
