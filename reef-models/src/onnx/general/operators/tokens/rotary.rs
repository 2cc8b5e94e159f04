//! `RotaryEmbedding`: pairs of columns are turned by angles that a token's place tells (Su et al.,
//! "RoFormer", 2021).

use super::heads::Heads;
use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::tensors::axes::size;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Binary, Gather, Kind, Spec, Target};

/// `x * cos + other * sin` for each column, `other` being the other one of its pair, negative for
/// the first of both.
pub(super) fn rotary(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let heads =
        Heads::of(x, call.maybe_int("num_heads")?.filter(|&heads| heads != 0), "num_heads")?;
    let [batch, count, tokens, columns] = heads.sizes;
    let turned = match size(call.int("rotary_embedding_dim", 0)?)? {
        0 => columns,
        some => some,
    };
    if turned > columns || !turned.is_multiple_of(2) {
        return Err(format!("{turned} of {columns} columns are turned"));
    }
    let pairs = Pairs { half: turned / 2, interleaved: call.flag("interleaved", false)? };
    let by_token = x.rank() == 3;
    let angles = |b: &mut Builder<'_>, operand: usize| {
        let cache = call.get(operand)?;
        let found = match call.maybe(3) {
            Some(places) => looked_up(b, cache, places)?,
            None => cache.clone(),
        };
        match *found.dims() {
            [n, t, half] if (n, t, half) == (batch, tokens, pairs.half) => {
                let dims = if by_token { [n, t, 1, half] } else { [n, 1, t, half] };
                b.reshape(&found, dims.into())
            }
            _ => Err(format!("angles {} for {:?}", found.spec, [batch, tokens, pairs.half])),
        }
    };
    let (cos, sin) = (angles(b, 1)?, angles(b, 2)?);
    let dims = if by_token { vec![batch, tokens, count, columns] } else { heads.sizes.into() };
    let all = b.reshape(x, dims)?;
    let part = b.cut(&all, 3, 0, turned)?;
    let made = pairs.turn(b, &part, [&cos, &sin])?;
    let rest = b.cut(&all, 3, turned, columns)?;
    let made = b.concat(&[&made, &rest], 3)?;
    b.reshape(&made, x.dims().to_vec())
}

/// Rows of a table, one for each place.
fn looked_up(b: &mut Builder<'_>, table: &Value, places: &Value) -> Result<Value> {
    let (&[rows, half], false) = (table.dims(), places.element().is_float()) else {
        return Err(format!("angles {} at places {}", table.spec, places.spec));
    };
    let target = Target::Tuples {
        batches: 1,
        shared: true,
        sizes: vec![rows],
        inner: half,
        tuples: places.spec.elements(),
    };
    let dims = [places.dims(), &[half]].concat();
    let spec = Spec { element: table.element(), dims };
    b.emit(Kind::Gather(Gather { target }), &[table, places], spec)
}

/// Pairs of columns: neighbours, or one of each half.
struct Pairs {
    half: usize,
    interleaved: bool,
}

impl Pairs {
    fn turn(&self, b: &mut Builder<'_>, x: &Value, [cos, sin]: [&Value; 2]) -> Result<Value> {
        let half = self.half;
        let columns = 0..2 * half;
        let (other, pair): (Vec<_>, Vec<_>) = if self.interleaved {
            columns.map(|k| (k ^ 1, k / 2)).unzip()
        } else {
            columns.map(|k| ((k + half) % (2 * half), k % half)).unzip()
        };
        let sign = |k: usize| if other[k] > k { -1.0 } else { 1.0 };
        let signs = Array::F32((0..2 * half).map(sign).collect());
        let signs = b.constant(vec![2 * half], signs)?;
        let signs = b.cast(&signs, sin.element())?;
        let cos = b.pick_axis(cos, 3, pair.clone())?;
        let sin = b.pick_axis(sin, 3, pair)?;
        let sin = b.binary(Binary::Mul, &sin, &signs)?;
        let other = b.pick_axis(x, 3, other)?;
        let [cos, sin] = [b.cast(&cos, x.element())?, b.cast(&sin, x.element())?];
        b.map(x.element(), &[x, &cos, &other, &sin], |w| {
            let (x, cos, other, sin) = (w.input(0), w.input(1), w.input(2), w.input(3));
            let (a, c) = (w.mul(x, cos), w.mul(other, sin));
            w.add(a, c)
        })
    }
}
