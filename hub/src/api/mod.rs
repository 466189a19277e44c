//! The Kubernetes API over HTTP: reads from the store's memory, writes through admission into the store.
//!
//! Paths of objects are parsed by hand in one place ([`request`]); decisions are `hub-core`'s; this module moves bytes.

mod access;
mod audit;
mod catalog;
mod collector;
mod decode;
mod definitions;
mod delete;
mod documents;
mod encode;
mod housekeeping;
mod limits;
mod negotiate;
mod ownership;
mod page;
mod patience;
mod people;
mod places;
mod policies;
mod read;
mod request;
mod respond;
mod reviews;
mod rules;
mod source;
mod watch;
mod websocket;
mod write;
mod yaml;

#[cfg(test)]
mod tests;

pub use access::{Identity, UserError, Users};
pub use audit::Audit;

use crate::clock;
use crate::keys::Authority;
use crate::store::{ResourceId, Store, StoreError};
use access::{Access, Caller, Guard};
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use catalog::Catalog;
use delete::Options;
use documents::Documents;
use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hub_core::access::review;
use hub_core::audit::Record;
use hub_core::breaker::Scope;
use hub_core::policy::Switches;
use hub_core::scale;
use hub_core::status_error::{Details, Reason, StatusError};
use hub_core::types::{Resource, TypeTable};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use page::Pins;
use patience::Patient;
use places::{Connections, Places};
use policies::{NOTES, Policies};
use request::{Address, Place, Query};
use ring::rand::{SecureRandom as _, SystemRandom};
use source::Served;
use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, Notify, RwLock};
use tower::ServiceExt as _;
use write::{Done, Write};

/// The API of one hub.
pub struct Api {
    store: Store,
    table: &'static TypeTable,
    catalog: Arc<Catalog>,
    documents: Documents,
    pins: Pins,
    access: Access,
    users: Users,
    /// This product's own calls.
    fleet: Router,
    random: SystemRandom,
    /// What the operator allows.
    switches: OnceLock<Switches>,
    /// Creates hold it open; the end of a namespace closes it.
    gate: RwLock<()>,
    /// Held from the look at the names of other definitions until the write.
    definitions: Mutex<()>,
    pokes: Notify,
    requests: Places,
    watches: Places,
    connections: Connections,
    audit: OnceLock<Audit>,
    /// What a DELETE may take out of clusters.
    losses: OnceLock<MayDelete>,
    policies: Policies,
}

/// Judges a DELETE by what it takes out of clusters: why it may not be, if so. True: a dry run.
pub type MayDelete = Box<dyn Fn(&Scope, bool) -> Result<Option<String>, StoreError> + Send + Sync>;

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

/// Where namespaces are stored.
fn namespace_id() -> ResourceId {
    ResourceId::new("", "namespaces")
}

/// 429.
fn busy() -> StatusError {
    let mut error = StatusError::new(
        Reason::TooManyRequests,
        "too many requests, please try again later",
    );
    error.details = Some(Box::new(Details {
        retry_after_seconds: 1,
        ..Details::default()
    }));
    error
}

/// Serves one connection, HTTP/1.1 or HTTP/2, to its end. `identity` is what the client certificate says.
pub async fn serve_connection<S>(api: Arc<Api>, stream: S, identity: Option<Identity>, peer: SocketAddr)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(_counted) = api.connections.enter(peer.ip(), limits::CONNECTIONS_PER_ADDRESS) else {
        tracing::warn!(%peer, limit = limits::CONNECTIONS_PER_ADDRESS, "too many connections from one address");
        return;
    };
    let stream = Patient::new(stream, limits::WRITE_TIMEOUT);
    let identity = identity.map(Arc::new);
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (api, identity) = (api.clone(), identity.clone());
        async move {
            Ok::<_, Infallible>(
                api.answer(request.map(Body::new), identity.as_deref(), peer)
                    .await,
            )
        }
    });
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEAD_TIMEOUT);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::STREAMS)
        .keep_alive_interval(limits::PING_EVERY)
        .keep_alive_timeout(limits::PING_TIMEOUT);
    let serving = server.serve_connection_with_upgrades(TokioIo::new(stream), service);
    if let Err(error) = serving.await {
        tracing::debug!(%peer, error, "the connection broke");
    }
}

