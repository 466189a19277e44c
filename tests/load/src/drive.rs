//! Many connections that share a list of requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::target::Target;

/// Handshakes at the same time.
const CONNECTING: usize = 32;

/// What a run of requests took.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// From the first request to the last answer.
    pub seconds: f64,
    /// Of each request, in no order.
    pub millis: Vec<f64>,
}

/// Opens connections.
///
/// # Errors
/// One of them fails.
pub async fn connect_all(target: &Target, count: usize) -> Result<Vec<Connection>> {
    let mut connections = Vec::with_capacity(count);
    let mut opening = JoinSet::new();
    for _ in 0..count {
        if opening.len() == CONNECTING
            && let Some(opened) = opening.join_next().await
        {
            connections.push(opened??);
        }
        let target = target.clone();
        opening.spawn(async move { target.connect().await });
    }
    while let Some(opened) = opening.join_next().await {
        connections.push(opened??);
    }
    Ok(connections)
}

/// Sends all requests over the connections, each of which takes the next one when it has its answer.
///
/// # Errors
/// A connection breaks, or one answer has another status than the wanted one.
pub async fn drive(
    connections: &mut Vec<Connection>,
    requests: Arc<Vec<Vec<u8>>>,
    wanted: u16,
) -> Result<Measured> {
    send_all(connections, requests, wanted, None).await
}

/// Sends requests at a steady rate, whether or not earlier ones were answered; the time of each begins when it was due.
///
/// # Errors
/// As [`drive`].
pub async fn paced(
    connections: &mut Vec<Connection>,
    requests: Arc<Vec<Vec<u8>>>,
    wanted: u16,
    per_second: f64,
) -> Result<Measured> {
    send_all(connections, requests, wanted, Some(per_second)).await
}

/// Sends all requests, each as soon as a connection is free or when it is due.
async fn send_all(
    connections: &mut Vec<Connection>,
    requests: Arc<Vec<Vec<u8>>>,
    wanted: u16,
    per_second: Option<f64>,
) -> Result<Measured> {
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for mut connection in connections.drain(..) {
        let (next, requests) = (next.clone(), requests.clone());
        tasks.spawn(async move {
            let mut millis = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(request) = requests.get(number) else {
                    break;
                };
                let Some(rate) = per_second else {
                    millis.push(one(&mut connection, request, wanted).await?);
                    continue;
                };
                let due = started + Duration::from_secs_f64(number as f64 / rate);
                tokio::time::sleep_until(due.into()).await;
                one(&mut connection, request, wanted).await?;
                millis.push(due.elapsed().as_secs_f64() * 1000.0);
            }
            anyhow::Ok((connection, millis))
        });
    }
    let mut measured = Measured::default();
    while let Some(done) = tasks.join_next().await {
        let (connection, millis) = done??;
        connections.push(connection);
        measured.millis.extend(millis);
    }
    measured.seconds = started.elapsed().as_secs_f64();
    Ok(measured)
}

async fn one(connection: &mut Connection, request: &[u8], wanted: u16) -> Result<f64> {
    let sent = Instant::now();
    let answer = connection.send(request, false).await?;
    ensure!(
        answer.status == wanted,
        "{}: {} {}",
        String::from_utf8_lossy(request)
            .lines()
            .next()
            .unwrap_or_default(),
        answer.status,
        String::from_utf8_lossy(&answer.body)
    );
    Ok(sent.elapsed().as_secs_f64() * 1000.0)
}
