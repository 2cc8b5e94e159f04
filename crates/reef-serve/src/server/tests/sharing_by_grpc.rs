//! Device memory of clients, registered and used over a gRPC connection: software devices stand for
//! CUDA's.

use super::sharing::{INPUT, OUTPUT, allocate, image, two};
use super::*;
use crate::kserve::grpc::serve::serve;
use crate::net::access::Access;
use crate::net::identity::auth::Tokens;
use crate::net::identity::client_id::Protocol;
use crate::net::listener::{Listener, bind};
use infer_parameter::ParameterChoice;
use model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use proto::*;
use std::collections::HashMap;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

/// The code generated from `proto/inference.proto`.
#[allow(unreachable_pub, clippy::all)] // it is generated
pub(super) mod proto {
    include!(concat!(env!("OUT_DIR"), "/clients/inference.rs"));
}

pub(super) type Client = grpc_inference_service_client::GrpcInferenceServiceClient<Channel>;

/// Calls `with` with a client of `fixture` over a Unix socket, and waits until the daemon has seen
/// it go.
pub(super) fn connected(fixture: &Fixture, with: impl AsyncFnOnce(Client)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let path = fixture.folder.join("grpc.sock");
        let (server, tokens) = (fixture.server.clone(), Tokens::read(&Config::default()).unwrap());
        let socket = bind(&path, Access::Owner).unwrap();
        let listener = Listener::unix(socket, Access::Owner, Protocol::Grpc, &server.clients);
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let until = async move { ended.await.unwrap_or_default() };
        let serving = tokio::spawn(serve(server, tokens.into(), listener.unwrap(), until));
        let endpoint = Endpoint::from_shared(format!("unix:{}", path.display())).unwrap();
        let endpoint = endpoint.timeout(Duration::from_secs(60));
        with(Client::new(endpoint.connect().await.unwrap())).await;
        end.send(()).unwrap();
        serving.await.unwrap().unwrap();
    });
}

fn region(
    name: &str,
    handle: &Bytes,
    device_id: i64,
    bytes: usize,
) -> CudaSharedMemoryRegisterRequest {
    let (name, raw_handle, byte_size) = (name.into(), handle.clone(), bytes as u64);
    CudaSharedMemoryRegisterRequest { name, raw_handle, device_id, byte_size }
}

/// Names, devices and bytes of what is registered.
async fn listed(client: &mut Client) -> Vec<(String, u64, u64)> {
    let asked = CudaSharedMemoryStatusRequest { name: String::new() };
    let regions = client.cuda_shared_memory_status(asked).await.unwrap().into_inner().regions;
    let mut all: Vec<_> =
        regions.into_values().map(|one| (one.name, one.device_id, one.byte_size)).collect();
    all.sort();
    all
}

/// The parameters for a tensor in a region, in gRPC's form.
fn place(region: &str, offset: usize, bytes: usize) -> HashMap<String, InferParameter> {
    let parameter = |choice| InferParameter { parameter_choice: Some(choice) };
    let number = |n: usize| parameter(ParameterChoice::Int64Param(n as i64));
    let region = parameter(ParameterChoice::StringParam(region.into()));
    [
        ("shared_memory_region".to_owned(), region),
        ("shared_memory_offset".to_owned(), number(offset)),
        ("shared_memory_byte_size".to_owned(), number(bytes)),
    ]
    .into()
}

/// An inference of `given`, or of what is `from` somewhere.
fn asking(
    given: Option<&[u8]>,
    from: HashMap<String, InferParameter>,
    to: HashMap<String, InferParameter>,
) -> ModelInferRequest {
    let input = InferInputTensor {
        name: "input".into(),
        datatype: "FP32".into(),
        shape: vec![1, 3, 32, 32],
        parameters: from,
        contents: None,
    };
    ModelInferRequest {
        model_name: "tiny".into(),
        inputs: vec![input],
        outputs: vec![InferRequestedOutputTensor { name: "logits".into(), parameters: to }],
        raw_input_contents: given.map(|bytes| bytes.to_vec().into()).into_iter().collect(),
        ..ModelInferRequest::default()
    }
}

