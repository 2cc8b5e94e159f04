//! A request, checked completely: a parameter that its model does not take is refused.

use super::messages::{Message, messages};
use crate::engine::call::{SAMPLING, TEXT_REQUEST, TextAbilities};
use crate::error::{Error, Result};
use crate::kserve::failure::OpenAiFailure;
use crate::kserve::http::bounded::{self, RawFields};
use crate::kserve::http::infer::class;
use crate::kserve::infer::request::{InferRequest, InputTensor, TensorData};
use crate::models::loaded_model::LoadedModel;
use crate::net::quota::charge::Charge;
use crate::server::Server;
use crate::tensor::{TEXTS, push_text, short};
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Result of a call.
pub(super) type OpenAiResult<T> = Result<T, OpenAiFailure>;

/// Maximum number of texts that end an answer, and of bytes of each.
const MAX_STOPS: usize = 4;
const MAX_STOP_BYTES: usize = 1024;

/// Copies of a body that are there while it is read: its texts, and the request of the program,
/// whose buffer may be twice as long.
const COPIES: u64 = 3;

/// Parameters of both calls, without those for sampling.
const COMMON: [&str; 6] = ["model", "max_tokens", "stop", "stream", "stream_options", "user"];

/// Parameters that no model takes, and the values that change nothing.
const NEUTRAL: [(&str, &[&str]); 17] = [
    ("best_of", &["1"]),
    ("echo", &["false"]),
    ("function_call", &["\"none\""]),
    ("functions", &["[]"]),
    ("logit_bias", &["{}"]),
    ("logprobs", &["false"]),
    ("metadata", &["{}"]),
    ("modalities", &["[\"text\"]"]),
    ("n", &["1"]),
    ("parallel_tool_calls", &["true", "false"]),
    ("response_format", &["{\"type\":\"text\"}"]),
    ("service_tier", &["\"auto\"", "\"default\""]),
    ("store", &["false"]),
    ("suffix", &["\"\""]),
    ("tool_choice", &["\"auto\"", "\"none\""]),
    (concat!("tool", "s"), &["[]"]), // in one piece it would name a folder of this repository
    ("top_logprobs", &["0"]),
];

/// Kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Chat,
    Completion,
}

/// A checked request.
#[derive(Debug)]
pub(super) struct TextRequest {
    pub(super) form: Form,
    /// True if it is answered by events.
    pub(super) is_stream: bool,
    /// True if the last event has the numbers of tokens.
    pub(super) has_usage: bool,
    pub(super) infer: InferRequest,
}

#[derive(Debug, Serialize)]
struct ProgramRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<Message>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StreamOptions {
    include_usage: bool,
}

/// Reads a request, whose answer has the identifier `id`. Its tensor is added to `charge`, and what
/// is gone afterwards to `reading`.
///
/// # Errors
///
/// `NotFound` if no model of this name generates text; `Invalid`; errors of the charge.
pub(super) fn read(
    server: &Server,
    form: Form,
    id: String,
    headers: &HeaderMap,
    body: &[u8],
    charge: &Charge,
    reading: &Charge,
) -> OpenAiResult<TextRequest> {
    reading.add(COPIES * body.len() as u64)?;
    let mut fields = Fields::read(form, body)?;
    let name: String = fields.required("model", "a text")?;
    let model = text_model(server, &name)?;
    let abilities = model.base.text().ok_or_else(|| unknown_model(no_text(&name)))?;
    let is_stream = fields.optional("stream", "true or false")?.unwrap_or(false);
    let has_usage = fields.has_usage(is_stream)?;
    let program = fields.program_request(form, abilities)?;
    fields.check_neutral()?;
    let json = serde_json::to_vec(&program).map_err(|e| Error::system("JSON", e))?;
    let room = json.len() + size_of::<u32>();
    charge.add(room as u64)?;
    let mut bytes = Vec::with_capacity(room);
    push_text(&mut bytes, &json);
    let input = InputTensor {
        name: TEXT_REQUEST.into(),
        datatype: TEXTS.into(),
        shape: vec![1],
        from: TensorData::Bytes(bytes.into()),
    };
    let infer = InferRequest {
        model: name,
        id,
        class: class(headers)?,
        charge: Some(charge.clone()),
        inputs: vec![input],
        ..InferRequest::default()
    };
    Ok(TextRequest { form, is_stream, has_usage, infer })
}

/// Returns a loaded model that generates text: its newest version.
///
/// # Errors
///
/// `NotFound`; `Unavailable` if its devices are lost.
pub(super) fn text_model(server: &Server, name: &str) -> OpenAiResult<Arc<LoadedModel>> {
    match server.registry.get(name, "") {
        Ok(model) if model.base.text().is_some() => Ok(model),
        Ok(_) => Err(unknown_model(no_text(name))),
        // Names that no model can have are unknown ones, too.
        Err(Error::NotFound(text) | Error::Invalid(text)) => Err(unknown_model(text)),
        Err(error) => Err(error.into()),
    }
}

