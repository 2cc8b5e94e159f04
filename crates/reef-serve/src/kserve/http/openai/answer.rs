//! Answers: one object, or an event for each piece of the text.

use super::request::{Form, TextRequest};
use crate::engine::call::{FINISH_REASON, TEXT, TOKENS};
use crate::error::{Error, Result};
use crate::kserve::failure::OpenAiFailure;
use crate::kserve::http::numbers::non_finite::to_json_of;
use crate::kserve::infer::response::InferResponse;
use crate::tensor::short;
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};

/// Reasons for the end of a text.
const FINISH_REASONS: [&str; 3] = ["stop", "length", "content_filter"];

/// Last event of a stream.
const DONE: &[u8] = b"[DONE]";

/// Room for an answer's JSON without its text, in bytes.
const FRAME_BYTES: usize = 512;

/// Author of an answer.
const ROLE: &str = "assistant";

/// Numbers of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
}

/// An answer, or an event.
#[derive(Debug, Serialize)]
struct CompletionJson<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [ChoiceJson<'a>],
    /// In events: none, null, or the numbers of the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<Usage>>,
}

/// The only choice of an answer. It has one of the first three forms.
#[derive(Debug, Default, Serialize)]
struct ChoiceJson<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<MessageJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<DeltaJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// Always null.
    logprobs: Option<usize>,
    finish_reason: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct MessageJson<'a> {
    role: &'static str,
    content: &'a str,
    /// Always null.
    refusal: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct DeltaJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
}

/// Writer of one answer: takes the parts of the model's in their order.
#[derive(Debug)]
pub(super) struct Writer {
    form: Form,
    id: String,
    created: u64,
    model: String,
    has_usage: bool,
    usage: Usage,
    finish: Option<&'static str>,
    /// True once an event names the author.
    has_role: bool,
    /// True after an error.
    is_broken: bool,
}

impl Writer {
    /// Returns the writer of the answer to a request.
    pub(super) fn new(request: &TextRequest) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            form: request.form,
            id: request.infer.id.clone(),
            created: now.as_secs(),
            model: request.infer.model.clone(),
            has_usage: request.has_usage,
            usage: Usage::default(),
            finish: None,
            has_role: false,
            is_broken: false,
        }
    }

    /// True after an error, which is the last event.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Takes a part, and returns its text.
    ///
    /// # Errors
    ///
    /// `Program` if the part follows the last one, or ends the text for an unknown reason.
    pub(super) fn take(&mut self, part: &InferResponse) -> Result<String> {
        if self.finish.is_some() {
            let text = "text: must end with the part that has a finish_reason, got another part";
            return Err(Error::Program(text.into()));
        }
        let mut piece = String::new();
        for (info, output) in part.tensors() {
            let text = || output.texts(info).and_then(|mut texts| texts.pop()).unwrap_or_default();
            match &*info.name {
                TEXT => piece = text().into_owned(),
                FINISH_REASON => self.finish = finish_reason(&text())?,
                TOKENS => self.usage = Usage::of(&output.bytes),
                _ => {}
            }
        }
        Ok(piece)
    }

    /// Returns the whole answer, whose parts have this text together: of `bytes` bytes in JSON.
    ///
    /// # Errors
    ///
    /// `Program` if the last part has not been taken.
    pub(super) fn whole(&self, text: &str, bytes: usize) -> Result<Vec<u8>> {
        let finish_reason = Some(self.finish.ok_or_else(unfinished)?);
        let mut choice = ChoiceJson { finish_reason, ..ChoiceJson::default() };
        match self.form {
            Form::Chat => {
                choice.message = Some(MessageJson { role: ROLE, content: text, refusal: None });
            }
            Form::Completion => choice.text = Some(text),
        }
        let object = match self.form {
            Form::Chat => "chat.completion",
            Form::Completion => "text_completion",
        };
        Ok(self.json(object, &[choice], Some(Some(self.usage)), bytes))
    }

    /// Returns the events for a part, or for the end after the last one; none after an error.
    pub(super) fn events(&mut self, answer: Result<Option<InferResponse>>) -> Vec<u8> {
        let mut events = Vec::new();
        if self.is_broken {
            return events;
        }
        if let Err(error) = self.write(answer, &mut events) {
            self.is_broken = true;
            push_event(&mut events, &OpenAiFailure::from(error).json());
        }
        events
    }

    fn write(&mut self, answer: Result<Option<InferResponse>>, to: &mut Vec<u8>) -> Result<()> {
        let Some(part) = answer? else { return self.write_end(to) };
        let text = self.take(&part)?;
        if self.form == Form::Chat && !self.has_role {
            self.has_role = true;
            let role = DeltaJson { role: Some(ROLE), content: Some("") };
            self.push(to, ChoiceJson { delta: Some(role), ..ChoiceJson::default() });
        }
        if !text.is_empty() {
            self.push(to, self.choice(Some(&text)));
        }
        if self.finish.is_some() {
            let finish_reason = self.finish;
            self.push(to, ChoiceJson { finish_reason, ..self.choice(None) });
        }
        Ok(())
    }

    fn write_end(&self, to: &mut Vec<u8>) -> Result<()> {
        self.finish.ok_or_else(unfinished)?;
        if self.has_usage {
            push_event(to, &self.json(self.object_of_event(), &[], Some(Some(self.usage)), 0));
        }
        push_event(to, DONE);
        Ok(())
    }

    /// Returns the choice of an event with this text.
    fn choice<'a>(&self, content: Option<&'a str>) -> ChoiceJson<'a> {
        match self.form {
            Form::Chat => {
                let delta = Some(DeltaJson { role: None, content });
                ChoiceJson { delta, ..ChoiceJson::default() }
            }
            Form::Completion => {
                ChoiceJson { text: Some(content.unwrap_or_default()), ..ChoiceJson::default() }
            }
        }
    }

    fn push(&self, to: &mut Vec<u8>, choice: ChoiceJson<'_>) {
        let usage = self.has_usage.then_some(None);
        push_event(to, &self.json(self.object_of_event(), &[choice], usage, 0));
    }

    fn object_of_event(&self) -> &'static str {
        match self.form {
            Form::Chat => "chat.completion.chunk",
            Form::Completion => "text_completion",
        }
    }

    fn json(
        &self,
        object: &'static str,
        choices: &[ChoiceJson<'_>],
        usage: Option<Option<Usage>>,
        bytes: usize,
    ) -> Vec<u8> {
        let (id, model, created) = (&*self.id, &*self.model, self.created);
        let answer = CompletionJson { id, object, created, model, choices, usage };
        to_json_of(&answer, FRAME_BYTES + bytes)
    }
}