/// The verb of a request, as authorization and audit name it.
fn verb(method: &Method, place: &Place, query: &Query) -> &'static str {
    let named = matches!(place, Place::Resource(Address { name: Some(_), .. }));
    match (method.as_str(), named) {
        ("GET" | "HEAD", _) if query.flag("watch") => "watch",
        ("GET" | "HEAD", false) if matches!(place, Place::Resource(_)) => "list",
        ("GET" | "HEAD", _) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "unknown",
    }
}

fn header<'h>(headers: &'h HeaderMap, name: &http::HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|v| v.to_str().ok())
}

impl Api {
    /// The API over a store. `fleet` answers this product's own calls; `authority` signs for users and checks tokens.
    /// See [`Api::bootstrap`] and [`Api::run`].
    pub fn new(store: Store, fleet: Router, authority: Arc<Authority>) -> Arc<Api> {
        let table = TypeTable::built_in();
        let catalog = Arc::new(Catalog::new(table));
        catalog.refresh(&store);
        Arc::new(Api {
            table,
            documents: Documents::new(table, catalog.clone()),
            catalog,
            pins: Pins::default(),
            access: Access::new(store.clone(), authority.clone()),
            users: Users::new(store.clone(), authority),
            fleet,
            random: SystemRandom::new(),
            switches: OnceLock::new(),
            gate: RwLock::new(()),
            definitions: Mutex::new(()),
            pokes: Notify::new(),
            requests: Places::new(limits::REQUESTS),
            watches: Places::new(limits::WATCHES),
            connections: Connections::default(),
            audit: OnceLock::new(),
            losses: OnceLock::new(),
            policies: Policies::default(),
            store,
        })
    }

    /// What the operator allows, from now on; said once.
    pub fn allow(&self, switches: Switches) {
        // Two operators would contradict each other: the first word stays.
        let _first_stays = self.switches.set(switches);
    }

    /// Asks before a DELETE takes something out of clusters from now on; the first to ask stays.
    pub fn guard_losses(&self, may_delete: MayDelete) {
        // Two judges would contradict each other.
        let _first_stays = self.losses.set(may_delete);
    }

    /// Writes a line per write to an audit log from now on; the first log stays.
    pub fn log_to(&self, audit: Audit) {
        // A second log would split the record.
        let _first_stays = self.audit.set(audit);
    }

