//! `pinnace cluster export` and `receipt`: files for clusters without a link.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use shared::limits::CARRIED_BYTES_MAX;

use super::client::Hub;
use crate::fleet::wire::Parcel;

/// Writes the newest set of a cluster into a file.
///
/// # Errors
/// The hub's words, or what the system says of the file.
pub(super) async fn export(hub: &Hub, name: &str, file: &Path) -> anyhow::Result<()> {
    let parcel: Parcel = hub.post(&format!("clusters/{name}/export"), &json!({})).await?;
    let bytes = STANDARD.decode(&parcel.file).context("the hub's answer")?;
    let what = || file.display().to_string();
    // Sealed, but nobody else's business.
    let mut out = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(file)
        .with_context(what)?;
    out.write_all(&bytes)
        .and_then(|()| out.sync_all())
        .with_context(what)?;
    println!(
        "{} is in {}; there: pinnace-agent import FILE --data DIR",
        parcel.message,
        file.display()
    );
    Ok(())
}

/// Hands a receipt to the hub.
///
/// # Errors
/// The hub's words, or what the system says of the file.
pub(super) async fn receipt(hub: &Hub, name: &str, file: &Path) -> anyhow::Result<()> {
    let what = || file.display().to_string();
    let limit = CARRIED_BYTES_MAX as u64 + 64;
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .with_context(what)?
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .with_context(what)?;
    if bytes.len() as u64 > limit {
        bail!("{} has more than {limit} bytes: it is no receipt", file.display());
    }
    let parcel = Parcel {
        file: STANDARD.encode(bytes),
        ..Parcel::default()
    };
    let done: Value = hub.post(&format!("clusters/{name}/receipt"), &parcel).await?;
    println!("{}", done["message"].as_str().unwrap_or("done"));
    Ok(())
}
