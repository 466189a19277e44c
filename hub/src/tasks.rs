//! Named tasks that must not end. A dead task in a live process is the worst outage: the first one that ends
//! before shutdown ends the process.

use std::future::Future;

use tokio::task::{AbortHandle, JoinSet};

/// The long-lived tasks of the process.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    set: JoinSet<(&'static str, String)>,
}

impl Tasks {
    /// Starts a task; what it returns says why it ended.
    pub(crate) fn spawn<F, E>(&mut self, name: &'static str, task: F) -> AbortHandle
    where
        F: Future<Output = E> + Send + 'static,
        E: std::fmt::Display + 'static,
    {
        self.set.spawn(async move {
            let end = task.await;
            (name, end.to_string())
        })
    }

    /// Waits for the first task that ends and says what happened. Waits for ever without tasks.
    pub(crate) async fn first_end(&mut self) -> String {
        match self.set.join_next().await {
            Some(Ok((name, why))) => format!("task {name} ended: {why}"),
            Some(Err(error)) => format!("a task died: {error}"),
            None => std::future::pending().await,
        }
    }

    /// Stops every task and waits until they are gone.
    pub(crate) async fn stop(&mut self) {
        self.set.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_end_is_told_by_name_and_a_panic_is_an_end() {
        let mut tasks = Tasks::default();
        tasks.spawn("for-ever", std::future::pending::<String>());
        tasks.spawn("courier", async { "the store is closed" });
        assert_eq!(tasks.first_end().await, "task courier ended: the store is closed");
        tasks.spawn("broken", async {
            if true {
                panic!("bug");
            }
            ""
        });
        assert!(tasks.first_end().await.starts_with("a task died"));
        tasks.stop().await;
        assert!(tasks.set.is_empty());
    }
}
