//! Models that generate text: OpenAI's calls, byte for byte.

use super::{PROCESS_ENDED, RAW, TRUSTED, error, post, post_bytes, put};
use crate::daemon::Daemon;
use crate::{SOON, within};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

/// Module of the examples.
const BYTE_TEXT: &str = include_str!("../../../../../examples/process/byte_text.py");
/// Decoder in place of that of PyTorch: it makes two tokens, and then ends the text.
const DECODER: &str = "
class Decoder:
    def __init__(self, sizes, tokens, device):
        self.tokens = tokens

    def read(self, tokens):
        self.left = [ord('k'), tokens[0]]
        return self.scores(ord('o'))

    def step(self, token):
        return self.scores(self.left.pop(0))

    def scores(self, best):
        return [float(token == best) for token in range(self.tokens)]
";

/// Puts a module next to the program of a model.
fn put_module(folder: &Path, model: &str, name: &str, text: &str) {
    std::fs::write(folder.join("models").join(model).join("1").join(name), text).unwrap();
}

fn with_words(test: &str) -> Daemon {
    let folder = Daemon::place(test);
    put(folder.path(), "words", include_str!("text.py"), "", "");
    Daemon::start_in(folder, &[TRUSTED, "models.load=[\"words\", \"tiny\"]"])
}

/// Replaces the first identifier and the first time, everywhere: others stay.
fn masked(text: &str) -> String {
    let mut masked = text.to_owned();
    for (key, end) in [("\"id\":\"", '"'), ("\"created\":", ',')] {
        let value = text.split_once(key).and_then(|(_, rest)| rest.split(end).next());
        if let Some(value) = value {
            masked = masked.replace(&format!("{key}{value}"), &format!("{key}*"));
        }
    }
    masked
}

/// Sends JSON with these headers; returns the status and the body.
fn say_as(daemon: &Daemon, headers: &str, path: &str, body: &str) -> (u16, String) {
    let (status, body) = post_bytes(daemon, path, headers, body.as_bytes());
    (status, masked(&String::from_utf8(body).expect("UTF-8")))
}

fn say(daemon: &Daemon, path: &str, body: &str) -> (u16, String) {
    say_as(daemon, "", path, body)
}

/// Sends a request for a stream; returns the body, without HTTP's chunks.
fn stream(daemon: &Daemon, path: &str, body: &str) -> String {
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let said = daemon.say(request.as_bytes());
    let (head, mut rest) = said.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
    assert!(head.contains("content-type: text/event-stream"), "{said}");
    let mut whole = String::new();
    while let Some((length, chunk)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("a length");
        if length == 0 {
            break;
        }
        whole.push_str(&chunk[..length]);
        rest = chunk[length..].strip_prefix("\r\n").expect("the end of a chunk");
    }
    masked(&whole)
}

/// The event for a part of a conversation.
fn chunk(delta: &str, finish: &str, usage: &str) -> String {
    format!(
        "data: {{\"id\":\"*\",\"object\":\"chat.completion.chunk\",\"created\":*,\
         \"model\":\"words\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\
         \"finish_reason\":{finish}}}]{usage}}}\n\n"
    )
}

/// The event for a part of a text.
fn text_chunk(text: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"*\",\"object\":\"text_completion\",\"created\":*,\"model\":\"words\",\
         \"choices\":[{{\"index\":0,\"text\":{text},\"logprobs\":null,\
         \"finish_reason\":{finish}}}]}}\n\n"
    )
}

/// The whole answer to a prompt, with the number of its tokens and those of the text.
fn completion(text: &str, finish: &str, tokens: [u64; 2]) -> String {
    let [prompt, made] = tokens;
    format!(
        "{{\"id\":\"*\",\"object\":\"text_completion\",\"created\":*,\"model\":\"words\",\
         \"choices\":[{{\"index\":0,\"text\":{text:?},\"logprobs\":null,\
         \"finish_reason\":{finish:?}}}],\"usage\":{{\"prompt_tokens\":{prompt},\
         \"completion_tokens\":{made},\"total_tokens\":{}}}}}",
        prompt + made
    )
}

