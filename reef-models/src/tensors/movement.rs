//! Elements from elsewhere, as operations of a network.

use super::axes::{Result, elements, sizes_around};
use super::builder::Builder;
use super::value::Value;
use reef_op::tensor::{Array, Concat, Element, Kind, Move, NOWHERE, Scalar, Spec, View};

impl Builder<'_> {
    /// Gives the elements another shape. Nothing is moved.
    pub(crate) fn reshape(&self, value: &Value, dims: Vec<usize>) -> Result<Value> {
        if elements(&dims)? != value.spec.elements() {
            return Err(format!("{:?} can't become {dims:?}", value.dims()));
        }
        let spec = Spec { dims, ..value.spec.clone() };
        Ok(Value { spec, data: value.data.clone(), texts: value.texts })
    }

    /// Elements by places along each axis; [`NOWHERE`] is `fill`.
    pub(crate) fn pick(
        &mut self,
        value: &Value,
        places: Vec<Vec<usize>>,
        fill: Scalar,
    ) -> Result<Value> {
        let dims: Vec<usize> = places.iter().map(Vec::len).collect();
        let in_place = places.iter().zip(value.dims()).all(|(places, &size)| is_all(places, size));
        if in_place {
            return Ok(value.clone());
        }
        elements(&dims)?;
        let is_nowhere = |places: &Vec<usize>| places.iter().all(|&at| at == NOWHERE);
        if value.spec.elements() == 0 && places.iter().any(is_nowhere) {
            return self.filled(value.element(), dims, fill);
        }
        let strides = View::dense(value.dims()).strides;
        let table = |(places, stride): (Vec<usize>, usize)| -> Vec<usize> {
            let offset = |at: usize| if at == NOWHERE { at } else { at * stride };
            places.into_iter().map(offset).collect()
        };
        let tables = places.into_iter().zip(strides).map(table).collect();
        self.moved(value, tables, dims, fill)
    }

    /// One number everywhere.
    fn filled(&mut self, element: Element, dims: Vec<usize>, fill: Scalar) -> Result<Value> {
        let one = match fill {
            Scalar::Real(number) => Array::from_f64(element, [number]),
            Scalar::Whole(number) => Array::from_i64(element, [number]),
        };
        let one = self.constant(Vec::new(), one)?;
        self.expand(&one, &dims)
    }

    /// All places along each axis, for which there is memory.
    pub(crate) fn places(&self, dims: &[usize]) -> Result<Vec<Vec<usize>>> {
        self.ensure_memory(dims)?;
        Ok(dims.iter().map(|&size| (0..size).collect()).collect())
    }

    /// Refuses as many places along each axis as there are in no tensor, or as there is no memory
    /// for. A caller asks before it makes those of the first axis.
    pub(crate) fn ensure_places(&self, dims: &[usize]) -> Result<()> {
        elements(dims)?;
        self.ensure_memory(dims)
    }

    /// Refuses more places, of all axes, than there is memory for.
    fn ensure_memory(&self, dims: &[usize]) -> Result<()> {
        let all = dims.iter().fold(0u64, |sum, &size| sum.saturating_add(size as u64));
        self.ledger.charge(all.saturating_mul(8))?;
        Ok(())
    }

    /// Elements by offsets for each axis of the result.
    pub(crate) fn moved(
        &mut self,
        value: &Value,
        tables: Vec<Vec<usize>>,
        dims: Vec<usize>,
        fill: Scalar,
    ) -> Result<Value> {
        let spec = Spec { element: value.element(), dims };
        self.emit(Kind::Move(Move { tables, fill }), &[value], spec)
    }

    /// As a view sees it.
    pub(crate) fn viewed(&mut self, value: &Value, view: &View) -> Result<Value> {
        elements(&view.dims)?;
        let mut tables = self.places(&view.dims)?;
        for (table, stride) in tables.iter_mut().zip(&view.strides) {
            table.iter_mut().for_each(|place| *place *= stride);
        }
        self.moved(value, tables, view.dims.clone(), Scalar::Whole(0))
    }

    /// Its axes in another order.
    pub(crate) fn transpose(&mut self, value: &Value, order: &[usize]) -> Result<Value> {
        if order.iter().enumerate().all(|(k, &axis)| k == axis) {
            return Ok(value.clone());
        }
        let view = View::dense(value.dims()).axes(order);
        if view.merged() == View::dense(&[value.spec.elements()]).merged() {
            return self.reshape(value, view.dims); // axes of one element change places
        }
        self.viewed(value, &view)
    }

    /// Broadcast to `dims`.
    pub(crate) fn expand(&mut self, value: &Value, dims: &[usize]) -> Result<Value> {
        if value.dims() == dims {
            return Ok(value.clone());
        }
        let view = View::broadcast(value.dims(), dims);
        let view =
            view.ok_or_else(|| format!("{:?} can't be broadcast to {dims:?}", value.dims()))?;
        self.viewed(value, &view)
    }

    /// Places along one axis, all of the others.
    pub(crate) fn pick_axis(
        &mut self,
        value: &Value,
        axis: usize,
        places: Vec<usize>,
    ) -> Result<Value> {
        let mut all = self.places(value.dims())?;
        all[axis] = places;
        self.pick(value, all, Scalar::Whole(0))
    }

    /// Elements from `from` to `to` along one axis.
    pub(crate) fn cut(
        &mut self,
        value: &Value,
        axis: usize,
        from: usize,
        to: usize,
    ) -> Result<Value> {
        let _making = self.ledger.charge(8 * to.saturating_sub(from) as u64)?;
        self.pick_axis(value, axis, (from..to).collect())
    }

    /// `before` and `after` more along each axis, negative ones less.
    pub(crate) fn pad(
        &mut self,
        value: &Value,
        before: &[i64],
        after: &[i64],
        fill: Scalar,
    ) -> Result<Value> {
        if before.iter().chain(after).all(|&more| more == 0) {
            return Ok(value.clone());
        }
        let len = |((&size, &before), &after): ((&usize, &i64), &i64)| {
            let len = (size as i64).checked_add(before).and_then(|sum| sum.checked_add(after));
            let len = len.and_then(|len| usize::try_from(len).ok());
            len.ok_or_else(|| format!("padding {before} and {after} of a size of {size}"))
        };
        let lens = value.dims().iter().zip(before).zip(after).map(len);
        let lens = lens.collect::<Result<Vec<_>>>()?;
        self.ensure_places(&lens)?;
        let mut places = Vec::new();
        for ((&size, &before), &len) in value.dims().iter().zip(before).zip(&lens) {
            let place = |i: usize| {
                let at = (i as i64).checked_sub(before).and_then(|at| usize::try_from(at).ok());
                at.filter(|&at| at < size).unwrap_or(NOWHERE)
            };
            places.push((0..len).map(place).collect());
        }
        self.pick(value, places, fill)
    }

    /// Tensors one after the other along an axis.
    pub(crate) fn concat(&mut self, values: &[&Value], axis: usize) -> Result<Value> {
        let first = *values.first().ok_or("nothing to put together")?;
        let mut dims = first.dims().to_vec();
        dims[axis] = 0;
        for value in values {
            let other_sizes = value.rank() != dims.len()
                || (0..dims.len()).any(|k| k != axis && value.dims()[k] != dims[k]);
            if other_sizes || value.element() != first.element() {
                return Err(format!("{} and {} along axis {axis}", first.spec, value.spec));
            }
            dims[axis] = dims[axis].saturating_add(value.dims()[axis]);
        }
        let values: Vec<&Value> =
            values.iter().copied().filter(|value| value.spec.elements() > 0).collect();
        if let [only] = values.as_slice() {
            return Ok((*only).clone());
        }
        let lens = values.iter().map(|value| {
            let [_, own, inner] = sizes_around(&value.spec, axis);
            own * inner
        });
        let outer = dims[..axis].iter().product();
        let kind = Concat { outer, lens: lens.collect() };
        self.emit(Kind::Concat(kind), &values, Spec { element: first.element(), dims })
    }
}

/// Returns whether these are all places of an axis in their order.
fn is_all(places: &[usize], size: usize) -> bool {
    places.len() == size && places.iter().enumerate().all(|(k, &at)| k == at)
}
