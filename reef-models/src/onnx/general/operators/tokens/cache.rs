//! `TensorScatter`: new tokens in a cache of keys or values, from a place of each batch on.

use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::tensors::axes::{axis, sizes_around};
use crate::tensors::builder::Builder;
use crate::tensors::expressions::same_element;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Domain, Element, Gather, Kind, Spec, Target};

pub(super) fn tensor_scatter(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (cache, new) = (call.get(0)?, call.get(1)?);
    same_element(cache, new)?;
    let at = axis(call.int("axis", -2)?, cache.rank())?;
    let circular = match call.text("mode", "linear")? {
        "linear" => false,
        "circular" => true,
        other => return Err(format!("attribute mode = {other:?}")),
    };
    let same = |k: usize| k == at || new.dims()[k] == cache.dims()[k];
    if at == 0 || new.rank() != cache.rank() || !(0..cache.rank()).all(same) {
        return Err(format!("{} into {} along axis {at}", new.spec, cache.spec));
    }
    let (len, room, batch) = (new.dims()[at], cache.dims()[at], cache.dims()[0]);
    if len > room {
        return Err(format!("{len} tokens into a cache of {room}"));
    }
    let given = call.maybe(2);
    if cache.spec.elements() == 0 || len == 0 {
        return Ok(cache.clone());
    }
    let first = match given {
        Some(first) => b.cast(first, Element::I64)?,
        None => b.zeros(vec![batch])?,
    };
    if first.dims() != [batch] {
        return Err(format!("places {} of {batch} batches", first.spec));
    }
    if let Some(known) = first.known_values().filter(|_| !circular) {
        let last = (room - len) as i64;
        if let Some(place) = known.array.values().to_i64().iter().find(|&&x| x < 0 || x > last) {
            return Err(format!("{len} tokens at {place} of a cache of {room}"));
        }
    }
    placed(b, cache, new, &first, at, circular)
}

/// The cache with new tokens along axis `at`, from place `first` of each batch on.
///
/// Each place of the cache knows which new token is there, if any: nothing is written at places
/// that are computed. Tokens behind the end of a cache that isn't circular are left out, and
/// refused if that is known beforehand.
pub(in crate::onnx::general::operators) fn placed(
    b: &mut Builder<'_>,
    cache: &Value,
    new: &Value,
    first: &Value,
    at: usize,
    circular: bool,
) -> Result<Value> {
    let (len, room, batch) = (new.dims()[at], cache.dims()[at], cache.dims()[0]);
    let token = token_at(b, first, room, circular)?;
    let tokens = spread(b, new, &token, at)?;
    // The axes of the cache up to its tokens, as those of what is asked at each of its places.
    let mut dims = vec![1; cache.rank()];
    (dims[0], dims[at]) = (batch, room);
    let token = b.reshape(&token, dims)?;
    let is_new = b.map_in(Domain::I64, Element::Bool, &[&token], |w| {
        let (token, len) = (w.input(0), w.whole(len as i64));
        let (zero, one) = (w.whole(0), w.whole(1));
        let below = w.bin(Binary::Less, token, zero);
        let inside = w.bin(Binary::Less, token, len);
        let above = w.sub(one, below);
        w.mul(inside, above)
    })?;
    b.map(cache.element(), &[&is_new, &tokens, cache], |w| {
        let (is_new, new, old) = (w.input(0), w.input(1), w.input(2));
        w.select(is_new, new, old)
    })
}

/// New token at each of `room` places of each batch; a number that no token has where there is
/// none.
fn token_at(b: &mut Builder<'_>, first: &Value, room: usize, circular: bool) -> Result<Value> {
    let first = b.reshape(first, vec![first.spec.elements(), 1])?;
    let places = b.count(vec![1, room])?;
    b.map_in(Domain::I64, Element::I64, &[&places, &first], |w| {
        let (place, first) = (w.input(0), w.input(1));
        let token = w.sub(place, first);
        if !circular {
            return token;
        }
        let room = w.whole(room as i64);
        w.bin(Binary::Mod, token, room)
    })
}

/// New tokens at the places of the cache. Places without one have some other token.
fn spread(b: &mut Builder<'_>, new: &Value, token: &Value, at: usize) -> Result<Value> {
    let [outer, len, inner] = sizes_around(&new.spec, at);
    if len == 1 {
        return Ok(new.clone()); // it is broadcast
    }
    let (batch, room) = (token.dims()[0], token.dims()[1]);
    let inside = b.map_in(Domain::I64, Element::I64, &[token], |w| {
        let (token, zero, last) = (w.input(0), w.whole(0), w.whole(len as i64 - 1));
        let least = w.bin(Binary::Max, token, zero);
        w.bin(Binary::Min, least, last)
    })?;
    let inside = b.reshape(&inside, vec![batch, 1, room])?;
    let inside = b.expand(&inside, &[batch, outer / batch, room])?;
    let target =
        Target::Tuples { batches: outer, shared: false, sizes: vec![len], inner, tuples: room };
    let mut dims = new.dims().to_vec();
    dims[at] = room;
    let spec = Spec { element: new.element(), dims };
    b.emit(Kind::Gather(Gather { target }), &[new, &inside], spec)
}
