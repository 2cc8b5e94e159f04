//! Whether outputs are those that are wanted.

use reef::tensor::{Array, Element, Spec};

/// How far floats may be off, as ONNX's own tests allow.
const RELATIVE: f64 = 1e-3;
const ABSOLUTE: f64 = 1e-7;

/// What is wrong with an output, in a few words.
pub(crate) fn fault(index: usize, have: (&Spec, &Array), want: &(Spec, Array)) -> Option<String> {
    let (spec, wanted) = (&want.0, want.1.values().to_f64());
    if have.0 != spec {
        return Some(format!("output {index} is {}, {spec} wanted", have.0));
    }
    let values = have.1.values().to_f64();
    let allowed = allowed(spec.element);
    let off = |(have, want): (&f64, &f64)| !is_near(*have, *want, allowed);
    let wrong = values.iter().zip(&wanted).position(off)?;
    Some(format!("output {index} at {wrong}: {}, {} wanted", values[wrong], wanted[wrong]))
}

/// Halves of 8 bits round more.
fn allowed(element: Element) -> f64 {
    match element {
        Element::BF16 => 1.0 / 128.0,
        _ => RELATIVE,
    }
}

fn is_near(have: f64, want: f64, relative: f64) -> bool {
    have == want
        || (have.is_nan() && want.is_nan())
        || (have - want).abs() <= ABSOLUTE + relative * want.abs()
}
