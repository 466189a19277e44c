//! get and list.

use super::encode::{Encoder, Include, More};
use super::page::Token;
use super::request::Query;
use super::source::{self, Served};
use super::{Api, limits, negotiate};
use crate::clock;
use crate::store::{Listing, Object, Revision};
use bytes::Bytes;
use hub_core::select::{FieldSelector, LabelSelector};
use hub_core::status_error::{Cause, Details, Reason, StatusError};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

/// Label and field selectors of a query.
#[derive(Debug, Clone, Default)]
pub(super) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// Reads both selectors.
    ///
    /// # Errors
    /// 400 for text that is none, or a field that the kind cannot be selected by.
    pub(super) fn parse(query: &Query, served: &Served) -> Result<Selection, StatusError> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default())
            .map_err(|why| StatusError::bad_request(why.to_string()))?;
        let fields =
            FieldSelector::of_resource(query.get("fieldSelector").unwrap_or_default(), &served.resource)
                .map_err(StatusError::bad_request)?;
        Ok(Selection { labels, fields })
    }

    /// Selects everything.
    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is selected.
    pub(super) fn matches(&self, served: &Served, object: &Object) -> bool {
        let body = || hub_core::convert::to(&served.resource, object.value());
        self.labels.matches(&object.labels) && self.fields.matches(&object.namespace, &object.name, body)
    }

    /// The one object that can be selected, if names are given exactly.
    fn exact(&self, namespace: Option<&str>, namespaced: bool) -> Option<(String, String)> {
        let name = self.fields.exact_name()?;
        let namespace = if namespaced {
            namespace.or(self.fields.exact_namespace())?
        } else {
            ""
        };
        Some((namespace.to_owned(), name.to_owned()))
    }
}

/// Makes the encoder of a request.
///
/// # Errors
/// 406 if the client takes nothing that can be made.
pub(super) fn encoder(served: &Served, accept: Option<&str>, query: &Query) -> Result<Encoder, StatusError> {
    Ok(Encoder {
        served: served.clone(),
        form: negotiate::form(accept)?,
        include: Include::parse(query.get("includeObject")),
        now: clock::wall().0,
    })
}

fn options_error(cause: Cause) -> StatusError {
    StatusError::invalid("meta.k8s.io", "ListOptions", "", vec![cause])
}

/// The revision of a query; 0 and absent mean any.
///
/// # Errors
/// 400 if it is no number.
pub(super) fn revision_of(query: &Query) -> Result<Option<Revision>, StatusError> {
    let Some(text) = query.get("resourceVersion") else {
        return Ok(None);
    };
    text.parse::<u64>()
        .map(|n| (n > 0).then_some(Revision(n)))
        .map_err(|_| {
            let why = format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax");
            if query.flag("watch") {
                StatusError::new(Reason::Unknown, why)
            } else {
                StatusError::bad_request(format!("invalid resource version: {why}"))
            }
        })
}

/// Rules of `resourceVersionMatch` for lists.
fn check_options(query: &Query) -> Result<(), StatusError> {
    if query.get("sendInitialEvents").is_some() {
        return Err(options_error(Cause::forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        )));
    }
    let Some(rule) = query.get("resourceVersionMatch") else {
        return Ok(());
    };
    let field = "resourceVersionMatch";
    let forbidden = |why: &str| Err(options_error(Cause::forbidden(field, why)));
    if query.get("resourceVersion").is_none() {
        return forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided");
    }
    if query.get("continue").is_some() {
        return forbidden("resourceVersionMatch is forbidden when continue is provided");
    }
    match rule {
        "NotOlderThan" => Ok(()),
        "Exact" if query.get("resourceVersion") == Some("0") => {
            forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
        }
        "Exact" => Ok(()),
        other => Err(options_error(Cause::not_supported(
            field,
            &json!(other),
            &["Exact", "NotOlderThan", ""],
        ))),
    }
}

