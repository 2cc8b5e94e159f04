//! Turns operations of networks into launches.

use crate::driver::BACKEND;
use crate::{Buffer, Cuda};
use reef_core::op::{Op, Operands, Operators};
use reef_core::{Error, Launch, Result};

impl Operators for Cuda {
    fn pack(&self, _: &Op, _: &[f32], _: &[f32]) -> Result<Buffer> {
        Err(Error::Unsupported { backend: BACKEND, what: "networks".into() })
    }

    fn operator(&self, _: &Op, _: &Operands<'_, Self>) -> Result<Vec<Launch<Self>>> {
        Err(Error::Unsupported { backend: BACKEND, what: "networks".into() })
    }
}
