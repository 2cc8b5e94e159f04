//! Calls for trace and log settings.

use super::proto::log_settings_request::SettingValue as LogValue;
use super::proto::log_settings_request::setting_value::ParameterChoice;
use super::proto::trace_setting_request::SettingValue as TraceValue;
use super::proto::*;
use crate::error::Result;
use crate::kserve::settings::{self, texts};
use crate::net::identity::peer::Peer;
use crate::server::Server;
use serde_json::{Map, Value};

/// Returns the settings of traces; refuses changes.
pub(super) fn trace(
    server: &Server,
    peer: &Peer,
    request: TraceSettingRequest,
) -> Result<TraceSettingResponse> {
    if !request.model_name.is_empty() {
        server.registry.get(&request.model_name, "")?; // models have none of their own
    }
    let settings = settings::trace(server.observer.tracer.is_recording());
    if !request.settings.is_empty() {
        server.check_control(peer)?;
        let asked = request.settings.into_iter();
        let asked: Map<_, _> = asked.map(|(name, given)| (name, given.value.into())).collect();
        settings::check(&settings, &asked)?;
    }
    let value = |value: &Value| TraceValue { value: texts(value) };
    let settings = settings.iter().map(|(name, given)| ((*name).into(), value(given)));
    Ok(TraceSettingResponse { settings: settings.collect() })
}

/// Returns the settings of the log, after changing its level if requested.
pub(super) fn log(
    server: &Server,
    peer: &Peer,
    request: LogSettingsRequest,
) -> Result<LogSettingsResponse> {
    if !request.settings.is_empty() {
        server.check_control(peer)?;
        let asked = request.settings.into_iter();
        let asked = asked.map(|(name, given)| (name, plain(given))).collect();
        settings::change_log(&asked)?;
    }
    let settings = settings::log();
    let settings = settings.iter().map(|(name, given)| ((*name).into(), chosen(given)));
    Ok(LogSettingsResponse { settings: settings.collect() })
}

fn plain(given: LogValue) -> Value {
    match given.parameter_choice {
        None => Value::Null,
        Some(ParameterChoice::BoolParam(flag)) => flag.into(),
        Some(ParameterChoice::Uint32Param(number)) => number.into(),
        Some(ParameterChoice::StringParam(text)) => text.into(),
    }
}

fn chosen(value: &Value) -> LogValue {
    let choice = match value {
        Value::Bool(flag) => ParameterChoice::BoolParam(*flag),
        Value::Number(number) => {
            ParameterChoice::Uint32Param(number.as_u64().unwrap_or_default() as u32)
        }
        other => ParameterChoice::StringParam(texts(other).concat()),
    };
    LogValue { parameter_choice: Some(choice) }
}
