//! The two binaries as an operator meets them: init, serve, the command line, and a shutdown in order.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const HUB: &str = env!("CARGO_BIN_EXE_pinnace-hub");
const PINNACE: &str = env!("CARGO_BIN_EXE_pinnace");
const WAIT: Duration = Duration::from_secs(60);

fn hub(args: &[&str]) -> Output {
    Command::new(HUB).args(args).output().expect("pinnace-hub starts")
}

fn pinnace(data: &Path, args: &[&str]) -> Output {
    let kubeconfig = data.join("admin.kubeconfig");
    Command::new(PINNACE)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(args)
        .output()
        .expect("pinnace starts")
}

fn stdout(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// One line that says what is wrong.
fn refused(output: &Output) -> String {
    assert!(
        !output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let text = String::from_utf8(output.stderr.clone()).expect("text");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

/// A running hub; killed when the test ends without stopping it.
struct Serving(Child);

impl Serving {
    fn start(data: &Path) -> Self {
        let mut command = Command::new(HUB);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stdout(Stdio::null());
        let mut serving = Self(command.spawn().expect("pinnace-hub starts"));
        let deadline = Instant::now() + WAIT;
        while !data.join("address").exists() {
            assert!(
                serving.0.try_wait().expect("its own child").is_none(),
                "the hub ended at once"
            );
            assert!(Instant::now() < deadline, "the hub tells no address");
            std::thread::yield_now();
        }
        serving
    }

    /// SIGTERM; returns whether the hub ended well.
    fn stop(mut self) -> bool {
        let killed = Command::new("kill")
            .args(["-TERM", &self.0.id().to_string()])
            .status()
            .expect("kill starts");
        assert!(killed.success());
        self.0.wait().expect("its own child").success()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Gone already after `stop`.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_hub_from_init_to_shutdown() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("hub");
    let path = data.to_str().unwrap();
    assert!(refused(&hub(&["serve", "--data", path])).contains(path));
    stdout(&hub(&["init", "--data", path]));
    assert!(refused(&hub(&["init", "--data", path])).contains("never overwritten"));

    let serving = Serving::start(&data);
    refused(&hub(&["serve", "--data", path, "--listen", "127.0.0.1:0"]));
    let line = stdout(&pinnace(
        &data,
        &["token", "create", "shop", "--labels", "env=prod", "--ttl", "1h"],
    ));
    let join: shared::join::JoinLine = line.trim().parse().unwrap();
    let address = std::fs::read_to_string(data.join("address")).unwrap();
    assert_eq!(
        (join.hub.as_str(), join.cluster.as_str()),
        (address.trim(), "shop")
    );
    assert!(stdout(&pinnace(&data, &["cluster", "list"])).contains("No clusters yet"));
    assert!(refused(&pinnace(&data, &["cluster", "revoke", "shop"])).contains("NotFound"));
    assert!(refused(&pinnace(&data, &["why", "Deployment/web"])).contains("does not exist"));
    assert!(refused(&pinnace(&data, &["why", "Nonsense/web"])).contains("Nonsense"));
    assert!(stdout(&pinnace(&data, &["why", "namespace/default"])).contains("default"));

    assert!(serving.stop(), "a shutdown in order is a success");
    assert!(!data.join("address").exists());
    assert!(refused(&pinnace(&data, &["cluster", "list"])).contains("did not answer"));
    assert!(Serving::start(&data).stop(), "it starts again");
}
