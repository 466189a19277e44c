//! The hub under measurement: its process, and its API as a client with admin rights sees it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tests::real::process::{Process, binary};
use tests::real::wait;

use crate::machine;

/// A running hub.
pub(crate) struct Hub {
    process: Process,
    data: PathBuf,
}

impl Hub {
    /// Makes a hub below `folder` and starts it on a free port.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let data = folder.join("hub");
        let output = Command::new(binary("pinnace-hub")?)
            .args(["init", "--san", "127.0.0.1", "--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .output()?;
        ensure!(
            output.status.success(),
            "init: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let mut command = Command::new(binary("pinnace-hub")?);
        command.args(["serve", "--data"]).arg(&data);
        let process = Process::start(command, &folder.join("hub.log"))?;
        let address = data.join("address");
        wait::until("the hub listens", Duration::from_secs(30), || {
            std::fs::read_to_string(&address)
                .ok()
                .filter(|text| text.ends_with('\n'))
                .ok_or_else(|| "no address yet".to_owned())
        })?;
        Ok(Self { process, data })
    }

    /// `HOST:PORT` of its port.
    ///
    /// # Errors
    /// It does not run any more.
    pub(crate) fn address(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.data.join("address"))?
            .trim()
            .to_owned())
    }

    /// CPU used so far, in seconds.
    ///
    /// # Errors
    /// It does not run any more.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        machine::cpu_seconds(self.process.pid())
    }

    /// Resident and peak memory in KiB.
    ///
    /// # Errors
    /// It does not run any more.
    pub(crate) fn resident_kib(&self) -> Result<(u64, u64)> {
        machine::resident_kib(self.process.pid())
    }

    /// The database file.
    pub(crate) fn database(&self) -> PathBuf {
        self.data.join("hub.db")
    }

    /// Bytes of the database with its log.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn database_bytes(&self) -> Result<u64> {
        machine::bytes_of(&self.data, "hub.db")
    }

    /// Waits until the hub uses next to no CPU for two seconds.
    ///
    /// # Errors
    /// It never comes to rest, or does not run any more.
    pub(crate) async fn at_rest(&self) -> Result<()> {
        const STEP: Duration = Duration::from_millis(500);
        let started = Instant::now();
        let (mut last, mut quiet) = (self.cpu_seconds()?, 0);
        while quiet < 4 {
            ensure!(
                started.elapsed() < Duration::from_secs(180),
                "the hub does not come to rest"
            );
            tokio::time::sleep(STEP).await;
            let now = self.cpu_seconds()?;
            quiet = if now - last <= 0.03 { quiet + 1 } else { 0 };
            last = now;
        }
        Ok(())
    }

    /// A client with the admin's kubeconfig.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub(crate) async fn client(&self) -> Result<Api> {
        let mut read = Kubeconfig::read_from(self.data.join("admin.kubeconfig"))?;
        let server = format!("https://{}", self.address()?);
        for cluster in &mut read.clusters {
            if let Some(cluster) = &mut cluster.cluster {
                cluster.server = Some(server.clone());
            }
        }
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        Ok(Api(Client::try_from(config)?))
    }
}

/// Requests to the hub.
#[derive(Clone)]
pub(crate) struct Api(Client);

impl Api {
    /// Creates an object.
    ///
    /// # Errors
    /// Whatever the hub answers but success.
    pub(crate) async fn create(&self, path: &str, body: Vec<u8>) -> Result<Value> {
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)?;
        self.0
            .request(request)
            .await
            .with_context(|| format!("POST {path}"))
    }

    /// Reads.
    ///
    /// # Errors
    /// Whatever the hub answers but success.
    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        let request = http::Request::get(path).body(Vec::new())?;
        self.0
            .request(request)
            .await
            .with_context(|| format!("GET {path}"))
    }

    /// Lets a cluster join; the line to use there.
    ///
    /// # Errors
    /// The hub gives no token.
    pub(crate) async fn token(&self, cluster: &str, address: &str) -> Result<String> {
        let body = json!({
            "apiVersion": "fleet.pinnace.dev/v1alpha1", "kind": "JoinToken",
            "spec": {"cluster": cluster, "ttlSeconds": 3600, "hub": address, "provider": "simulated",
                     "region": format!("region-{}", cluster.len() % 3), "zones": ["a"], "labels": {"simulated": "yes"}},
        });
        let path = "/apis/fleet.pinnace.dev/v1alpha1/jointokens";
        let token = self.create(path, body.to_string().into_bytes()).await?;
        let line = token["status"]["joinLine"].as_str().context("no join line")?;
        Ok(line.to_owned())
    }
}
