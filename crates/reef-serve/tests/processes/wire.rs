//! Clients of the standard protocol over Unix sockets, as small as they can be.

use reef_serve::{Class, Client, Options};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_request as reflection_request,
    server_reflection_response as reflection_response,
};

/// The code generated from `proto/inference.proto`.
#[allow(unreachable_pub, clippy::all)] // it is generated
pub(crate) mod proto {
    include!(concat!(env!("OUT_DIR"), "/clients/inference.rs"));
}

/// The code generated from `proto/health.proto`.
#[allow(unreachable_pub, clippy::all)] // it is generated
mod health {
    include!(concat!(env!("OUT_DIR"), "/clients/grpc.health.v1.rs"));
}

use proto::grpc_inference_service_client::GrpcInferenceServiceClient;
use proto::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use proto::{InferParameter, ModelInferRequest, infer_parameter::ParameterChoice};

/// Values of the input of `tiny`.
pub(crate) const VALUES: usize = 3 * 32 * 32;
/// The maximum time of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

/// A way to a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Local,
    Grpc,
    Http,
}

impl Way {
    pub(crate) const ALL: [Self; 3] = [Self::Local, Self::Grpc, Self::Http];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Grpc => "gRPC",
            Self::Http => "HTTP",
        }
    }
}

/// Makes one round trip each time that it is called; panics if it fails.
pub(crate) type Call = Box<dyn FnMut() + Send>;

/// Inferences of `tiny` by a client of its own.
pub(crate) fn inference(way: Way, class: Class, folder: &Path) -> Call {
    match way {
        Way::Local => {
            let mut client = local(folder, class);
            let (input, mut output) = (vec![0.5; VALUES], vec![0.0; client.output_len()]);
            Box::new(move || {
                let _times = client.infer_into(&input, &mut output).expect("an answer");
            })
        }
        Way::Grpc => {
            let (mut grpc, request) = (Grpc::connect(folder), infer_request("tiny", class));
            Box::new(move || grpc.infer(request.clone()).expect("an answer"))
        }
        Way::Http => {
            let (mut http, request) = (Http::connect(folder).expect("it listens"), post(class));
            Box::new(move || assert_eq!(http.ask(&request).expect("an answer").0, 200))
        }
    }
}

/// Round trips without an inference, likewise.
pub(crate) fn empty(way: Way, folder: &Path) -> Call {
    match way {
        Way::Local => {
            let mut client = local(folder, Class::BestEffort);
            Box::new(move || client.ping().expect("an answer"))
        }
        Way::Grpc => {
            let mut grpc = Grpc::connect(folder);
            Box::new(move || grpc.live().expect("an answer"))
        }
        Way::Http => {
            let mut http = Http::connect(folder).expect("it listens");
            let request = b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n";
            Box::new(move || assert_eq!(http.ask(request).expect("an answer").0, 200))
        }
    }
}

fn local(folder: &Path, class: Class) -> Client {
    let spin = Duration::from_micros(200);
    let options =
        Options { folder: Some(folder.into()), class: Some(class), spin, ..Options::default() };
    Client::connect("tiny", &options).expect("a daemon with the model")
}

/// 1 is real-time.
fn priority(class: Class) -> i64 {
    if class == Class::RealTime { 1 } else { 2 }
}

/// A gRPC client and the thread that it runs on.
pub(crate) struct Grpc {
    runtime: tokio::runtime::Runtime,
    channel: Channel,
    client: GrpcInferenceServiceClient<Channel>,
}

impl Grpc {
    pub(crate) fn connect(folder: &Path) -> Self {
        Self::over(channel(folder))
    }