    /// Answers one request.
    pub async fn answer(
        self: &Arc<Self>,
        mut request: Request<Body>,
        identity: Option<&Identity>,
        peer: SocketAddr,
    ) -> Response<Body> {
        let started = Instant::now();
        let path = request.uri().path().to_owned();
        let place = request::place(&path);
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let verb = verb(request.method(), &place, &query);
        if place == Place::Health {
            // What load balancers ask; everybody may.
            let ok = Bytes::from_static(b"ok");
            return respond::bytes(StatusCode::OK, "text/plain; charset=utf-8", ok);
        }
        let is_yaml = yaml::is_wanted(&place, verb, request.headers_mut());
        let wish = access::wish(verb, request.method().as_str(), &place, &path, &query);
        let is_write = !matches!(verb, "get" | "list" | "watch");
        let log = self.audit.get().filter(|_| is_write).map(|audit| {
            let agent = header(request.headers(), &USER_AGENT)
                .unwrap_or_default()
                .to_owned();
            (
                audit,
                clock::wall().rfc3339(),
                request
                    .uri()
                    .path_and_query()
                    .map_or_else(|| path.clone(), ToString::to_string),
                agent,
            )
        });
        let mut notes = Vec::new();
        let (answer, who, reason) = match self.access.admit(identity, request.headers(), &wish) {
            Err(refused) => {
                let answer = respond::error(&refused.error);
                (answer, (refused.user, refused.impersonated), String::new())
            }
            Ok(caller) => {
                let guard = (verb == "watch").then(|| Guard::new(self.clone(), caller.clone(), wish.clone()));
                let answered = async {
                    let answer = self.place(request, &place, &query, verb, &caller, guard).await;
                    (answer, NOTES.with(RefCell::take))
                };
                let (mut answer, noted) = NOTES.scope(RefCell::default(), answered).await;
                respond::warn(&mut answer, &noted.warnings);
                notes = noted.annotations;
                let who = match caller.real {
                    Some(real) => (Some(real), Some(caller.user)),
                    None => (Some(caller.user), None),
                };
                (answer, who, caller.reason)
            }
        };
        if let Some((audit, received, uri, agent)) = log {
            let record = Record {
                id: &self.new_uid(),
                uri: &uri,
                user: who.0.as_ref(),
                impersonated: who.1.as_ref(),
                source: peer.ip().to_string(),
                agent: &agent,
                wish: &wish,
                named: answer.extensions().get::<Named>().map(|n| n.0.as_str()),
                code: answer.status().as_u16(),
                reason: &reason,
                notes: &notes,
                received: &received,
                milliseconds: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            };
            audit.write(hub_core::audit::line(&record));
        }
        if is_yaml {
            yaml::answer(answer).await
        } else {
            answer
        }
    }

    async fn place(
        &self,
        request: Request<Body>,
        place: &Place,
        query: &Query,
        verb: &'static str,
        caller: &Caller,
        guard: Option<Guard>,
    ) -> Response<Body> {
        let headers = request.headers();
        if verb != "watch"
            && let Err(error) = query.check_timeout()
        {
            return respond::error(&error);
        }
        match place {
            Place::Version => self.documents.version(),
            Place::Groups(root) => self.documents.groups(*root, headers, host(headers)),
            Place::Group(group) => self.documents.group(group, headers),
            Place::Resources(group, version) => self.documents.resources(group, version, headers),
            Place::OpenApi => self.documents.openapi_index(headers),
            Place::OpenApiOf(group, version) => self.documents.openapi(group, version, query, headers),
            Place::OpenApiV2 => self.documents.openapi_v2(headers),
            Place::Fleet if people::is_here(request.uri().path()) => match self.people(request, caller).await
            {
                Ok(answer) => answer,
                Err(error) => respond::error(&error),
            },
            Place::Fleet | Place::Metrics => match self.fleet.clone().oneshot(request).await {
                Ok(answer) => answer,
                Err(never) => match never {},
            },
            Place::Resource(address) => {
                match self.resource(request, address, query, verb, caller, guard).await {
                    Ok(answer) => answer,
                    Err(error) => respond::error(&error),
                }
            }
            Place::Health | Place::Unknown => respond::error(&StatusError::no_such_path()),
        }
    }

