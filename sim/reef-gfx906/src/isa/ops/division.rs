//! The first and the last step of a division, for single and double precision.

/// Makes `div_fixup` and `scaled` of a type. Exponents are compared as they stand in the bits.
///
/// * `nan`: bits of the result of 0 / 0 and of infinity / infinity.
/// * `underflow`: a quotient whose exponents differ by less is zero.
/// * `overflow`: a quotient whose exponents differ by as much is too large.
/// * `small`: a numerator with at most this exponent is too small.
/// * `shift`: power of two by which operands are scaled, by `scale`.
/// * `inverse`: 1 / a number.
macro_rules! division {
    ($float:ident {
        nan: $nan:literal,
        underflow: $underflow:literal,
        overflow: $overflow:literal,
        small: $small:literal,
        shift: $shift:literal,
        scale: $scale:ident,
        inverse: $inverse:path,
    }) => {
        /// The last step of a division: special cases, else the quotient with the right sign.
        fn div_fixup(quotient: $float, denominator: $float, numerator: $float) -> $float {
            let negative = denominator.is_sign_negative() != numerator.is_sign_negative();
            let sign: $float = if negative { -1.0 } else { 1.0 };
            let (n, d) = (numerator.abs(), denominator.abs());
            if n.is_nan() {
                numerator + 0.0
            } else if d.is_nan() {
                denominator + 0.0
            } else if (n == 0.0 && d == 0.0) || (n.is_infinite() && d.is_infinite()) {
                $float::from_bits($nan)
            } else if d == 0.0 || n.is_infinite() {
                $float::INFINITY.copysign(sign)
            } else if d.is_infinite() || n == 0.0 {
                (0.0 as $float).copysign(sign)
            } else if raw_exponent(numerator) - raw_exponent(denominator) < $underflow {
                // Far below what a denormal can hold.
                (0.0 as $float).copysign(sign)
            } else if quotient.is_nan() {
                // Of finite numbers: the steps before have met infinity.
                $float::INFINITY.copysign(sign)
            } else {
                quotient.copysign(sign)
            }
        }

        /// The first step of a division: brings operands that are too large or too small into
        /// range. Returns also whether the last step but one must undo that.
        fn scaled(value: $float, denominator: $float, numerator: $float) -> ($float, bool) {
            let (d, n) = (denominator, numerator);
            let inverse: $float = $inverse(d);
            let quotient = n / d;
            if n == 0.0 || d == 0.0 {
                ($float::NAN, false)
            } else if raw_exponent(n) - raw_exponent(d) >= $overflow {
                (if value == d { $scale(value, $shift) } else { value }, true)
            } else if d.is_subnormal() {
                ($scale(value, $shift), false)
            } else if inverse.is_subnormal() && quotient.is_subnormal() {
                (if value == d { $scale(value, -$shift) } else { value }, true)
            } else if inverse.is_subnormal() {
                ($scale(value, -$shift), false)
            } else if quotient.is_subnormal() {
                (if value == n { $scale(value, $shift) } else { value }, true)
            } else if raw_exponent(n) <= $small {
                ($scale(value, $shift), false)
            } else {
                (value, false)
            }
        }
    };
}

pub(super) use division;