    /// Over TCP.
    pub(crate) fn connect_to(address: &str) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        Self::over(async move { endpoint.connect().await.expect("it listens") })
    }

    fn over(channel: impl Future<Output = Channel>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let channel = runtime.block_on(channel);
        let client = GrpcInferenceServiceClient::new(channel.clone());
        Self { runtime, channel, client }
    }

    /// Returns the state of a service in gRPC's own health check: 1 if it serves.
    pub(crate) fn health(&self, service: &str) -> Result<i32, tonic::Status> {
        let mut client = health::health_client::HealthClient::new(self.channel.clone());
        let request = health::HealthCheckRequest { service: service.into() };
        self.runtime.block_on(client.check(request)).map(|said| said.into_inner().status)
    }

    /// The services that gRPC's reflection names.
    pub(crate) fn services(&self) -> Result<Vec<String>, tonic::Status> {
        let mut client = ServerReflectionClient::new(self.channel.clone());
        let list = Some(reflection_request::MessageRequest::ListServices(String::new()));
        let asked = ServerReflectionRequest { host: String::new(), message_request: list };
        let call = async {
            let answers = client.server_reflection_info(tokio_stream::once(asked)).await?;
            answers.into_inner().message().await
        };
        match self.runtime.block_on(call)?.and_then(|answer| answer.message_response) {
            Some(reflection_response::MessageResponse::ListServicesResponse(list)) => {
                Ok(list.service.into_iter().map(|service| service.name).collect())
            }
            other => panic!("no list of services: {other:?}"),
        }
    }

    /// Asks for nothing, but answers what HTTP/2 asks.
    pub(crate) fn rest(&self, time: Duration) {
        // sleep: a client that rests
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    pub(crate) fn live(&mut self) -> Result<(), tonic::Status> {
        self.runtime.block_on(self.client.server_live(proto::ServerLiveRequest {})).map(drop)
    }

    pub(crate) fn infer(&mut self, request: ModelInferRequest) -> Result<(), tonic::Status> {
        self.answer(request).map(drop)
    }

    /// Returns the answer.
    pub(crate) fn answer(
        &mut self,
        request: ModelInferRequest,
    ) -> Result<proto::ModelInferResponse, tonic::Status> {
        self.runtime.block_on(self.client.model_infer(request)).map(|said| said.into_inner())
    }

    /// Sends requests on one stream; returns all of its answers.
    pub(crate) fn stream(
        &mut self,
        requests: Vec<ModelInferRequest>,
    ) -> Result<Vec<proto::ModelStreamInferResponse>, tonic::Status> {
        let client = &mut self.client;
        self.runtime.block_on(async {
            let answers = client.model_stream_infer(tokio_stream::iter(requests)).await?;
            let (mut answers, mut all) = (answers.into_inner(), Vec::new());
            while let Some(answer) = answers.message().await? {
                all.push(answer);
            }
            Ok(all)
        })
    }

    /// Sends a request on a stream, and goes away from that after its first answer. The connection
    /// stays.
    pub(crate) fn first_answer(
        &mut self,
        request: ModelInferRequest,
    ) -> Result<Option<proto::ModelStreamInferResponse>, tonic::Status> {
        let client = &mut self.client;
        self.runtime.block_on(async {
            let answers = client.model_stream_infer(tokio_stream::once(request)).await?;
            answers.into_inner().message().await
        })
    }

    /// An inference on a connection of this class.
    pub(crate) fn infer_as(
        &mut self,
        class: &'static str,
        request: ModelInferRequest,
    ) -> Result<(), tonic::Status> {
        let mut request = tonic::Request::new(request);
        request.metadata_mut().insert("reef-class", class.parse().expect("ASCII"));
        self.runtime.block_on(self.client.model_infer(request)).map(drop)
    }

    /// Registers shared memory under a name.
    pub(crate) fn register(
        &mut self,
        name: &str,
        key: &str,
        bytes: u64,
    ) -> Result<(), tonic::Status> {
        let request = proto::SystemSharedMemoryRegisterRequest {
            name: name.into(),
            key: key.into(),
            offset: 0,
            byte_size: bytes,
        };
        self.runtime.block_on(self.client.system_shared_memory_register(request)).map(drop)
    }

    /// Loads a model, or unloads it.
    pub(crate) fn load(&mut self, name: &str, wanted: bool) -> Result<(), tonic::Status> {
        let (client, model_name) = (&mut self.client, name.to_owned());
        if wanted {
            let request = proto::RepositoryModelLoadRequest { model_name, ..Default::default() };
            return self.runtime.block_on(client.repository_model_load(request)).map(drop);
        }
        let request = proto::RepositoryModelUnloadRequest { model_name, ..Default::default() };
        self.runtime.block_on(client.repository_model_unload(request)).map(drop)
    }
}

/// A connection to `grpc.sock`.
pub(crate) async fn channel(folder: &Path) -> Channel {
    let uri = format!("unix:{}", folder.join("grpc.sock").display());
    let endpoint = Endpoint::from_shared(uri).expect("a path").timeout(ANSWER_TIMEOUT);
    endpoint.connect().await.expect("it listens")
}

