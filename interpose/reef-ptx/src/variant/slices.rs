//! Cuts of a launch into slices.
//!
//! In goes a launch with its measured duration; out come rectangles of its grid. *Invariant*: each
//! block is in exactly one of them, and they are in the order of the grid, x fastest. A slice
//! has whole waves where the grid allows it: a wave is the blocks that the device runs at a time.

use std::time::Duration;

/// Time for which the device does nothing between two slices: the launch, its gate, the end of the
/// last blocks. 5 µs with gates on an H200.
const BETWEEN: f64 = 5e-6;
/// Upper bound of the predicted time of all slices, as a multiple of the launch's.
const MAX_COST: f64 = 1.15;
/// Weight of a slice's length against the time of all: a slice of twice the length must save 10 %.
const LENGTH_WEIGHT: f64 = 0.1;
/// Sizes that are tried for each dimension.
const MAX_TRIED: u64 = 256;

/// Launch that is to be cut.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Launched {
    /// Size of its grid, in blocks.
    pub grid: [u32; 3],
    /// Blocks that the device runs at a time.
    pub wave: u64,
    /// Its measured duration.
    pub duration: Duration,
    /// Duration that a slice should have.
    pub slice: Duration,
    /// Upper bound of the number of slices.
    pub most: u32,
}

/// Part of a launch: a rectangle of its grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Position of its first block in the whole grid.
    pub offset: [u32; 3],
    /// Size, in blocks.
    pub blocks: [u32; 3],
}

/// Cut along one dimension: faster dimensions are whole, slower ones are taken one by one.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cut {
    dimension: usize,
    size: u32,
    /// Predicted time of all slices, in seconds.
    cost: f64,
    /// The cost, or more if slices are longer than they should be.
    weighed: f64,
}

/// Slices of a launch.
///
/// # Errors
///
/// The reason for which it has none.
pub fn slices(of: &Launched) -> Result<Vec<Slice>, &'static str> {
    let total = blocks(of.grid);
    let waves = total.div_ceil(of.wave.max(1));
    if total == 0 || waves < 2 {
        return Err("all its blocks run at a time");
    }
    let cuts = (0..3).filter(|dimension| of.grid[*dimension] > 1);
    let best = cuts
        .flat_map(|dimension| tried(of, dimension))
        .reduce(|best, other| if other.weighed < best.weighed { other } else { best });
    match best {
        None => Err("its grid gives too many slices, or too long ones"),
        Some(cut) if cut.cost > MAX_COST * of.duration.as_secs_f64() => {
            Err("slices would take 15 % longer or more")
        }
        Some(cut) => Ok(rectangles(of.grid, cut)),
    }
}

fn blocks(grid: [u32; 3]) -> u64 {
    grid.into_iter().fold(1, |product, side| product.saturating_mul(side.into()))
}

/// Cuts along a dimension whose slices are neither too many nor too long.
fn tried(of: &Launched, dimension: usize) -> impl Iterator<Item = Cut> {
    let (of, wave) = (*of, of.wave.max(1));
    let waves = blocks(of.grid).div_ceil(wave);
    let of_wave = of.duration.as_secs_f64() / waves as f64;
    let unit: u64 = of.grid[..dimension].iter().map(|side| u64::from(*side)).product();
    let lines: u64 = of.grid[dimension + 1..].iter().map(|side| u64::from(*side)).product();
    let side = u64::from(of.grid[dimension]);
    // As many waves as a slice should have, or more if there were too many slices.
    let wanted = (of.slice.as_secs_f64() / of_wave).round().max(1.0) as u64;
    let wanted = wanted.max(waves.div_ceil(u64::from(of.most.max(1))));
    let sizes = move |waves: u64| (wave.saturating_mul(waves) / unit.max(1)).clamp(1, side);
    let (least, most) = (sizes(wanted.div_ceil(2)), sizes(wanted.saturating_mul(2)));
    // Sizes of whole waves, where they are, come first among equals.
    let whole = (wanted.div_ceil(2)..=wanted.saturating_mul(2)).take(MAX_TRIED as usize).map(sizes);
    let step = ((most - least) / MAX_TRIED).max(1);
    let between = (least..=most).step_by(step as usize);
    whole.chain(between).filter_map(move |size| {
        let count = lines.saturating_mul(side.div_ceil(size));
        let waves_of = |size: u64| (size.saturating_mul(unit)).div_ceil(wave) as f64;
        let length = waves_of(size) * of_wave;
        let should = of.slice.as_secs_f64().max(wanted as f64 * of_wave);
        let excess = (length / should - 1.0).max(0.0);
        let is_short = excess <= 2.0;
        let rest = if side % size == 0 { 0.0 } else { waves_of(side % size) };
        let all = lines as f64 * ((side / size) as f64 * waves_of(size) + rest) * of_wave;
        let cost = all + count as f64 * BETWEEN;
        let is_right = count > 1 && count <= of.most.into() && is_short;
        let weighed = cost * (1.0 + LENGTH_WEIGHT * excess);
        is_right.then_some(Cut { dimension, size: size as u32, cost, weighed })
    })
}

