//! Code that compilers make of a language's features, against the same computation here.

use crate::common::{Kernel, Mapped};

fn kernel(name: &str) -> Kernel {
    Kernel::load(include_bytes!("../kernels/features.hsaco"), name)
}

/// Numbers that look random, the same in every run.
fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    })
}

fn same32(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

fn same64(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn divisions_and_roots_are_rounded_correctly() {
    let divide = kernel("divide");
    let edges = [0.0, -0.0, f32::INFINITY, f32::NAN, 1e-45, f32::MIN_POSITIVE, f32::MAX, -1.0, 3.0];
    let wide = [0.0, -0.0, f64::INFINITY, f64::NAN, 5e-324, f64::MIN_POSITIVE, f64::MAX, -1.0, 3.0];
    for round in 0..40 {
        let mut random = numbers(round);
        let mut next = |k: usize| match k % 3 {
            0 => edges[(k / 3 + round as usize) % 9],
            _ => f32::from_bits(random.next().expect("endless") as u32),
        };
        let a: Vec<f32> = (0..64).map(&mut next).collect();
        let b: Vec<f32> = (0..64).map(|k| next(k * 7 + 1)).collect();
        let mut random = numbers(round + 1000);
        let mut next = |k: usize| match k % 3 {
            0 => wide[(k / 3 + round as usize) % 9],
            _ => f64::from_bits(random.next().expect("endless")),
        };
        let da: Vec<f64> = (0..64).map(&mut next).collect();
        let db: Vec<f64> = (0..64).map(|k| next(k * 7 + 1)).collect();
        let (mut q, mut dq) = (vec![0f32; 128], vec![0f64; 128]);
        let mut memory = Mapped::default();
        let arguments = [
            memory.map_mut(&mut q),
            memory.map(&a),
            memory.map(&b),
            memory.map_mut(&mut dq),
            memory.map(&da),
            memory.map(&db),
        ];
        divide.launch(&mut memory, [1, 1, 1], [64, 1, 1], &arguments).expect("runs");
        for k in 0..64 {
            assert!(same32(q[k], a[k] / b[k]), "{:e} / {:e}: {:e}", a[k], b[k], q[k]);
            assert!(same32(q[k + 64], a[k].sqrt()), "root of {:e}: {:e}", a[k], q[k + 64]);
            assert!(same64(dq[k], da[k] / db[k]), "{:e} / {:e}: {:e}", da[k], db[k], dq[k]);
            assert!(same64(dq[k + 64], da[k].sqrt()), "root of {:e}: {:e}", da[k], dq[k + 64]);
        }
    }
}

#[test]
fn integers_of_64_bits_divide_shift_and_count() {
    let a: Vec<u64> = numbers(1).zip(0..64).map(|(x, k)| x >> (k % 40)).collect();
    let b: Vec<u64> = numbers(2).zip(0..64).map(|(x, k)| x >> (k % 50) | 1).collect();
    let mut out = vec![0u64; 384];
    let mut memory = Mapped::default();
    let arguments = [memory.map_mut(&mut out), memory.map(&a), memory.map(&b)];
    kernel("integers").launch(&mut memory, [1, 1, 1], [64, 1, 1], &arguments).expect("runs");
    for k in 0..64 {
        let (x, y) = (a[k], b[k]);
        assert_eq!(out[k], x / y, "{x:x} / {y:x}");
        assert_eq!(out[k + 64], x % y, "{x:x} % {y:x}");
        assert_eq!(out[k + 128], (x as i64).wrapping_div(y as i64) as u64, "{x:x} / {y:x}, signed");
        let low = (x as i32).wrapping_rem(y as i32) as u32;
        assert_eq!(out[k + 192], u64::from(x as u32 / y as u32) << 32 | u64::from(low));
        assert_eq!(out[k + 256], x << (y & 63) ^ x >> (y & 31) ^ (x as i64 >> (y & 63)) as u64);
        let (zeros, trail) = ((x | 1).leading_zeros(), (y | 1 << 63).trailing_zeros());
        assert_eq!(out[k + 320], u64::from(x.count_ones() + zeros * 100 + trail * 10_000));
    }
}

#[test]
fn private_arrays_are_each_lanes_own() {
    let n = 50;
    let index: Vec<i32> = numbers(3).take(64).map(|x| (x % 1000) as i32).collect();
    let mut out = vec![0i32; 64];
    let mut memory = Mapped::default();
    let arguments = [memory.map_mut(&mut out), memory.map(&index), n];
    kernel("arrays").launch(&mut memory, [1, 1, 1], [64, 1, 1], &arguments).expect("runs");
    for lane in 0..64i32 {
        let mut a: Vec<i32> = (0..64).map(|k| k * index[k as usize]).collect();
        let mut v = index[..6].to_vec();
        let mut sum = lane;
        for k in 0..n as usize {
            let at = ((index[k] + lane) & 63) as usize;
            a[at] = a[at].wrapping_add(sum);
            v[(index[k] as usize + k) % 6] ^= sum;
            sum = sum.wrapping_add(a[((sum ^ index[k]) & 63) as usize]).wrapping_add(v[k % 6]);
        }
        assert_eq!(out[lane as usize], sum, "lane {lane}");
    }
}

#[test]
fn a_generic_pointer_reaches_shared_private_and_global_memory() {
    for which in 0..3 {
        let mut out = vec![0i32; 128];
        let mut memory = Mapped::default();
        let arguments = [memory.map_mut(&mut out), which];
        kernel("generic").launch(&mut memory, [1, 1, 1], [64, 1, 1], &arguments).expect("runs");
        for lane in 0..64i32 {
            let by = |this: u64| if which == this { 12 } else { 0 };
            let expected = 63 - lane + by(0) + ((lane & 7) * 3 + by(1)) * 1000;
            assert_eq!(out[lane as usize], expected, "lane {lane}, memory {which}");
            assert_eq!(out[64 + lane as usize], by(2), "lane {lane}, memory {which}");
        }
    }
}

#[test]
fn atomics_lose_nothing() {
    let (mut u, mut l, mut f) = (vec![0u32, 7, 0, 0, 0], vec![0u64; 5], vec![1f32, 0.0]);
    let mut memory = Mapped::default();
    let arguments = [memory.map_mut(&mut u), memory.map_mut(&mut l), memory.map_mut(&mut f)];
    kernel("atomics").launch(&mut memory, [1, 1, 1], [256, 1, 1], &arguments).expect("runs");
    assert_eq!((u[0], u[1], u[4]), (255, 7, 256));
    assert!((1..=256).contains(&u[2]) && u[2] == u[3], "{u:?}");
    assert_eq!(l, [256 << 33, u64::MAX, u64::MAX, u64::MAX, u64::MAX]);
    assert_eq!(f, [65.0, 128.0]);
}

#[test]
fn lanes_exchange_by_permutation_and_by_rows() {
    let x: Vec<i32> = numbers(4).take(64).map(|x| (x % 200) as i32).collect();
    let mut out = vec![0i32; 256];
    let mut memory = Mapped::default();
    let arguments = [memory.map_mut(&mut out), memory.map(&x)];
    kernel("lanes").launch(&mut memory, [1, 1, 1], [64, 1, 1], &arguments).expect("runs");
    let below = x.iter().filter(|&&x| (x as u32) < 100).count() as i32;
    for lane in 0..64 {
        assert_eq!(out[lane], x.iter().sum::<i32>());
        assert_eq!(out[lane + 64], x[..=lane].iter().sum::<i32>(), "prefix of {lane}");
        assert_eq!(out[lane + 128], below + x[17] + x[0]);
        assert_eq!(out[lane + 192], x[lane ^ 1]);
    }
}

#[test]
fn halves_come_in_pairs_and_mix_with_floats() {
    // Small integers and quarters, for which every step is exact.
    let small = |seed| numbers(seed).map(|x| (x % 32) as f32 / 4.0 - 4.0);
    let pack = |a: f32, b: f32| u32::from(half(a)) | u32::from(half(b)) << 16;
    let (a, b): (Vec<f32>, Vec<f32>) = (small(5).take(128).collect(), small(6).take(128).collect());
    let pairs = |x: &[f32]| x.chunks(2).map(|x| pack(x[0], x[1])).collect::<Vec<u32>>();
    let (pa, pb) = (pairs(&a), pairs(&b));
    let h: Vec<u16> = a.iter().map(|&x| half(x)).collect();
    let mut f: Vec<f32> = small(7).take(64).collect();
    let before = f.clone();
    let mut out = vec![0u32; 160];
    let mut memory = Mapped::default();
    let arguments = [
        memory.map_mut(&mut out),
        memory.map(&pa),
        memory.map(&pb),
        memory.map_mut(&mut f),
        memory.map(&h),
    ];
    kernel("halves").launch(&mut memory, [1, 1, 1], [64, 1, 1], &arguments).expect("runs");
    for k in 0..64 {
        let pair = |f: &dyn Fn(f32, f32) -> f32| {
            pack(f(a[2 * k], b[2 * k]), f(a[2 * k + 1], b[2 * k + 1]))
        };
        assert_eq!(out[k], pair(&|a, b| a * b + a), "pair {k}");
        assert_eq!(out[k + 64], pair(&|a, b| a.max(b) - b), "pair {k}");
        assert_eq!(f[k], a[k] * a[k + 64] + before[k]);
        let stored = out[128 + k / 2] >> (16 * (k % 2)) & 0xffff;
        assert_eq!(stored, u32::from(half(f[k])), "half {k}");
    }
}

/// The half that equals a float, for floats that have one.
fn half(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    if x == 0.0 {
        return sign;
    }
    let exponent = (bits >> 23 & 0xff) as i32 - 112;
    assert!(bits & 0x1fff == 0 && (1..31).contains(&exponent), "{x} is not a half");
    sign | (exponent as u16) << 10 | (bits >> 13 & 0x3ff) as u16
}
