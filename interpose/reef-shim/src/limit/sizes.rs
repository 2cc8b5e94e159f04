//! Upper bounds of the memory of arrays, because the driver doesn't return it.

/// Arrays of more bytes than this are multiples of it; smaller ones are powers of two.
const ARRAY_UNIT: u64 = 64 << 10;
/// Units of arrays: bytes of a row, number of rows, and bytes of a mipmap level.
const ROW_UNIT: u64 = 64;
const ROWS: u64 = 8;
const LEVEL_UNIT: u64 = 4 << 10;
/// Unit of the depth of a volume; a smaller depth is a power of two.
const DEPTH_UNIT: u64 = 16;
/// Allocations of more bytes than this have blocks of their own; smaller ones share a block.
pub(crate) const MAX_SHARED: u64 = 1 << 20;
pub(crate) const BLOCK: u64 = 2 << 20;
const SHARED_UNIT: u64 = 512;

/// Arrays whose memory is mapped later: `CUDA_ARRAY3D_SPARSE` and `CUDA_ARRAY3D_DEFERRED_MAPPING`.
const WITHOUT_MEMORY: u32 = 0x40 | 0x80;

/// Arrays whose depth is a number of layers or faces, which each level has: `CUDA_ARRAY3D_LAYERED`
/// and `CUDA_ARRAY3D_CUBEMAP`.
const IN_LAYERS: u32 = 0x01 | 0x04;

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flat {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) format: u32,
    pub(crate) channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deep {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    pub(crate) format: u32,
    pub(crate) channels: u32,
    pub(crate) flags: u32,
}

impl Flat {
    pub(crate) fn bytes(&self) -> u64 {
        let Self { width, height, format, channels } = *self;
        Deep { width, height, depth: 0, format, channels, flags: 0 }.bytes(1)
    }
}

impl Deep {
    /// Returns the bytes of an array with `levels` levels of half the size each.
    pub(crate) fn bytes(&self, levels: u32) -> u64 {
        if self.flags & WITHOUT_MEMORY != 0 {
            return 0;
        }
        let (texels, bytes) = texel_block(self.format, self.channels);
        let level = |level: u32| {
            let side = |side: usize| (side as u64 >> level.min(63)).max(1);
            // Also a line takes eight rows.
            let rows = round_up(side(self.height).div_ceil(texels), ROWS);
            let row = side(self.width).div_ceil(texels).saturating_mul(bytes);
            let row = round_up(row, ROW_UNIT);
            let depth = match self.flags & IN_LAYERS {
                0 => padded_depth(side(self.depth)),
                _ => self.depth.max(1) as u64,
            };
            let bytes = row.saturating_mul(rows).saturating_mul(depth);
            if levels > 1 { round_up(bytes, LEVEL_UNIT) } else { bytes }
        };
        let sum = (0..levels.clamp(1, 32)).fold(0_u64, |sum, at| sum.saturating_add(level(at)));
        if sum < ARRAY_UNIT {
            sum.max(LEVEL_UNIT).next_power_of_two()
        } else {
            round_up(sum, ARRAY_UNIT)
        }
    }
}

fn padded_depth(depth: u64) -> u64 {
    round_up(depth, depth.min(DEPTH_UNIT).next_power_of_two())
}

/// Returns the side of a format's blocks in texels, and the bytes of a block with these channels
/// (`CUarray_format`). For video and unknown formats it is a texel, with the maximum of all.
fn texel_block(format: u32, channels: u32) -> (u64, u64) {
    let each = |bytes: u64| bytes.saturating_mul(u64::from(channels.max(1)));
    let texel = match format {
        0x01 | 0x08 => each(1),
        0x02 | 0x09 | 0x10 => each(2),
        0x03 | 0x0a | 0x20 => each(4),
        // `…_BC1…` and `…_BC4…`, then `…_BC2…`, `…_BC3…` and `…_BC5…` to `…_BC7…`.
        0x91 | 0x92 | 0x97 | 0x98 => return (4, 8),
        0x93..=0x96 | 0x99..=0x9e => return (4, 16),
        // `…_INT_101010_2` and `…_INT8X1` to `…_INT16X4`, which name the number of their channels.
        0x50 => 4,
        0xc0 | 0xc6 => 1,
        0xc1 | 0xc3 | 0xc7 | 0xc9 => 2,
        0xc2 | 0xc4 | 0xc8 | 0xca => 4,
        0xc5 | 0xcb => 8,
        _ => 16,
    };
    (1, texel)
}

