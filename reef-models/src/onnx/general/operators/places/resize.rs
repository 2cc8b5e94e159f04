//! Tensors at another resolution, one axis after the other.

use crate::onnx::fault::Result;
use crate::onnx::general::bounds::after::same_size;
use crate::onnx::general::bounds::points::whole;
use crate::onnx::general::call::{Call, one};
use crate::tensors::axes::{axis, elements, sizes_around};
use crate::tensors::builder::Builder;
use crate::tensors::value::{Bound, Value};
use reef_op::tensor::{Array, Element, Truth, View};

pub(in crate::onnx::general::operators) fn resize(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "Resize" | "Upsample" => {
            let plan = Plan::of(call)?;
            one(plan.apply(b, call.get(0)?)?)
        }
        _ => Ok(None),
    }
}

/// The one mode that cuts a part out of the tensor.
const CUTTING: &str = "tf_crop_and_resize";

/// Change of one axis.
struct Axis {
    axis: usize,
    from: usize,
    to: usize,
    scale: f64,
    /// The new size before it was rounded.
    exact: f64,
    /// Begin and end of a cut, as parts of the axis.
    cut: [f64; 2],
}

/// Attributes and operands of a node.
struct Plan {
    axes: Vec<Axis>,
    mode: String,
    coordinates: String,
    /// `None` is that of operator sets before 11: down, or up where the axis shrinks.
    nearest: Option<String>,
    cubic: f64,
    excludes: bool,
    antialias: bool,
    extrapolation: f64,
}

impl Plan {
    fn of(call: &Call<'_>) -> Result<Self> {
        let old = call.op() == "Upsample" || call.opset < 11;
        let coordinates = if old { "asymmetric" } else { "half_pixel" };
        let coordinates = call.text("coordinate_transformation_mode", coordinates)?;
        let nearest = call.text("nearest_mode", "round_prefer_floor")?;
        let mode = call.text("mode", "nearest")?;
        if !matches!(mode, "nearest" | "linear" | "cubic") {
            return Err(format!("attribute mode = {mode:?}"));
        }
        Ok(Self {
            mode: mode.into(),
            coordinates: coordinates.into(),
            nearest: (!old).then(|| nearest.into()),
            cubic: call.float("cubic_coeff_a", -0.75)?,
            excludes: call.flag("exclude_outside", false)?,
            antialias: call.flag("antialias", false)?,
            extrapolation: call.float("extrapolation_value", 0.0)?,
            axes: axes(call, old, coordinates == CUTTING)?,
        })
    }

    fn apply(&self, b: &mut Builder<'_>, x: &Value) -> Result<Value> {
        let mut made = match self.mode.as_str() {
            "nearest" => x.clone(),
            _ if x.element().is_float() => b.widened(x)?,
            _ => b.cast(x, Element::F32)?, // weights are not integers
        };
        let changed =
            |axis: &&Axis| axis.from != axis.to || axis.scale != 1.0 || axis.cut != [0.0, 1.0];
        for axis in self.axes.iter().filter(changed) {
            let _places = b.ledger.charge(16 * axis.to as u64)?;
            let places = (0..axis.to).map(|to| self.place(axis, to)).collect::<Result<Vec<_>>>()?;
            made = match self.mode.as_str() {
                "nearest" => {
                    let near = places.iter().map(|&place| self.nearest_element(place, axis));
                    b.pick_axis(&made, axis.axis, near.collect::<Result<_>>()?)?
                }
                _ => self.blend(b, &made, axis, &places)?,
            };
            if self.coordinates == CUTTING {
                made = self.outside(b, &made, axis, &places)?;
            }
        }
        b.cast(&made, x.element())
    }

    /// Place of output `to` on the input's axis.
    fn place(&self, axis: &Axis, to: usize) -> Result<f64> {
        let r = |x: f64| if self.steps_at_places() { f64::from(x as f32) } else { x };
        let (x, from, size) = (to as f64, axis.from as f64, axis.to as f64);
        let scale = r(axis.scale);
        let half_pixel = r(r((x + 0.5) / scale) - 0.5);
        Ok(match self.coordinates.as_str() {
            "half_pixel" => half_pixel,
            "half_pixel_symmetric" => from / 2.0 * (1.0 - size / axis.exact) + half_pixel,
            "pytorch_half_pixel" => {
                if axis.to > 1 {
                    half_pixel
                } else {
                    0.0
                }
            }
            "align_corners" => {
                if axis.exact == 1.0 {
                    0.0
                } else {
                    r(x * (from - 1.0) / (axis.exact - 1.0))
                }
            }
            "asymmetric" => r(x / scale),
            "tf_half_pixel_for_nn" => r((x + 0.5) / scale),
            CUTTING => {
                let [start, end] = axis.cut;
                match axis.to {
                    1 => r(0.5 * (start + end) * (from - 1.0)),
                    _ => {
                        let all = r(r(x * r(end - start)) * (from - 1.0));
                        r(r(start * (from - 1.0)) + r(all / (size - 1.0)))
                    }
                }
            }
            other => return Err(format!("attribute coordinate_transformation_mode = {other:?}")),
        })
    }

