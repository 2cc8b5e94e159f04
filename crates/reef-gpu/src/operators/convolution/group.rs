//! Several convolutions as one launch: one by one they leave most of a large GPU idle, and each
//! waits for the one before.
//!
//! Blocks find their convolution by their number: `ConvGroup` in kernels/conv.h. Convolutions share
//! a launch if their kernels differ by the tile alone, which is then chosen for all of them
//! (`tiles::common`). They don't convert their input and add no residual. Parts of split sums lie
//! one after the other in scratch memory.
//!
//! Invariant: outputs have the same bits as those of launches of their own. So images with and
//! without kernels for several agree, and so does a remote device, which has no such launches.

use super::build::{plan, tiles};
use super::quantized;
use super::tiled::{COUNTS, family, scratch_memory, tile_params};
use crate::code::guard::MAX_BLOCKS;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::element::{Element, has_tensor_cores};
use crate::operators::operand::{check_window, is_in_fours};
use crate::operators::params::{CONVS, ConvGroupParams, ConvParams};
use crate::operators::site::BoundOp;
use crate::operators::tiles::common::CommonTile;
use crate::operators::tiles::slabs::{ImplicitGemm, Shape};
use crate::operators::tiles::tile::{Body, Plan, Tile};
use reef_core::{Error, Launch, Result};
use reef_op::rounding::Rounded;
use reef_op::{Conv2d, Op, Operands, Operators, Scratch};

/// A convolution that may share a launch.
#[derive(Debug, Clone, Copy)]
struct Member<'a> {
    op: &'a Conv2d,
    shape: Shape,
    /// Name of the kernels that multiply as it does.
    family: &'static str,
    /// Tiles that it has by itself.
    tiles: &'static [Tile],
    /// Its plan by itself.
    plan: Plan,
}

impl<'a> Member<'a> {
    /// `None` if it is launched by itself.
    fn new<V: Vendor>(gpu: &Gpu<V>, op: &'a Op, rounded: Rounded) -> Option<Self> {
        let Op::Conv2d(conv) = op else { return None };
        op.check().ok()?;
        let element = Element::of(gpu);
        let by_tensor_cores = has_tensor_cores(gpu) && element != Element::F32;
        if !by_tensor_cores || conv.residual || quantized::family(conv).is_some() {
            return None;
        }
        // Else its function has a launch of its own.
        let has_function = conv.function.is_none() || !conv.relu && is_in_fours(&conv.output);
        let gemm = ImplicitGemm::new(conv, element)?;
        if !has_function || gemm.converts || !gemm.fits_words(conv, element) {
            return None;
        }
        let rounded = rounded.within(gpu.rounding(op));
        let family = family(gpu, conv, &gemm, rounded);
        let tiles = tiles(gpu, conv, &gemm, rounded);
        let (plan, shape) = (plan(gpu, conv, &gemm, rounded), gemm.shape(conv));
        let is_of_network = plan.tile.body == Body::Network; // warpgroups add in another order
        is_of_network.then_some(Self { op: conv, shape, family, tiles, plan })
    }

    /// Tiles of kernels for several: `CONV_GROUP` in kernels/network.cu.
    fn common_tiles(&self) -> Vec<Tile> {
        let has = |tile: &Tile| self.family == "f16" || tile.outputs < 64;
        let of_network = self.tiles.iter().copied().filter(|tile| tile.body == Body::Network);
        of_network.filter(has).collect()
    }
}

/// Members that `ops` are, from the first on, as long as their kernels are alike.
fn members<'a, V: Vendor>(
    gpu: &Gpu<V>,
    ops: impl Iterator<Item = (&'a Op, Rounded)>,
) -> Vec<Member<'a>> {
    let mut members: Vec<Member<'a>> = Vec::new();
    for member in ops.take(CONVS).map_while(|(op, rounded)| Member::new(gpu, op, rounded)) {
        if members.first().is_some_and(|first| first.family != member.family) {
            break;
        }
        members.push(member);
    }
    members
}

