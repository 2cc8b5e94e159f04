//! Real networks on every backend: right, and the same bit for bit whatever disturbs them.

#[path = "networks/colocated.rs"]
mod colocated;
#[path = "networks/data.rs"]
mod data;
#[cfg(feature = "cuda")]
#[path = "networks/eight_bits.rs"]
mod eight_bits;
#[path = "../reef-models/tests/handmade/mod.rs"]
mod handmade;
#[path = "networks/preempted.rs"]
mod preempted;
#[cfg(any(feature = "hip", feature = "cuda"))]
#[path = "networks/program.rs"]
mod program;
#[path = "networks/right.rs"]
mod right;
#[path = "networks/shared.rs"]
mod shared;
#[cfg(feature = "hip")]
mod software;
#[path = "networks/subject.rs"]
mod subject;
#[path = "networks/tensors/mod.rs"]
mod tensors;

use colocated::*;
#[cfg(feature = "cuda")]
use eight_bits::{eight_bits_agree, joined_files_agree};
use preempted::*;
#[cfg(any(feature = "hip", feature = "cuda"))]
use program::*;
use reef::Device;
use right::*;
use shared::shared_launches_keep_the_bits;
#[cfg(feature = "cuda")]
use tensors::eights_agree;
use tensors::{
    attention_agrees, functions_agree, joined_attention_agrees, kinds_agree, layers_agree,
    quantized_files_agree,
};

/// Opens the device, or says aloud why its tests are skipped.
fn open<D: Device>(ordinal: usize, options: &str) -> Option<D> {
    #[cfg(feature = "hip")]
    if D::NAME == "hip" {
        software::load();
    }
    reef_conformance::open(ordinal, options)
}

/// A test for each line; the device is opened with the options in front.
macro_rules! on {
    ($device:ty: $($name:ident($options:literal $(, $more:expr)*);)+) => {
        $(#[test]
        fn $name() {
            let Some(device) = crate::open::<$device>(0, $options) else { return };
            crate::$name(&device $(, $more)*);
        })+
    };
}

mod cpu {
    use reef::cpu::Cpu;

    on! {
        Cpu:
        small_images_give_torchs_logits("", 1e-3);
        full_images_give_torchs_logits("", 1e-3);
        gates_and_activations_agree("", 1e-5);
        what_is_no_number_stays_none("", 1e-6);
        means_of_large_images_are_exact("", 2e-6);
        functions_agree("units=2", 3e-7); // two and a half units in the last place
        kinds_agree("units=2", 2);
        joined_attention_agrees("units=2", 1e-4, [12, 12]);
        attention_agrees("units=2", 1e-5);
        layers_agree("units=2", 1e-6);
        quantized_files_agree("units=2", 1.0);
        the_toy_adds_then_multiplies("units=2");
        a_lost_launch_is_found("units=2");
        shared_launches_keep_the_bits("units=2", 9); // each by itself
        networks_can_be_preempted_at_every_launch("units=2");
        every_scheduler_leaves_every_network_as_it_is("");
        padding_changes_no_network("units=8&pin=0", "resnet18", 64);
    }

    #[test]
    fn two_devices_work_at_the_same_time() {
        super::two_devices_work_at_the_same_time::<Cpu>([0, 1], "units=1");
    }
}

/// Runs on AMD's runtime and a software device if there is no AMD device. That takes seconds for a
/// millisecond of a chip.
#[cfg(feature = "hip")]
mod hip {
    use reef::PreemptLevel;
    use reef::hip::Hip;

    on! {
        Hip:
        agrees("", 1e-5, "resnet18", 64);
        gates_and_activations_agree("", 1e-5);
        what_is_no_number_stays_none("", 1e-6);
        means_of_large_images_are_exact("", 2e-6);
        functions_agree("", 1.3e-7);
        kinds_agree("", 2);
        joined_attention_agrees("", 0.0, [0, 2]);
        attention_agrees("", 1e-5);
        layers_agree("", 1e-6);
        the_toy_adds_then_multiplies("");
        replay("", "resnet18", 64, 7);
        kernels_of_its_own_agree("", &[PreemptLevel::HostQueue, PreemptLevel::DeviceQueue, PreemptLevel::All]);
        kernels_of_its_own_are_preempted("", PreemptLevel::All, 4);
        kernels_of_its_own_agree_by_gates("gates=2");
        exchanges_agree_by_barriers("");
    }