/// Returns the bytes that the driver allocates for `bytes`.
pub(crate) fn granted(bytes: u64) -> u64 {
    round_up(bytes, if bytes > MAX_SHARED { BLOCK } else { SHARED_UNIT })
}

/// Returns the next multiple of `unit`, or the largest number.
pub(crate) fn round_up(bytes: u64, unit: u64) -> u64 {
    bytes.checked_next_multiple_of(unit).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mipmapped arrays on an H200 (driver 580.159.04), with what they took in MiB.
    #[test]
    fn levels_are_charged_what_a_driver_took() {
        let of = |width, height, depth, flags, levels| {
            Deep { width, height, depth, format: 0x20, channels: 1, flags }.bytes(levels) >> 20
        };
        for (charged, took) in [
            (of(8192, 0, 2048, 0x01, 14), 1028),
            (of(512, 512, 256, 0x01, 10), 342),
            (of(512, 512, 240, 0x05, 10), 322),
            (of(512, 512, 256, 0, 10), 294),
        ] {
            assert!((took - took / 100..=took + took / 20).contains(&charged), "{charged}, {took}");
        }
    }

    /// Arrays on an H200 (driver 580.159.04), with what they took in KiB.
    #[test]
    fn arrays_are_charged_what_a_driver_took() {
        for (width, height, format, channels, took) in [
            (32, 32, 0x01, 4, 4),
            (64, 64, 0x01, 4, 16),
            (128, 64, 0x01, 4, 32),
            (100, 100, 0x20, 1, 64),
            (500, 500, 0x20, 1, 1024),
            (1024, 1024, 0x91, 4, 512),
            (4096, 4096, 0x9d, 4, 16 << 10),
            (100, 0, 0x20, 1, 4),
            (1000, 0, 0x20, 1, 32),
            (16384, 0, 0x20, 1, 512),
        ] {
            let bytes = Flat { width, height, format, channels }.bytes();
            assert_eq!(bytes, took << 10, "{width}x{height}, {format:#x}");
        }
        let line = Flat { width: 100_000, height: 0, format: 0x20, channels: 1 };
        assert_eq!(round_up(line.bytes(), BLOCK), 4 << 20);
    }

    /// Volumes of singles on an H200 (driver 580.159.04), with what they took in KiB.
    #[test]
    fn volumes_are_charged_what_a_driver_took() {
        let bytes = |width, height, depth, flags| {
            Deep { width, height, depth, format: 0x20, channels: 1, flags }.bytes(1)
        };
        for (width, height, depth, took) in [
            (500, 300, 3, 4096),
            (500, 300, 5, 6144),
            (500, 300, 9, 10240),
            (500, 300, 17, 20480),
            (500, 300, 33, 30720),
            (500, 300, 65, 49152),
            (100, 100, 100, 6144),
            (256, 256, 6, 2048),
        ] {
            let charged = round_up(bytes(width, height, depth, 0), BLOCK);
            assert_eq!(charged, took << 10, "{width}x{height}x{depth}");
        }
        assert_eq!(round_up(bytes(500, 300, 5, 0x01), BLOCK), 4 << 20, "five layers");
    }

    /// A texel has 16 bytes at most, however many channels its format has.
    #[test]
    fn channels_of_packed_formats_count_once() {
        let bytes = |format| Flat { width: 1024, height: 1024, format, channels: 4 }.bytes();
        assert_eq!([0xb0, 0x7fff].map(bytes), [16 << 20; 2], "video and unknown formats");
        assert_eq!([0xc2, 0xcb, 0x20, 0x01].map(bytes), [4 << 20, 8 << 20, 16 << 20, 4 << 20]);
    }
}
