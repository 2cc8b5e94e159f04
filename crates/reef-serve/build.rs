//! Compiles the standard protocol's messages; no protoc is needed.

use prost::Message;
use std::path::Path;

/// A message before it is decoded: the type of inferences and loads in the daemon, which decides
/// when and where they are decoded.
const UNDECODED: &str = ".inference.Undecoded";

/// Messages that may be long.
const LONG: [&str; 2] = [".inference.ModelInferRequest", ".inference.RepositoryModelLoadRequest"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut messages = protox::compile(["inference.proto", "health.proto"], ["proto"])?;
    let out = std::env::var("OUT_DIR")?;
    let mut reflected = messages.clone(); // without comments
    reflected.file.iter_mut().for_each(|file| file.source_code_info = None);
    std::fs::write(Path::new(&out).join("messages.bin"), reflected.encode_to_vec())?;
    let clients = Path::new(&out).join("clients"); // of the tests
    std::fs::create_dir_all(&clients)?;
    let builder = || tonic_prost_build::configure().bytes(".inference");
    builder().build_server(false).out_dir(clients).compile_fds(messages.clone())?;
    let services = messages.file.iter_mut().flat_map(|file| &mut file.service);
    for method in services.flat_map(|service| &mut service.method) {
        if LONG.contains(&method.input_type()) {
            method.input_type = Some(UNDECODED.into());
        }
    }
    builder()
        .build_client(false)
        .extern_path(UNDECODED, "crate::kserve::grpc::raw_message::RawMessage")
        .compile_fds(messages)?;
    Ok(())
}
