//! Values of a tensor: an array of its own, or a view of memory of others.

use super::element::Element;
use super::stored::{Brain, Half, Stored, Truth};

/// Calls `$body` with the slice or list that `$value` holds, whatever its type.
macro_rules! with_values {
    ($kind:ident, $value:expr, $name:ident => $body:expr) => {
        match $value {
            $kind::F32($name) => $body,
            $kind::F16($name) => $body,
            $kind::BF16($name) => $body,
            $kind::F64($name) => $body,
            $kind::I64($name) => $body,
            $kind::I32($name) => $body,
            $kind::I16($name) => $body,
            $kind::I8($name) => $body,
            $kind::U64($name) => $body,
            $kind::U32($name) => $body,
            $kind::U16($name) => $body,
            $kind::U8($name) => $body,
            $kind::Bool($name) => $body,
        }
    };
}
pub(crate) use with_values;

/// Calls `$body` with the type that stores `$element` as `$name`.
macro_rules! with_type {
    ($element:expr, $name:ident => $body:expr) => {
        match $element {
            $crate::tensor::element::Element::F32 => {
                type $name = f32;
                $body
            }
            $crate::tensor::element::Element::F16 => {
                type $name = $crate::tensor::stored::Half;
                $body
            }
            $crate::tensor::element::Element::BF16 => {
                type $name = $crate::tensor::stored::Brain;
                $body
            }
            $crate::tensor::element::Element::F64 => {
                type $name = f64;
                $body
            }
            $crate::tensor::element::Element::I64 => {
                type $name = i64;
                $body
            }
            $crate::tensor::element::Element::I32 => {
                type $name = i32;
                $body
            }
            $crate::tensor::element::Element::I16 => {
                type $name = i16;
                $body
            }
            $crate::tensor::element::Element::I8 => {
                type $name = i8;
                $body
            }
            $crate::tensor::element::Element::U64 => {
                type $name = u64;
                $body
            }
            $crate::tensor::element::Element::U32 => {
                type $name = u32;
                $body
            }
            $crate::tensor::element::Element::U16 => {
                type $name = u16;
                $body
            }
            $crate::tensor::element::Element::U8 => {
                type $name = u8;
                $body
            }
            $crate::tensor::element::Element::Bool => {
                type $name = $crate::tensor::stored::Truth;
                $body
            }
        }
    };
}

/// Element type of tensors, and lists of it.
pub trait ElementType: Stored {
    /// An array of these.
    fn wrap(values: Vec<Self>) -> Array;
    /// The values, if they are of this type.
    fn of<'a>(values: &Values<'a>) -> Option<&'a [Self]>;
}

macro_rules! declare {
    ($($variant:ident $kind:ty),*) => {
        /// Values, row-major.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "variants are those of Element")]
        pub enum Array { $($variant(Vec<$kind>)),* }

        /// As [`Array`], in memory of others.
        #[derive(Debug, Clone, Copy)]
        #[expect(missing_docs, reason = "variants are those of Element")]
        pub enum Values<'a> { $($variant(&'a [$kind])),* }

        $(impl ElementType for $kind {
            fn wrap(values: Vec<Self>) -> Array {
                Array::$variant(values)
            }

            fn of<'a>(values: &Values<'a>) -> Option<&'a [Self]> {
                if let Values::$variant(values) = *values { Some(values) } else { None }
            }
        })*

        impl Array {
            /// Returns the values for reading.
            pub fn values(&self) -> Values<'_> {
                match self { $(Self::$variant(values) => Values::$variant(values)),* }
            }

            /// Their type.
            pub fn element(&self) -> Element {
                match self { $(Self::$variant(_) => Element::$variant),* }
            }
        }
    };
}

declare!(F32 f32, F16 Half, BF16 Brain, F64 f64, I64 i64, I32 i32, I16 i16, I8 i8, U64 u64, U32 u32, U16 u16,
    U8 u8, Bool Truth);

