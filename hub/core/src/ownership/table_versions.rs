//! The versions of the kinds of the type table.

use super::types::TableView;
use super::writes::Versions;
use crate::convert;
use crate::types::{TypeId, TypeTable};
use serde_json::{Value, json};

/// A kind of the table in all its versions.
#[derive(Debug, Clone, Copy)]
pub struct TableVersions<'t> {
    /// The table.
    pub table: &'t TypeTable,
    /// The kind.
    pub kind: &'t str,
    /// Set for a kind that has this one type alone (Scale).
    pub only: Option<TypeId>,
}

fn split(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

impl<'t> Versions<'t> for TableVersions<'t> {
    type View = TableView<'t>;

    fn view(&self, api_version: &str) -> Option<TableView<'t>> {
        if let Some(only) = self.only {
            return Some(TableView::new(self.table, only));
        }
        let (group, version) = split(api_version);
        let resource = self.table.of_kind(group, version, self.kind)?;
        Some(TableView::new(self.table, resource.of_type))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        if self.only.is_some() {
            return Some(object.clone());
        }
        let (group, version) = split(api_version);
        let resource = self.table.of_kind(group, version, self.kind)?;
        let mut out = convert::to(resource, object.clone());
        if let Some(members) = out.as_object_mut() {
            members.insert("apiVersion".to_owned(), json!(api_version));
        }
        Some(out)
    }
}
