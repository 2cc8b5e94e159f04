//! The registers of a wave, and how operations read and write them.
//!
//! A vector register that the wave doesn't have reads as zero, takes no writes, and is remembered:
//! the instruction that named it becomes a fault once it has run.

use std::cell::Cell;

use super::inst::{Format, Inst, Select, Src};
use super::wave::POISON;

/// One value for each lane.
pub(super) type Lanes<T> = [T; 64];

pub(super) const VCC: u8 = 106;
pub(super) const M0: u8 = 124;
pub(super) const EXEC: u8 = 126;

/// The upper 32 bits of flat addresses of shared and of private memory.
pub(super) const SHARED_APERTURE: u32 = 0x4000_0000;
pub(super) const PRIVATE_APERTURE: u32 = 0x5000_0000;

static ZERO: Lanes<u32> = [0; 64];

/// Bit `l % 32` for each lane: a mask against it is a test that vector instructions have.
static BIT: Lanes<u32> = {
    let mut bits = [0; 64];
    let mut lane = 0;
    while lane < 64 {
        bits[lane] = 1 << (lane % 32);
        lane += 1;
    }
    bits
};

#[derive(Debug, Clone)]
pub(super) struct Registers {
    pub(super) v: Vec<Lanes<u32>>,
    /// 128 scalar registers with the special ones among them.
    pub(super) s: [u32; 128],
    pub(super) scc: bool,
    /// The mode register.
    pub(super) mode: u32,
    /// Indexing of vector registers by M0 is on (`s_set_gpr_idx_on`).
    pub(super) indexing: bool,
    missing: Cell<Option<u8>>,
}

impl Registers {
    pub(super) fn new(vgprs: usize, exec: u64) -> Self {
        // Round to nearest, denormals, IEEE: as the runtime starts waves.
        let mode = 0x2f0;
        let mut registers = Self {
            v: vec![[0; 64]; vgprs],
            s: [0; 128],
            scc: false,
            mode,
            indexing: false,
            missing: Cell::new(None),
        };
        registers.set_s64(EXEC, exec);
        registers
    }

    /// Fills what a wave finds undefined at its start.
    pub(super) fn poison(&mut self) {
        let exec = self.exec();
        self.v.iter_mut().for_each(|lanes| *lanes = [POISON; 64]);
        self.s = [POISON; 128];
        self.scc = true;
        self.set_s64(EXEC, exec);
    }

    /// A vector register that was named and that the wave doesn't have.
    pub(super) fn missing(&self) -> Option<u8> {
        self.missing.get()
    }

    pub(super) fn exec(&self) -> u64 {
        self.s64(EXEC)
    }

    pub(super) fn vcc(&self) -> u64 {
        self.s64(VCC)
    }

    pub(super) fn s64(&self, register: u8) -> u64 {
        let at = usize::from(register & 127);
        u64::from(self.s[at]) | u64::from(self.s[(at + 1) & 127]) << 32
    }

    pub(super) fn set_s(&mut self, register: u8, value: u32) {
        self.s[usize::from(register & 127)] = value;
    }

    pub(super) fn set_s64(&mut self, register: u8, value: u64) {
        self.set_s(register, value as u32);
        self.set_s((register & 127).wrapping_add(1), (value >> 32) as u32);
    }

    pub(super) fn vgpr(&self, register: u8) -> &Lanes<u32> {
        self.v.get(usize::from(register)).unwrap_or_else(|| self.lacks(register))
    }

    #[cold]
    fn lacks(&self, register: u8) -> &Lanes<u32> {
        self.missing.set(Some(register));
        &ZERO
    }

    /// A vector register for writing, if the wave has it.
    pub(super) fn vgpr_mut(&mut self, register: u8) -> Option<&mut Lanes<u32>> {
        let found = self.v.get_mut(usize::from(register));
        if found.is_none() {
            self.missing.set(Some(register));
        }
        found
    }