/// An error in OpenAI's form.
fn refusal(text: &str, kind: &str, param: &str, code: &str) -> String {
    let param = if param.is_empty() { "null".to_owned() } else { format!("{param:?}") };
    let text = json!(text);
    format!(
        "{{\"error\":{{\"message\":{text},\"type\":{kind:?},\"param\":{param},\"code\":{code:?}}}}}"
    )
}

#[test]
fn conversation_is_answered_byte_for_byte() {
    let daemon = with_words("text-chat");
    let body = r#"{"model":"words","messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b "},{"type":"text","text":"\"ä\n"}]}]}"#;
    let want = r#"{"id":"*","object":"chat.completion","created":*,"model":"words","choices":[{"index":0,"message":{"role":"assistant","content":"system:auser:b\"ä","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":3,"total_tokens":6}}"#;
    assert_eq!(say(&daemon, CHAT, body), (200, want.into()));
    let body = r#"{"model":"words","messages":[{"role":"user","content":"b c"}],"max_completion_tokens":1}"#;
    let want = r#"{"id":"*","object":"chat.completion","created":*,"model":"words","choices":[{"index":0,"message":{"role":"assistant","content":"user:b","refusal":null},"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}}"#;
    assert_eq!(say(&daemon, CHAT, body), (200, want.into()));
}

#[test]
fn stream_of_a_conversation_has_these_events() {
    let daemon = with_words("text-events");
    let events = |usage: &str| {
        [
            chunk("{\"role\":\"assistant\",\"content\":\"\"}", "null", usage),
            chunk("{\"content\":\"user:b\"}", "null", usage),
            chunk("{\"content\":\"c\"}", "null", usage),
            chunk("{}", "\"stop\"", usage),
        ]
        .concat()
    };
    let body = r#"{"model":"words","messages":[{"role":"user","content":"b c"}],"stream":true}"#;
    let done = "data: [DONE]\n\n";
    assert_eq!(stream(&daemon, CHAT, body), format!("{}{done}", events("")));
    let body = body.replace("true}", "true,\"stream_options\":{\"include_usage\":true}}");
    let usage = "data: {\"id\":\"*\",\"object\":\"chat.completion.chunk\",\"created\":*,\
                 \"model\":\"words\",\"choices\":[],\"usage\":{\"prompt_tokens\":2,\
                 \"completion_tokens\":2,\"total_tokens\":4}}\n\n";
    let want = format!("{}{usage}{done}", events(",\"usage\":null"));
    assert_eq!(stream(&daemon, CHAT, &body), want);
    within(SOON, "no open request", || daemon.metric("reef_open_requests") == 0.0);
}