    async fn resource(
        &self,
        request: Request<Body>,
        address: &Address,
        query: &Query,
        verb: &'static str,
        caller: &Caller,
        guard: Option<Guard>,
    ) -> Result<Response<Body>, StatusError> {
        let found = self
            .catalog
            .get(&address.group, &address.version, &address.plural);
        let Some(served) = found else {
            if self.catalog.has_version(&address.group, &address.version) {
                return Err(StatusError::no_such_path());
            }
            // No such group: no handler at all, as upstream.
            return Ok(respond::no_page());
        };
        let served = &served;
        if is_misplaced(served, address, verb) {
            return Ok(respond::no_page());
        }
        check_address(served, address, verb)?;
        let (head, body) = request.into_parts();
        let headers = &head.headers;
        let encoder = read::encoder(served, header(headers, &ACCEPT), query);
        if let Some(guard) = guard {
            let mut query = query.clone();
            if let Some(name) = &address.name {
                query.select_name(name);
            }
            let stream = self.watch(
                &caller.user,
                served,
                address.namespace.as_deref(),
                encoder?,
                &query,
            )?;
            let stream = guard.around(stream);
            if websocket::is_wanted(headers) {
                return websocket::answer(head, stream);
            }
            let mut answer = respond::bytes(StatusCode::OK, "application/json", Bytes::new());
            *answer.body_mut() = Body::from_stream(stream);
            return Ok(answer);
        }
        let _place = self.requests.enter(&caller.user.name).ok_or_else(busy)?;
        let namespace = address.namespace.as_deref().unwrap_or_default();
        let name = address.name.as_deref().unwrap_or_default();
        let subresource = address.subresource.as_deref();
        let write = |body: Bytes| Write {
            served,
            verb,
            namespace,
            subresource,
            query,
            headers,
            user: &caller.user,
            body,
        };
        let mut done = match verb {
            "get" if subresource == Some("scale") => {
                // A Scale has one form; who takes none is told so.
                encoder?;
                let Some(object) = source::get(&self.store, served, namespace, name)? else {
                    return Err(StatusError::not_found(&address.group, &address.plural, name));
                };
                let value = hub_core::convert::to(&served.resource, object.value());
                ok(Bytes::from(scale::of(&served.resource, &value).to_string()))
            }
            "get" => ok(self.get(served, namespace, name, &encoder?, query).await?),
            "list" => ok(self
                .list(served, address.namespace.as_deref(), &encoder?, query)
                .await?),
            "create" if review::is_review(&served.resource.group, &served.resource.kind) => {
                self.review(write(decode::read(body).await?)).await?
            }
            "create" if subresource == Some("token") => {
                self.create_token(write(decode::read(body).await?), name).await?
            }
            "create" => self.create(write(decode::read(body).await?)).await?,
            "update" => self.update(write(decode::read(body).await?), name).await?,
            "patch" => self.patch(write(decode::read(body).await?), name).await?,
            "delete" => {
                let options = Options::parse(headers, &decode::read(body).await?, query)?;
                self.delete(served, &caller.user, namespace, name, &encoder?, options)
                    .await?
            }
            "deletecollection" => {
                let options = Options::parse(headers, &decode::read(body).await?, query)?;
                self.delete_collection(
                    served,
                    &caller.user,
                    address.namespace.as_deref(),
                    &encoder?,
                    query,
                    options,
                )
                .await?
            }
            other => {
                tracing::debug!(verb = other, "no such verb");
                return Err(StatusError::method_not_allowed());
            }
        };
        if let Some(warning) = served.resource.custom.as_ref().and_then(|c| c.warning.as_deref()) {
            done.warnings.insert(0, warning.to_owned());
        }
        let named = (verb == "create" && done.code == StatusCode::CREATED).then(|| name_in(&done.body));
        let mut answer = finish(done, headers).await;
        if let Some(named) = named.flatten() {
            answer.extensions_mut().insert(named);
        }
        Ok(answer)
    }

    /// Wakes [`Api::run`].
    fn poke(&self) {
        self.pokes.notify_one();
    }

    fn random_bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.random
            .fill(&mut bytes)
            .expect("the system has randomness, or nothing here can be trusted");
        bytes
    }

    fn random_number(&self) -> u64 {
        u64::from_le_bytes(self.random_bytes())
    }

    /// A random UUID.
    fn new_uid(&self) -> String {
        hub_core::uuid::random(self.random_bytes())
    }

    /// Five letters that spell nothing.
    fn name_suffix(&self) -> String {
        const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let bytes: [u8; 5] = self.random_bytes();
        bytes
            .iter()
            .map(|b| char::from(LETTERS[usize::from(*b) % LETTERS.len()]))
            .collect()
    }
}

/// Name of a created object, for the audit log.
#[derive(Clone)]
struct Named(String);

