use super::*;

/// Runs seeds on two threads: worlds share nothing.
fn batch(seeds: std::ops::Range<u64>, options: Options) -> Vec<Run> {
    let half = |odd: u64| {
        let seeds = seeds.clone();
        move || {
            seeds
                .filter(|s| s % 2 == odd)
                .map(|seed| run(seed, options))
                .collect::<Vec<_>>()
        }
    };
    std::thread::scope(|scope| {
        let odd = scope.spawn(half(1));
        let mut runs = half(0)();
        runs.extend(odd.join().expect("a world does not panic"));
        runs
    })
}

/// The batch that every change passes; `cargo run -p tests --bin sim` runs more.
#[test]
fn seeds_hold() {
    let runs = batch(0..500, Options::default());
    for run in &runs {
        if let Some(what) = &run.failure {
            panic!(
                "seed {}: {what}\nrepeat: cargo run -p tests --bin sim -- --seed {} --trace",
                run.seed, run.seed
            );
        }
    }
    for mark in SOMETIMES {
        assert!(
            runs.iter().any(|r| r.marks.contains_key(mark)),
            "{mark:?} never happened in this batch"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [3, 14, 159] {
        let options = Options {
            steps: 500,
            ..Options::default()
        };
        assert_eq!(run(seed, options).hash, run(seed, options).hash, "seed {seed}");
    }
    let options = Options {
        steps: 500,
        ..Options::default()
    };
    assert_ne!(run(3, options).hash, run(4, options).hash);
}

/// A harness that finds nothing is worth nothing: the seeded bug must be found among the same seeds.
#[test]
fn acknowledging_before_the_commit_is_caught() {
    let options = Options {
        acknowledge_before_commit: true,
        ..Options::default()
    };
    let caught = (0..500).map(|seed| run(seed, options)).find_map(|r| r.failure);
    let what = caught.expect("no seed noticed that sets are acknowledged before they are committed");
    assert!(what.contains("is acknowledged, but its ledger holds"), "{what}");
}
