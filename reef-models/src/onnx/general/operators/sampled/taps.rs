//! Elements at computed places, and sums of neighbours.

use crate::onnx::fault::Result;
use crate::tensors::builder::Builder;
use crate::tensors::expressions::ensure_float;
use crate::tensors::value::{Value, wide};
use reef_op::tensor::{Binary, Domain, Element, Gather, Kind, Spec, Target, Unary};

/// A tensor whose channels lie behind its space, so that a place has all of them.
pub(super) struct Space {
    rows: Value,
    /// Tensors that have places of their own.
    batches: usize,
    sizes: Vec<usize>,
    channels: usize,
}

/// A neighbour along one axis: its place, and its weight if that isn't 1.
#[derive(Clone)]
pub(super) struct Tap {
    pub(super) at: Value,
    pub(super) weight: Option<Value>,
    /// True where it lies outside of the tensor, so that nothing is read. A weight of 0 would make
    /// NaN of an infinite element.
    pub(super) outside: Option<Value>,
}

impl Tap {
    /// The batch of each region, for rows and columns of bins.
    pub(super) fn of_batches(b: &mut Builder<'_>, batches: &Value) -> Result<Self> {
        let batches = b.cast(batches, Element::I64)?;
        let at = b.reshape(&batches, vec![batches.dims()[0], 1, 1])?;
        Ok(Self { at, weight: None, outside: None })
    }
}

impl Space {
    /// Of batches, channels and one axis or more.
    pub(super) fn of(b: &mut Builder<'_>, x: &Value) -> Result<Self> {
        ensure_float(x)?;
        if x.rank() < 3 {
            return Err(format!("a tensor must have at least three dimensions, got {}", x.spec));
        }
        let order: Vec<usize> = [0].into_iter().chain(2..x.rank()).chain([1]).collect();
        let (batches, channels, sizes) = (x.dims()[0], x.dims()[1], x.dims()[2..].to_vec());
        if batches == 0 || channels == 0 || sizes.contains(&0) {
            return Err(format!("a tensor without elements: {}", x.spec));
        }
        let rows = b.widened(x)?;
        Ok(Self { rows: b.transpose(&rows, &order)?, batches, sizes, channels })
    }

    /// Returns the same places with the number of the batch as the first place.
    pub(super) fn with_batches(mut self) -> Self {
        self.sizes.insert(0, self.batches);
        self.batches = 1;
        self
    }

    /// Type of its elements and of weights.
    pub(super) fn element(&self) -> Element {
        self.rows.element()
    }

    /// All channels at places, each of which is in range.
    fn at(&self, b: &mut Builder<'_>, places: &[&Value]) -> Result<Value> {
        let place = b.map_in(Domain::I64, Element::I64, places, |w| {
            let mut place = w.input(0);
            for (k, &size) in self.sizes.iter().enumerate().skip(1) {
                let (size, next) = (w.whole(size as i64), w.input(k));
                let row = w.mul(place, size);
                place = w.add(row, next);
            }
            place
        })?;
        let target = Target::Tuples {
            batches: self.batches,
            shared: false,
            sizes: vec![self.sizes.iter().product()],
            inner: self.channels,
            tuples: place.spec.elements() / self.batches,
        };
        let dims = [place.dims(), &[self.channels]].concat();
        let spec = Spec { element: self.element(), dims };
        b.emit(Kind::Gather(Gather { target }), &[&self.rows, &place], spec)
    }

    /// Weighted elements of all neighbours, put together by `join`.
    pub(super) fn blend(
        &self,
        b: &mut Builder<'_>,
        axes: &[Vec<Tap>],
        join: Binary,
    ) -> Result<Value> {
        let combinations: usize = axes.iter().map(Vec::len).product();
        let mut made: Option<Value> = None;
        for mut which in 0..combinations {
            let mut taps = Vec::new();
            for axis in axes {
                taps.push(&axis[which % axis.len()]);
                which /= axis.len();
            }
            let weighted = self.weighted(b, &taps)?;
            made = Some(match made {
                None => weighted,
                Some(others) => b.binary(join, &others, &weighted)?,
            });
        }
        made.ok_or_else(|| "no neighbours".into())
    }

    fn weighted(&self, b: &mut Builder<'_>, taps: &[&Tap]) -> Result<Value> {
        let places: Vec<&Value> = taps.iter().map(|tap| &tap.at).collect();
        let mut found = self.at(b, &places)?;
        let factors: Vec<&Value> = taps.iter().filter_map(|tap| tap.weight.as_ref()).collect();
        if !factors.is_empty() {
            let weight = for_channels(b, &factors, self.element(), Binary::Mul)?;
            found = b.binary(Binary::Mul, &found, &weight)?;
        }
        let outside: Vec<&Value> = taps.iter().filter_map(|tap| tap.outside.as_ref()).collect();
        if outside.is_empty() {
            return Ok(found);
        }
        let is_outside = for_channels(b, &outside, Element::Bool, Binary::Max)?;
        b.map(found.element(), &[&found, &is_outside], |w| {
            let (found, is_outside, zero) = (w.input(0), w.input(1), w.real(0.0));
            w.select(is_outside, zero, found)
        })
    }
}

/// Values of all axes put together, one for all channels.
fn for_channels(
    b: &mut Builder<'_>,
    values: &[&Value],
    element: Element,
    join: Binary,
) -> Result<Value> {
    let made = b.map(element, values, |w| {
        let first = w.input(0);
        (1..values.len()).fold(first, |all, k| {
            let next = w.input(k);
            w.bin(join, all, next)
        })
    })?;
    b.reshape(&made, [made.dims(), &[1]].concat())
}

