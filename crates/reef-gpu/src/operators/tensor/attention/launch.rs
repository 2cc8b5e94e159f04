//! The launch of attention whose rows are in groups that see the same keys.

use super::params::{AttentionParams, Code, PlacesParams, STEPS, ScoreParams, SideParams};
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::element::tensor_core_family;
use crate::operators::tensor::bound::BoundTensors;
use crate::operators::tensor::launch::Grid;
use crate::operators::tensor::plan::Plan;
use reef_core::{Launch, Result};
use reef_op::tensor::{Attention, Element, Placed, ScoreStep, TensorOp, View};

/// Elements of a key and of a value at most: `LINE_ELEMENTS` in kernels/attention.h.
const LINE: usize = 64;
const LINE_BYTES: usize = LINE * size_of::<f32>(); // of singles, which is the most
/// `TILE_KEYS` and `ATTENTION_THREADS` there.
const KEYS: usize = 64;
const THREADS: u32 = 128;
/// Rows of a tile: in kernels/tensor.cu a kernel is made for each. Where keys are few, or blocks,
/// warps share them.
const ROWS: [usize; 2] = [64, 16];
/// Bytes of shared memory that a block needs in addition to its tiles: the guard's words.
const GUARD: usize = 128;
/// Keys are counted in 31 bits.
const MAX_KEYS: usize = 1 << 31;
/// Bytes that are copied at once.
const CHUNK: usize = 16;
/// Outputs that are written at once.
const FOUR: usize = 4;

/// Attention whose rows are in groups that see the same keys.
#[derive(Debug)]
struct Heads<'a> {
    attention: &'a Attention,
    /// Axes of groups, and of the rows of a group.
    axes: [Vec<usize>; 2],
    family: &'static str,
}

impl<'a> Heads<'a> {
    /// `None` if there is no kernel for it.
    fn of<V: Vendor>(gpu: &Gpu<V>, op: &TensorOp, attention: &'a Attention) -> Option<Self> {
        let family = tensor_core_family(gpu)?;
        let element = op.inputs[0].element;
        let alike = op.inputs[..3].iter().all(|input| input.element == element);
        let family = match element {
            Element::F32 => family,
            Element::F16 if family == "f16" && in_chunks(attention, Element::F16) => "pairs",
            _ => return None,
        };
        let has_room = shared(ROWS[0]) + GUARD <= gpu.facts().shared_per_block as usize;
        Self::new(attention, family).filter(|_| has_room && alike)
    }

    fn new(attention: &'a Attention, family: &'static str) -> Option<Self> {
        let [keys, depth, width] = attention.sizes();
        let placed = [&attention.queries, &attention.keys, &attention.values];
        let adjoins = |placed: &Placed, size| placed.view.step() == 1 || size == 1;
        let lines = placed.iter().zip([depth, depth, width]);
        let fits = depth.max(width) <= LINE
            && (1..MAX_KEYS).contains(&keys)
            && lines.into_iter().all(|(placed, size)| adjoins(placed, size))
            && attention.scores.len() <= STEPS;
        if !fits {
            return None;
        }
        let still = |axis: &usize| placed[1..].iter().all(|side| side.view.strides[*axis] == 0);
        let rows = attention.rows();
        let (within, across) = (0..rows.len()).filter(|&axis| rows[axis] > 1).partition(still);
        Some(Self { attention, axes: [across, within], family })
    }

    /// A view's places of groups, and of rows of a group.
    fn places(&self, view: &View) -> [View; 2] {
        self.axes.each_ref().map(|axes| view.axes(axes))
    }

    /// Number of groups, and of rows of each.
    fn counts(&self) -> [usize; 2] {
        self.places(&View::dense(self.attention.rows())).map(|view| view.len())
    }
}

/// Bytes of shared memory of a block: queries, and two tiles of keys and values.
fn shared(rows: usize) -> usize {
    (rows + 4 * KEYS) * LINE_BYTES
}

/// Returns whether [`build`] has a launch.
pub(in crate::operators::tensor) fn fits<V: Vendor>(
    gpu: &Gpu<V>,
    op: &TensorOp,
    attention: &Attention,
) -> bool {
    Heads::of(gpu, op, attention).is_some()
}

pub(in crate::operators::tensor) fn build<V: Vendor>(
    bound: &BoundTensors<'_, V>,
    attention: &Attention,
) -> Result<Launch<Gpu<V>>> {
    let heads = Heads::of(bound.gpu(), &bound.op, attention)
        .ok_or_else(|| bound.refused("it is made of other operations here"))?;
    let [groups, rows] = heads.counts();
    let [keys, depth, width] = attention.sizes();
    let mut plan = Plan::default();
    plan.words(&[0]); // so that no view is at 0
    let (sides, wide) = sides(bound, &heads, &mut plan);
    if !wide && bound.op.inputs[0].element == Element::F16 {
        return Err(bound.refused("halves that begin anywhere"));
    }
    let steps = steps(bound, &heads, &mut plan);
    let outputs = heads.places(&View::dense(attention.rows()));
    let [output_group, output_row] = outputs.map(|view| PlacesParams::of(&view, &mut plan));
    let fours = width.is_multiple_of(FOUR) && bound.output().is_multiple_of(CHUNK as u64);
    let tiles = |tile: usize| groups * rows.div_ceil(tile);
    let tile = ROWS.into_iter().find(|&tile| tiles(tile) >= bound.units()).unwrap_or(ROWS[1]);
    let params = |plan| AttentionParams {
        sides,
        steps,
        output: bound.output(),
        plan,
        output_group,
        output_row,
        rows: rows as u32,
        keys: keys as u32,
        depth: depth as u32,
        width: width as u32,
        tiles: rows.div_ceil(tile) as u32,
        count: attention.scores.len() as u32,
        wide: wide.into(),
        fours: fours.into(),
        none_is_zero: attention.none_is_zero.into(),
        halves: (bound.op.output.element == Element::F16).into(),
    };
    let grid = Grid { blocks: tiles(tile), threads: THREADS, shared: shared(tile) };
    bound.launch_with(&format!("attention_{}_{tile}", heads.family), grid, &plan, params)
}