    /// Writes the lanes of `mask`.
    #[inline]
    pub(super) fn put(&mut self, register: u8, value: &Lanes<u32>, mask: u64) {
        let Some(out) = self.vgpr_mut(register) else { return };
        if mask == u64::MAX {
            *out = *value;
            return;
        }
        let halves = [mask as u32, (mask >> 32) as u32];
        for lane in 0..64 {
            let on = halves[lane / 32] & BIT[lane] != 0;
            out[lane] = if on { value[lane] } else { out[lane] };
        }
    }

    /// An operand of 32 bits that all lanes share.
    pub(super) fn scalar(&self, src: Src) -> u32 {
        match src {
            Src::S(register) => self.s[usize::from(register & 127)],
            Src::V(register) => self.vgpr(register)[self.first_lane()],
            Src::Literal(value) => value,
            Src::Inline(code) => self.inline(code).unwrap_or_else(|| inline_f32(code)),
        }
    }

    /// An operand of 64 bits that all lanes share.
    pub(super) fn scalar64(&self, src: Src) -> u64 {
        match src {
            Src::S(register) => self.s64(register),
            Src::V(register) => {
                let lane = self.first_lane();
                let high = self.vgpr(register.wrapping_add(1))[lane];
                u64::from(self.vgpr(register)[lane]) | u64::from(high) << 32
            }
            Src::Literal(value) => u64::from(value),
            Src::Inline(235) => u64::from(SHARED_APERTURE) << 32,
            Src::Inline(237) => u64::from(PRIVATE_APERTURE) << 32,
            Src::Inline(code @ 193..=208) => (192 - i64::from(code)) as u64,
            Src::Inline(code) => self.inline(code).map_or_else(|| inline_f64(code), u64::from),
        }
    }

    fn first_lane(&self) -> usize {
        (self.exec().trailing_zeros() % 64) as usize
    }

    /// A constant that isn't a float.
    fn inline(&self, code: u8) -> Option<u32> {
        Some(match code {
            128..=192 => u32::from(code) - 128,
            193..=208 => (192 - i32::from(code)) as u32,
            235 => SHARED_APERTURE,
            236 | 238 => u32::MAX,
            237 => PRIVATE_APERTURE,
            251 => u32::from(self.vcc() == 0),
            252 => u32::from(self.exec() == 0),
            253 => u32::from(self.scc),
            240..=248 => return None,
            _ => 0,
        })
    }

    /// Operand `k`, as 32 bits for each lane.
    #[inline]
    pub(super) fn lanes(&self, inst: &Inst, k: usize) -> Lanes<u32> {
        match (inst.select, inst.src[k]) {
            (Select::Plain, Src::V(register)) => *self.vgpr(register),
            (Select::Plain, src) => [self.scalar(src); 64],
            _ => self.selected(inst, k),
        }
    }

    #[cold]
    fn selected(&self, inst: &Inst, k: usize) -> Lanes<u32> {
        let all = match inst.src[k] {
            Src::V(register) => *self.vgpr(register),
            src => [self.scalar(src); 64],
        };
        match inst.select {
            Select::Sdwa(sdwa) if k < 2 => sdwa.read(k, &all),
            Select::Dpp(dpp) if k == 0 => dpp.read(&all, self.exec()),
            _ => all,
        }
    }

    /// Operand `k` of an instruction on halves: the low 16 bits of each lane.
    #[inline]
    pub(super) fn halves(&self, inst: &Inst, k: usize) -> Lanes<u32> {
        let mut all = match inst.src[k] {
            Src::Inline(code @ 240..=248) => [inline_f16(code); 64],
            _ => self.lanes(inst, k),
        };
        let shift = if inst.op_sel >> k & 1 != 0 { 16 } else { 0 };
        for lane in &mut all {
            *lane = *lane >> shift & 0xffff;
        }
        all
    }

