//! The hub answers every differential case as a real API server did.

use anyhow::{Result, ensure};
use tests::kube::{Server, files, replay};

#[tokio::test]
async fn the_hub_answers_as_the_real_server() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::hub(folder.path()).await?;
    let (cases, differences) = replay(&server, &files("")?).await?;
    let names: Vec<String> = differences
        .iter()
        .map(|d| format!("{} (step {})", d.case, d.step))
        .collect();
    ensure!(
        differences.is_empty(),
        "{} of {cases} cases differ (`target/debug/kube replay` shows how):\n{}",
        differences.len(),
        names.join("\n")
    );
    Ok(())
}
