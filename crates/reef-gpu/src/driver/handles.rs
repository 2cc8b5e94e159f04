//! Handles whose copies share what they stand for.

/// Makes handles cloneable, whether or not their vendor's type is (which `derive` would ask for).
macro_rules! cloned {
    ($($name:ident),+) => {
        $(impl<V: crate::hal::calls::Vendor> Clone for $name<V> {
            fn clone(&self) -> Self {
                Self(self.0.clone())
            }
        })+
    };
}

pub(crate) use cloned;