fn no_text(name: &str) -> String {
    format!("model {name} does not generate text")
}

fn unknown_model(text: String) -> OpenAiFailure {
    let (error, param) = (Error::NotFound(text), Some("model".into()));
    OpenAiFailure { error, param, code: "model_not_found" }
}

/// Parameters of a request that are not read yet.
struct Fields<'a>(RawFields<'a>);

impl<'a> Fields<'a> {
    /// Reads the names, and refuses those that the call does not have.
    fn read(form: Form, body: &'a [u8]) -> OpenAiResult<Self> {
        let own: &[&str] = match form {
            Form::Chat => &["messages", "max_completion_tokens"],
            Form::Completion => &["prompt"],
        };
        let mut names: Vec<&str> = own.to_vec();
        names.extend(COMMON);
        names.extend(SAMPLING);
        names.extend(NEUTRAL.map(|(name, _)| name));
        let read = bounded::known_fields(body, &names);
        let (fields, other) = read.map_err(|e| Error::Invalid(format!("JSON: {e}")))?;
        match other {
            Some(name) => {
                let name = short(&name);
                Err(unsupported(name, format!("unknown parameter {name:?}")))
            }
            None => Ok(Self(fields)),
        }
    }

    /// Takes a parameter; null is none.
    fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        self.0.remove(name).filter(|value| value.get() != "null")
    }

    fn optional<T: Deserialize<'a>>(
        &mut self,
        name: &str,
        wanted: &str,
    ) -> OpenAiResult<Option<T>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        serde_json::from_str(value.get()).map(Some).map_err(|_| wrong(name, wanted, value))
    }

    fn required<T: Deserialize<'a>>(&mut self, name: &str, wanted: &str) -> OpenAiResult<T> {
        self.optional(name, wanted)?.ok_or_else(|| missing(name))
    }

    /// Returns whether the last event has the numbers of tokens.
    fn has_usage(&mut self, is_stream: bool) -> OpenAiResult<bool> {
        let name = "stream_options";
        let options: Option<StreamOptions> = self.optional(name, "an object with include_usage")?;
        match options {
            Some(_) if !is_stream => Err(invalid(name, "must be given with stream".into())),
            options => Ok(options.unwrap_or_default().include_usage),
        }
    }

    fn program_request(
        &mut self,
        form: Form,
        abilities: &TextAbilities,
    ) -> OpenAiResult<ProgramRequest> {
        let (messages, prompt) = match form {
            Form::Chat => (Some(self.messages()?), None),
            Form::Completion => (None, Some(self.prompt()?)),
        };
        Ok(ProgramRequest {
            messages,
            prompt,
            max_tokens: self.max_tokens()?,
            stop: self.stop()?,
            frequency_penalty: self.number("frequency_penalty", (-2.0, 2.0), 0.0, abilities)?,
            presence_penalty: self.number("presence_penalty", (-2.0, 2.0), 0.0, abilities)?,
            seed: self.seed(abilities)?,
            temperature: self.number("temperature", (0.0, 2.0), 1.0, abilities)?,
            top_p: self.number("top_p", (0.0, 1.0), 1.0, abilities)?,
            user: self.optional("user", "a text")?,
        })
    }

    fn messages(&mut self) -> OpenAiResult<Vec<Message>> {
        let name = "messages";
        let json = self.take(name).ok_or_else(|| missing(name))?;
        messages(json).map_err(|why| invalid(name, why))
    }

    /// Returns the prompt: a text, or a list of one.
    fn prompt(&mut self) -> OpenAiResult<String> {
        let name = "prompt";
        let value = self.take(name).ok_or_else(|| missing(name))?;
        let read = if value.get().starts_with('[') {
            serde_json::from_str(value.get()).map(|[one]: [String; 1]| one)
        } else {
            serde_json::from_str(value.get())
        };
        read.map_err(|_| wrong(name, "a text, or a list of one text", value))
    }

    fn max_tokens(&mut self) -> OpenAiResult<Option<NonZeroU32>> {
        let wanted = format!("a number from 1 to {}", u32::MAX);
        let names = ["max_tokens", "max_completion_tokens"];
        let older: Option<NonZeroU32> = self.optional(names[0], &wanted)?;
        let newer: Option<NonZeroU32> = self.optional(names[1], &wanted)?;
        if older.is_some() && newer.is_some() {
            return Err(invalid(names[0], format!("must not be given with {}", names[1])));
        }
        Ok(newer.or(older))
    }

    /// Returns the texts that end the answer.
    fn stop(&mut self) -> OpenAiResult<Vec<String>> {
        let Some(value) = self.take("stop") else { return Ok(Vec::new()) };
        let json = value.get();
        let read = if json.starts_with('[') {
            bounded::list(&mut serde_json::Deserializer::from_str(json))
        } else {
            serde_json::from_str(json).map(|one: String| vec![one])
        };
        let fits = |text: &String| (1..=MAX_STOP_BYTES).contains(&text.len());
        let read = read.ok().filter(|all: &Vec<String>| all.len() <= MAX_STOPS);
        let wanted = format!("a text or at most {MAX_STOPS}, each of 1 to {MAX_STOP_BYTES} bytes");
        let read = read.filter(|all| all.iter().all(fits));
        read.ok_or_else(|| wrong("stop", &wanted, value))
    }

    /// Returns a number for sampling. A model that does not take it works as with `neutral`.
    fn number(
        &mut self,
        name: &str,
        range: (f64, f64),
        neutral: f64,
        abilities: &TextAbilities,
    ) -> OpenAiResult<Option<f64>> {
        let (least, most) = range;
        let Some(value) = self.take(name) else { return Ok(None) };
        let read = serde_json::from_str(value.get()).ok();
        let read = read.filter(|number: &f64| (least..=most).contains(number));
        let wanted = || format!("a number from {least} to {most}");
        let number = read.ok_or_else(|| wrong(name, &wanted(), value))?;
        if abilities.takes(name) {
            return Ok(Some(number));
        }
        if number == neutral { Ok(None) } else { Err(not_taken(name, value)) }
    }

    fn seed(&mut self, abilities: &TextAbilities) -> OpenAiResult<Option<i64>> {
        let name = "seed";
        match self.0.get(name).copied().filter(|value| value.get() != "null") {
            Some(value) if !abilities.takes(name) => Err(not_taken(name, value)),
            _ => self.optional(name, "an integer of 64 bits"),
        }
    }

    /// Refuses other values of the parameters that no model takes.
    fn check_neutral(&mut self) -> OpenAiResult<()> {
        for (name, neutral) in NEUTRAL {
            let Some(value) = self.take(name) else { continue };
            let compact = value.get().chars().filter(|c| !c.is_ascii_whitespace());
            if !neutral.iter().any(|text| compact.clone().eq(text.chars())) {
                return Err(not_taken(name, value));
            }
        }
        Ok(())
    }
}

