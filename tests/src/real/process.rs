//! One process of the product under test: started with its output in a file, stopped, or killed as by a power cut.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::wait;

/// A running process; it is killed when the value is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with both outputs appended to `log`.
    ///
    /// # Errors
    /// When the log cannot be opened or the program cannot be started.
    pub fn start(mut command: Command, log: &Path) -> Result<Self> {
        let file: File = OpenOptions::new().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("start {:?}", command.get_program()))?;
        Ok(Self {
            child,
            log: log.into(),
        })
    }

    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file that holds its output.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The exit status if it has ended.
    ///
    /// # Errors
    /// When the operating system does not answer.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits until the process ends by itself.
    ///
    /// # Errors
    /// After `limit`.
    pub fn wait_end(&mut self, limit: Duration) -> Result<ExitStatus> {
        let what = format!("end of process {} ({})", self.pid(), self.log.display());
        let child = &mut self.child;
        wait::until(&what, limit, || match child.try_wait() {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err("still running".into()),
            Err(error) => Err(error.to_string()),
        })
    }

    /// Asks it to stop (SIGTERM) and waits.
    ///
    /// # Errors
    /// When it does not stop within 20 s, or not with exit code 0.
    pub fn stop(mut self) -> Result<()> {
        let status = Command::new("kill")
            .args(["-TERM", &self.pid().to_string()])
            .status()?;
        anyhow::ensure!(status.success(), "kill -TERM {}", self.pid());
        let status = self.wait_end(Duration::from_secs(20))?;
        anyhow::ensure!(
            status.success(),
            "{} after SIGTERM, see {}",
            status,
            self.log.display()
        );
        Ok(())
    }

    /// Kills it as a power cut would (SIGKILL).
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that has ended already is what is wanted here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Path of one of the product's binaries, built by the same profile as the running test.
///
/// # Errors
/// When the folder of the running test is not that of a build.
pub fn binary(name: &str) -> Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let folder = exe
        .ancestors()
        .find(|folder| folder.join(name).is_file())
        .with_context(|| {
            format!(
                "no {name} beside {}: run `cargo build --workspace --bins`",
                exe.display()
            )
        })?;
    Ok(folder.join(name))
}
