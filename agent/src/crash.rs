//! Named places where a test may kill this process as `kill -9` would: `PINNACE_CRASH_AT=name` for the first
//! pass, `name:3` for the third. Built in with debug assertions only.

/// Every name, in the order of the flow.
pub const NAMES: [&str; 6] = [
    "accept-commit",
    "commit-ack",
    "intent-apply",
    "apply-record",
    "delete-record",
    "report-send",
];

/// Those that only an agent that shares its state passes.
pub const SHARED: [&str; 1] = ["mirror-anchor"];

/// Ends the process here if the environment asks for it.
#[cfg(debug_assertions)]
pub fn point(name: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static WANTED: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static PASSES: AtomicU32 = AtomicU32::new(0);

    debug_assert!(
        NAMES.contains(&name) || SHARED.contains(&name),
        "{name} is not listed"
    );
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("PINNACE_CRASH_AT").ok()?;
        let (name, pass) = match text.split_once(':') {
            Some((name, pass)) => (name.to_owned(), pass.parse().ok()?),
            None => (text, 1),
        };
        Some((name, pass))
    });
    if let Some((at, pass)) = wanted
        && at == name
        && PASSES.fetch_add(1, Ordering::Relaxed) + 1 == *pass
    {
        std::process::abort();
    }
}

/// Does nothing in a release.
#[cfg(not(debug_assertions))]
pub fn point(_: &'static str) {}
