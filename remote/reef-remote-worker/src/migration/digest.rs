//! Digests of memory, which the device makes of what it holds.
//!
//! The words of a piece, each mixed with its place in it, are added up twice, with different
//! constants. The device's threads add in any order, so it makes the same digest as
//! [`Digest::of`]. The mixing is `fmix64` of MurmurHash3; the multipliers are that one's and
//! SplitMix64's. A program that makes two pieces alike on purpose harms its own memory alone.

use super::memory::{Copier, PIECE, check};
use crate::state::shared::Shared;
use reef_remote_calls::Call;
use std::ffi::CString;
use std::fmt::Write;
use std::sync::Arc;

/// Multiple of a word's place, and two multipliers, of each sum.
const SUMS: [[u64; 3]; 2] = [
    [0x9e37_79b9_7f4a_7c15, 0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53],
    [0xd6e8_feb8_6659_fd93, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb],
];
/// Pieces of one launch.
const MAX_PIECES: usize = 4096;
/// Bytes before the digests: their number, for a driver of tests.
const HEAD: usize = 16;
/// Bytes of a digest.
const LEN: usize = 16;
/// Threads of a block, which makes one digest.
const THREADS: usize = 512;

/// The kernel, but for the mixing. A block adds up the words of a piece of 2 MiB, two at a time.
const KERNEL: [&str; 3] = [
    "
.version 6.0
.target sm_50
.address_size 64
.visible .entry reef_digest(.param .u64 from, .param .u64 out)
{
  .reg .pred p;
  .reg .b32 at, piece, step;
  .reg .b64 data, sums, word0, word1, place, x, y, s0, s1;
  ld.param.u64 data, [from];
  ld.param.u64 sums, [out];
  cvta.to.global.u64 data, data;
  cvta.to.global.u64 sums, sums;
  mov.u32 piece, %ctaid.x;
  mov.u32 step, %ntid.x;
  mov.u32 at, %tid.x;
  mul.wide.u32 x, piece, 2097152;
  add.u64 data, data, x;
  mul.wide.u32 x, piece, 16;
  add.u64 sums, sums, x;
  mov.u64 s0, 0;
  mov.u64 s1, 0;
NEXT:
  mul.wide.u32 x, at, 16;
  add.u64 x, data, x;
  ld.global.v2.u64 {word0, word1}, [x];
  mul.wide.u32 place, at, 2;
  add.u64 place, place, 1;
",
    "  add.u64 place, place, 1;\n",
    "
  add.u32 at, at, step;
  setp.lt.u32 p, at, 131072;
  @p bra NEXT;
  red.global.add.u64 [sums+16], s0;
  red.global.add.u64 [sums+24], s1;
  ret;
}
",
];

