//! Compiles the kubelet's messages; no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let messages = protox::compile(
        ["deviceplugin.proto", "dra.proto", "pluginregistration.proto"],
        ["proto"],
    )?;
    tonic_prost_build::configure().compile_fds(messages)?;
    Ok(())
}