fn name_in(body: &[u8]) -> Option<Named> {
    #[derive(serde::Deserialize)]
    struct Head {
        metadata: Metadata,
    }
    #[derive(serde::Deserialize)]
    struct Metadata {
        name: String,
    }
    let head: Head = serde_json::from_slice(body).ok()?;
    Some(Named(head.metadata.name))
}

fn ok(body: Bytes) -> Done {
    Done {
        code: StatusCode::OK,
        body,
        warnings: Vec::new(),
    }
}

/// The address by which the client reached the hub.
fn host(headers: &HeaderMap) -> &str {
    header(headers, &http::header::HOST).unwrap_or_default()
}

/// What only the cluster that runs something can do, told as such; everything else is nowhere.
fn elsewhere(resource: &Resource, address: &Address, subresource: &str) -> StatusError {
    let is_elsewhere = resource.group.is_empty()
        && match &*resource.plural {
            "pods" => [
                "attach",
                "binding",
                "ephemeralcontainers",
                "eviction",
                "exec",
                "log",
                "portforward",
                "proxy",
                "resize",
            ]
            .contains(&subresource),
            "nodes" | "services" => subresource == "proxy",
            _ => false,
        };
    if !is_elsewhere {
        return StatusError::no_such_path();
    }
    let name = address.name.as_deref().unwrap_or_default();
    let plural = &*resource.plural;
    let mut error = StatusError::method_not_allowed();
    error.message = format!(
        "{subresource} of {plural} {name:?} is not served from here yet: the hub stores templates and runs nothing; ask \
         the cluster that runs it"
    );
    error
}

/// Whether a custom resource is asked for in a namespace that it has not, or without the one that it needs.
fn is_misplaced(served: &Served, address: &Address, verb: &str) -> bool {
    let resource = &served.resource;
    let is_across = matches!(verb, "list" | "watch");
    resource.custom.is_some()
        && match (&address.namespace, resource.namespaced) {
            (Some(_), is_namespaced) => !is_namespaced,
            (None, is_namespaced) => is_namespaced && !is_across,
        }
}

/// Whether the resource has objects there, and the verb.
fn check_address(served: &Served, address: &Address, verb: &str) -> Result<(), StatusError> {
    let resource = &*served.resource;
    let is_named = address.name.is_some();
    let not_allowed = || Err(StatusError::method_not_allowed());
    if let Some(name) = &address.subresource {
        let subresource = resource.subresource(name).ok_or_else(|| match resource.custom {
            Some(_) => {
                let name = address.name.as_deref().unwrap_or_default();
                StatusError::not_found(&resource.group, &resource.plural, name)
            }
            None => elsewhere(resource, address, name),
        })?;
        return if subresource.verbs.iter().any(|v| &**v == verb) {
            Ok(())
        } else {
            not_allowed()
        };
    }
    if !resource.namespaced && address.namespace.is_some() {
        return Err(StatusError::no_such_path());
    }
    if resource.namespaced && address.namespace.is_none() && (is_named || verb == "create") {
        return if is_named {
            Err(StatusError::no_such_path())
        } else {
            not_allowed()
        };
    }
    let is_possible = match verb {
        "create" | "list" | "deletecollection" => !is_named,
        "get" | "update" | "patch" | "delete" => is_named,
        _ => true,
    };
    if is_possible && resource.has_verb(verb) {
        Ok(())
    } else {
        not_allowed()
    }
}

async fn finish(done: Done, headers: &HeaderMap) -> Response<Body> {
    let takes_gzip = negotiate::takes_gzip(header(headers, &ACCEPT_ENCODING));
    let mut answer = respond::bytes(done.code, "application/json", done.body.clone());
    respond::warn(&mut answer, &done.warnings);
    if takes_gzip && done.body.len() >= limits::GZIP_BYTES {
        return respond::compress(answer, done.body).await;
    }
    answer
}
