//! Several convolutions as one launch: one by one they leave most of a large GPU idle, and each
//! waits for the one before.
//!
//! Blocks find their convolution by their number: `ConvGroup` in kernels/conv.h. Convolutions have a
//! launch in common if their kernels differ by the tile alone, which is then chosen for all of them
//! (`tiles::common`). They don't convert their input and add no residual. Parts of split sums follow
//! one another in scratch memory.

use super::build::tiles;
use super::quantized;
use super::tiled::{COUNTS, family, scratch_memory, tile_params};
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::element::{Element, has_tensor_cores};
use crate::operators::operand::{check_window, is_in_fours};
use crate::operators::params::{CONVS, ConvGroupParams, ConvParams};
use crate::operators::site::BoundOp;
use crate::operators::tiles::common::Common;
use crate::operators::tiles::slabs::{ImplicitGemm, Shape};
use crate::operators::tiles::tile::{Body, Plan, Tile};
use reef_core::{Error, Launch, Result};
use reef_op::rounding::Rounded;
use reef_op::{Conv2d, Op, Operands, Operators, Scratch};

/// Blocks that a guarded launch counts: `INDEX_MASK` in kernels/reef.h.
const MAX_BLOCKS: usize = 1 << 30;

/// A convolution that may share a launch.
#[derive(Debug, Clone, Copy)]
struct Member<'a> {
    op: &'a Conv2d,
    shape: Shape,
    /// Name of the kernels that multiply as it does.
    family: &'static str,
    /// Tiles that it has by itself.
    tiles: &'static [Tile],
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
        Some(Self { op: conv, shape: gemm.shape(conv), family, tiles })
    }

    /// Tiles of kernels for several: `CONV_GROUP` in kernels/network.cu.
    fn common_tiles(&self) -> Vec<Tile> {
        let has = |tile: &Tile| self.family == "f16" || tile.outputs < 64;
        let of_network = self.tiles.iter().copied().filter(|tile| tile.body == Body::Network);
        of_network.filter(has).collect()
    }
}

/// Those of `ops`, from the first on, whose kernels are alike.
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

/// Plans of `members` as one launch, if they have one.
fn common<V: Vendor>(gpu: &Gpu<V>, members: &[Member<'_>]) -> Option<Common> {
    let shapes: Vec<Shape> = members.iter().map(|member| member.shape).collect();
    let common = Common::new(&members.first()?.common_tiles(), &shapes, gpu.facts())?;
    let blocks: usize = common.plans.iter().zip(&shapes).map(|(p, shape)| p.blocks(shape)).sum();
    (blocks < MAX_BLOCKS).then_some(common)
}

/// Microseconds that one launch takes less than each by itself, as far as the model knows, and the
/// launch's plans.
fn gain<V: Vendor>(gpu: &Gpu<V>, members: &[Member<'_>]) -> Option<(f64, Common)> {
    let common = common(gpu, members)?;
    let alone = |member: &Member<'_>| {
        Plan::new(member.tiles, &member.shape, gpu.facts()).micros(&member.shape, gpu.facts())
    };
    Some((members.iter().map(alone).sum::<f64>() - common.micros, common))
}

/// Number of `ops`, from the first on, that are best one launch, and its scratch memory. That of
/// several numbers which gains most.
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
    let Some(Common { plans, .. }) = common(gpu, &members) else { return Ok(None) };
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
    let Tile { pixels, outputs, threads, .. } = plans[0].tile;
    let name = format!("convs_{}_{pixels}x{outputs}", members[0].family);
    let (group, shared) = (ConvGroupParams { of, begins }, plans[0].tile.shared());
    let launch = bound[0].launch_exactly(&name, blocks, threads, shared, &group)?;
    let buffers = bound.iter().flat_map(BoundOp::buffers).cloned().collect();
    Ok(Some(launch.keep(buffers)))
}

/// Checks that none writes what another reads or writes.
fn check_apart<V: Vendor>(bound: &[BoundOp<'_, V>]) -> Result<()> {
    for (k, one) in bound.iter().enumerate() {
        let others = bound.iter().enumerate().filter(|(other, _)| *other != k);
        let mut used = others.flat_map(|(_, other)| [&other.input, &other.output]);
        if used.any(|used| used.meets(&one.output)) {
            return Err(Error::Invalid(format!("{}: outputs overlap side by side", V::NAME)));
        }
    }
    Ok(())
}
