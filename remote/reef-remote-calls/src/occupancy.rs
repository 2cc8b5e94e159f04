//! Choice of a block's size.

/// Returns the largest number of threads, of whole warps up to `most`, by which most threads are
/// resident, and how many such blocks a multiprocessor has: zeros if none fits.
///
/// `active` tells how many blocks of that size a multiprocessor has at a time, and `resident`
/// is the number of threads that it has at most.
///
/// # Errors
///
/// The first one of `active`.
pub fn largest_block<E>(
    most: i32,
    warp: i32,
    resident: i32,
    mut active: impl FnMut(i32) -> Result<i32, E>,
) -> Result<(i32, i32), E> {
    let (mut best, mut threads) = ((0, 0), most);
    while threads > 0 {
        let blocks = active(threads)?;
        if resident_threads(threads, blocks) > resident_threads(best.0, best.1) {
            best = (threads, blocks);
        }
        if resident_threads(best.0, best.1) == i64::from(resident) {
            break;
        }
        threads = (threads - 1) / warp * warp;
    }
    Ok(best)
}

fn resident_threads(threads: i32, blocks: i32) -> i64 {
    i64::from(threads) * i64::from(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_resident_threads_by_the_largest_blocks() {
        // 2048 threads and 16 blocks at most: 1024 is the first that fills it.
        let active = |threads: i32| Ok::<_, ()>((2048 / threads).min(16));
        assert_eq!(largest_block(1024, 32, 2048, active), Ok((1024, 2)));
        // A bound in the middle of a warp is tried as well.
        assert_eq!(largest_block(1000, 32, 2048, active), Ok((512, 4)));
        // 1500 threads' worth of registers: blocks of 736 leave the least over.
        let active = |threads: i32| Ok::<_, ()>(1500 / threads);
        assert_eq!(largest_block(1024, 32, 2048, active), Ok((736, 2)));
        assert_eq!(largest_block(1024, 32, 2048, |_| Err(7)), Err(7));
        assert_eq!(largest_block(0, 32, 2048, active), Ok((0, 0)));
        let active = |_| Ok::<_, ()>(i32::MAX);
        assert_eq!(largest_block(1024, 32, 2048, active), Ok((1024, i32::MAX)));
    }
}
