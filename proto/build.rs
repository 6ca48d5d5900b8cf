//! Compiles the protocol with protox, a compiler in Rust: a build needs no protoc.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const FILES: [&str; 4] = [
    "warren/v1/node_link.proto",
    "warren/v1/node.proto",
    "warren/v1/cluster.proto",
    "warren/v1/workloads.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=warren");
    let descriptors = protox::compile(FILES, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