impl Api {
    /// Answers a get.
    ///
    /// # Errors
    /// 404, or what the query does wrong.
    pub(super) async fn get(
        &self,
        served: &Served,
        namespace: &str,
        name: &str,
        encoder: &Encoder,
        query: &Query,
    ) -> Result<Bytes, StatusError> {
        self.wait_for(revision_of(query)?).await?;
        let resource = &*served.resource;
        match source::get(&self.store, served, namespace, name)? {
            Some(object) => Ok(encoder.one(&object)),
            None => Err(StatusError::not_found(&resource.group, &resource.plural, name)),
        }
    }

    /// Answers a list.
    ///
    /// # Errors
    /// What the query does wrong; 410 for a page whose snapshot is gone.
    pub(super) async fn list(
        &self,
        served: &Served,
        namespace: Option<&str>,
        encoder: &Encoder,
        query: &Query,
    ) -> Result<Bytes, StatusError> {
        check_options(query)?;
        let selection = Selection::parse(query, served)?;
        let limit = query
            .number("limit")?
            .map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX));
        let token = query.get("continue").map(Token::parse).transpose()?;
        let wanted = revision_of(query)?;
        if token.is_none() {
            self.wait_for(wanted).await?;
        } else if wanted.is_some() {
            return Err(StatusError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let now = Instant::now();
        let listing = match &token {
            Some(token) if !token.is_unpinned() => self.pins.find(token, &served.id, namespace, now)?,
            _ => Arc::new(self.snapshot(served, namespace, &selection)?),
        };
        if query.get("resourceVersionMatch") == Some("Exact")
            && let Some(revision) = wanted.filter(|r| *r != listing.revision)
        {
            let text = format!("The resourceVersion for the provided list is too old: {revision}");
            return Err(StatusError::new(Reason::Expired, text));
        }
        let start = token.as_ref().map_or(0, |token| {
            let after = token.after();
            listing
                .items
                .partition_point(|o| (o.namespace.as_str(), o.name.as_str()) <= after)
        });
        let mut selected = listing.items[start..]
            .iter()
            .filter(|o| selection.matches(served, o));
        if limit == 0 {
            let all = selected.map(Arc::as_ref);
            return Ok(encoder.list(all, listing.revision.0, &More::default()));
        }
        let page: Vec<&Object> = selected.by_ref().take(limit).map(Arc::as_ref).collect();
        let mut more = More::default();
        if let (Some(last), Some(_)) = (page.last(), selected.next()) {
            more.token = self.pins.token(
                &served.id,
                namespace,
                &listing,
                (&last.namespace, &last.name),
                token.is_none(),
                now,
            );
            if selection.is_empty() {
                more.remaining = Some(listing.items.len() - start - page.len());
            }
        }
        Ok(encoder.list(page.into_iter(), listing.revision.0, &more))
    }

    /// What a list or a watch starts from.
    ///
    /// # Errors
    /// 500 if the store cannot read what a view is made of.
    pub(super) fn snapshot(
        &self,
        served: &Served,
        namespace: Option<&str>,
        selection: &Selection,
    ) -> Result<Listing, StatusError> {
        match selection.exact(namespace, served.resource.namespaced) {
            Some((namespace, name)) => {
                // The revision first: what is found may be newer, never older.
                let revision = self.store.revision();
                let items = source::get(&self.store, served, &namespace, &name)?
                    .into_iter()
                    .collect();
                Ok(Listing { revision, items })
            }
            None => source::list(&self.store, served, namespace),
        }
    }

    /// Waits for a revision of the future, as a client has it that read from a faster replica.
    ///
    /// # Errors
    /// 504 if it does not come.
    async fn wait_for(&self, revision: Option<Revision>) -> Result<(), StatusError> {
        let Some(wanted) = revision.filter(|r| *r > self.store.revision()) else {
            return Ok(());
        };
        let arrives = async {
            let Ok(mut cursor) = self.store.watch(None, self.store.revision()) else {
                return;
            };
            while self.store.revision() < wanted {
                if cursor.next().await.is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(limits::REVISION_WAIT, arrives).await.is_ok()
            && self.store.revision() >= wanted
        {
            return Ok(());
        }
        let current = self.store.revision();
        let text = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let mut error = StatusError::new(Reason::Timeout, text);
        let cause = Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        error.details = Some(Box::new(Details {
            causes: vec![cause],
            retry_after_seconds: 1,
            ..Details::default()
        }));
        Err(error)
    }
}
