//! Custom resources: what a CustomResourceDefinition says, and what its schema does with the objects of its kind.
//!
//! Source of the rules: the apiextensions API server of Kubernetes.

mod change;
pub mod columns;
pub mod definition;
pub mod formats;
mod kind;
mod lists;
mod object;
pub mod openapi;
mod openapi_rules;
mod pattern;
pub mod rules;
mod schema;
mod shape;
pub mod status;
mod structural;
mod validate;
pub mod version;
mod view;

#[cfg(test)]
mod tests;

pub use kind::{Custom, CustomColumn, ScalePaths, resources};
pub use object::Written;
pub use pattern::Pattern;
pub use schema::{Additional, Checks, Junctors, Schema};
pub use view::{CustomVersions, SchemaView};

use crate::types::Resource;

/// Whether a resource is that of definitions.
pub fn is_definition(resource: &Resource) -> bool {
    &*resource.group == definition::GROUP && &*resource.plural == definition::PLURAL
}
