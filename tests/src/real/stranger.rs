//! As much of a cluster's API as `pinnace-agent join` looks at: its version, and the uid of its `kube-system`. A second
//! agent joins with it where no second member is worth its start.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

/// How long one peer may keep the server waiting.
const PATIENCE: Duration = Duration::from_secs(5);

/// The server; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Stranger {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl Stranger {
    /// Serves a cluster whose `kube-system` has this uid.
    ///
    /// # Errors
    /// When no port can be bound.
    pub(super) fn start(uid: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let ended = Arc::new(AtomicBool::new(false));
        let (over, uid) = (ended.clone(), uid.to_owned());
        let server = std::thread::spawn(move || {
            for peer in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                // A peer that goes away in between asks again.
                let _again = peer.and_then(|peer| answer(peer, &uid));
            }
        });
        Ok(Self {
            address,
            ended,
            server: Some(server),
        })
    }

    /// Writes a kubeconfig that points here.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn kubeconfig(&self, folder: &Path) -> Result<PathBuf> {
        let file = folder.join("stranger.kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "it", "user": {}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        });
        std::fs::write(&file, config.to_string())?;
        Ok(file)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the server; if nobody listens it has ended already.
        let _woken = TcpStream::connect(self.address);
        if let Some(server) = self.server.take() {
            let _ended = server.join();
        }
    }
}

/// Answers one request and closes.
fn answer(peer: TcpStream, uid: &str) -> std::io::Result<()> {
    peer.set_read_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(&peer).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let (status, body) = match request.split_whitespace().nth(1) {
        Some("/version") => ("200 OK", json!({"gitVersion": "v1.36.0"})),
        Some("/api/v1/namespaces/kube-system") => ("200 OK", json!({"metadata": {"uid": uid}})),
        _ => ("404 Not Found", json!({"kind": "Status", "code": 404})),
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    (&peer).write_all(head.as_bytes())?;
    (&peer).write_all(body.as_bytes())
}
