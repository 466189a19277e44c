//! The hub under measurement: its process, and its API as a client with admin rights sees it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::real::process::{Process, binary};
use crate::real::wait;
use anyhow::{Context, Result, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use super::machine;

/// A running hub.
pub struct Hub {
    process: Process,
    data: PathBuf,
}

impl Hub {
    /// Makes a hub below `folder` and starts it on a free port.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(folder: &Path) -> Result<Self> {
        Self::start_program(folder, &binary("pinnace-hub")?)
    }

    /// The same with another binary.
    ///
    /// # Errors
    /// As [`Hub::start`].
    pub fn start_program(folder: &Path, program: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let data = folder.join("hub");
        let output = Command::new(program)
            .args(["init", "--san", "127.0.0.1", "--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .output()?;
        ensure!(
            output.status.success(),
            "init: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let mut command = Command::new(program);
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
    pub fn address(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.data.join("address"))?
            .trim()
            .to_owned())
    }

    /// A kubeconfig with the hub's present address, beside its data.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        let text = std::fs::read_to_string(self.data.join("admin.kubeconfig"))?;
        let server = format!("server: https://{}", self.address()?);
        let lines = text.lines().map(|line| match line.split_once("server: ") {
            Some((before, _)) => format!("{before}{server}"),
            None => line.to_owned(),
        });
        let path = self.data.with_file_name("kubeconfig");
        std::fs::write(&path, lines.collect::<Vec<_>>().join("\n"))?;
        Ok(path)
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// CPU used so far, in seconds.
    ///
    /// # Errors
    /// It does not run any more.
    pub fn cpu_seconds(&self) -> Result<f64> {
        machine::cpu_seconds(self.process.pid())
    }

    /// Resident and peak memory in KiB.
    ///
    /// # Errors
    /// It does not run any more.
    pub fn resident_kib(&self) -> Result<(u64, u64)> {
        machine::resident_kib(self.process.pid())
    }

    /// The database file.
    pub fn database(&self) -> PathBuf {
        self.data.join("hub.db")
    }

    /// Bytes of the database with its log.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn database_bytes(&self) -> Result<u64> {
        machine::bytes_of(&self.data, "hub.db")
    }

    /// Waits until the hub uses next to no CPU for two seconds.
    ///
    /// # Errors
    /// It never comes to rest, or does not run any more.
    pub async fn at_rest(&self) -> Result<()> {
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
    pub async fn client(&self) -> Result<Api> {
        Api::of(&self.kubeconfig()?).await
    }
}

/// A write that the hub did not take.
#[derive(Debug, Clone)]
pub struct Refused {
    /// Fields that its causes name.
    pub fields: Vec<String>,
    /// In words.
    pub message: String,
}

/// Requests to the hub.
#[derive(Clone)]
pub struct Api(Client);

impl Api {
    /// A client by a kubeconfig.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub async fn of(kubeconfig: &Path) -> Result<Self> {
        let read = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        Ok(Self(Client::try_from(config)?))
    }

    /// Creates an object.
    ///
    /// # Errors
    /// Whatever the hub answers but success.
    pub async fn create(&self, path: &str, body: Vec<u8>) -> Result<Value> {
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
    pub async fn get(&self, path: &str) -> Result<Value> {
        let request = http::Request::get(path).body(Vec::new())?;
        self.0
            .request(request)
            .await
            .with_context(|| format!("GET {path}"))
    }

    /// Creates an object from JSON.
    ///
    /// # Errors
    /// Whatever the hub answers but success.
    pub async fn post(&self, path: &str, object: &Value) -> Result<Value> {
        self.create(path, object.to_string().into_bytes()).await
    }

    /// The same; a refusal is the inner result.
    ///
    /// # Errors
    /// The hub does not answer.
    pub async fn try_post(&self, path: &str, object: &Value) -> Result<Result<Value, Refused>> {
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(object.to_string().into_bytes())?;
        match self.0.request(request).await {
            Ok(created) => Ok(Ok(created)),
            Err(kube::Error::Api(status)) => {
                let causes = status.details.as_ref().map(|details| details.causes.as_slice());
                let causes = causes.unwrap_or_default().iter();
                Ok(Err(Refused {
                    fields: causes.map(|cause| cause.field.clone()).collect(),
                    message: status.message.clone(),
                }))
            }
            Err(error) => Err(error).with_context(|| format!("POST {path}")),
        }
    }

    /// Creates an object from YAML.
    ///
    /// # Errors
    /// Whatever the hub answers but success.
    pub async fn create_yaml(&self, path: &str, body: Vec<u8>) -> Result<Value> {
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/yaml")
            .body(body)?;
        self.0
            .request(request)
            .await
            .with_context(|| format!("POST {path}"))
    }

    /// Reads what is no JSON.
    ///
    /// # Errors
    /// Whatever the hub answers but success.
    pub async fn text(&self, path: &str) -> Result<String> {
        let request = http::Request::get(path).body(Vec::new())?;
        self.0
            .request_text(request)
            .await
            .with_context(|| format!("GET {path}"))
    }

    /// Deletes.
    ///
    /// # Errors
    /// Whatever the hub answers but success.
    pub async fn delete(&self, path: &str) -> Result<Value> {
        let request = http::Request::delete(path).body(Vec::new())?;
        self.0
            .request(request)
            .await
            .with_context(|| format!("DELETE {path}"))
    }

    /// Changes by a merge patch.
    ///
    /// # Errors
    /// Whatever the hub answers but success.
    pub async fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        let request = http::Request::patch(path)
            .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
            .body(patch.to_string().into_bytes())?;
        self.0
            .request(request)
            .await
            .with_context(|| format!("PATCH {path}"))
    }

    /// Lets a cluster join as its labels, provider, region and zones say (members of a JSON object with its name).
    ///
    /// # Errors
    /// The hub gives no token.
    pub async fn token_for(&self, cluster: &Value, address: &str) -> Result<String> {
        let mut spec = json!({"cluster": cluster["name"], "ttlSeconds": 3600, "hub": address});
        for field in ["labels", "provider", "region", "zones"] {
            if !cluster[field].is_null() {
                spec[field] = cluster[field].clone();
            }
        }
        let token = json!({"apiVersion": "fleet.pinnace.dev/v1alpha1", "kind": "JoinToken", "spec": spec});
        let token = self
            .post("/apis/fleet.pinnace.dev/v1alpha1/jointokens", &token)
            .await?;
        let line = token["status"]["joinLine"].as_str().context("no join line")?;
        Ok(line.to_owned())
    }

    /// Lets a cluster join; the line to use there.
    ///
    /// # Errors
    /// The hub gives no token.
    pub async fn token(&self, cluster: &str, address: &str) -> Result<String> {
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