/// Returns whether tensor cores round input `input` of `op` to halves before anything else, and
/// there is a kernel for that.
pub(in crate::operators::tensor) fn rounds<V: Vendor>(
    gpu: &Gpu<V>,
    op: &TensorOp,
    attention: &Attention,
    input: usize,
) -> bool {
    let mut op = op.clone();
    op.inputs[..3].iter_mut().for_each(|spec| spec.element = Element::F16);
    input < 3 && fits(gpu, &op, attention)
}

/// Returns whether queries, keys and values of such elements lie in chunks, which are copied at
/// once.
fn in_chunks(attention: &Attention, element: Element) -> bool {
    let chunk = CHUNK / element.bytes();
    [&attention.queries, &attention.keys, &attention.values].into_iter().all(|placed| {
        let (last, outer) = placed.view.strides.split_last().unwrap_or((&1, &[]));
        let size = placed.view.dims.last().copied().unwrap_or(1);
        *last == 1
            && size.is_multiple_of(chunk)
            && placed.first.is_multiple_of(chunk)
            && outer.iter().all(|stride| stride.is_multiple_of(chunk))
    })
}

/// Queries, keys and values, and whether all of them can be copied in chunks.
fn sides<V: Vendor>(
    bound: &BoundTensors<'_, V>,
    heads: &Heads<'_>,
    plan: &mut Plan,
) -> ([SideParams; 3], bool) {
    let Attention { queries, keys, values, .. } = heads.attention;
    let element = bound.op.inputs[0].element;
    let aligned = (0..3).all(|input| bound.input(input).is_multiple_of(CHUNK as u64));
    let mut number = 0;
    let sides = [queries, keys, values].map(|Placed { first, view }| {
        let data = bound.input(number) + (first * element.bytes()) as u64;
        let [groups, rows] = heads.places(view);
        let group = PlacesParams::of(&groups, plan);
        let row = match number {
            0 => PlacesParams::of(&rows, plan),
            _ => PlacesParams { step: view.strides[view.strides.len() - 2] as u32, view: 0 },
        };
        number += 1;
        SideParams { data, group, row }
    });
    (sides, aligned && in_chunks(heads.attention, element))
}

fn steps<V: Vendor>(
    bound: &BoundTensors<'_, V>,
    heads: &Heads<'_>,
    plan: &mut Plan,
) -> [ScoreParams; STEPS] {
    let mut input = 3;
    let mut steps = [ScoreParams::default(); STEPS];
    for (step, params) in heads.attention.scores.iter().zip(&mut steps) {
        let (code, number, keep) = match *step {
            ScoreStep::Scale(factor) => (Code::Scale, factor, false),
            ScoreStep::Add(_) => (Code::AddInput, 0.0, false),
            ScoreStep::Choose { keep, other, .. } => (Code::Choose, other, keep),
        };
        *params = ScoreParams { code: code as u32, number, keep: keep.into(), ..*params };
        let Some((view, _)) = step.reads() else { continue };
        let [groups, rows] = heads.places(view);
        params.input = bound.input(input);
        params.group = PlacesParams::of(&groups, plan);
        params.row = PlacesParams::of(&rows, plan);
        params.key = view.step() as u32;
        input += 1;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attention of 2 texts of 10 tokens with 3 heads each, which lie side by side: keys of
    /// `depth`.
    fn heads_of(depth: usize) -> Attention {
        let line = 3 * depth;
        let queries =
            View { dims: vec![2, 10, 3, depth], strides: vec![10 * line, line, depth, 1] };
        let keys =
            View { dims: vec![2, 10, 3, 10, depth], strides: vec![10 * line, 0, depth, line, 1] };
        let placed = |view: &View| Placed { first: 0, view: view.clone() };
        Attention {
            queries: placed(&queries),
            keys: placed(&keys),
            values: placed(&keys),
            scores: vec![ScoreStep::Scale(0.5)],
            none_is_zero: false,
        }
    }

    #[test]
    fn rows_that_see_the_same_keys_are_a_group() {
        let attention = heads_of(16);
        let heads = Heads::new(&attention, "tf32").unwrap();
        assert_eq!(heads.axes, [vec![0, 2], vec![1]]);
        assert_eq!(heads.counts(), [6, 10]);
    }

    #[test]
    fn long_lines_and_many_steps_are_other_operations() {
        assert!(Heads::new(&heads_of(LINE), "f16").is_some());
        assert!(Heads::new(&heads_of(LINE + 1), "f16").is_none());
        let mut many = heads_of(LINE);
        many.scores = vec![ScoreStep::Scale(0.5); STEPS + 1];
        assert!(Heads::new(&many, "f16").is_none());
        let mut endless = heads_of(LINE);
        endless.keys.view.dims[3] = 1 << 32;
        assert!(Heads::new(&endless, "f16").is_none());
        let mut apart = heads_of(LINE);
        apart.values.view.strides[4] = 2;
        assert!(Heads::new(&apart, "f16").is_none());
    }
}