/// Plans of `members` as one launch, if they have one. Images that were made before there were
/// kernels for several have none.
fn common<V: Vendor>(gpu: &Gpu<V>, members: &[Member<'_>]) -> Option<CommonTile> {
    let first = members.first()?;
    let shapes: Vec<Shape> = members.iter().map(|member| member.shape).collect();
    let alone: Vec<Plan> = members.iter().map(|member| member.plan).collect();
    let common = CommonTile::new(&first.common_tiles(), &alone, &shapes, gpu.facts())?;
    let plans = common.plans.iter().zip(&shapes);
    let blocks: usize = plans.map(|(plan, shape)| plan.blocks(shape)).sum();
    let kernel = kernel_name(first, &common.plans[0].tile);
    let is_there = || gpu.network().is_ok_and(|builds| builds.functions(&kernel, 0).is_ok());
    (blocks <= MAX_BLOCKS as usize && is_there()).then_some(common)
}

/// Name of the kernel for `member` and others by this tile.
fn kernel_name(member: &Member<'_>, tile: &Tile) -> String {
    format!("convs_{}_{}x{}", member.family, tile.pixels, tile.outputs)
}

/// Microseconds that one launch takes less than each by itself, as far as the model knows, and the
/// launch's plans.
fn gain<V: Vendor>(gpu: &Gpu<V>, members: &[Member<'_>]) -> Option<(f64, CommonTile)> {
    let common = common(gpu, members)?;
    let alone = |member: &Member<'_>| member.plan.micros(&member.shape, gpu.facts());
    Some((members.iter().map(alone).sum::<f64>() - common.micros, common))
}

/// Number of `ops`, from the first on, that are best one launch, and its scratch memory. Of several
/// such numbers it is the one that gains most.
pub(in crate::operators) fn grouped<V: Vendor>(
    gpu: &Gpu<V>,
    ops: &[(&Op, Rounded)],
) -> Option<(usize, Scratch)> {
    let members = members(gpu, ops.iter().copied());
    let gains = (2..=members.len()).filter_map(|count| gain(gpu, &members[..count]));
    let (gain, common) = gains.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let count = common.plans.len();
    (gain > 0.0).then(|| (count, scratch_of(&common.plans, &members[..count])))
}

/// Counts, and parts of sums of each.
fn scratch_of(plans: &[Plan], members: &[Member<'_>]) -> Scratch {
    let each = plans.iter().zip(members).map(|(plan, member)| partials(plan, &member.shape));
    let bytes: usize = each.sum();
    if bytes == 0 {
        return Scratch::default();
    }
    Scratch { zeroed: COUNTS, bytes: COUNTS + bytes }
}

/// Bytes from the parts of one's sums to those of the next.
fn partials(plan: &Plan, shape: &Shape) -> usize {
    shape.partials(plan.splits).next_multiple_of(64)
}

/// The launch of all of them; `None` if they have none in common.
///
/// # Errors
///
/// `Invalid` if what one writes overlaps what another reads or writes, or as of each by itself.
pub(in crate::operators) fn build<V: Vendor>(
    gpu: &Gpu<V>,
    ops: &[(&Op, Operands<'_, Gpu<V>>)],
) -> Result<Option<Launch<Gpu<V>>>> {
    let members = members(gpu, ops.iter().map(|(op, operands)| (*op, operands.rounded)));
    if ops.len() < 2 || members.len() < ops.len() {
        return Ok(None);
    }
    let Some(CommonTile { plans, .. }) = common(gpu, &members) else { return Ok(None) };
    let bound = ops
        .iter()
        .map(|(op, operands)| Ok(BoundOp::new(gpu, op, operands)?.rounding(gpu.rounding(op))));
    let bound = bound.collect::<Result<Vec<BoundOp<'_, V>>>>()?;
    if bound.iter().any(|bound| bound.second.is_some()) {
        return Ok(None); // refused one by one
    }
    check_apart(&bound)?;
    let memory = scratch_memory(&bound[0], scratch_of(&plans, &members).bytes)?;
    let (mut params, mut begins) = (Vec::with_capacity(ops.len()), [u32::MAX; CONVS]);
    let (mut blocks, mut arrivals, mut parts) = (0, memory, memory + COUNTS as u64);
    for (k, (bound, (member, plan))) in bound.iter().zip(members.iter().zip(&plans)).enumerate() {
        let Member { op, shape, .. } = member;
        check_window(&op.window, &op.input, &op.output)?;
        params.push(tile_params(bound, op, &bound.input, plan, shape, [arrivals, parts]));
        begins[k] = blocks;
        blocks += plan.blocks(shape) as u32;
        if plan.splits > 1 {
            arrivals += (plan.blocks(shape) / plan.splits * size_of::<u32>()) as u64;
            parts += partials(plan, shape) as u64;
        }
    }
    let mut of: [ConvParams; CONVS] = [params[0]; CONVS]; // those that are not there have no blocks
    of[..params.len()].copy_from_slice(&params);
    let (tile, group) = (&plans[0].tile, ConvGroupParams { of, begins });
    let name = kernel_name(&members[0], tile);
    let launch = bound[0].launch_exactly(&name, blocks, tile.threads, tile.shared(), &group)?;
    let buffers = bound.iter().flat_map(BoundOp::buffers).cloned().collect();
    Ok(Some(launch.keep(buffers)))
}

/// Checks that none writes what another reads or writes.
fn check_apart<V: Vendor>(bound: &[BoundOp<'_, V>]) -> Result<()> {
    for (k, one) in bound.iter().enumerate() {
        let others = bound.iter().enumerate().filter(|(other, _)| *other != k);
        let mut used = others.flat_map(|(_, other)| [&other.input, &other.output]);
        if used.any(|used| used.meets(&one.output)) {
            return Err(Error::invalid("outputs", "cannot overlap"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;
    use crate::hal::options::{Options, Precision};
    use crate::operators::pack;
    use crate::operators::tiles::tile::WARPS;
    use reef_core::Device;
    use reef_op::{Layout, Storage, Tensor, Window};

    /// Bytes from one storage of these tests to the next.
    const APART: usize = 1 << 20;
    /// Words of the parameters of one convolution.
    const WORDS: usize = size_of::<ConvParams>() / 8;

    fn gpu(precision: Precision) -> Gpu<Fake> {
        let options = Options { precision: Some(precision), ..Options::default() };
        Gpu::new(Fake::with_tensor_cores(132), options).unwrap()
    }

    fn native(channels: usize, side: usize) -> Tensor {
        Tensor::new(Layout::Native, [1, channels, side, side])
    }

    /// A convolution by a square window that keeps rows and columns.
    fn conv(size: usize, input: Tensor, output: Tensor) -> Conv2d {
        let window = Window { size: [size; 2], stride: [1; 2], padding: [size / 2; 2] };
        Conv2d { relu: true, ..Conv2d::new(input, output, window) }
    }

    /// Offsets of this many outputs, behind the input.
    fn apart(count: usize) -> Vec<usize> {
        (1..=count).map(|at| at * APART).collect()
    }

    /// Two convolutions with long sums next to one with a short one.
    fn long_and_short() -> [Op; 3] {
        let long = Op::Conv2d(conv(3, native(448, 8), native(384, 8)));
        [Op::Conv2d(conv(1, native(1152, 8), native(384, 8))), long, long]
    }

    /// First convolutions of the branches of an Inception block.
    fn branches() -> Vec<Op> {
        let of = |outputs| Op::Conv2d(conv(1, native(768, 17), native(outputs, 17)));
        [192, 128, 128].map(of).to_vec()
    }

    /// Number of `ops` that are best one launch, and its scratch memory.
    fn counted(gpu: &Gpu<Fake>, ops: &[(Op, Rounded)]) -> Option<(usize, Scratch)> {
        let ops: Vec<_> = ops.iter().map(|(op, rounded)| (op, *rounded)).collect();
        gpu.grouped_operators(&ops)
    }

    fn unrounded(ops: &[Op]) -> Vec<(Op, Rounded)> {
        ops.iter().map(|op| (*op, Rounded::default())).collect()
    }

    /// Launches of `ops` from the storage at 0 to those at these offsets.
    fn built(gpu: &Gpu<Fake>, ops: &[Op], outputs: &[usize]) -> Result<Vec<Launch<Gpu<Fake>>>> {
        let bytes = |op: &Op| pack::layout(op, Element::of(gpu)).unwrap()[1];
        let constants: Vec<_> = ops.iter().map(|op| gpu.alloc(bytes(op)).unwrap()).collect();
        let memory = gpu.alloc(8 * APART).unwrap();
        let scratch = gpu.alloc(32 << 20).unwrap();
        let at = |offset: usize| Storage { buffer: &memory, offset };
        let operands = |output: usize, constants| Operands {
            constants: Some(constants),
            scratch: Some(Storage { buffer: &scratch, offset: 0 }),
            ..Operands::new(at(0), at(output))
        };
        let each = ops.iter().zip(outputs).zip(&constants);
        let group: Vec<(&Op, Operands<'_, Gpu<Fake>>)> =
            each.map(|((op, &output), constants)| (op, operands(output, constants))).collect();
        gpu.operator_group(&group)
    }

    /// The first block of each convolution, as the kernel finds them.
    fn begins(launch: &Launch<Gpu<Fake>>) -> Vec<u32> {
        let words = &launch.kernel().bound()[CONVS * WORDS..];
        words.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]).collect()
    }

    #[test]
    fn branches_are_one_launch_whose_blocks_find_theirs() {
        let gpu = gpu(Precision::Fp16);
        let ops = branches();
        assert_eq!(counted(&gpu, &unrounded(&ops)), Some((3, Scratch::default())));
        let launches = built(&gpu, &ops, &[APART, 2 * APART, 3 * APART]).unwrap();
        let [launch] = &launches[..] else { panic!("{}", launches.len()) };
        assert_eq!(launch.kernel().name(), "convs_f16_32x32");
        assert_eq!(launch.blocks(), 10 * (6 + 4 + 4));
        let begins = begins(launch);
        assert_eq!(begins, [0, 60, 100, u32::MAX]);
        let mut found = [0; CONVS];
        for block in 0..launch.blocks() {
            let which = begins[1..].iter().filter(|&&begin| block >= begin).count();
            assert_eq!(block - begins[which], found[which], "{block}");
            found[which] += 1;
        }
        assert_eq!(found, [60, 40, 40, 0]);
    }

    #[test]
    fn a_launch_has_four_convolutions_at_most() {
        let gpu = gpu(Precision::Fp16);
        let ops = [branches(), branches()].concat();
        assert_eq!(counted(&gpu, &unrounded(&ops)).unwrap().0, CONVS);
        assert!(counted(&gpu, &unrounded(&ops[..1])).is_none());
        let launches = built(&gpu, &ops, &apart(ops.len())).unwrap();
        let names: Vec<_> = launches.iter().map(|launch| launch.kernel().name()).collect();
        assert_eq!(names, ["conv_f16_32x32"; 6], "more than were counted");
    }

    #[test]
    fn others_are_launched_by_themselves() {
        let gpu = gpu(Precision::Fp16);
        let one = conv(1, native(768, 17), native(192, 17));
        let planes = Tensor { layout: Layout::Nchw, ..one.input };
        let few = native(30, 17);
        let others = [
            Conv2d { residual: true, ..one },
            Conv2d { groups: 2, ..one },
            Conv2d { input: planes, ..one },
            Conv2d { output: few, relu: false, function: Some(reef_op::Function::Swish), ..one },
        ];
        for other in others.map(Op::Conv2d) {
            let pair = unrounded(&[Op::Conv2d(one), other]);
            assert!(counted(&gpu, &pair).is_none(), "{other:?}");
        }
        let three = unrounded(&[Op::Conv2d(one), Op::Conv2d(one), Op::Conv2d(others[0])]);
        assert_eq!(counted(&gpu, &three).unwrap().0, 2);
        let pair = unrounded(&branches()[..2]);
        let plain = Gpu::new(Fake::default(), Options::default()).unwrap();
        assert!(counted(&plain, &pair).is_none(), "no tensor cores");
        let full = Options { precision: Some(Precision::Fp32), ..Options::default() };
        let full = Gpu::new(Fake::with_tensor_cores(132), full).unwrap();
        assert!(counted(&full, &pair).is_none(), "none are asked");
    }

    #[test]
    fn older_images_launch_each_by_itself() {
        let options = Options { precision: Some(Precision::Fp16), ..Options::default() };
        let gpu = Gpu::new(Fake::without_kernels("convs_"), options).unwrap();
        let ops = branches();
        assert!(counted(&gpu, &unrounded(&ops)).is_none());
        let launches = built(&gpu, &ops, &[APART, 2 * APART, 3 * APART]).unwrap();
        let names: Vec<_> = launches.iter().map(|launch| launch.kernel().name()).collect();
        assert_eq!(names, ["conv_f16_32x32"; 3]);
    }

    /// Kernels that round what they read are others than those for rounded numbers.
    #[test]
    fn convolutions_of_other_kernels_are_not_in_the_launch() {
        let gpu = gpu(Precision::Tf32);
        let [a, b, _] = branches()[..] else { panic!() };
        let rounded = Rounded { input: true, output: false };
        let pair = |of: [Rounded; 2]| counted(&gpu, &[(a, of[0]), (b, of[1])]).map(|(n, _)| n);
        assert_eq!(pair([Rounded::default(); 2]), Some(2));
        assert_eq!(pair([rounded; 2]), Some(2));
        assert_eq!(pair([rounded, Rounded::default()]), None);
    }

    #[test]
    fn split_sums_have_parts_of_their_own() {
        let (gpu, ops) = (gpu(Precision::Fp16), long_and_short());
        let (count, scratch) = counted(&gpu, &unrounded(&ops)).unwrap();
        assert_eq!((count, scratch.zeroed), (3, COUNTS));
        let launches = built(&gpu, &ops, &[APART, 2 * APART, 3 * APART]).unwrap();
        let [launch] = &launches[..] else { panic!("{}", launches.len()) };
        let words = launch.kernel().bound();
        let (mut counts, mut partials, mut split) = (None, None, 0);
        for of in words[..ops.len() * WORDS].chunks(WORDS) {
            let (splits, tiles) = (of[8] >> 32, u64::from(of[11] as u32) * (of[11] >> 32));
            if splits == 1 {
                continue;
            }
            assert_eq!(of[6], counts.unwrap_or(of[6]), "behind those of the one before");
            assert_eq!(of[5], partials.unwrap_or(of[6] + COUNTS as u64));
            counts = Some(of[6] + 4 * tiles);
            partials = Some(of[5] + splits * 64 * 384 * 4);
            split += 1;
        }
        assert!(split >= 2, "{split}");
        let first = words.chunks(WORDS).find(|of| of[8] >> 32 > 1).unwrap()[6];
        assert_eq!(partials.unwrap(), first + scratch.bytes as u64, "and no byte more");
    }

    /// So that sums have the same bits: kernels of these names add in the same order.
    #[test]
    fn sums_are_cut_as_those_of_launches_of_their_own() {
        let (gpu, ops) = (gpu(Precision::Fp16), long_and_short());
        let launches = built(&gpu, &ops, &apart(ops.len())).unwrap();
        let [launch] = &launches[..] else { panic!("{}", launches.len()) };
        assert!(launch.kernel().name().ends_with("x32"), "{}", launch.kernel().name());
        for (op, together) in ops.iter().zip(launch.kernel().bound().chunks(WORDS)) {
            let alone = built(&gpu, &[*op], &apart(1)).unwrap();
            assert!(alone[0].kernel().name().ends_with("x32"), "{}", alone[0].kernel().name());
            assert_eq!(together[8], alone[0].kernel().bound()[8], "slabs and parts of {op:?}");
        }
    }

    /// Of ResNet-50's first downsampling convolution and its neighbour, one has the largest tile.
    #[test]
    fn convolutions_that_add_in_another_order_are_not_in_the_launch() {
        let gpu = gpu(Precision::Fp16);
        let of = |outputs| Op::Conv2d(conv(1, native(64, 56), native(outputs, 56)));
        let ops = [64, 256].map(of);
        assert!(counted(&gpu, &unrounded(&ops)).is_none());
        let launches = built(&gpu, &ops, &[APART, 2 * APART]).unwrap();
        let names: Vec<_> = launches.iter().map(|launch| launch.kernel().name()).collect();
        assert_eq!(names, ["conv_f16_32x32", "conv_f16_64x64"]);
    }

    /// The model has tiles of warpgroups for sums of many pixels and outputs.
    #[test]
    fn convolutions_on_warpgroups_are_not_in_the_launch() {
        let options = Options { precision: Some(Precision::Fp16), ..Options::default() };
        let options = Options { warpgroups: true, ..options };
        let gpu = Gpu::new(Fake::with_warpgroups(true), options).unwrap();
        let large = Op::Conv2d(conv(3, native(512, 28), native(512, 28)));
        assert!(counted(&gpu, &unrounded(&[large, large])).is_none());
        assert_eq!(counted(&gpu, &unrounded(&branches())).map(|(count, _)| count), Some(3));
    }

    #[test]
    fn outputs_that_overlap_are_invalid() {
        let gpu = gpu(Precision::Fp16);
        let ops = branches();
        for outputs in [[APART, APART + 64, 3 * APART], [APART, 2 * APART, 64]] {
            let refused = built(&gpu, &ops, &outputs).unwrap_err();
            assert!(matches!(refused, Error::Invalid(_)), "{refused}");
        }
        let part = |first| native(64, 17).channels(first, 64, 256);
        let ops = [0, 64, 128].map(|first| Op::Conv2d(conv(1, native(768, 17), part(first))));
        assert_eq!(built(&gpu, &ops, &[APART; 3]).unwrap().len(), 1, "channels of one storage");
    }

    /// Names in the source are those that launches ask for.
    #[test]
    fn common_tiles_are_those_of_their_source() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/network.cu");
        let Ok(source) = std::fs::read_to_string(path) else {
            return reef_conformance::skip(&format!("no {path}"));
        };
        let op = conv(1, native(768, 17), native(192, 17));
        let shape = Shape { pixels: 289, outputs: 192, slabs: 6 };
        let (tiles, plan) = (&WARPS, Plan { tile: WARPS[0], splits: 1 });
        let tiles = |family| Member { op: &op, shape, family, tiles, plan }.common_tiles();
        for (family, count) in [("f16", 3), ("rounded", 2), ("tf32", 2)] {
            let tiles = tiles(family);
            assert_eq!(tiles.len(), count, "{family}");
            for Tile { pixels, outputs, .. } in tiles {
                let all = format!("\nCONV_GROUPS({pixels}, {outputs})");
                let one = format!("\nCONV_GROUP({family}, {pixels}, {outputs})");
                assert!(source.contains(&all) || source.contains(&one), "{family} {one}");
            }
        }
    }
}
