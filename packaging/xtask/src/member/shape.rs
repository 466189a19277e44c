//! What a node of a member offers, when the usual size is not wanted.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail};
use serde_json::{Value, json};

/// Allocatable amounts by resource name, as `cpu=8,memory=16Gi,nvidia.com/gpu=2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape(BTreeMap<String, String>);

impl FromStr for Shape {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut amounts: BTreeMap<String, String> = [
            ("cpu", "8"),
            ("memory", "32Gi"),
            ("pods", "110"),
            ("ephemeral-storage", "100Gi"),
        ]
        .map(|(name, amount)| (name.to_owned(), amount.to_owned()))
        .into();
        for part in text.split(',') {
            let (name, amount) = part
                .split_once('=')
                .with_context(|| format!("{part:?} is not NAME=AMOUNT"))?;
            let number = amount.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            if name.is_empty() || number.parse::<f64>().is_err() {
                bail!("{part:?} is not NAME=AMOUNT, such as cpu=8, memory=16Gi or nvidia.com/gpu=2");
            }
            amounts.insert(name.to_owned(), amount.to_owned());
        }
        Ok(Self(amounts))
    }
}

impl Shape {
    /// A node of this shape that kwok plays, as the Go side of a member makes one.
    pub(super) fn node(&self, number: u32) -> Value {
        let name = format!("node-{number}");
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
            "status": {"capacity": self.0, "allocatable": self.0}})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_names_what_differs() {
        let shape: Shape = "cpu=8,memory=16Gi,nvidia.com/gpu=2".parse().unwrap();
        let node = shape.node(3);
        assert_eq!(node["metadata"]["name"], "node-3");
        let offered = &node["status"]["allocatable"];
        assert_eq!(
            (&offered["memory"], &offered["nvidia.com/gpu"], &offered["pods"]),
            (&json!("16Gi"), &json!("2"), &json!("110"))
        );
        for bad in ["cpu", "=3", "cpu=many", "cpu=8,,"] {
            assert!(bad.parse::<Shape>().is_err(), "{bad}");
        }
    }
}