/// Values outside of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outside {
    Zeros,
    Border,
    /// Mirrored at the centres of the outermost elements, or at their edges.
    Mirrored {
        at_centres: bool,
    },
}

/// Interpolation of an element between others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interpolation {
    Nearest,
    Linear,
    Cubic,
}

/// Coefficient of cubic weights.
const CUBIC: f64 = -0.75;

impl Interpolation {
    /// Neighbours of places on an axis, with their weights.
    pub(super) fn taps(
        self,
        b: &mut Builder<'_>,
        places: &Value,
        size: usize,
        outside: Outside,
    ) -> Result<Vec<Tap>> {
        let places = &match outside {
            Outside::Border => clamped_near(b, places, size)?,
            Outside::Zeros | Outside::Mirrored { .. } => places.clone(),
        };
        if self == Self::Nearest {
            let base = b.unary(Unary::Round, places)?;
            return Ok(vec![tap(b, &base, 0, None, size, outside)?]);
        }
        let base = b.unary(Unary::Floor, places)?;
        let part = b.binary(Binary::Sub, places, &base)?;
        let taps = if self == Self::Linear { 0..2 } else { -1..3 };
        let each = taps.map(|k| {
            let weight = b.each(&part, |w, part| {
                let (at, one) = (w.whole(k), w.real(1.0));
                let apart = w.sub(part, at);
                let apart = w.un(Unary::Abs, apart);
                match self {
                    Self::Linear => w.sub(one, apart),
                    _ => cubic(w, apart, (0..2).contains(&k)),
                }
            })?;
            tap(b, &base, k, Some(weight), size, outside)
        });
        each.collect()
    }
}

/// Places of which those far off, infinite ones as well, have all neighbours on the border.
fn clamped_near(b: &mut Builder<'_>, places: &Value, size: usize) -> Result<Value> {
    b.each(places, |w, at| {
        let (low, high) = (w.real(-2.0), w.real(size as f64 + 1.0));
        let at = w.bin(Binary::Max, at, low);
        w.bin(Binary::Min, at, high)
    })
}

/// Weight of a neighbour at a distance of at most 1, or between 1 and 2.
fn cubic(w: &mut crate::tensors::expressions::Writer, x: usize, is_near: bool) -> usize {
    let a = CUBIC;
    let factors =
        if is_near { [a + 2.0, -(a + 3.0), 0.0, 1.0] } else { [a, -5.0 * a, 8.0 * a, -4.0 * a] };
    let mut sum = w.real(factors[0]);
    for factor in &factors[1..] {
        let (product, factor) = (w.mul(sum, x), w.real(*factor));
        sum = w.add(product, factor);
    }
    sum
}

/// The element `k` behind another one.
fn tap(
    b: &mut Builder<'_>,
    base: &Value,
    k: i64,
    weight: Option<Value>,
    size: usize,
    outside: Outside,
) -> Result<Tap> {
    let last = size as f64 - 1.0;
    let wanted = b.each(base, |w, base| {
        let k = w.whole(k);
        w.add(base, k)
    })?;
    let at = b.map_in(base.element().domain(), Element::I64, &[&wanted], |w| {
        let mut at = w.input(0);
        if let Outside::Mirrored { at_centres } = outside {
            at = mirrored(w, at, size, at_centres);
        }
        let (low, high) = (w.real(0.0), w.real(last));
        let at = w.bin(Binary::Max, at, low);
        w.bin(Binary::Min, at, high)
    })?;
    if outside != Outside::Zeros {
        return Ok(Tap { at, weight, outside: None });
    }
    let is_outside = b.map_in(base.element().domain(), Element::Bool, &[&wanted], |w| {
        let (at, zero, last) = (w.input(0), w.real(0.0), w.real(last));
        let (is_behind, is_before) = (w.bin(Binary::Less, last, at), w.bin(Binary::Less, at, zero));
        w.bin(Binary::Max, is_behind, is_before)
    })?;
    Ok(Tap { at, weight, outside: Some(is_outside) })
}

/// A whole place that is mirrored as often as it takes to be in range.
fn mirrored(
    w: &mut crate::tensors::expressions::Writer,
    at: usize,
    size: usize,
    at_centres: bool,
) -> usize {
    let (first, length) = if at_centres { (0.0, size as f64 - 1.0) } else { (-0.5, size as f64) };
    if length == 0.0 {
        return w.real(0.0);
    }
    let (first, length, both) = (w.real(first), w.real(length), w.real(2.0 * length));
    let from_first = w.sub(at, first);
    let from_first = w.bin(Binary::Mod, from_first, both);
    let back = w.sub(both, from_first);
    let is_back = w.bin(Binary::Less, length, from_first);
    let from_first = w.select(is_back, back, from_first);
    w.add(from_first, first)
}

/// As the type of a result, with channels before space again.
pub(super) fn with_channels_first(
    b: &mut Builder<'_>,
    made: &Value,
    space: usize,
    element: Element,
) -> Result<Value> {
    let front = made.rank() - space - 1;
    let order: Vec<usize> =
        (0..front).chain([made.rank() - 1]).chain(front..made.rank() - 1).collect();
    let made = b.transpose(made, &order)?;
    b.cast(&made, element)
}

/// Type in which places in a tensor are computed.
pub(super) fn of_places(x: &Value) -> Element {
    wide(x.element())
}