#[test]
fn grpc_registers_uses_lists_and_frees_device_memory() {
    let (fixture, devices) = two("cuda-grpc", |_| ());
    let [(from, a), (to, b)] = [INPUT + 8, OUTPUT].map(|bytes| allocate(&devices[0], bytes));
    let (_far, c) = allocate(&devices[1], 64);
    connected(&fixture, async |mut client| {
        for (name, handle, device, bytes) in
            [("in", &a, 0, INPUT + 8), ("out", &b, 0, OUTPUT), ("far", &c, 1, 64)]
        {
            client.cuda_shared_memory_register(region(name, handle, device, bytes)).await.unwrap();
        }
        let all = [("far", 1, 64), ("in", 0, INPUT as u64 + 8), ("out", 0, OUTPUT as u64)];
        let all = all.map(|(name, device, bytes)| (name.to_owned(), device, bytes));
        assert_eq!(listed(&mut client).await, all);
        let input = image(1);
        let want = client.model_infer(asking(Some(&input), HashMap::new(), HashMap::new()));
        let want = want.await.unwrap().into_inner().raw_output_contents.remove(0);
        assert_eq!(want.len(), OUTPUT);
        from.write(&[&[0; 8], &input[..]].concat());
        let request = asking(None, place("in", 8, INPUT), place("out", 0, OUTPUT));
        let answer = client.model_infer(request).await.unwrap().into_inner();
        assert!(answer.raw_output_contents.iter().all(Bytes::is_empty) && to.read() == want);
        let name = "out".to_owned();
        client
            .cuda_shared_memory_unregister(CudaSharedMemoryUnregisterRequest { name })
            .await
            .unwrap();
        assert_eq!(listed(&mut client).await, all[..2]);
        let request = asking(None, place("in", 8, INPUT), place("out", 0, OUTPUT));
        assert_eq!(client.model_infer(request).await.unwrap_err().code(), Code::NotFound);
        let name = String::new();
        client
            .cuda_shared_memory_unregister(CudaSharedMemoryUnregisterRequest { name })
            .await
            .unwrap();
        assert_eq!(listed(&mut client).await, []);
    });
}

#[test]
fn wrong_registrations_have_their_codes_over_grpc() {
    let (fixture, devices) = two("cuda-grpc-wrong", |_| ());
    let (_memory, good) = allocate(&devices[0], 64);
    connected(&fixture, async |mut client| {
        client.cuda_shared_memory_register(region("r", &good, 0, 64)).await.unwrap();
        let none: Bytes = vec![200; 64].into();
        for (request, code, why) in [
            (region("r", &good, 0, 64), Code::AlreadyExists, "r"),
            (region("s", &none, 0, 64), Code::InvalidArgument, "no memory of another process"),
            (
                region("s", &good.slice(1..), 0, 64),
                Code::InvalidArgument,
                "must have 64 bytes, got 63",
            ),
            (region("s", &good, 2, 64), Code::InvalidArgument, "unknown device 2"),
            (region("s", &good, 0, 65), Code::InvalidArgument, "64 bytes, got 65"),
        ] {
            let said = client.cuda_shared_memory_register(request).await.unwrap_err();
            assert!(said.code() == code && said.message().contains(why), "{said:?}");
        }
        let asked = CudaSharedMemoryStatusRequest { name: "s".into() };
        let said = client.cuda_shared_memory_status(asked).await.unwrap_err();
        assert_eq!(said.code(), Code::NotFound);
    });
    let host = Fixture::new("cuda-grpc-none", |_| ());
    connected(&host, async |mut client| {
        let why = "CUDA shared memory on cpu:0 is not implemented";
        let register = client.cuda_shared_memory_register(region("r", &good, 0, 64)).await;
        let status =
            client.cuda_shared_memory_status(CudaSharedMemoryStatusRequest::default()).await;
        let forget = CudaSharedMemoryUnregisterRequest::default();
        let forget = client.cuda_shared_memory_unregister(forget).await;
        let said = [register.map(drop), status.map(drop), forget.map(drop)].map(Result::unwrap_err);
        for said in said {
            assert_eq!((said.code(), said.message()), (Code::Unimplemented, why));
        }
    });
}
