//! Order by edges, not by barriers: an object waits only for its own Namespace, its CustomResourceDefinition
//! and what it declares to depend on; what intercepts every request (webhook configurations, APIServices)
//! comes last and goes first.

use shared::ids::ObjectKey;

/// Which targets get the member's attention first when several are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Deletes of webhook configurations and APIServices: broken ones block everything else.
    InterceptorDelete,
    /// Namespaces and CRDs: others wait for them.
    Foundation,
    /// Everything else that is wanted.
    Ordinary,
    /// Deletes of everything else.
    Delete,
    /// Deletes of Namespaces and CRDs, after what lives in them.
    FoundationDelete,
    /// Webhook configurations and APIServices, after everything else.
    Interceptor,
}

/// True for kinds that the API server consults on other objects' requests.
#[must_use]
pub fn is_interceptor(key: &ObjectKey) -> bool {
    key.group == "admissionregistration.k8s.io"
        || (key.group == "apiregistration.k8s.io" && key.kind == "APIService")
}

/// True for a Namespace.
#[must_use]
pub fn is_namespace(key: &ObjectKey) -> bool {
    key.group.is_empty() && key.kind == "Namespace"
}

/// True for a CustomResourceDefinition.
#[must_use]
pub fn is_definition(key: &ObjectKey) -> bool {
    key.group == "apiextensions.k8s.io" && key.kind == "CustomResourceDefinition"
}

/// Rank of a target.
#[must_use]
pub fn rank(key: &ObjectKey, delete: bool) -> Rank {
    match (
        is_interceptor(key),
        is_namespace(key) || is_definition(key),
        delete,
    ) {
        (true, _, true) => Rank::InterceptorDelete,
        (true, _, false) => Rank::Interceptor,
        (_, true, false) => Rank::Foundation,
        (_, true, true) => Rank::FoundationDelete,
        (_, _, true) => Rank::Delete,
        _ => Rank::Ordinary,
    }
}

/// The key of the Namespace an object lives in; none for cluster-scoped objects.
#[must_use]
pub fn namespace_of(key: &ObjectKey) -> Option<ObjectKey> {
    (!key.namespace.is_empty()).then(|| ObjectKey {
        group: String::new(),
        kind: "Namespace".to_owned(),
        namespace: String::new(),
        name: key.namespace.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(group: &str, kind: &str, namespace: &str) -> ObjectKey {
        ObjectKey {
            group: group.into(),
            kind: kind.into(),
            namespace: namespace.into(),
            name: "x".into(),
        }
    }

    #[test]
    fn ranks() {
        let webhook = key(
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            "",
        );
        let mut all = [
            (rank(&webhook, false), "webhook"),
            (rank(&key("", "Namespace", ""), true), "delete namespace"),
            (rank(&key("", "ConfigMap", "a"), false), "configmap"),
            (rank(&webhook, true), "delete webhook"),
            (rank(&key("", "Namespace", ""), false), "namespace"),
            (rank(&key("", "ConfigMap", "a"), true), "delete configmap"),
        ];
        all.sort_unstable();
        assert_eq!(
            all.map(|(_, n)| n),
            [
                "delete webhook",
                "namespace",
                "configmap",
                "delete configmap",
                "delete namespace",
                "webhook"
            ]
        );
    }

    #[test]
    fn only_namespaced_objects_have_a_namespace() {
        assert_eq!(namespace_of(&key("", "Namespace", "")), None);
        assert_eq!(
            namespace_of(&key("", "ConfigMap", "a")).map(|k| k.name),
            Some("a".to_owned())
        );
    }
}