/// An inference whose tensors are in a region: the input, and behind it the output of `output`
/// bytes.
pub(crate) fn infer_in_region(region: &str, class: Class, output: u64) -> ModelInferRequest {
    let mut request = infer_request("tiny", class);
    request.raw_input_contents.clear();
    let input = 4 * VALUES as u64;
    request.inputs[0].parameters = in_region(region, 0, input);
    let parameters = in_region(region, input, output);
    request.outputs.push(InferRequestedOutputTensor { name: "logits".into(), parameters });
    request
}

fn in_region(region: &str, offset: u64, bytes: u64) -> HashMap<String, InferParameter> {
    let number = |n: u64| ParameterChoice::Int64Param(n as i64);
    let all = [
        ("shared_memory_region", ParameterChoice::StringParam(region.into())),
        ("shared_memory_offset", number(offset)),
        ("shared_memory_byte_size", number(bytes)),
    ];
    all.map(|(key, value)| (key.to_owned(), InferParameter { parameter_choice: Some(value) }))
        .into()
}

/// An inference with raw contents.
pub(crate) fn infer_request(model: &str, class: Class) -> ModelInferRequest {
    let choice = ParameterChoice::Int64Param(priority(class));
    let input = InferInputTensor {
        name: "input".into(),
        datatype: "FP32".into(),
        shape: vec![1, 3, 32, 32],
        ..Default::default()
    };
    ModelInferRequest {
        model_name: model.into(),
        parameters: [("priority".to_owned(), InferParameter { parameter_choice: Some(choice) })]
            .into(),
        inputs: vec![input],
        raw_input_contents: vec![vec![0x3f; 4 * VALUES].into()],
        ..Default::default()
    }
}

/// Adds the client's period and budget in microseconds to a request.
pub(crate) fn stating(
    mut request: ModelInferRequest,
    period: i64,
    budget: i64,
) -> ModelInferRequest {
    for (key, micros) in [("reef_period_us", period), ("reef_budget_us", budget)] {
        let parameter_choice = Some(ParameterChoice::Int64Param(micros));
        request.parameters.insert(key.into(), InferParameter { parameter_choice });
    }
    request
}

/// Either kind of socket.
trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// An HTTP client that keeps its connection.
pub(crate) struct Http(BufReader<Box<dyn Stream>>);

impl Http {
    pub(crate) fn connect(folder: &Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(folder.join("http.sock"))?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self(BufReader::new(Box::new(stream))))
    }

    /// Over TCP.
    pub(crate) fn connect_to(address: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(Box::new(stream))))
    }

    /// Sends a request; returns the status and the body.
    pub(crate) fn ask(&mut self, request: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
        self.0.get_mut().write_all(request)?;
        let wrong = |what: &str| Error::new(ErrorKind::InvalidData, what.to_owned());
        let (mut line, mut length) = (String::new(), 0);
        self.0.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| wrong(&line))?;
        loop {
            line.clear();
            self.0.read_line(&mut line)?;
            match line.trim_end().split_once(": ") {
                Some((key, value)) if key.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().map_err(|_| wrong(value))?;
                }
                Some(_) => {}
                None if line == "\r\n" => break,
                None => return Err(wrong(&line)),
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok((status, body))
    }
}

/// The JSON of an inference whose tensor follows as `bytes` bytes.
pub(crate) fn json(class: Class, bytes: usize) -> String {
    serde_json::json!({
        "parameters": { "priority": priority(class), "binary_data_output": true },
        "inputs": [{
            "name": "input", "datatype": "FP32", "shape": [1, 3, 32, 32],
            "parameters": { "binary_data_size": bytes },
        }],
    })
    .to_string()
}

/// An inference with binary data.
pub(crate) fn post(class: Class) -> Vec<u8> {
    let json = json(class, 4 * VALUES);
    request(Some(json.len()), &[json.as_bytes(), &[0x3f; 4 * VALUES]].concat())
}

/// A request for an inference of `tiny`; with the length of the JSON if binary data follows.
pub(crate) fn request(json: Option<usize>, body: &[u8]) -> Vec<u8> {
    let head = "POST /v2/models/tiny/infer HTTP/1.1\r\nhost: localhost\r\n";
    let json = json.map(|length| format!("inference-header-content-length: {length}\r\n"));
    let length = format!("content-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), json.unwrap_or_default().as_bytes(), length.as_bytes(), body].concat()
}