    /// Returns whether the element changes at single places. These are computed in single precision
    /// then, as in ONNX Runtime: in double precision a few elements would be the next ones.
    fn steps_at_places(&self) -> bool {
        self.mode == "nearest"
    }

    fn nearest_element(&self, place: f64, axis: &Axis) -> Result<usize> {
        let old = if axis.scale < 1.0 { "ceil" } else { "floor" };
        let near = match self.nearest.as_deref().unwrap_or(old) {
            "round_prefer_floor" => (place - 0.5).ceil(),
            "round_prefer_ceil" => (place + 0.5).floor(),
            "floor" => place.floor(),
            "ceil" => place.ceil(),
            other => return Err(format!("attribute nearest_mode = {other:?}")),
        };
        Ok(near.clamp(0.0, axis.from.saturating_sub(1) as f64) as usize)
    }

    /// Sums of neighbours. Each is read where it has a weight alone, so that an infinite element
    /// stays where it is.
    fn blend(&self, b: &mut Builder<'_>, x: &Value, axis: &Axis, places: &[f64]) -> Result<Value> {
        if axis.to == 0 {
            return b.pick_axis(x, axis.axis, Vec::new());
        }
        if self.antialias {
            return self.product(b, x, axis, places);
        }
        let _neighbours = b.ledger.charge(128 * axis.to as u64)?;
        let taps = |&place: &f64| self.taps(axis.from, place, axis.scale);
        let each: Vec<Vec<(usize, f64)>> = places.iter().map(taps).collect();
        let count = each[0].len(); // of all places
        let mut inputs = Vec::new();
        for k in 0..count {
            let near = each.iter().map(|taps| taps[k].0).collect();
            inputs.push(b.pick_axis(x, axis.axis, near)?);
            let mut dims = vec![1; x.rank()];
            dims[axis.axis] = axis.to;
            let weights = each.iter().map(|taps| taps[k].1).collect();
            let weights = b.constant(dims, Array::F64(weights))?;
            inputs.push(b.cast(&weights, x.element())?);
        }
        b.map(x.element(), &inputs.iter().collect::<Vec<_>>(), |w| {
            let mut sum = w.real(0.0);
            for k in 0..count {
                let (x, weight, zero) = (w.input(2 * k), w.input(2 * k + 1), w.real(0.0));
                let product = w.mul(weight, x);
                let part = w.select(weight, product, zero);
                sum = w.add(sum, part);
            }
            sum
        })
    }

    /// Sums of neighbours as a product with a matrix of weights: a place may have many.
    fn product(
        &self,
        b: &mut Builder<'_>,
        x: &Value,
        axis: &Axis,
        places: &[f64],
    ) -> Result<Value> {
        let (from, to) = (axis.from, axis.to);
        let _weights = b.ledger.charge(8 * elements(&[to, from])? as u64)?;
        let mut weights = vec![0.0; to * from];
        for (row, &place) in weights.chunks_exact_mut(from).zip(places) {
            for (near, weight) in self.taps(from, place, axis.scale) {
                row[near] += weight;
            }
        }
        let weights = b.constant(vec![to, from], Array::F64(weights))?;
        let weights = b.cast(&weights, x.element())?;
        let [outer, _, inner] = sizes_around(&x.spec, axis.axis);
        let kept = [
            View::new(&[outer, to, inner], &[from * inner, 0, 1]),
            View::new(&[outer, to, inner], &[0, from, 0]),
        ];
        let summed = [View::new(&[from], &[inner]), View::new(&[from], &[1])];
        let mut dims = x.dims().to_vec();
        dims[axis.axis] = to;
        b.contract([x, &weights], kept, summed, dims, x.element())
    }

    /// Neighbours of a place on an axis of `len`, with their weights; those outside of the axis are
    /// the outermost ones, or have no weight.
    fn taps(&self, len: usize, place: f64, scale: f64) -> Vec<(usize, f64)> {
        // A cut that reaches far beyond the axis can have a scale that spreads one place over more
        // than all of it.
        let least = 1.0 / len as f64;
        let scale = if self.antialias { scale.clamp(least, 1.0) } else { 1.0 };
        let radius = if self.mode == "linear" { 1.0 } else { 2.0 };
        let (base, ratio) = (place.floor(), place - place.floor());
        let first = (-radius / scale).floor() as i64 + 1;
        let taps = first..2 - first;
        let at = |tap: i64| (base as i64).saturating_add(tap);
        let weight = |tap: i64| {
            let counts = !self.excludes || (0..len as i64).contains(&at(tap));
            if counts { self.weight((tap as f64 - ratio) * scale) } else { 0.0 }
        };
        let all: f64 = taps.clone().map(weight).sum();
        let share = |weight: f64| if weight == 0.0 { 0.0 } else { weight / all };
        let nearest = |tap: i64| at(tap).clamp(0, len as i64 - 1) as usize;
        taps.map(|tap| (nearest(tap), share(weight(tap)))).collect()
    }