impl Array {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.values().len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes an empty array with room for `room` values.
    pub fn with_capacity(element: Element, room: usize) -> Self {
        with_type!(element, S => S::wrap(Vec::with_capacity(room)))
    }

    /// Doubles as elements: floats are rounded to the nearest, integers lose the fraction.
    pub fn from_f64(element: Element, values: impl IntoIterator<Item = f64>) -> Self {
        with_type!(element, S => S::wrap(values.into_iter().map(S::from_f64).collect()))
    }

    /// Integers as elements; those that are too large for the type wrap.
    pub fn from_i64(element: Element, values: impl IntoIterator<Item = i64>) -> Self {
        with_type!(element, S => S::wrap(values.into_iter().map(S::from_i64).collect()))
    }

    /// Makes an array of `bytes` as they lie in memory, the lowest byte of each number first. Bytes
    /// left over at the end are dropped.
    pub fn from_le_bytes(element: Element, bytes: &[u8]) -> Self {
        macro_rules! numbers {
            ($variant:ident, $kind:ty, $wrap:expr) => {{
                let (words, _) = bytes.as_chunks::<{ size_of::<$kind>() }>();
                Self::$variant(
                    words.iter().map(|&word| $wrap(<$kind>::from_le_bytes(word))).collect(),
                )
            }};
        }
        match element {
            Element::F32 => numbers!(F32, f32, |x| x),
            Element::F16 => numbers!(F16, u16, Half),
            Element::BF16 => numbers!(BF16, u16, Brain),
            Element::F64 => numbers!(F64, f64, |x| x),
            Element::I64 => numbers!(I64, i64, |x| x),
            Element::I32 => numbers!(I32, i32, |x| x),
            Element::I16 => numbers!(I16, i16, |x| x),
            Element::I8 => numbers!(I8, i8, |x| x),
            Element::U64 => numbers!(U64, u64, |x| x),
            Element::U32 => numbers!(U32, u32, |x| x),
            Element::U16 => numbers!(U16, u16, |x| x),
            Element::U8 => numbers!(U8, u8, |x| x),
            Element::Bool => numbers!(Bool, u8, Truth),
        }
    }

    /// The bytes that [`from_le_bytes`](Self::from_le_bytes) reads.
    pub fn to_le_bytes(&self) -> Vec<u8> {
        macro_rules! bytes {
            ($values:expr, $word:expr) => {
                $values.iter().flat_map(|&value| $word(value).to_le_bytes()).collect()
            };
        }
        match self {
            Self::F32(values) => bytes!(values, |x: f32| x),
            Self::F16(values) => bytes!(values, |x: Half| x.0),
            Self::BF16(values) => bytes!(values, |x: Brain| x.0),
            Self::F64(values) => bytes!(values, |x: f64| x),
            Self::I64(values) => bytes!(values, |x: i64| x),
            Self::I32(values) => bytes!(values, |x: i32| x),
            Self::I16(values) => bytes!(values, |x: i16| x),
            Self::I8(values) => bytes!(values, |x: i8| x),
            Self::U64(values) => bytes!(values, |x: u64| x),
            Self::U32(values) => bytes!(values, |x: u32| x),
            Self::U16(values) => bytes!(values, |x: u16| x),
            Self::U8(values) => bytes!(values, |x: u8| x),
            Self::Bool(values) => bytes!(values, |x: Truth| x.0),
        }
    }
}

impl Values<'_> {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        with_values!(Values, self, values => values.len())
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them as doubles.
    pub fn to_f64(&self) -> Vec<f64> {
        with_values!(Values, self, values => values.iter().map(|&value| Stored::to_f64(value)).collect())
    }

    /// All of them as signed integers.
    pub fn to_i64(&self) -> Vec<i64> {
        with_values!(Values, self, values => values.iter().map(|&value| Stored::to_i64(value)).collect())
    }
}
