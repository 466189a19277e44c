//! Custom resources: what a CustomResourceDefinition says, and what its schema does with the objects of its kind.
//!
//! Source of the rules: the apiextensions API server of Kubernetes.

pub mod rules;
