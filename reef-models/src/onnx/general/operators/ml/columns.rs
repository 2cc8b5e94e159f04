//! Operators that prepare columns: scales, norms, and numbers in place of others.

use super::ensemble::rows;
use super::forest::{lookup, numbers_of};
use crate::onnx::fault::{Result, beyond};
use crate::onnx::general::call::{Call, one};
use crate::onnx::general::operators::places::indexed::parts_at;
use crate::onnx::general::texts::UNUSED;
use crate::tensors::axes::size;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Binary, Domain, Element, FoldKind, Scalar, Unary};

pub(super) fn column(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "ArrayFeatureExtractor" => one(picked(b, call)?),
        "Binarizer" => one(binarized(b, call)?),
        "FeatureVectorizer" => one(joined(b, call)?),
        "Imputer" => one(imputed(b, call)?),
        "CategoryMapper" | "LabelEncoder" => one(encoded(b, call)?),
        "Normalizer" => one(normalized(b, call)?),
        "OneHotEncoder" => one(one_hot(b, call)?),
        "Scaler" => one(scaled(b, call)?),
        "ZipMap" => one(zipped(call)?),
        _ => Ok(None),
    }
}

/// A list with one number for all columns, or one for each.
fn for_columns(b: &Builder<'_>, list: &[f32], columns: usize, what: &str) -> Result<Value> {
    if list.len() != 1 && list.len() != columns {
        return Err(format!("attribute {what} has {} numbers for {columns} columns", list.len()));
    }
    let numbers = list.iter().map(|&x| x.into()).collect();
    numbers_of(b, vec![list.len()], numbers, Element::F32)
}

/// `(x - offset) · scale` as singles; of doubles both steps are doubles.
fn scaled(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let given = call.get(0)?;
    let is_double = given.element() == Element::F64;
    let x = if is_double { given.clone() } else { b.cast(given, Element::F32)? };
    let columns = x.dims().last().copied().unwrap_or(1);
    let offset = for_columns(b, call.floats("offset")?.unwrap_or(&[0.0]), columns, "offset")?;
    let scale = for_columns(b, call.floats("scale")?.unwrap_or(&[1.0]), columns, "scale")?;
    b.map_in(x.element().domain(), Element::F32, &[&x, &offset, &scale], |w| {
        let (x, offset, scale) = (w.input(0), w.input(1), w.input(2));
        let moved = w.sub(x, offset);
        w.mul(moved, scale)
    })
}

/// Each row divided by its norm. A row of zeros stays.
fn normalized(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let kind = match call.text("norm", "MAX")? {
        "MAX" => FoldKind::Max,
        "L1" => FoldKind::SumAbs,
        "L2" => FoldKind::SumSquares,
        other => return Err(format!("attribute norm = {other:?}")),
    };
    let x = rows(b, call)?;
    let dims = call.get(0)?.dims().to_vec();
    let x = b.cast(&x, Element::F32)?;
    let norm = b.fold_axes(&x, &[1], kind)?;
    let made = b.map(Element::F32, &[&x, &norm], |w| {
        let (x, norm, one) = (w.input(0), w.input(1), w.real(1.0));
        let norm = if kind == FoldKind::SumSquares { w.un(Unary::Sqrt, norm) } else { norm };
        let divisor = w.select(norm, norm, one);
        w.div(x, divisor)
    })?;
    b.reshape(&made, dims)
}

/// 1 for what is above a threshold.
fn binarized(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, threshold) = (call.get(0)?, call.float("threshold", 0.0)?);
    b.map(x.element(), &[x], |w| {
        let (x, threshold) = (w.input(0), w.real(threshold));
        w.bin(Binary::Less, threshold, x)
    })
}

/// Another number in place of a missing one.
fn imputed(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let columns = x.dims().last().copied().unwrap_or(1);
    let is_float = x.element().is_float();
    let (real, whole) =
        (call.float("replaced_value_float", 0.0)?, call.int("replaced_value_int64", 0)?);
    let missing = if is_float { Scalar::Real(real) } else { Scalar::Whole(whole) };
    let values = if is_float {
        for_columns(b, call.floats("imputed_value_floats")?.unwrap_or_default(), columns, VALUES)?
    } else {
        let list = call.ints("imputed_value_int64s")?.unwrap_or_default();
        if list.len() != 1 && list.len() != columns {
            return Err(format!("attribute {VALUES} has {} numbers for {columns}", list.len()));
        }
        b.whole(vec![list.len()], list.to_vec())?
    };
    b.map_in(x.element().domain(), x.element(), &[x, &values], |w| {
        let (x, value) = (w.input(0), w.input(1));
        let missing = match missing {
            Scalar::Real(number) if number.is_nan() => None,
            Scalar::Real(number) => Some(w.real(number)),
            Scalar::Whole(number) => Some(w.whole(number)),
        };
        let is = match missing {
            None => w.un(Unary::IsNan, x),
            Some(missing) => w.bin(Binary::Equal, x, missing),
        };
        w.select(is, value, x)
    })
}

