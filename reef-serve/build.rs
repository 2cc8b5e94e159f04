//! Compiles the standard protocol's messages; no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let messages = protox::compile(["inference.proto"], ["proto"])?;
    tonic_prost_build::configure().bytes(".inference").compile_fds(messages)?;
    Ok(())
}
