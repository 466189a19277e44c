//! Many watchers of the same thing, each with a connection of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::drive::connect_all;
use crate::target::Target;

/// Longest time for one event to reach everybody.
const PATIENCE: Duration = Duration::from_secs(60);

/// Open watches; they end when this is dropped.
#[derive(Debug)]
pub struct Watchers {
    tasks: JoinSet<Result<()>>,
    count: usize,
    seen: Arc<AtomicUsize>,
    told: mpsc::UnboundedReceiver<(usize, Instant)>,
}

impl Watchers {
    /// Opens so many watches with the same request.
    ///
    /// # Errors
    /// One of them is refused.
    pub async fn open(target: &Target, request: &[u8], count: usize) -> Result<Watchers> {
        let seen = Arc::new(AtomicUsize::new(0));
        let (tell, told) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for mut connection in connect_all(target, count).await? {
            connection.open_watch(request).await?;
            let (seen, tell) = (seen.clone(), tell.clone());
            tasks.spawn(async move {
                loop {
                    connection.next_line().await?;
                    let sum = seen.fetch_add(1, Ordering::Relaxed) + 1;
                    if sum.is_multiple_of(count) && tell.send((sum, Instant::now())).is_err() {
                        return Ok(());
                    }
                }
            });
        }
        Ok(Watchers {
            tasks,
            count,
            seen,
            told,
        })
    }

    /// Waits until everybody has had so many events; when the last one had the last of them.
    ///
    /// # Errors
    /// They do not arrive, or a connection breaks.
    pub async fn until(&mut self, events: usize) -> Result<Instant> {
        let wanted = events * self.count;
        let arriving = async {
            loop {
                let (sum, at) = self.told.recv().await.context("all watches ended")?;
                if sum == wanted {
                    return anyhow::Ok(at);
                }
            }
        };
        tokio::select! {
            arrived = tokio::time::timeout(PATIENCE, arriving) => match arrived {
                Ok(at) => at,
                Err(_) => bail!("{} of {wanted} events arrived", self.seen.load(Ordering::Relaxed)),
            },
            Some(ended) = self.tasks.join_next() => {
                ended??;
                bail!("a watch ended");
            }
        }
    }
}