#[test]
fn prompt_is_completed_byte_for_byte() {
    let daemon = with_words("text-completion");
    let ask = |more: &str| say(&daemon, COMPLETIONS, &format!("{{\"model\":\"words\",{more}}}"));
    assert_eq!(ask(r#""prompt":"ab cd""#), (200, completion("abcd", "stop", [2, 2])));
    let stopped = (200, completion("a", "stop", [2, 2]));
    assert_eq!(ask(r#""prompt":["ab cd"],"stop":["x","bc"]"#), stopped);
    assert_eq!(ask(r#""prompt":"ab cd","stop":"bc""#), stopped);
    let cut = (200, completion("ab", "length", [2, 1]));
    assert_eq!(ask(r#""prompt":"ab cd","max_tokens":1"#), cut);
    let neutral = r#""prompt":"ab cd","n":1,"best_of":1,"echo":false,"logprobs":null,"suffix":null,"top_p":1,"presence_penalty":0,"frequency_penalty":0.0,"logit_bias":{ },"stop":null,"stream":false"#;
    assert_eq!(ask(neutral), (200, completion("abcd", "stop", [2, 2])));
    let body = r#"{"model":"words","prompt":"ab cd","stream":true}"#;
    let want = [
        text_chunk("\"ab\"", "null"),
        text_chunk("\"cd\"", "null"),
        text_chunk("\"\"", "\"stop\""),
        "data: [DONE]\n\n".into(),
    ];
    assert_eq!(stream(&daemon, COMPLETIONS, body), want.concat());
}

#[test]
fn program_gets_the_class_and_the_parameters() {
    let daemon = with_words("text-parameters");
    let body =
        r#"{"model":"words","prompt":"show","max_tokens":7,"seed":3,"temperature":0.5,"user":"u"}"#;
    let want = completion("['rt', 7, 3, 0.5, 'u']", "stop", [0, 1]);
    assert_eq!(say_as(&daemon, "reef-class: rt\r\n", COMPLETIONS, body), (200, want));
    let body = r#"{"model":"words","prompt":"show"}"#;
    let want = completion("['be', 1000000000, None, None, None]", "stop", [0, 1]);
    assert_eq!(say_as(&daemon, "reef-class: be\r\n", COMPLETIONS, body), (200, want));
    let (status, said) = say_as(&daemon, "reef-class: fast\r\n", COMPLETIONS, body);
    assert!(status == 400 && said.contains("\"type\":\"invalid_request_error\""), "{said}");
}

#[test]
fn request_for_text_is_refused_in_openais_form() {
    let daemon = with_words("text-refusals");
    let ask = |path: &str, body: &str, status: u16, want: [&str; 3]| {
        let [text, param, code] = want;
        let want = refusal(text, "invalid_request_error", param, code);
        assert_eq!(say(&daemon, path, body), (status, want), "{body}");
    };
    let unknown = "model_not_found";
    for (name, text) in [
        ("gpt-4", "model gpt-4 is not loaded"),
        ("tiny", "model tiny does not generate text"),
        (
            "a/b",
            "model name must be 1 to 64 ASCII letters, digits, _, - and ., without a leading dot, got \"a/b\"",
        ),
    ] {
        let body = format!(r#"{{"model":"{name}","prompt":"a"}}"#);
        ask(COMPLETIONS, &body, 404, [text, "model", unknown]);
    }
    let missing = "missing_required_parameter";
    ask(COMPLETIONS, "", 400, ["model: must be given", "model", missing]);
    ask(COMPLETIONS, r#"{"model":null}"#, 400, ["model: must be given", "model", missing]);
    let unsupported = "unsupported_parameter";
    for (more, text, param, code) in [
        ("", "prompt: must be given", "prompt", missing),
        (r#","prompt":"a","best":1"#, "unknown parameter \"best\"", "best", unsupported),
        (r#","messages":[]"#, "unknown parameter \"messages\"", "messages", unsupported),
        (r#","prompt":"a","n":2"#, "n: is not supported by this model, got 2", "n", unsupported),
        (
            r#","prompt":"a","top_p":0.5"#,
            "top_p: is not supported by this model, got 0.5",
            "top_p",
            unsupported,
        ),
        (
            r#","prompt":"a","temperature":3"#,
            "temperature: must be a number from 0 to 2, got 3",
            "temperature",
            "invalid",
        ),
        (
            r#","prompt":"a","seed":0.5"#,
            "seed: must be an integer of 64 bits, got 0.5",
            "seed",
            "invalid",
        ),
        (
            r#","prompt":"a","max_tokens":0"#,
            "max_tokens: must be a number from 1 to 4294967295, got 0",
            "max_tokens",
            "invalid",
        ),
        (
            r#","prompt":"a","stop":[""]"#,
            "stop: must be a text or at most 4, each of 1 to 1024 bytes, got [\"\"]",
            "stop",
            "invalid",
        ),
        (
            r#","prompt":["a","b"]"#,
            "prompt: must be a text, or a list of one text, got [\"a\",\"b\"]",
            "prompt",
            "invalid",
        ),
        (
            r#","prompt":"a","stream_options":{}"#,
            "stream_options: must be given with stream",
            "stream_options",
            "invalid",
        ),
        (
            r#","prompt":"a","max_tokens":2000000000"#,
            "max_tokens: must be 1 to 1000000000, got 2000000000",
            "",
            "invalid",
        ),
    ] {
        let body = format!("{{\"model\":\"words\"{more}}}");
        ask(COMPLETIONS, &body, 400, [text, param, code]);
    }
    for (more, text, param) in [
        (r#""messages":[]"#, "messages: must be at least one, got none", "messages"),
        (
            r#""messages":[{"role":"user","content":"a"}],"max_tokens":1,"max_completion_tokens":1"#,
            "max_tokens: must not be given with max_completion_tokens",
            "max_tokens",
        ),
    ] {
        let body = format!("{{\"model\":\"words\",{more}}}");
        ask(CHAT, &body, 400, [text, param, "invalid"]);
    }
    let (status, said) = say(&daemon, CHAT, "{");
    assert!(status == 400 && said.starts_with(r#"{"error":{"message":"JSON: "#), "{said}");
    ask("/v1/embeddings", "{}", 404, ["unknown path", "", "not_found"]);
}

#[test]
fn error_of_a_text_follows_its_pieces() {
    let daemon = with_words("text-errors");
    let body = |prompt: &str| format!(r#"{{"model":"words","prompt":"{prompt}","stream":true}}"#);
    let raised = refusal("ValueError: no such word", "server_error", "", "program");
    assert_eq!(say(&daemon, COMPLETIONS, &body("raise")), (500, raised.clone()));
    let want = format!("{}data: {raised}\n\n", text_chunk("\"a\"", "null"));
    assert_eq!(stream(&daemon, COMPLETIONS, &body("a raise")), want);
    let whole = body("a raise").replace("true", "false");
    assert_eq!(say(&daemon, COMPLETIONS, &whole), (500, raised));
    let ended = refusal(PROCESS_ENDED, "server_error", "", "unavailable");
    assert_eq!(say(&daemon, COMPLETIONS, &body("exit")), (503, ended));
    let whole = body("a").replace("true", "false");
    within(SOON, "an answer", || say(&daemon, COMPLETIONS, &whole).0 == 200);
    within(SOON, "no open request", || daemon.metric("reef_open_requests") == 0.0);
}

/// A program that goes on after the part which ends the text.
const ENDLESS: &str = "
import reef.serve

class Endless(reef.serve.TextModel):
    def stream(self, request):
        while True:
            yield {'text': 'x', 'finish_reason': 'stop', 'tokens': [1, 1]}

reef.serve.run(Endless)
";

/// Else it would last for all of its time, as its process would.
#[test]
fn stream_of_a_text_ends_with_its_error() {
    let folder = Daemon::place("text-endless");
    put(folder.path(), "endless", ENDLESS, "", "");
    let flags = [TRUSTED, "models.load=[\"endless\"]", "times.request_ms=600000"];
    let daemon = Daemon::start_in(folder, &flags);
    let mut client = TcpStream::connect(&daemon.http).unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    let body = r#"{"model":"endless","prompt":"a","stream":true}"#;
    let head = format!("POST {COMPLETIONS} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    write!(client, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    assert!(said.contains("text: must end with the part that has a finish_reason"), "{said}");
    within(SOON, "no open request", || daemon.metric("reef_open_requests") == 0.0);
}

#[test]
fn error_before_a_call_has_openais_form() {
    let folder = Daemon::place("text-token");
    let token = folder.path().join("token");
    std::fs::write(&token, "0123456789abcdef").unwrap();
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).unwrap();
    let token = format!("listen.token_file={}", token.display());
    let daemon = Daemon::start_in(folder, &[&token, "limits.message_mib=1"]);
    let ask = |path: &str, headers: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        daemon.say(format!("{head}{headers}\r\n").as_bytes())
    };
    let said = ask(CHAT, "content-length: 0\r\n");
    assert!(said.starts_with("HTTP/1.1 401"), "{said}");
    let (_, body) = said.split_once("\r\n\r\n").expect("a head");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(body["error"]["type"], "authentication_error", "{said}");
    assert_eq!(body["error"]["code"], "unauthenticated", "{said}");
    let right = "authorization: Bearer 0123456789abcdef\r\nexpect: 100-continue\r\n";
    let said = ask(COMPLETIONS, &format!("{right}content-length: 1048577\r\n"));
    assert!(said.starts_with("HTTP/1.1 413"), "{said}");
    let text = "body must have at most 1048576 bytes (limits.message_mib)";
    let want = refusal(text, "invalid_request_error", "", "too_large");
    assert!(said.ends_with(&want), "{said}");
    let said = ask("/v2/models/tiny/infer", "content-length: 0\r\n");
    assert!(said.contains("{\"error\":\""), "the other protocol's form: {said}");
}

#[test]
fn models_that_generate_text_are_listed() {
    let daemon = with_words("text-models");
    let get = |path: &str| {
        let said = daemon.get(path);
        let (head, body) = said.split_once("\r\n\r\n").expect("a head");
        (head.split(' ').nth(1).expect("a status").to_owned(), body.to_owned())
    };
    let words = r#"{"id":"words","object":"model","created":0,"owned_by":"reef"}"#;
    let list = format!(r#"{{"object":"list","data":[{words}]}}"#);
    assert_eq!(get("/v1/models"), ("200".into(), list));
    assert_eq!(get("/v1/models/words"), ("200".into(), words.into()));
    let text = "model tiny does not generate text";
    let none = refusal(text, "invalid_request_error", "model", "model_not_found");
    assert_eq!(get("/v1/models/tiny"), ("404".into(), none));
}

#[test]
fn generator_is_closed_once_the_client_of_a_text_is_gone() {
    let daemon = with_words("text-gone");
    let body = r#"{"model":"words","prompt":"forever","stream":true}"#;
    let mut stream = TcpStream::connect(&daemon.http).unwrap();
    let head = format!("POST {COMPLETIONS} HTTP/1.1\r\nhost: localhost\r\n");
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    stream.read_exact(&mut [0; 512]).unwrap();
    drop(stream);
    let cancelled = daemon.folder().join("models/words/1/cancelled");
    within(SOON, "its cancellation", || cancelled.exists());
    let whole = r#"{"model":"words","prompt":"a"}"#;
    assert_eq!(say(&daemon, COMPLETIONS, whole), (200, completion("a", "stop", [1, 1])));
}

#[test]
fn client_of_a_whole_text_that_is_gone_ends_it() {
    let daemon = with_words("text-gone-whole");
    let body = r#"{"model":"words","prompt":"wait"}"#;
    let mut stream = TcpStream::connect(&daemon.http).unwrap();
    let head = format!("POST {COMPLETIONS} HTTP/1.1\r\nhost: localhost\r\n");
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let file = |name: &str| daemon.folder().join("models/words/1").join(name);
    within(SOON, "its text", || file("begun").exists());
    drop(stream);
    within(SOON, "its cancellation", || file("cancelled").exists());
    let whole = r#"{"model":"words","prompt":"a"}"#;
    assert_eq!(say(&daemon, COMPLETIONS, whole), (200, completion("a", "stop", [1, 1])));
}

#[test]
fn stock_client_gets_texts_and_errors() {
    let Some(python) = crate::triton::python() else { return };
    let daemon = with_words("text-client");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/processes/programs/text_client.py");
    let output = Command::new(python).args([script, &daemon.http]).output().expect("Python");
    let [said, wrong] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success() && said == "passed\n", "{said}{wrong}");
}

/// As the documentation has it.
#[test]
fn example_answers_a_conversation() {
    let folder = Daemon::place("text-example");
    let program = include_str!("../../../../../examples/process/chat.py");
    put(folder.path(), "chat", program, "", "");
    put_module(folder.path(), "chat", "byte_text.py", BYTE_TEXT);
    let daemon = Daemon::start_in(folder, &[TRUSTED, "models.load=[\"chat\"]"]);
    let ask = |content: &str| {
        let messages = json!([{ "role": "user", "content": content }]);
        let (status, said) = post(&daemon, CHAT, &json!({ "model": "chat", "messages": messages }));
        assert_eq!(status, 200, "{said}");
        said
    };
    let said = ask("What is a gate?");
    let answer = "A gate holds the launches of best-effort programs while real-time work runs.";
    assert_eq!(said["choices"][0]["message"]["content"], answer);
    let usage = json!({ "prompt_tokens": 39, "completion_tokens": 76, "total_tokens": 115 });
    assert_eq!(said["usage"], usage);
    let said = ask("Wie geht es dir?");
    assert_eq!(said["choices"][0]["message"]["content"], "Schön, danke! 😀");
}

#[test]
fn example_of_transformers_streams_its_tokens() {
    let folder = Daemon::place("text-transformers");
    let program = include_str!("../../../../../examples/process/transformers_chat.py");
    put(folder.path(), "words", program, "--tiny", "");
    put_module(folder.path(), "words", "byte_text.py", BYTE_TEXT);
    put_module(folder.path(), "words", "static_decoder.py", DECODER);
    let daemon = Daemon::start_in(folder, &[TRUSTED, "models.load=[\"words\"]"]);
    let want = [
        text_chunk("\"o\"", "null"),
        text_chunk("\"k\"", "null"),
        text_chunk("\"\"", "\"stop\""),
        "data: [DONE]\n\n".into(),
    ];
    let body = r#"{"model":"words","prompt":"a","stream":true}"#;
    assert_eq!(stream(&daemon, COMPLETIONS, body), want.concat());
    let body = format!("{{\"model\":\"words\",\"prompt\":{:?}}}", "a".repeat(200));
    let text = "prompt: must have at most 128 tokens, got 201";
    let want = refusal(text, "invalid_request_error", "", "invalid");
    assert_eq!(say(&daemon, COMPLETIONS, &body), (400, want));
}

#[test]
fn long_text_is_charged_for_its_copies_alone() {
    let folder = Daemon::place("text-charged");
    put(folder.path(), "words", include_str!("text.py"), "", "");
    // Five copies while the request is read, and then four with its answer.
    let limits = ["limits.message_mib=4", "memory.connection_mib=12"];
    let flags = [TRUSTED, "models.load=[\"words\"]", limits[0], limits[1]];
    let daemon = Daemon::start_in(folder, &flags);
    let word = "x".repeat(2 << 20);
    let body = format!("{{\"model\":\"words\",\"prompt\":\"{word}\"}}");
    let (status, said) = post_bytes(&daemon, COMPLETIONS, "", body.as_bytes());
    let said: Value = serde_json::from_slice(&said).expect("JSON");
    assert_eq!(status, 200, "{}", said["error"]);
    assert!(said["choices"][0]["text"].as_str() == Some(word.as_str()), "the word");
}

#[test]
fn wrong_declaration_of_text_is_refused_at_load() {
    let folder = Daemon::place("text-declaration");
    put(folder.path(), "whole", RAW, "text", "");
    put(folder.path(), "tensors", RAW, "text streams", "");
    let wrong = include_str!("text.py").replace("\"seed\"", "\"speed\"");
    put(folder.path(), "unknown", &wrong, "", "");
    let daemon = Daemon::start_in(folder, &[TRUSTED]);
    for (name, want) in [
        ("whole", "text: must be of a program that answers in parts"),
        ("tensors", "text: inputs must be request BYTES [1], got x FP32 [-1]"),
        (
            "unknown",
            "text: parameters must be of frequency_penalty, presence_penalty, seed, temperature, top_p, got \"speed\"",
        ),
    ] {
        let path = format!("/v2/repository/models/{name}/load");
        let (status, said) = error(&post(&daemon, &path, &json!({})));
        assert!(status >= 400 && said.contains(want), "{name}: {status} {said}");
    }
}
