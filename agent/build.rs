//! Tells the program when it was built: a machine whose clock says earlier is wrong. `SOURCE_DATE_EPOCH` wins, so that
//! a build can be repeated bit by bit.

use std::time::{SystemTime, UNIX_EPOCH};

fn main() {
    println!("cargo:rerun-if-env-changed=SOURCE_DATE_EPOCH");
    println!("cargo:rerun-if-changed=build.rs");
    let given = std::env::var("SOURCE_DATE_EPOCH")
        .ok()
        .and_then(|t| t.parse::<u64>().ok());
    let built = given.unwrap_or_else(|| {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs())
    });
    println!("cargo:rustc-env=PINNACE_BUILT={built}");
}