const VALUES: &str = "imputed_value";

/// Columns of several tensors next to each other, as many of each as are asked for: further ones
/// are left out, and missing ones are zeros.
fn joined(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (wanted, given) = (call.ints("inputdimensions")?.unwrap_or_default(), call.all()?);
    if !wanted.is_empty() && wanted.len() != given.len() {
        let (have, want) = (wanted.len(), given.len());
        return Err(format!("attribute inputdimensions has {have} numbers for {want} operands"));
    }
    let mut all = Vec::new();
    for (k, value) in given.into_iter().enumerate() {
        let value = match value.dims() {
            &[columns] => b.reshape(value, vec![1, columns])?,
            [_, _] => value.clone(),
            _ => return Err(format!("operand {k} must have one or two dimensions")),
        };
        let value = b.cast(&value, Element::F32)?;
        let (rows, have) = (value.dims()[0], value.dims()[1]);
        let want = wanted.get(k).map_or(Ok(have), |&columns| size(columns))?;
        all.push(if want < have { b.cut(&value, 1, 0, want)? } else { value });
        if want > have {
            let zero = b.scalar(Element::F32, 0.0)?;
            all.push(b.expand(&zero, &[rows, want - have])?);
        }
    }
    b.concat(&all.iter().collect::<Vec<_>>(), 1)
}

/// Columns by their numbers.
fn picked(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let x = if x.rank() == 1 { b.reshape(x, vec![1, x.dims()[0]])? } else { x.clone() };
    let last = x.rank().checked_sub(1).ok_or("the input must have a dimension")?;
    let places = call.get(1)?;
    if places.element().is_float() {
        return Err(format!("places must be integers, got {}", places.spec));
    }
    let places = b.reshape(places, vec![places.spec.elements()])?;
    parts_at(b, &x, &places, last)
}

/// Keys or values of a table.
struct Entries {
    array: Array,
    /// The numbers are places of texts.
    are_texts: bool,
}

