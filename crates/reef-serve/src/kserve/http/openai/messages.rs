//! Messages of a conversation, whose contents are texts.

use crate::kserve::http::bounded;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Deserializer;
use serde_json::value::RawValue;

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    System,
    Developer,
    User,
    Assistant,
}

/// A message, as its program gets it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Message {
    role: Role,
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

/// A message of a request. An answer's message is one, too: the last keys must be null, or empty
/// lists.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageJson<'a> {
    role: Role,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    name: Option<String>,
    refusal: Option<IgnoredAny>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    function_call: Option<IgnoredAny>,
    audio: Option<IgnoredAny>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
}

/// A part of a content.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartJson {
    #[serde(rename = "type")]
    _kind: PartKind,
    text: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PartKind {
    Text,
}

/// Reads the messages of a conversation: at least one.
///
/// # Errors
///
/// A text that says which message cannot be passed on.
pub(super) fn messages(json: &RawValue) -> Result<Vec<Message>, String> {
    let all: Vec<MessageJson<'_>> =
        bounded::list(&mut Deserializer::from_str(json.get())).map_err(|e| e.to_string())?;
    if all.is_empty() {
        return Err("must be at least one, got none".into());
    }
    all.into_iter().map(MessageJson::message).collect()
}

impl MessageJson<'_> {
    fn message(self) -> Result<Message, String> {
        let has_items = |list: Option<&RawValue>| list.is_some_and(|list| !is_empty(list));
        let others = [
            ("refusal", self.refusal.is_some()),
            ("tool_calls", has_items(self.tool_calls)),
            ("function_call", self.function_call.is_some()),
            ("audio", self.audio.is_some()),
            ("annotations", has_items(self.annotations)),
        ];
        if let Some((name, _)) = others.iter().find(|(_, is_given)| *is_given) {
            return Err(format!("{name} of a message is not supported"));
        }
        let json = self.content.ok_or("content of a message must be a text, got none")?;
        Ok(Message { role: self.role, content: content(json)?, name: self.name })
    }
}

/// Returns whether a value is a list without items.
fn is_empty(list: &RawValue) -> bool {
    let inside = list.get().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inside.is_some_and(|inside| inside.trim().is_empty())
}

/// Reads a content: a text, or the texts of its parts.
fn content(json: &RawValue) -> Result<String, String> {
    let json = json.get();
    if !json.starts_with('[') {
        let wrong = |_| "content of a message must be a text or a list of parts".to_owned();
        return serde_json::from_str(json).map_err(wrong);
    }
    let parts: Vec<PartJson> = bounded::list(&mut Deserializer::from_str(json))
        .map_err(|e| format!("content of a message: {e}"))?;
    Ok(parts.into_iter().map(|part| part.text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Vec<Message>, String> {
        messages(serde_json::from_str(json).unwrap())
    }

    fn refusal(json: &str) -> String {
        read(json).unwrap_err()
    }

    #[test]
    fn texts_and_parts_of_messages_are_read() {
        let json = r#"[{"role":"system","content":"a"},
            {"role":"user","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}],"name":"n"},
            {"role":"assistant","content":"d","refusal":null,"tool_calls":null,"annotations":[ ]}]"#;
        let message = |role, content: &str, name: Option<&str>| Message {
            role,
            content: content.into(),
            name: name.map(Into::into),
        };
        let want = [
            message(Role::System, "a", None),
            message(Role::User, "bc", Some("n")),
            message(Role::Assistant, "d", None),
        ];
        assert_eq!(read(json).unwrap(), want);
        let json = serde_json::to_string(&want[1]).unwrap();
        assert_eq!(json, r#"{"role":"user","content":"bc","name":"n"}"#);
    }

    #[test]
    fn message_that_no_model_takes_is_refused() {
        assert_eq!(refusal("[]"), "must be at least one, got none");
        assert!(refusal(r#"{"role":"user"}"#).contains("a list of at most 1024"));
        assert!(
            refusal(r#"[{"role":"tool","content":"a"}]"#).starts_with("unknown variant `tool`")
        );
        assert!(
            refusal(r#"[{"role":"user","content":"a","x":1}]"#).starts_with("unknown field `x`")
        );
        let none = "content of a message must be a text, got none";
        assert_eq!(refusal(r#"[{"role":"user","content":null}]"#), none);
        assert_eq!(refusal(r#"[{"role":"user"}]"#), none);
        let wrong = "content of a message must be a text or a list of parts";
        assert_eq!(refusal(r#"[{"role":"user","content":1}]"#), wrong);
        let calls = r#"[{"role":"assistant","content":"a","tool_calls":[{}]}]"#;
        assert_eq!(refusal(calls), "tool_calls of a message is not supported");
        let image = r#"[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]"#;
        assert!(refusal(image).starts_with("content of a message: unknown variant `image_url`"));
    }
}