fn source() -> CString {
    let mix = |word: u32| {
        let mut text = String::new();
        for (sum, [place, first, second]) in SUMS.into_iter().enumerate() {
            let fold = "shr.u64 y, x, 33; xor.b64 x, x, y;";
            let _ = writeln!(
                text,
                "  mul.lo.u64 x, place, {place:#x}; xor.b64 x, x, word{word}; {fold}
  mul.lo.u64 x, x, {first:#x}; {fold}
  mul.lo.u64 x, x, {second:#x}; {fold}
  add.u64 s{sum}, s{sum}, x;"
            );
        }
        text
    };
    let [begin, between, end] = KERNEL;
    CString::new([begin, &mix(0), between, &mix(1), end].concat()).expect("it has no zero")
}

/// Digest of a piece of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest([u64; 2]);

impl Digest {
    /// Digest of these bytes; a last word is filled with zeros.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let last = (!rest.is_empty()).then_some(&last);
        let mut sums = [0_u64; 2];
        for (place, word) in (1_u64..).zip(words.iter().chain(last)) {
            let word = u64::from_le_bytes(*word);
            for (sum, [multiple, first, second]) in sums.iter_mut().zip(SUMS) {
                let mut x = place.wrapping_mul(multiple) ^ word;
                x = (x ^ x >> 33).wrapping_mul(first);
                x = (x ^ x >> 33).wrapping_mul(second);
                *sum = sum.wrapping_add(x ^ x >> 33);
            }
        }
        Self(sums)
    }
}

/// The kernel in a context.
#[derive(Debug)]
pub(crate) struct Digester {
    shared: Arc<Shared>,
    context: usize,
    module: usize,
    function: usize,
    /// Memory of the device for digests.
    out: u64,
    copier: Copier,
}

impl Digester {
    /// Makes the kernel in a context. `None` if that cannot be, or if it makes another digest than
    /// [`Digest::of`].
    pub(crate) fn new(shared: &Arc<Shared>, context: usize) -> Option<Self> {
        let copier = Copier::new(shared, context).ok()?;
        let (module, function, out) = (0, 0, 0);
        let mut this = Self { shared: shared.clone(), context, module, function, out, copier };
        let functions = &shared.driver.functions;
        let (text, name) = (source(), c"reef_digest".as_ptr() as usize);
        let [module, function] = [&raw mut this.module as usize, &raw mut this.function as usize];
        this.out = allocate(shared, HEAD + LEN * MAX_PIECES)?;
        // SAFETY: places for handles; texts that end with a zero; no options.
        unsafe {
            check(functions.load_module.call([module, text.as_ptr() as usize, 0, 0, 0])).ok()?;
            check(functions.module_function.call([function, this.module, name])).ok()?;
        }
        this.is_right().then_some(this)
    }

    /// Compares the digests of known bytes.
    fn is_right(&mut self) -> bool {
        let mut word = 1_u64;
        let words = (0..PIECE / 8).flat_map(|_| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(97);
            word.to_le_bytes()
        });
        let bytes: Vec<u8> = words.collect();
        let Some(at) = allocate(&self.shared, PIECE) else { return false };
        let made = self.copier.write(at, &bytes).and_then(|()| self.digests(at, 1));
        free(&self.shared, at);
        made == Ok(vec![Digest::of(&bytes)])
    }

    /// Makes the digests of `pieces` pieces, one after the other.
    ///
    /// # Errors
    ///
    /// The driver's code.
    pub(crate) fn of(&mut self, at: u64, pieces: usize) -> Result<Vec<Digest>, u32> {
        check(self.shared.driver.set_context(self.context))?;
        let mut all = Vec::with_capacity(pieces);
        while all.len() < pieces {
            let (done, count) = (all.len(), (pieces - all.len()).min(MAX_PIECES));
            all.extend(self.digests(at + (done * PIECE) as u64, count)?);
        }
        Ok(all)
    }

    fn digests(&mut self, at: u64, count: usize) -> Result<Vec<Digest>, u32> {
        let (out, len) = (self.out, LEN * count);
        self.copier.write(out, &(count as u64).to_le_bytes())?;
        self.copier.clear(out + HEAD as u64, len)?;
        let params = [&raw const at as usize, &raw const out as usize];
        let (launch, stream) = (self.shared.driver.functions.launch, self.copier.stream());
        let params = params.as_ptr() as usize;
        // SAFETY: a kernel of ours with two parameters, which reads pieces that are mapped and adds
        // to memory of ours.
        check(unsafe {
            launch.call([self.function, count, 1, 1, THREADS, 1, 1, 0, stream, params, 0])
        })?;
        let bytes = self.copier.read(out + HEAD as u64, len)?;
        let (words, _) = bytes.as_chunks::<8>();
        let (pairs, _) = words.as_chunks::<2>();
        Ok(pairs.iter().map(|pair| Digest(pair.map(u64::from_le_bytes))).collect())
    }
}

impl Drop for Digester {
    fn drop(&mut self) {
        self.shared.driver.set_context(self.context);
        free(&self.shared, self.out);
        if self.module != 0 {
            // SAFETY: a module of ours, whose kernels have ended.
            unsafe { self.shared.driver.of(Call::cuModuleUnload).call([self.module]) };
        }
    }
}

fn allocate(shared: &Shared, bytes: usize) -> Option<u64> {
    let mut at = 0_u64;
    let allocate = shared.driver.of(Call::cuMemAlloc_v2);
    // SAFETY: a place for an address.
    check(unsafe { allocate.call([&raw mut at as usize, bytes]) }).ok().map(|()| at)
}

fn free(shared: &Shared, at: u64) {
    if at == 0 {
        return;
    }
    // SAFETY: memory of ours that no work uses.
    unsafe { shared.driver.of(Call::cuMemFree_v2).call([at as usize]) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_depends_on_each_bit_and_on_places() {
        let bytes: Vec<u8> = (0..4096_u32).map(|at| ((at * at) >> 3) as u8).collect();
        let whole = Digest::of(&bytes);
        for bit in (0..8 * bytes.len()).step_by(37) {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Digest::of(&other), whole, "bit {bit}");
        }
        let mut other = bytes.clone();
        other.rotate_left(8);
        assert_ne!(Digest::of(&other), whole);
        assert_ne!(Digest::of(&[0; 8]), Digest::of(&[0; 16]));
        assert_eq!(Digest::of(&[1, 2]), Digest::of(&[1, 2, 0, 0, 0, 0, 0, 0]));
    }

    /// Another reading of the definition, so that a change of the constants is seen.
    #[test]
    fn digest_of_one_word_is_known() {
        assert_eq!(
            Digest::of(&7_u64.to_le_bytes()),
            Digest([0x2d54_0be8_3487_5d2f, 0xee50_305c_e1b1_7c8a])
        );
    }

    #[test]
    fn kernel_has_the_constants_of_the_digest() {
        let text = source().into_string().expect("ASCII");
        for constant in SUMS.into_iter().flatten() {
            assert_eq!(text.matches(&format!("{constant:#x}")).count(), 2, "{constant:#x}");
        }
        assert_eq!(text.matches("ld.global.v2").count(), 1);
    }
}
