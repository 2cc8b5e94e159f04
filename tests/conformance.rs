//! The conformance suite on each backend that is compiled in: see `reef_conformance`.

#![cfg(any(feature = "cpu", feature = "cuda", feature = "hip"))]

#[cfg(feature = "hip")]
mod software;

use reef_conformance::suite;

#[cfg(feature = "cpu")]
suite!(cpu, reef::cpu::Cpu, "");
#[cfg(feature = "cuda")]
suite!(cuda, reef::cuda::Cuda, "");
#[cfg(feature = "cuda")]
suite!(cuda_few, reef::cuda::Cuda, "beside=24");
#[cfg(feature = "cuda")]
suite!(cuda_gates, reef::cuda::Cuda, "gates=3");
#[cfg(feature = "hip")]
suite!(hip, reef::hip::Hip, "", before: software::load, after: software::check);
#[cfg(feature = "hip")]
suite!(hip_gates, reef::hip::Hip, "gates=3", before: software::load, after: software::check);
