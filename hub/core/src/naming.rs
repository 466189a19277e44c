//! Names of bindings, works and execution namespaces, and the hash they use. Source: the reference's naming rules.

use std::fmt::Write;

/// Prefix of the namespace in which the works of one cluster are shown.
pub const EXECUTION_NAMESPACE_PREFIX: &str = "karmada-es-";

/// Longest name an object may have.
const NAME_MAX: usize = 253;

/// FNV-1a, 32 bit.
pub fn fnv32a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// The hash of a key as it appears in names: the decimal FNV-1a, each character replaced by a letter that cannot form a
/// word or be misread.
pub fn short_hash(key: &str) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    fnv32a(key.as_bytes())
        .to_string()
        .bytes()
        .map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()]))
        .collect()
}

/// Name of the binding of an object. Colons, which RBAC names may have, become dots.
pub fn binding_name(kind: &str, name: &str) -> String {
    format!("{}-{kind}", name.replace(':', ".")).to_lowercase()
}

/// Name of the work of an object. The namespace is empty for cluster-scoped objects.
pub fn work_name(kind: &str, name: &str, namespace: &str) -> String {
    let name = name.replace(':', ".");
    let key = if namespace.is_empty() {
        format!("{name}-{kind}")
    } else {
        format!("{namespace}-{name}-{kind}")
    };
    format!("{name}-{}", short_hash(&key.to_lowercase())).to_lowercase()
}

/// The key by which an attached binding names the binding that needs it, in a label.
pub fn binding_reference_key(namespace: &str, name: &str) -> String {
    let key = if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    };
    short_hash(&key)
}

/// Namespace in which the works of a cluster are shown.
pub fn execution_namespace(cluster: &str) -> String {
    format!("{EXECUTION_NAMESPACE_PREFIX}{cluster}")
}

/// The cluster an execution namespace belongs to; `None` if it is not one.
pub fn cluster_of_execution_namespace(namespace: &str) -> Option<&str> {
    namespace.strip_prefix(EXECUTION_NAMESPACE_PREFIX)
}

/// Is the namespace reserved for the hub itself? Nothing in it is a template.
pub fn is_reserved_namespace(namespace: &str) -> bool {
    namespace == "karmada-system"
        || namespace == "karmada-cluster"
        || namespace.starts_with(EXECUTION_NAMESPACE_PREFIX)
}

/// Does a Namespace of this name stay on the hub whatever policies say of namespaces? Clusters have their own `kube-*`,
/// and `karmada-*` is the control plane's (the reference's skip patterns).
pub fn stays_on_the_hub(namespace: &str) -> bool {
    is_reserved_namespace(namespace) || namespace.starts_with("kube-") || namespace.starts_with("karmada-")
}

/// The full identity of an object: what makes two objects the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity<'a> {
    /// API group; empty for core.
    pub group: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
}

impl Identity<'_> {
    /// Adds a hash of the whole identity to a name that somebody else already has.
    pub fn disambiguate(&self, plain: &str) -> String {
        let mut key = String::new();
        for part in [self.group, self.kind, self.namespace, self.name] {
            // The length keeps ("a", "bc") apart from ("ab", "c").
            let _ = write!(key, "{}:{part};", part.len());
        }
        let hash = short_hash(&key);
        let room = NAME_MAX - hash.len() - 1;
        let plain = plain.get(..room).unwrap_or(plain).trim_end_matches(['-', '.']);
        format!("{plain}-{hash}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_reference() {
        assert_eq!(work_name("Deployment", "foo", "default"), "foo-58bcf5bd9c");
        assert_eq!(work_name("Deployment", "foo", ""), "foo-96c87fdcc");
        assert_eq!(work_name("Deployment", "nginx", "default"), "nginx-687f7fb96f");
        assert_eq!(binding_name("Deployment", "nginx"), "nginx-deployment");
        assert_eq!(binding_reference_key("test", "test"), "78f48bf666");
    }

    /// Turns red when the hash is made of a text in which parts run into each other, or lacks the group.
    #[test]
    fn field_report_27_names_that_collide_get_a_hash() {
        // the reference gives both of these the same hash: the key is joined with dashes
        let first = Identity {
            group: "apps",
            kind: "Deployment",
            namespace: "c",
            name: "a-b",
        };
        let second = Identity {
            group: "apps",
            kind: "Deployment",
            namespace: "c-a",
            name: "b",
        };
        assert_ne!(first.disambiguate("x"), second.disambiguate("x"));
        let other_group = Identity {
            group: "example.io",
            ..first
        };
        assert_ne!(first.disambiguate("x"), other_group.disambiguate("x"));
        assert!(first.disambiguate(&"n".repeat(253)).len() <= 253);
    }
}
