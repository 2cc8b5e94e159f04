//! Hash of all that both ends must agree on.
//!
//! It covers the declarations of messages, and the form of every type in them: each field and each
//! variant, of this crate and of `reef-op`, as serde sees them. So two builds whose networks
//! have other operations refuse each other, also if their release is the same.

use crate::error::RemoteError;
use crate::messages::{
    BlocksLeft, Change, ColocationKind, DECLARED, Event, Facts, Operation, PackedSpec, Question,
    RemoteCommand, Request, Shape, Traced,
};
use reef_op::tensor::{
    self, Binary, Domain, Element, FoldKind, RowTerm, Scalar, ScatterKind, ScoreStep, Target, Term,
    Unary,
};
use reef_op::{Format, Function, Layout, Op, PoolKind};
use reef_wire::codec;
use serde_reflection::{Samples, Tracer, TracerConfig};
use std::sync::OnceLock;

/// Returns the hash. Takes a millisecond for the first time.
pub fn schema() -> u64 {
    static SCHEMA: OnceLock<u64> = OnceLock::new();
    *SCHEMA.get_or_init(|| {
        let forms = [operations(), commands(), events(), facts(), errors()];
        let forms = forms.map(|form| format!("{form:?}"));
        DECLARED ^ codec::hash(&format!("{} {}", env!("CARGO_PKG_VERSION"), forms.concat()))
    })
}

/// Forms of types by name. An error is a hash that says less, which a test excludes.
type Forms = serde_reflection::Result<serde_reflection::Registry>;

/// Returns the forms of these types. A type that is or has an enum follows that enum, whose
/// variants are looked for one by one.
macro_rules! forms {
    ($($form:ty),+ $(,)?) => {{
        // A scale must not be 0.
        let config = TracerConfig::default().is_human_readable(false).default_f32_value(1.0);
        let mut tracer = Tracer::new(config);
        let samples = Samples::new();
        let traced = Ok(());
        $(let traced = traced.and_then(|()| tracer.trace_type::<$form>(&samples).map(|_| ()));)+
        traced.and_then(|()| tracer.registry())
    }};
}

fn operations() -> Forms {
    forms!(
        Format,
        Layout,
        Function,
        PoolKind,
        Op,
        Element,
        Domain,
        Unary,
        Binary,
        Scalar,
        Term,
        FoldKind,
        RowTerm,
        ScatterKind,
        ScoreStep,
        Target,
        tensor::Kind,
        Operation,
        Question,
    )
}

fn commands() -> Forms {
    forms!(RemoteCommand, BlocksLeft, Shape, PackedSpec, Traced)
}

fn events() -> Forms {
    forms!(
        Format,
        Layout,
        Function,
        PoolKind,
        Op,
        Element,
        Domain,
        Unary,
        Binary,
        Scalar,
        Term,
        FoldKind,
        RowTerm,
        ScatterKind,
        ScoreStep,
        Target,
        tensor::Kind,
        Operation,
        RemoteCommand,
        Change,
        Event,
    )
}

fn facts() -> Forms {
    forms!(ColocationKind, Facts, Request)
}

fn errors() -> Forms {
    forms!(crate::error::Kind, RemoteError)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[test]
    fn schema_has_every_operation_of_networks() {
        let text = format!("{:?}", operations().expect("each enum is in the list"));
        for name in [
            "Conv2d",
            "Pool2d",
            "PoolKind",
            "HardSwish",
            "Attention",
            "Depthwise",
            "Eight",
            "Suppress",
            "TopK",
            "Contract",
            "Formula",
            "Element",
            "Spec",
            "Quantized",
            "Fp8",
        ] {
            assert!(text.contains(name), "no {name}");
        }
        for forms in [commands(), events(), facts(), errors()] {
            forms.expect("each enum is in the list");
        }
        assert_eq!(schema(), schema());
    }

    /// An operation before and after a change of a field, and of the order of its variants.
    macro_rules! changed {
        ($name:ident { $($variants:tt)* }) => {
            fn $name() -> String {
                #[derive(Deserialize)]
                #[expect(dead_code, reason = "only its form counts")]
                enum Op { $($variants)* }
                format!("{:?}", forms!(Op).expect("it can be traced"))
            }
        };
    }

    changed!(before { Add { by: u32 }, Multiply });
    changed!(widened { Add { by: u64 }, Multiply });
    changed!(reordered { Multiply, Add { by: u32 } });
    changed!(extended { Add { by: u32 }, Multiply, Divide });

    #[test]
    fn changed_operation_changes_the_form() {
        for after in [widened(), reordered(), extended()] {
            assert_ne!(before(), after);
        }
    }
}
