//! Manifests of the scenarios, as a person writes them.

/// Namespace.
pub(crate) fn namespace(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n")
}

/// ConfigMap with one key `greeting`.
pub(crate) fn config_map(namespace: &str, name: &str, greeting: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {namespace}\n  labels: {{part: shop}}\ndata:\n  greeting: {greeting}\n"
    )
}

/// Deployment of one container.
pub(crate) fn deployment(namespace: &str, name: &str, replicas: u64, image: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  namespace: {namespace}
  labels: {{app: {name}}}
spec:
  replicas: {replicas}
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
      containers:
      - name: main
        image: {image}
        ports:
        - containerPort: 80
"
    )
}

/// Service for a Deployment.
pub(crate) fn service(namespace: &str, name: &str) -> String {
    format!(
        "apiVersion: v1
kind: Service
metadata:
  name: {name}
  namespace: {namespace}
  labels: {{part: shop}}
spec:
  selector: {{app: {name}}}
  ports:
  - port: 80
    targetPort: 80
"
    )
}

/// PropagationPolicy that divides a Deployment by static weights.
pub(crate) fn divide(namespace: &str, deployment: &str, weights: &[(&str, u64)]) -> String {
    let names: Vec<&str> = weights.iter().map(|(name, _)| *name).collect();
    let list: String = weights
        .iter()
        .map(|(name, weight)| {
            format!(
                "        - targetCluster:\n            clusterNames: [{name}]\n          weight: {weight}\n"
            )
        })
        .collect();
    format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: {deployment}
  namespace: {namespace}
spec:
  resourceSelectors:
  - apiVersion: apps/v1
    kind: Deployment
    name: {deployment}
  placement:
    clusterAffinity:
      clusterNames: [{}]
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference:
        staticWeightList:
{list}",
        names.join(", ")
    )
}

/// PropagationPolicy that puts one named object on the clusters.
pub(crate) fn duplicate(
    namespace: &str,
    policy: &str,
    api: &str,
    kind: &str,
    name: &str,
    clusters: &[&str],
) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: {policy}
  namespace: {namespace}
spec:
  resourceSelectors:
  - apiVersion: {api}
    kind: {kind}
    name: {name}
  placement:
    clusterAffinity:
      clusterNames: [{}]
",
        clusters.join(", ")
    )
}

/// PropagationPolicy for ConfigMaps and Services with the label `part: shop`, on all clusters.
pub(crate) fn by_label(namespace: &str, policy: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: {policy}
  namespace: {namespace}
spec:
  resourceSelectors:
  - apiVersion: v1
    kind: ConfigMap
    labelSelector:
      matchLabels: {{part: shop}}
  - apiVersion: v1
    kind: Service
    labelSelector:
      matchLabels: {{part: shop}}
"
    )
}

/// OverridePolicy that replaces the registry of a Deployment's images on one cluster.
pub(crate) fn override_registry(namespace: &str, deployment: &str, cluster: &str, registry: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata:
  name: {deployment}-registry
  namespace: {namespace}
spec:
  resourceSelectors:
  - apiVersion: apps/v1
    kind: Deployment
    name: {deployment}
  overrideRules:
  - targetCluster:
      clusterNames: [{cluster}]
    overriders:
      imageOverrider:
      - component: Registry
        operator: add
        value: {registry}
"
    )
}

/// Several documents as one file.
pub(crate) fn file(documents: &[String]) -> String {
    documents.join("---\n")
}
