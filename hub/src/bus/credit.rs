//! Credit of one direction of the bus, in bytes: taken at publish, returned when the consumer drops the message.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// The pool of one direction.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    free: Arc<Semaphore>,
}

impl Pool {
    /// A pool of `bytes`.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(bytes)),
        }
    }

    /// Waits for `bytes`, first come first served, and takes them out of the pool.
    /// The caller keeps `bytes` at or below the size of the pool.
    pub(super) async fn take(&self, bytes: u32) -> Credit {
        match self.free.clone().acquire_many_owned(bytes).await {
            Ok(permit) => permit.forget(),
            // The semaphore is never closed; if it were, credit would merely be unlimited.
            Err(_closed) => {}
        }
        Credit {
            pool: self.clone(),
            bytes,
        }
    }

    /// Bytes that may still be published at once.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free.available_permits()
    }
}

/// A message's share of the credit; returned on drop.
#[derive(Debug)]
pub struct Credit {
    pool: Pool,
    bytes: u32,
}

impl Credit {
    /// Gives up the share without returning it; [`Pool::restore`] rebuilds it at the other end.
    pub(super) fn into_bytes(mut self) -> u32 {
        std::mem::take(&mut self.bytes)
    }
}

impl Pool {
    /// Rebuilds the share of a message that left through the router.
    pub(super) fn restore(&self, bytes: u32) -> Credit {
        Credit {
            pool: self.clone(),
            bytes,
        }
    }
}

impl Drop for Credit {
    fn drop(&mut self) {
        self.pool.free.add_permits(self.bytes as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn credit_comes_back_only_when_the_message_is_dropped() {
        let pool = Pool::new(100);
        let first = pool.take(60).await;
        let bytes = first.into_bytes();
        assert_eq!(
            pool.free(),
            40,
            "a message inside the router still holds its credit"
        );
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { pool.take(50).await.into_bytes() }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(pool.restore(bytes));
        assert_eq!(waiting.await.unwrap(), 50);
        assert_eq!(pool.free(), 50);
    }
}
