//! The constants of networks on a device.

use crate::errors::error::Result;
use crate::model::network_model::{Layer, Model};
use crate::model::tensor::Source;
use crate::tensors::model::TensorModel;
use reef_core::op::Operators;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

/// The constants of a network, packed for a device; any number of instances share them.
#[derive(Debug)]
pub struct Weights<D: Operators> {
    /// For each step, unless it has none.
    pub(super) constants: Vec<Option<D::Buffer>>,
}

impl<D: Operators> Weights<D> {
    /// Brings all weights of `model` onto the device, one step at a time.
    ///
    /// # Errors
    ///
    /// Those of `source` and of [`Operators::pack`].
    pub fn pack(device: &D, model: &Model, source: &impl Source) -> Result<Arc<Self>> {
        let pack = |layer: &Layer| {
            if layer.op.constants() == [0, 0] {
                return Ok(None);
            }
            let (weights, bias) = layer.fold(source)?;
            Ok(Some(device.pack(&layer.op, &weights, &bias)?))
        };
        let constants = model.layers().iter().map(pack).collect::<Result<_>>()?;
        Ok(Arc::new(Self { constants }))
    }
}

/// The constants of a network of tensors on a device; any number of instances share them.
#[derive(Debug)]
pub struct TensorWeights<D: Operators> {
    /// By the number of their storage, which grows.
    kept: Vec<Kept<D>>,
    /// Bytes of those that no other network has.
    own: usize,
}

#[derive(Debug)]
struct Kept<D: Operators> {
    storage: usize,
    bytes: usize,
    digest: u64,
    buffer: D::Buffer,
}

impl<D: Operators> TensorWeights<D> {
    /// Brings all constants of `model` onto the device.
    ///
    /// # Errors
    ///
    /// The device's.
    pub fn upload(device: &D, model: &TensorModel) -> Result<Arc<Self>> {
        Self::upload_beside(device, model, None)
    }

    /// As [`upload`](Self::upload), without those that `base` has already: the same network for other shapes differs in
    /// few.
    ///
    /// # Errors
    ///
    /// The device's.
    pub fn upload_beside(
        device: &D,
        model: &TensorModel,
        base: Option<&Self>,
    ) -> Result<Arc<Self>> {
        let mut own = 0;
        let mut kept = Vec::with_capacity(model.constants.len());
        for (storage, constant) in &model.constants {
            let values = constant.array().to_le_bytes();
            let (bytes, digest) = (values.len(), digest(&values));
            let there = base.map_or(Ok(None), |base| base.same(device, &values, digest))?;
            let buffer = match there {
                Some(buffer) => buffer,
                None => {
                    own += bytes;
                    let buffer = device.alloc(bytes.max(1))?;
                    device.write(&buffer, 0, &values)?;
                    buffer
                }
            };
            kept.push(Kept { storage: *storage, bytes, digest, buffer });
        }
        Ok(Arc::new(Self { kept, own }))
    }

    /// A buffer with these values: found by a digest, and read back to be sure.
    fn same(&self, device: &D, values: &[u8], digest: u64) -> Result<Option<D::Buffer>> {
        let alike = |kept: &&Kept<D>| (kept.bytes, kept.digest) == (values.len(), digest);
        let Some(kept) = self.kept.iter().find(alike) else { return Ok(None) };
        let mut there = vec![0; kept.bytes];
        device.read(&kept.buffer, 0, &mut there)?;
        Ok((there == values).then(|| kept.buffer.clone()))
    }

    /// Bytes that were allocated for it alone.
    pub(super) fn own_bytes(&self) -> usize {
        self.own
    }

    /// The memory of a storage, if it is a constant.
    pub(super) fn buffer(&self, storage: usize) -> Option<&D::Buffer> {
        let at = self.kept.binary_search_by_key(&storage, |kept| kept.storage);
        at.ok().map(|at| &self.kept[at].buffer)
    }
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
