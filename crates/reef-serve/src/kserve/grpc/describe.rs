//! Metadata, configuration and statistics of server and models.

use super::proto::model_metadata_response::TensorMetadata;
use super::proto::model_sequence_batching::{InitialState, State, StrategyOldest};
use super::proto::*;
use crate::error::Result;
use crate::kserve::server_metadata::{NAME, extensions};
use crate::models::loaded_model::LoadedModel;
use crate::models::placement::replicas::Replicas;
use crate::models::registry::state::Registry;
use crate::models::state::spec::{StatePair, StateSpec, StateTensor};
use crate::observe::stats::Sum;
use crate::requests::batch::Batching;
use crate::server::Server;
use crate::tensor::TensorInfo;
use reef::tensor::Element;

pub(super) fn server(server: &Server) -> ServerMetadataResponse {
    ServerMetadataResponse {
        name: NAME.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        extensions: extensions(server).into_iter().map(Into::into).collect(),
    }
}

pub(super) fn model(
    registry: &Registry,
    request: &ModelMetadataRequest,
) -> Result<ModelMetadataResponse> {
    let model = registry.get(&request.name, &request.version)?;
    let tensor = |info: &TensorInfo| TensorMetadata {
        name: info.name.clone(),
        datatype: info.datatype().into(),
        shape: info.shape.clone(),
    };
    let versions = registry.versions(&model.spec.name);
    Ok(ModelMetadataResponse {
        name: model.spec.name.to_string(),
        versions: versions.iter().map(u32::to_string).collect(),
        platform: model.spec.platform().into(),
        inputs: model.request_inputs().map(tensor).collect(),
        outputs: model.answer_outputs().map(|(_, info)| tensor(info)).collect(),
    })
}

pub(super) fn config(
    registry: &Registry,
    request: &ModelConfigRequest,
) -> Result<ModelConfigResponse> {
    let model = registry.get(&request.name, &request.version)?;
    let input = |info: &TensorInfo| ModelInput {
        name: info.name.clone(),
        data_type: data_type(info.wire_element()).into(),
        format: model_input::Format::None.into(), // images are NCHW, with the batch
        dims: model.dims(info).to_vec(),
    };
    let output = |info: &TensorInfo| ModelOutput {
        name: info.name.clone(),
        data_type: data_type(info.wire_element()).into(),
        dims: model.dims(info).to_vec(),
    };
    let instances = model.spec.instances;
    let group = |(class, count): (&str, usize)| ModelInstanceGroup {
        name: format!("{}_{class}", model.spec.name),
        count: count as i32,
        kind: model_instance_group::Kind::Model.into(),
        gpus: registry.devices(&model).iter().map(|&device| device as i32).collect(),
    };
    let config = ModelConfig {
        name: model.spec.name.to_string(),
        platform: model.spec.platform().into(),
        backend: NAME.into(),
        max_batch_size: if model.spec.max_rows() > 1 { model.spec.max_rows() as i32 } else { 0 },
        input: model.request_inputs().map(input).collect(),
        output: model.answer_outputs().map(|(_, info)| output(info)).collect(),
        instance_group: instances.each().map(group).collect(),
        dynamic_batching: model.spec.row_batching().map(dynamic),
        sequence_batching: model.spec.state.as_ref().map(|state| sequences(&model, state)),
        parameters: model
            .spec
            .parameters()
            .into_iter()
            .map(|(key, string_value)| (key.into(), ModelParameter { string_value }))
            .collect(),
    };
    Ok(ModelConfigResponse { config: Some(config) })
}

fn sequences(model: &LoadedModel, spec: &StateSpec) -> ModelSequenceBatching {
    let tensors = model.sequences.iter().flat_map(|sequences| &sequences.tensors);
    let one = |(pair, tensor): (&StatePair, &StateTensor)| {
        let info = &model.inputs.each[tensor.input];
        let data_type = data_type(info.wire_element()).into();
        let dims = tensor.first.clone();
        State {
            input_name: pair.input.clone(),
            output_name: pair.output.clone(),
            data_type,
            dims: info.shape.clone(),
            initial_state: vec![InitialState { data_type, dims, zero_data: true }],
        }
    };
    ModelSequenceBatching {
        max_sequence_idle_microseconds: u64::try_from(spec.idle.as_micros()).unwrap_or(u64::MAX),
        oldest: Some(StrategyOldest { max_candidate_sequences: spec.max as i32 }),
        state: spec.pairs.iter().zip(tensors).map(one).collect(),
    }
}

/// Returns the batching settings: a full batch never waits.
fn dynamic(batching: Batching) -> ModelDynamicBatching {
    ModelDynamicBatching {
        preferred_batch_size: vec![batching.max as i32],
        max_queue_delay_microseconds: batching.delay.as_micros() as u64,
    }
}

fn data_type(element: Option<Element>) -> DataType {
    let Some(element) = element else { return DataType::TypeString };
    match element {
        Element::F32 => DataType::TypeFp32,
        Element::F16 => DataType::TypeFp16,
        Element::BF16 => DataType::TypeBf16,
        Element::F64 => DataType::TypeFp64,
        Element::I64 => DataType::TypeInt64,
        Element::I32 => DataType::TypeInt32,
        Element::I16 => DataType::TypeInt16,
        Element::I8 => DataType::TypeInt8,
        Element::U64 => DataType::TypeUint64,
        Element::U32 => DataType::TypeUint32,
        Element::U16 => DataType::TypeUint16,
        Element::U8 => DataType::TypeUint8,
        Element::Bool => DataType::TypeBool,
    }
}

pub(super) fn statistics(
    registry: &Registry,
    request: &ModelStatisticsRequest,
) -> Result<ModelStatisticsResponse> {
    let models = registry.select(&request.name, &request.version)?;
    Ok(ModelStatisticsResponse { model_stats: models.iter().map(|m| statistics_of(m)).collect() })
}

fn statistics_of(replicas: &Replicas) -> ModelStatistics {
    let model = replicas.first(); // replicas share their figures
    let memory = |(device, byte_size): (usize, u64)| MemoryUsage {
        r#type: "device".into(),
        id: device as i64,
        byte_size,
    };
    let numbers = model.numbers();
    let duration =
        |sum: Sum| Some(StatisticDuration { count: sum.count, ns: sum.time.as_nanos() as u64 });
    let batch = model.batch();
    ModelStatistics {
        name: model.spec.name.to_string(),
        version: model.spec.version.to_string(),
        last_inference: numbers.last,
        inference_count: numbers.success.count * batch,
        execution_count: model.executions(),
        inference_stats: Some(InferStatistics {
            success: duration(numbers.success),
            fail: duration(numbers.fail),
            queue: duration(numbers.queue),
            compute_input: duration(numbers.input),
            compute_infer: duration(numbers.infer),
            compute_output: duration(numbers.output),
            cache_hit: duration(Sum::default()),
            cache_miss: duration(Sum::default()),
        }),
        batch_stats: vec![InferBatchStatistics {
            batch_size: batch,
            compute_input: duration(numbers.input),
            compute_infer: duration(numbers.infer),
            compute_output: duration(numbers.output),
        }],
        memory_usage: replicas.memory().map(memory).collect(),
    }
}
