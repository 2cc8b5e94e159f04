//! Convolutions of each channel by itself, by the kernels that networks of images have for them.

use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::activation::ActivationParams;
use crate::operators::depthwise::{Sliding, THREADS, kernel};
use crate::operators::params::{Params, View};
use crate::operators::tensor::bound::BoundTensors;
use crate::operators::tensor::launch::Grid;
use reef_core::{Launch, Result};
use reef_op::Window;
use reef_op::tensor::Depthwise;

/// Returns whether there is a kernel for `op`, which was checked.
pub(in crate::operators::tensor) fn fits(op: &Depthwise) -> bool {
    kernel(&window(op)).is_some() && sliding(op, [0; 4]).params().is_some()
}

pub(in crate::operators::tensor) fn build<V: Vendor>(
    bound: &BoundTensors<'_, V>,
    op: &Depthwise,
) -> Result<Launch<Gpu<V>>> {
    let bias = if bound.op.inputs.len() > 2 { bound.input(2) } else { 0 };
    let sliding = sliding(op, [bound.input(0), bound.output(), bound.input(1), bias]);
    let (Some(name), Some((params, blocks))) = (kernel(&window(op)), sliding.params()) else {
        return Err(bound.refused(format!("windows of {:?} by {:?}", op.size, op.stride)));
    };
    let kernel = bound.gpu().network_kernel(&format!("{name}_f32"), 0, &params.words())?;
    bound.launch_kernel(kernel, Grid { blocks: blocks as usize, threads: THREADS, shared: 0 }, [])
}

/// Tensors are singles in all precisions.
fn sliding(op: &Depthwise, [input, output, weights, bias]: [u64; 4]) -> Sliding {
    let [images, channels, height, width] = op.shape;
    let view = |side: usize, data: u64, [height, width]: [usize; 2]| {
        let [image, channel, _, pixel] = op.strides(side);
        View {
            data,
            image: image as u64,
            pixel: pixel as u32,
            channel: channel as u32,
            height: height as u32,
            width: width as u32,
            wide: 1,
            unused: 0,
        }
    };
    Sliding {
        input: view(0, input, [height, width]),
        output: view(1, output, op.over),
        images,
        channels,
        window: window(op),
        weights,
        bias,
        activation: ActivationParams::behind(false, None),
        late: true,
    }
}

fn window(op: &Depthwise) -> Window {
    Window { size: op.size, stride: op.stride, padding: op.before }
}
