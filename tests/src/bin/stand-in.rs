//! Runs the stand-in for the sites' Go daemon. The arguments are KUBECONFIG NODE POOL.

use std::path::PathBuf;

use anyhow::Context;
use control_plane::client as admin;
use tests::stand_in;

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let mut word = || words.next().context("usage: stand-in KUBECONFIG NODE POOL");
    let (kubeconfig, node, pool) = (PathBuf::from(word()?), word()?, PathBuf::from(word()?));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { stand_in::work(admin(&kubeconfig).await?, &node, &pool).await })
}