    /// Operand `k` as 64 bits for each lane.
    #[inline]
    pub(super) fn wide(&self, inst: &Inst, k: usize) -> Lanes<u64> {
        let Src::V(register) = inst.src[k] else {
            return [self.scalar64(inst.src[k]); 64];
        };
        let low = self.vgpr(register);
        let high = self.vgpr(register.wrapping_add(1));
        let mut all = [0; 64];
        for lane in 0..64 {
            all[lane] = u64::from(low[lane]) | u64::from(high[lane]) << 32;
        }
        all
    }

    /// Operand `k` as bits of doubles: a literal is their upper half.
    #[inline]
    pub(super) fn doubles(&self, inst: &Inst, k: usize) -> Lanes<u64> {
        match inst.src[k] {
            Src::Literal(value) => [u64::from(value) << 32; 64],
            _ => self.wide(inst, k),
        }
    }

    /// The lanes that an instruction works on.
    #[inline]
    pub(super) fn active(&self, inst: &Inst) -> u64 {
        match inst.select {
            Select::Dpp(dpp) => dpp.active(self.exec()),
            _ => self.exec(),
        }
    }

    /// Writes the result of an instruction.
    #[inline]
    pub(super) fn write(&mut self, inst: &Inst, value: &Lanes<u32>) {
        let active = self.active(inst);
        match inst.select {
            Select::Sdwa(sdwa) => {
                let old = *self.vgpr(inst.dst);
                self.put(inst.dst, &sdwa.write(value, &old), active);
            }
            _ => self.put(inst.dst, value, active),
        }
    }

    /// Writes a result of 64 bits.
    #[inline]
    pub(super) fn write64(&mut self, inst: &Inst, value: &Lanes<u64>) {
        let (mut low, mut high) = (ZERO, ZERO);
        for lane in 0..64 {
            low[lane] = value[lane] as u32;
            high[lane] = (value[lane] >> 32) as u32;
        }
        let active = self.active(inst);
        self.put(inst.dst, &low, active);
        self.put(inst.dst.wrapping_add(1), &high, active);
    }

    /// The instruction with the registers that M0 says added (`s_set_gpr_idx_on`).
    #[cold]
    pub(super) fn indexed(&self, mut inst: Inst) -> Inst {
        use Format::{Vop1, Vop2, Vop3, Vop3p, Vopc};
        if !matches!(inst.op.format, Vop1 | Vop2 | Vop3 | Vop3p | Vopc) {
            return inst;
        }
        let m0 = self.s[usize::from(M0)];
        for k in 0..3 {
            if let Src::V(register) = &mut inst.src[k]
                && m0 >> (12 + k) & 1 != 0
            {
                *register = register.wrapping_add(m0 as u8);
            }
        }
        if m0 >> 15 & 1 != 0 && inst.op.format != Vopc {
            inst.dst = inst.dst.wrapping_add(m0 as u8);
        }
        inst
    }
}

const fn inline_f32(code: u8) -> u32 {
    match code {
        240 => 0x3f00_0000,
        241 => 0xbf00_0000,
        242 => 0x3f80_0000,
        243 => 0xbf80_0000,
        244 => 0x4000_0000,
        245 => 0xc000_0000,
        246 => 0x4080_0000,
        247 => 0xc080_0000,
        _ => 0x3e22_f983,
    }
}

const fn inline_f64(code: u8) -> u64 {
    match code {
        248 => 0x3fc4_5f30_6dc9_c882,
        _ => (f32::from_bits(inline_f32(code)) as f64).to_bits(),
    }
}

pub(super) const fn inline_f16(code: u8) -> u32 {
    match code {
        240 => 0x3800,
        241 => 0xb800,
        242 => 0x3c00,
        243 => 0xbc00,
        244 => 0x4000,
        245 => 0xc000,
        246 => 0x4400,
        247 => 0xc400,
        _ => 0x3118,
    }
}
