use std::io::{Read, Write};
use std::time::Duration;

use super::*;
use crate::wait::{self, Look};

/// A server that sends back what it gets.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut buffer = [0; 1024];
                while let Ok(read @ 1..) = stream.read(&mut buffer) {
                    stream.write_all(&buffer[..read]).unwrap();
                }
            });
        }
    });
    address
}

fn dial(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

fn exchange(stream: &mut TcpStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).unwrap();
    let mut back = vec![0; text.len()];
    stream.read_exact(&mut back).unwrap();
    String::from_utf8(back).unwrap()
}

#[test]
fn bytes_pass_and_are_counted() {
    let proxy = Proxy::start(0, Some(echo())).unwrap();
    let mut stream = dial(&proxy);
    assert_eq!(exchange(&mut stream, "hello"), "hello");
    let status = proxy.status();
    assert_eq!((status.up, status.down, status.connections), (5, 5, 1));
    drop(stream);
    wait::until("the connection to be forgotten", Duration::from_secs(10), || {
        let left = proxy.status().connections;
        Ok(if left == 0 {
            Look::There(())
        } else {
            Look::NotYet(left.to_string())
        })
    })
    .unwrap();
}

#[test]
fn a_cut_closes_what_is_and_what_comes_until_it_is_healed() {
    let proxy = Proxy::start(0, Some(echo())).unwrap();
    let mut stream = dial(&proxy);
    assert_eq!(exchange(&mut stream, "before"), "before");
    proxy.set(Line::Cut);
    assert!(
        matches!(stream.read(&mut [0]), Ok(0) | Err(_)),
        "the old connection is closed"
    );
    let mut refused = dial(&proxy);
    assert!(
        matches!(refused.read(&mut [0]), Ok(0) | Err(_)),
        "a new one is closed at once"
    );
    assert_eq!(proxy.status().connections, 0);
    proxy.set(Line::Open);
    assert_eq!(exchange(&mut dial(&proxy), "after"), "after");
}

#[test]
fn a_silent_line_holds_the_bytes_and_lets_them_go_later() {
    let proxy = Proxy::start(0, Some(echo())).unwrap();
    let mut stream = dial(&proxy);
    assert_eq!(exchange(&mut stream, "before"), "before");
    proxy.set(Line::Silent);
    stream.write_all(b"held").unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert!(
        matches!(
            error.kind(),
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
        ),
        "{error}"
    );
    proxy.set(Line::Open);
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut back = [0; 4];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"held");
}

#[test]
fn a_proxy_without_target_closes_and_is_linked_from_outside() {
    let proxy = Proxy::start(0, None).unwrap();
    assert!(matches!(dial(&proxy).read(&mut [0]), Ok(0) | Err(_)));
    let control = crate::ports::free(1).unwrap()[0];
    let served = proxy.clone();
    std::thread::spawn(move || serve(&served, control));
    let remote = Remote { control };
    wait::until("the control port", Duration::from_secs(10), || {
        Ok(remote
            .status()
            .map_or_else(|error| Look::NotYet(error.to_string()), |_| Look::There(())))
    })
    .unwrap();
    let target = echo();
    assert_eq!(remote.link(&target.to_string()).unwrap().target, Some(target));
    assert_eq!(exchange(&mut dial(&proxy), "linked"), "linked");
    assert_eq!(remote.set(Line::Cut).unwrap().line, Line::Cut);
    assert!(remote.link("nowhere").is_err());
}

#[test]
fn a_delay_holds_bytes_and_a_throttle_slows_them() {
    let proxy = Proxy::start(0, Some(echo())).unwrap();
    let mut stream = dial(&proxy);
    proxy.delay(Duration::from_millis(100));
    let begun = std::time::Instant::now();
    assert_eq!(exchange(&mut stream, "there and back"), "there and back");
    assert!(
        begun.elapsed() >= Duration::from_millis(200),
        "{:?}",
        begun.elapsed()
    );
    proxy.delay(Duration::ZERO);
    proxy.throttle(10_000);
    let begun = std::time::Instant::now();
    for _ in 0..4 {
        assert_eq!(exchange(&mut stream, &"x".repeat(1_000)).len(), 1_000);
    }
    // Each piece of 1,000 bytes holds the next one up for 100 ms.
    assert!(
        begun.elapsed() >= Duration::from_millis(300),
        "{:?}",
        begun.elapsed()
    );
    let status = proxy.status();
    assert_eq!((status.delay_ms, status.rate), (0, 10_000));
}