fn rectangles(grid: [u32; 3], cut: Cut) -> Vec<Slice> {
    let lines =
        blocks(grid) / grid[..=cut.dimension].iter().map(|side| u64::from(*side)).product::<u64>();
    let mut all = Vec::new();
    for line in 0..lines {
        let mut offset = [0; 3];
        let mut rest = line;
        for (at, side) in grid.iter().enumerate().skip(cut.dimension + 1) {
            offset[at] = (rest % u64::from(*side)) as u32;
            rest /= u64::from(*side);
        }
        let mut begin = 0;
        while begin < grid[cut.dimension] {
            let size = cut.size.min(grid[cut.dimension] - begin);
            let mut blocks = [1; 3];
            blocks[..cut.dimension].copy_from_slice(&grid[..cut.dimension]);
            (offset[cut.dimension], blocks[cut.dimension]) = (begin, size);
            all.push(Slice { offset, blocks });
            begin += size;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLICE: Duration = Duration::from_micros(200);

    fn launched(grid: [u32; 3], wave: u64, micros: u64) -> Launched {
        Launched { grid, wave, duration: Duration::from_micros(micros), slice: SLICE, most: 240 }
    }

    /// Numbers of the blocks of slices, in their order.
    fn numbers(grid: [u32; 3], all: &[Slice]) -> Vec<u64> {
        let mut numbers = Vec::new();
        for Slice { offset, blocks } in all {
            for z in 0..blocks[2] {
                for y in 0..blocks[1] {
                    for x in 0..blocks[0] {
                        let [x, y, z] =
                            [x + offset[0], y + offset[1], z + offset[2]].map(u64::from);
                        numbers.push((z * u64::from(grid[1]) + y) * u64::from(grid[0]) + x);
                    }
                }
            }
        }
        numbers
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn each_block_is_in_one_slice_and_in_its_order(
            x in 1..120_u32, y in 1..20_u32, z in 1..10_u32, wave in 1..500_u64, micros in 500..200_000_u64
        ) {
            let of = launched([x, y, z], wave, micros);
            if let Ok(all) = slices(&of) {
                let total = u64::from(x) * u64::from(y) * u64::from(z);
                prop_assert_eq!(numbers(of.grid, &all), (0..total).collect::<Vec<_>>());
                prop_assert!(all.len() > 1 && all.len() <= 240, "{} slices", all.len());
                let of_wave = micros as f64 / total.div_ceil(wave) as f64;
                let longest = all.iter().map(|slice| blocks(slice.blocks).div_ceil(wave)).max();
                let bound = 3.0 * f64::max(200.0, 2.0 * of_wave.max(micros as f64 / 240.0));
                prop_assert!(longest.unwrap() as f64 * of_wave <= bound, "{longest:?} of {of_wave} µs");
            }
        }
    }

    #[test]
    fn slices_of_a_line_are_whole_waves() {
        // Triton's product of 8,192² on an H200: 132 blocks at a time, 283 µs each.
        let all = slices(&launched([4096, 1, 1], 132, 8790)).unwrap();
        assert!(all[..all.len() - 1].iter().all(|slice| slice.blocks[0] % 132 == 0), "{all:?}");
        assert_eq!(all.len(), 32);
    }

    #[test]
    fn slices_of_a_plane_are_rows() {
        // 64 rows of 64 blocks: two rows are 128 blocks, and three of them two waves.
        let all = slices(&launched([64, 64, 1], 132, 8790)).unwrap();
        assert!(all.iter().all(|slice| slice.blocks[0] == 64));
        assert_eq!(all[0].blocks, [64, 2, 1]);
    }

    #[test]
    fn long_row_is_cut_itself() {
        let all = slices(&launched([100_000, 3, 1], 2000, 30_000)).unwrap();
        assert!(all.iter().all(|slice| slice.blocks[1] == 1 && slice.blocks[0] < 10_000));
    }

    #[test]
    fn launch_that_fits_is_not_cut() {
        assert_eq!(slices(&launched([132, 1, 1], 132, 5000)), Err("all its blocks run at a time"));
        let slow = slices(&launched([200, 1, 1], 132, 5000)).unwrap();
        assert_eq!(slow.len(), 2);
    }

    #[test]
    fn long_launch_has_no_more_slices_than_the_bound() {
        let all = slices(&launched([1 << 20, 1, 1], 2112, 1_000_000)).unwrap();
        assert!(all.len() <= 240 && all.len() > 120, "{}", all.len());
    }
}
