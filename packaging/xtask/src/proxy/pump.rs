//! Moving bytes between the two ends of a connection.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Shared;
use crate::limits::PROXY_BUFFER;

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

/// Moves bytes one way; the end of one side is passed on, so half-closed connections work.
fn one(shared: &Shared, mut from: TcpStream, mut to: TcpStream, moved: &AtomicU64) {
    let mut buffer = [0; PROXY_BUFFER];
    loop {
        let read = from.read(&mut buffer).unwrap_or(0);
        if !shared.pass() {
            break;
        }
        // Counted before they are sent: who has received them finds them counted.
        moved.fetch_add(read as u64, Ordering::Relaxed);
        if read == 0 || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}