fn invalid(name: &str, why: String) -> OpenAiFailure {
    let error = Error::Invalid(format!("{name}: {why}"));
    OpenAiFailure { param: Some(name.into()), ..error.into() }
}

fn wrong(name: &str, wanted: &str, got: &RawValue) -> OpenAiFailure {
    invalid(name, format!("must be {wanted}, got {}", short(got.get())))
}

fn missing(name: &str) -> OpenAiFailure {
    OpenAiFailure { code: "missing_required_parameter", ..invalid(name, "must be given".into()) }
}

fn unsupported(name: &str, text: String) -> OpenAiFailure {
    let (error, param) = (Error::Invalid(text), Some(name.into()));
    OpenAiFailure { error, param, code: "unsupported_parameter" }
}

fn not_taken(name: &str, got: &RawValue) -> OpenAiFailure {
    let got = short(got.get());
    unsupported(name, format!("{name}: is not supported by this model, got {got}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the request of a program that takes these sampling parameters.
    fn program(form: Form, body: &[u8], sampling: &[&str]) -> OpenAiResult<String> {
        let sampling = sampling.iter().map(|&name| name.into()).collect();
        let mut fields = Fields::read(form, body)?;
        let program = fields.program_request(form, &TextAbilities { sampling })?;
        fields.check_neutral()?;
        Ok(serde_json::to_string(&program).unwrap())
    }

    const ALL: &str = r#"{"messages":[{"role":"user","content":"Hello","name":"ann"}],"max_completion_tokens":100,"stop":"\n","frequency_penalty":0.5,"presence_penalty":-1,"seed":7,"temperature":0.7,"top_p":0.9,"user":"ann","n":1}"#;

    #[test]
    fn program_gets_each_parameter_that_it_takes() {
        let said = program(Form::Chat, ALL.as_bytes(), &SAMPLING).unwrap();
        let want = r#"{"messages":[{"role":"user","content":"Hello","name":"ann"}],"max_tokens":100,"stop":["\n"],"frequency_penalty":0.5,"presence_penalty":-1.0,"seed":7,"temperature":0.7,"top_p":0.9,"user":"ann"}"#;
        assert_eq!(said, want);
        let said = program(Form::Chat, ALL.as_bytes(), &SAMPLING[1..]).unwrap_err();
        assert_eq!(said.param.as_deref(), Some("frequency_penalty"));
        let neutral = br#"{"prompt":["a"],"temperature":1.0,"top_p":1,"seed":null}"#;
        assert_eq!(program(Form::Completion, neutral, &[]).unwrap(), r#"{"prompt":"a"}"#);
    }

    #[test]
    fn each_beginning_of_a_request_is_refused() {
        for end in 0..ALL.len() {
            let said = program(Form::Chat, &ALL.as_bytes()[..end], &SAMPLING);
            assert!(said.is_err(), "{end} bytes");
        }
    }
}