impl Entries {
    fn of(
        b: &Builder<'_>,
        call: &Call<'_>,
        [ints, floats, texts, tensor]: [&'static str; 4],
    ) -> Result<Self> {
        if let Some(attribute) = call.attribute(tensor)? {
            let held = attribute.tensor.as_ref();
            let held = held.ok_or_else(|| format!("attribute {tensor} must be a tensor"))?;
            let (_, array, are_texts) = call.stored(held, b.ledger)?;
            return Ok(Self { array, are_texts });
        }
        let (array, are_texts) = match (call.ints(ints)?, call.floats(floats)?, call.places(texts)?)
        {
            (Some(list), None, None) => (Array::I64(list.to_vec()), false),
            (None, Some(list), None) => (Array::F32(list.to_vec()), false),
            (None, None, Some(places)) => (Array::I64(places), true),
            _ => {
                let why =
                    format!("one of the attributes {ints}, {floats} and {texts} must be there");
                return Err(why);
            }
        };
        Ok(Self { array, are_texts })
    }

    /// Keys and values of a node.
    fn of_node(b: &Builder<'_>, call: &Call<'_>) -> Result<[Self; 2]> {
        // Version 1 has one list: texts become their numbers in it, and numbers the texts.
        let lists = match call.op() {
            "CategoryMapper" => {
                let numbers = call.ints("cats_int64s")?.map(<[i64]>::to_vec);
                call.places("cats_strings")?.zip(numbers)
            }
            _ => call.places("classes_strings")?.map(|classes| {
                let numbers = (0..classes.len() as i64).collect();
                (classes, numbers)
            }),
        };
        if let Some((texts, numbers)) = lists {
            let numbers = Self { array: Array::I64(numbers), are_texts: false };
            let texts = Self { array: Array::I64(texts), are_texts: true };
            return Ok(if call.is_text(0) { [texts, numbers] } else { [numbers, texts] });
        }
        let keys = ["keys_int64s", "keys_floats", "keys_strings", "keys_tensor"];
        let values = ["values_int64s", "values_floats", "values_strings", "values_tensor"];
        Ok([Self::of(b, call, keys)?, Self::of(b, call, values)?])
    }
}

/// Most keys of a table that is searched by comparing with each.
const MAX_KEYS: usize = 1 << 16;

/// The value of each key. Of equal keys the first counts, and the last in the lists of version 1
/// and of `CategoryMapper`, as in ONNX Runtime. NaN is a key like others.
fn encoded(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let [Entries { array: keys, are_texts: of_texts }, values] = Entries::of_node(b, call)?;
    let x = call.get(0)?;
    if of_texts != call.is_text(0) {
        return Err("keys must be texts if the input is of texts, and only then".into());
    }
    let Entries { array: values, are_texts } = values;
    call.makes_texts.set(are_texts);
    if keys.len() > MAX_KEYS {
        return Err(beyond(&format!("{} keys: have at most {MAX_KEYS}", keys.len())));
    }
    let same = keys.element() == x.element();
    if !same || keys.len() != values.len() {
        return Err(format!(
            "{} keys {} for {} values and {}",
            keys.len(),
            keys.element(),
            values.len(),
            x.spec
        ));
    }
    let default = default_value(b, call, values.element(), are_texts)?;
    let count = keys.len();
    let keys = b.constant(vec![count], keys)?;
    let column = b.reshape(x, [x.dims(), &[1]].concat())?;
    let is = b.map_in(x.element().domain(), Element::I64, &[&column, &keys], |w| {
        let (x, key) = (w.input(0), w.input(1));
        let (same, first, second) =
            (w.bin(Binary::Equal, x, key), w.un(Unary::IsNan, x), w.un(Unary::IsNan, key));
        let both = w.mul(first, second);
        w.bin(Binary::Max, same, both)
    })?;
    let along = is.rank() - 1;
    let last = call.op() == "CategoryMapper" || call.attribute("classes_strings")?.is_some();
    let at = b.fold_axes(&is, &[along], FoldKind::ArgMax { last })?;
    let found = b.fold_axes(&is, &[along], FoldKind::Max)?;
    let table = b.constant(vec![count], values)?;
    let value = lookup(b, &table, &at, 1)?;
    let made = b.map(table.element(), &[&found, &value, &default], |w| {
        let (found, value, default) = (w.input(0), w.input(1), w.input(2));
        w.select(found, value, default)
    })?;
    b.reshape(&made, x.dims().to_vec())
}

/// Value of everything that is not a key.
fn default_value(
    b: &Builder<'_>,
    call: &Call<'_>,
    element: Element,
    are_texts: bool,
) -> Result<Value> {
    let text = call.text("default_string", UNUSED)?;
    let (int, float) = (call.int("default_int64", -1)?, call.float("default_float", -0.0)?);
    if let Some(attribute) = call.attribute("default_tensor")? {
        let held = attribute.tensor.as_ref().ok_or("attribute default_tensor must be a tensor")?;
        let (_, array, is_text) = call.stored(held, b.ledger)?;
        if is_text != are_texts {
            return Err("attribute default_tensor must be of the type of the values".into());
        }
        return b.constant(vec![array.len()], array);
    }
    if are_texts {
        return b.whole(Vec::new(), vec![call.place(text)?]);
    }
    if element.is_float() {
        return numbers_of(b, Vec::new(), vec![float], element);
    }
    b.whole(Vec::new(), vec![int])
}

/// A column for each category: 1 where it is.
fn one_hot(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    call.flag("zeros", true)?; // others are zeros, as a device cannot refuse them
    let categories = match (call.places("cats_strings")?, call.ints("cats_int64s")?) {
        (Some(places), None) if call.is_text(0) => places,
        (None, numbers) if !call.is_text(0) => numbers.unwrap_or_default().to_vec(),
        _ => return Err("categories must be texts if the input is of texts, and only then".into()),
    };
    let x = call.get(0)?;
    let column = b.reshape(x, [x.dims(), &[1]].concat())?;
    let categories = b.whole(vec![categories.len()], categories)?;
    let domain = if x.element().is_float() { Domain::F64 } else { Domain::I64 };
    b.map_in(domain, Element::F32, &[&column, &categories], |w| {
        let (x, category) = (w.input(0), w.input(1));
        // Floats are those of their integers, as in ONNX Runtime.
        let x = if domain == Domain::F64 { w.un(Unary::Trunc, x) } else { x };
        w.bin(Binary::Equal, x, category)
    })
}

/// Scores with their labels: the scores, whose columns are in the order of the labels.
fn zipped(call: &Call<'_>) -> Result<Value> {
    let texts = call.texts("classlabels_strings")?.map_or(0, |texts| texts.len());
    let labels = texts + call.ints("classlabels_int64s")?.map_or(0, <[i64]>::len);
    let x = call.get(0)?;
    match x.dims() {
        [.., columns] if *columns == labels => Ok(x.clone()),
        _ => Err(format!("{labels} labels for {}", x.spec)),
    }
}