    /// Of a neighbour at this distance.
    fn weight(&self, distance: f64) -> f64 {
        let (x, a) = (distance.abs(), self.cubic);
        match (self.mode.as_str(), x) {
            ("linear", _) => (1.0 - x).max(0.0),
            (_, ..=1.0) => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            (_, ..2.0) => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            _ => 0.0,
        }
    }

    /// A number of its own where a cut reaches over the edge.
    fn outside(
        &self,
        b: &mut Builder<'_>,
        x: &Value,
        axis: &Axis,
        places: &[f64],
    ) -> Result<Value> {
        let is_inside =
            |place: &f64| Truth((*place >= 0.0 && *place <= axis.from as f64 - 1.0).into());
        let mut dims = vec![1; x.rank()];
        dims[axis.axis] = axis.to;
        let inside = b.constant(dims, Array::Bool(places.iter().map(is_inside).collect()))?;
        b.map(x.element(), &[&inside, x], |w| {
            let (inside, x, other) = (w.input(0), w.input(1), w.real(self.extrapolation));
            w.select(inside, x, other)
        })
    }
}

/// Sizes that operand 3 asks for. Data may decide about one of them if it is that of the tensor.
fn sizes(call: &Call<'_>) -> Result<Option<Vec<f64>>> {
    let (Some(points), Some(bound)) = (call.points(3), call.bound(0)) else {
        return call.reals(3);
    };
    let [least, most, marked] = points.each_ref().map(whole);
    let own = marked.get(bound.axis).and_then(|&mark| call.marks.get(mark));
    let is_same = |size: Value| same_size(bound, &Bound { axis: 0, size });
    let is_fixed = |axis: usize| axis == bound.axis || least[axis] == most[axis];
    if call.ints("axes")?.is_some() || !own.is_some_and(is_same) || !(0..most.len()).all(is_fixed) {
        return call.reals(3);
    }
    Ok(call.upper_bounds(3)?.map(|list| list.iter().map(|&size| size as f64).collect()))
}

/// The axes that change, by factors or by new sizes. Operand 1 is a part of the tensor if the node
/// `cuts`; other modes do not read it.
fn axes(call: &Call<'_>, old: bool, cuts: bool) -> Result<Vec<Axis>> {
    let x = call.get(0)?;
    let listed = match call.ints("axes")? {
        Some(list) => list.iter().map(|&number| axis(number, x.rank())).collect::<Result<_>>()?,
        None => (0..x.rank()).collect::<Vec<_>>(),
    };
    let some = |list: Option<Vec<f64>>| list.filter(|list| !list.is_empty());
    let scales = match call.floats("scales")? {
        Some(list) => Some(list.iter().map(|&scale| f64::from(scale)).collect()),
        None => some(call.reals(if old { 1 } else { 2 })?),
    };
    let sizes = if old { None } else { some(sizes(call)?) };
    if scales.is_some() && sizes.is_some() {
        return Err("factors and sizes exclude each other".into());
    }
    let roi = match call.maybe(1) {
        Some(_) if !old && cuts => some(call.reals(1)?),
        _ => None,
    };
    let policy = call.text("keep_aspect_ratio_policy", "stretch")?;
    let numbers = scales.as_ref().or(sizes.as_ref()).ok_or("neither factors nor sizes")?;
    if numbers.len() != listed.len()
        || roi.as_ref().is_some_and(|roi| roi.len() != 2 * listed.len())
    {
        return Err(format!("{} factors or sizes for {} axes", numbers.len(), listed.len()));
    }
    let ratios = || listed.iter().zip(numbers).map(|(&axis, size)| size / x.dims()[axis] as f64);
    let common = match policy {
        "not_larger" => Some(ratios().fold(f64::INFINITY, f64::min)),
        "not_smaller" => Some(ratios().fold(0.0, f64::max)),
        "stretch" => None,
        other => return Err(format!("attribute keep_aspect_ratio_policy = {other:?}")),
    };
    let made = listed.iter().zip(numbers).enumerate().map(|(k, (&axis, &number))| {
        let from = x.dims()[axis];
        let cut = roi.as_ref().map_or([0.0, 1.0], |roi| [roi[k], roi[listed.len() + k]]);
        let (scale, exact, size) = match (scales.is_some(), common) {
            // Of an axis without elements none are made, by any factor.
            _ if from == 0 && (scales.is_some() || number == 0.0) => (1.0, 0.0, 0.0),
            (true, _) => {
                // A single, as in ONNX Runtime and PyTorch: 0.7 times 10 is 7, though the nearest
                // single to 0.7 is less.
                let all = f64::from(number as f32 * from as f32);
                (number, number * from as f64, (all * (cut[1] - cut[0])).floor())
            }
            (false, Some(scale)) => {
                let size = (scale * from as f64 + 0.5).floor();
                (scale, size, size)
            }
            (false, None) => (number / from as f64, number, number),
        };
        let sound =
            scale > 0.0 && scale.is_finite() && (0.0..=reef_op::MAX_SIZE as f64).contains(&size);
        if sound && (from > 0 || size == 0.0) {
            Ok(Axis { axis, from, to: size as usize, scale, exact, cut })
        } else {
            Err(format!("axis {axis} of {from} elements by {number}"))
        }
    });
    made.collect()
}