    /// 16-bit values.
    mod fp16 {
        use super::Hip;

        on! {
            Hip:
            gates_and_activations_agree("precision=fp16", 1e-2);
            what_is_no_number_stays_none("precision=fp16", 2e-3);
            means_of_large_images_are_exact("precision=fp16", 1e-3);
        }
    }
}

/// Networks are computed with 10 bits of mantissa unless the options say otherwise.
#[cfg(feature = "cuda")]
mod cuda {
    use reef::PreemptLevel;
    use reef::cuda::Cuda;

    on! {
        Cuda:
        small_images_give_torchs_logits("", 1e-2);
        full_images_give_torchs_logits("", 1e-2);
        gates_and_activations_agree("", 1e-2);
        what_is_no_number_stays_none("", 1e-5);
        means_of_large_images_are_exact("", 2e-6);
        functions_agree("", 1.3e-7);
        kinds_agree("", 100);
        layers_agree("", 2e-3);
        joined_attention_agrees("", 2e-2, [16, 24]);
        the_toy_adds_then_multiplies("");
        a_lost_launch_is_found("");
        networks_can_be_preempted_at_every_launch("");
        shared_launches_keep_the_bits("", 3);
        branches_can_be_preempted_at_every_launch("");
        padding_leaves_branches_as_they_are("colocation=padded");
        graphs_give_what_launches_give("");
        graphs_that_start_early_give_what_launches_give("");
        every_scheduler_leaves_every_network_as_it_is("");
        narrow_queues_change_no_network("");
        kernels_of_its_own_agree("", &[PreemptLevel::HostQueue, PreemptLevel::DeviceQueue, PreemptLevel::All]);
        kernels_of_its_own_are_preempted("", PreemptLevel::All, 50);
        kernels_of_its_own_agree_by_gates("gates=2");
        exchanges_agree_by_barriers("");
    }

    /// 16-bit values.
    mod fp16 {
        use super::Cuda;

        on! {
            Cuda:
            small_images_give_torchs_logits("precision=fp16", 1e-2);
            full_images_give_torchs_logits("precision=fp16", 1e-2);
            gates_and_activations_agree("precision=fp16", 1e-2);
            what_is_no_number_stays_none("precision=fp16", 2e-3);
            means_of_large_images_are_exact("precision=fp16", 1e-3);
            networks_can_be_preempted_at_every_launch("precision=fp16");
            shared_launches_keep_the_bits("precision=fp16", 3);
            branches_can_be_preempted_at_every_launch("precision=fp16");
            padding_leaves_branches_as_they_are("precision=fp16&colocation=padded");
            graphs_that_start_early_give_what_launches_give("precision=fp16");
            kinds_agree("precision=fp16", 100);
            layers_agree("precision=fp16", 2e-3);
            quantized_files_agree("precision=fp16", 8.0);
            eight_bits_agree("precision=fp16");
            joined_files_agree("precision=fp16", 8.0);
        }
    }

    /// Without warpgroups, on devices that have some.
    mod of_warps {
        use super::Cuda;

        on! {
            Cuda:
            eight_bits_agree("precision=fp16&warpgroups=off");
            eights_agree("precision=fp16&warpgroups=off", 200);
            joined_files_agree("precision=fp16&warpgroups=off", 8.0);
        }
    }

    /// All bits.
    mod fp32 {
        use super::Cuda;

        on! {
            Cuda:
            small_images_give_torchs_logits("precision=fp32", 1e-4);
            full_images_give_torchs_logits("precision=fp32", 1e-4);
            gates_and_activations_agree("precision=fp32", 1e-4);
            kinds_agree("precision=fp32", 100);
            attention_agrees("precision=fp32", 1e-5);
            layers_agree("precision=fp32", 1e-6);
            quantized_files_agree("precision=fp32", 2.0);
        }
    }

    /// The device, opened twice.
    #[test]
    fn two_devices_work_at_the_same_time() {
        super::two_devices_work_at_the_same_time::<Cuda>([0, 0], "");
    }
}
