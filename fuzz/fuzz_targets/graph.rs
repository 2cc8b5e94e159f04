//! Schedule graphs: any text is one or an error, and one that is accepted can be looked at.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reef_models::kinds::ImageModel;
use reef_models::{ScheduleGraph, hazards};

fuzz_target!(|text: &str| {
    if let Ok(graph) = ScheduleGraph::from_json(text, "fuzz") {
        let _ = (graph.bytes(), graph.kernels(), hazards(&graph, 1));
    }
    if let Ok(model) = ImageModel::from_json(text, "fuzz") {
        let _ = (model.tensors(), model.parameters(), model.to_json());
    }
});
