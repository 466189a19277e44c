//! The order of API versions: stable before beta before alpha, higher numbers first, everything else by its text.

use std::cmp::Ordering;

/// Compares two versions: greater is preferred (source: apimachinery `CompareKubeAwareVersionStrings`).
pub fn compare(a: &str, b: &str) -> Ordering {
    match (parsed(a), parsed(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

/// Stability (2 stable, 1 beta, 0 alpha), major and minor.
fn parsed(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let number = |text: &str| {
        let is_number =
            !text.is_empty() && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().ok()).flatten()
    };
    for (word, stability) in [("alpha", 0), ("beta", 1)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stability, number(major)?, number(minor)?));
        }
    }
    Some((2, number(rest)?, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_clients_prefer_them() {
        let mut all = [
            "v1alpha1",
            "foo1",
            "v10",
            "v2",
            "v1",
            "v3beta1",
            "v11beta2",
            "v12alpha1",
            "v11alpha2",
            "foo10",
        ];
        all.sort_by(|a, b| compare(b, a));
        let wanted = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "v1alpha1",
            "foo1",
            "foo10",
        ];
        assert_eq!(all, wanted);
    }
}
