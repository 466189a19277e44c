//! Moving bytes between the two ends of a connection, as late and as slowly as the line says.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use super::Shared;
use crate::limits::{PROXY_BUFFER, PROXY_ON_THE_WAY};

/// Moves bytes both ways until both directions have ended.
pub(super) fn both(shared: &Arc<Shared>, near: TcpStream, far: TcpStream) {
    // Small messages of a protocol under test must not wait for more.
    let _ = near.set_nodelay(true);
    let _ = far.set_nodelay(true);
    let (Ok(near_read), Ok(far_read)) = (near.try_clone(), far.try_clone()) else {
        return;
    };
    let down = {
        let shared = Arc::clone(shared);
        std::thread::spawn(move || one(&shared, far_read, near, &shared.down))
    };
    one(shared, near_read, far, &shared.up);
    // A panic in the other direction has ended it, which is all that matters here.
    let _ = down.join();
}

/// Moves bytes one way; the end of one side is passed on, so half-closed connections work. Reading goes on while bytes
/// are on their way, so a delay costs time and not throughput.
fn one(shared: &Arc<Shared>, mut from: TcpStream, to: TcpStream, moved: &AtomicU64) {
    let (way, arriving) = sync_channel::<(Instant, Vec<u8>)>(PROXY_ON_THE_WAY);
    let Ok(reading) = from.try_clone() else { return };
    let writer = {
        let shared = Arc::clone(shared);
        std::thread::spawn(move || deliver(&shared, &arriving, to, &reading))
    };
    let mut buffer = [0; PROXY_BUFFER];
    loop {
        let read = from.read(&mut buffer).unwrap_or(0);
        if !shared.pass() {
            break;
        }
        // Counted before they are sent: who has received them finds them counted.
        moved.fetch_add(read as u64, Ordering::Relaxed);
        let due = Instant::now() + Duration::from_millis(shared.delay_ms.load(Ordering::Relaxed));
        if read == 0 || way.send((due, buffer[..read].to_vec())).is_err() {
            break;
        }
    }
    drop(way);
    let _ = writer.join();
    let _ = from.shutdown(Shutdown::Read);
}

/// Writes what arrives when it is due, as fast as the line allows.
fn deliver(shared: &Shared, arriving: &Receiver<(Instant, Vec<u8>)>, mut to: TcpStream, reading: &TcpStream) {
    for (due, bytes) in arriving {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if !shared.pass() || to.write_all(&bytes).is_err() {
            // Nobody takes more: the reader is woken so that it ends too.
            let _ = reading.shutdown(Shutdown::Read);
            break;
        }
        let rate = shared.rate.load(Ordering::Relaxed);
        let whole = (bytes.len() as u64).saturating_mul(1_000_000);
        // No rate: no pause.
        if let Some(micros) = whole.checked_div(rate) {
            std::thread::sleep(Duration::from_micros(micros));
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
