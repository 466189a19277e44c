//! Threads that run scripts. A caller waits a bounded time; a run that does not end by then is told to stop and left
//! alone with its thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::error::ScriptError;
use super::limits::{IDLE_MAX, STACK_BYTES, STUCK_MAX, WAIT};
use super::sandbox::{Call, run};

type Answer = Result<[Value; 2], ScriptError>;

struct Job {
    call: Call,
    cancelled: Arc<AtomicBool>,
    answer: SyncSender<Answer>,
}

/// A thread that waits for jobs; it ends when this is dropped.
type Worker = SyncSender<Job>;

/// Threads for scripts.
#[derive(Default)]
pub(super) struct Workers {
    idle: Mutex<Vec<Worker>>,
    stuck: Arc<AtomicUsize>,
}

/// Counts a run that nobody waits for any more, until it ends.
struct Stuck(Arc<AtomicUsize>);

impl Drop for Stuck {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Workers {
    /// Runs a call and waits for its answer.
    pub(super) fn run(&self, call: Call) -> Answer {
        if self.stuck.load(Ordering::SeqCst) >= STUCK_MAX {
            return Err(ScriptError::Busy);
        }
        let worker = match self.idle().pop() {
            Some(worker) => worker,
            None => start().ok_or(ScriptError::Busy)?,
        };
        let (answer, answered) = sync_channel(1);
        let cancelled = Arc::new(AtomicBool::new(false));
        let job = Job {
            call,
            cancelled: cancelled.clone(),
            answer,
        };
        if worker.send(job).is_err() {
            return Err(ScriptError::Busy);
        }
        match answered.recv_timeout(WAIT) {
            Ok(answer) => {
                let mut idle = self.idle();
                if idle.len() < IDLE_MAX {
                    idle.push(worker);
                }
                answer
            }
            Err(RecvTimeoutError::Timeout) => {
                cancelled.store(true, Ordering::SeqCst);
                self.wait_aside(answered);
                Err(ScriptError::OutOfTime)
            }
            Err(RecvTimeoutError::Disconnected) => Err(ScriptError::Failed("its thread ended".to_owned())),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Worker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the run as stuck until its thread lets go of the answer.
    fn wait_aside(&self, answered: Receiver<Answer>) {
        self.stuck.fetch_add(1, Ordering::SeqCst);
        let stuck = Stuck(self.stuck.clone());
        // If no thread can be had the run stays counted no longer than this call.
        let aside = std::thread::Builder::new().name("script-stuck".to_owned());
        let _ = aside.stack_size(STACK_BYTES / 8).spawn(move || {
            let _ = answered.recv();
            drop(stuck);
        });
    }
}

fn start() -> Option<Worker> {
    let (worker, jobs) = sync_channel::<Job>(1);
    std::thread::Builder::new()
        .name("script".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            while let Ok(job) = jobs.recv() {
                let answer = run(&job.call, job.cancelled);
                if job.answer.send(answer).is_err() {
                    return;
                }
            }
        })
        .ok()
        .map(|_| worker)
}