/// Returns the length of a text in JSON, without its quotes.
pub(super) fn json_bytes(text: &str) -> usize {
    let of = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        _ if byte < 0x20 => 6, // `\u0001`
        _ => 1,
    };
    text.bytes().map(of).sum()
}

impl Usage {
    /// Returns the numbers of an output: tokens of the request, and of the text.
    fn of(bytes: &[u8]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let mut each = words.iter().map(|&word| i64::from_le_bytes(word));
        let mut next = || each.next().and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
        let (prompt_tokens, completion_tokens) = (next(), next());
        let total_tokens = prompt_tokens.saturating_add(completion_tokens);
        Self { prompt_tokens, completion_tokens, total_tokens }
    }
}

fn push_event(to: &mut Vec<u8>, data: &[u8]) {
    to.extend_from_slice(b"data: ");
    to.extend_from_slice(data);
    to.extend_from_slice(b"\n\n");
}

fn finish_reason(text: &str) -> Result<Option<&'static str>> {
    if text.is_empty() {
        return Ok(None);
    }
    let known = FINISH_REASONS.into_iter().find(|known| *known == text);
    known.map(Some).ok_or_else(|| {
        let (known, got) = (FINISH_REASONS.join(", "), short(text));
        Error::Program(format!("text: finish_reason must be of {known}, got {got:?}"))
    })
}

fn unfinished() -> Error {
    Error::Program("text: the last part must have a finish_reason, got none".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(form: Form) -> Writer {
        let request =
            TextRequest { form, is_stream: true, has_usage: true, infer: Default::default() };
        Writer { id: "a".into(), created: 1, model: "m".into(), ..Writer::new(&request) }
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn whole_answer_has_the_text_and_its_end() {
        let mut writer = writer(Form::Chat);
        assert_eq!(writer.whole("", 0).unwrap_err(), unfinished());
        writer.finish = Some("length");
        writer.usage = Usage::of(&[&3_i64.to_le_bytes()[..], &4_i64.to_le_bytes()].concat());
        let want = r#"{"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"x\n","refusal":null},"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#;
        assert_eq!(text(writer.whole("x\n", 3).unwrap()), want);
    }

    #[test]
    fn whole_answer_takes_no_more_than_its_text_in_json() {
        let (mut writer, all) = (writer(Form::Completion), ('\0'..'\u{800}').collect::<String>());
        writer.finish = Some("stop");
        for text in [all.repeat(50), "\"\u{1}\n".repeat(10_000), "x".repeat(100_000)] {
            let bytes = json_bytes(&text);
            assert_eq!(to_json_of(&text, 0).len(), bytes + 2);
            let whole = writer.whole(&text, bytes).unwrap();
            assert!(whole.len() <= FRAME_BYTES + bytes, "{} of {bytes}", whole.len());
            let capacity = whole.capacity(); // twice as much once it has grown
            assert!(capacity < 2 * bytes, "{capacity} for {bytes}");
        }
    }

    #[test]
    fn stream_that_ends_without_a_reason_has_an_error() {
        let mut writer = writer(Form::Completion);
        let said = text(writer.events(Ok(None)));
        let want = r#"data: {"error":{"message":"text: the last part must have a finish_reason, got none","type":"server_error","param":null,"code":"program"}}"#;
        assert_eq!(said, format!("{want}\n\n"));
        assert!(writer.events(Ok(None)).is_empty(), "it is the last event");
        assert!(finish_reason("tired").is_err());
        assert_eq!(finish_reason(""), Ok(None));
        assert_eq!(Usage::of(&(-1_i64).to_le_bytes()), Usage::default());
    }
}
