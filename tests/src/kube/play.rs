//! Playing a case against a server.

use super::blank;
use super::case::{Answer, Case, File, Request, Step, deviations};
use anyhow::{Context, Result, bail};
use axum::body::Body;
use futures::{StreamExt as _, TryStreamExt as _};
use http::HeaderMap;
use http_body_util::BodyExt as _;
use hub::api::{Api, Identity};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// How often a request is sent until its answer is what the case waits for.
const TRIES: usize = 200;

/// Time between two of them.
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// Cases played at a time.
const AT_A_TIME: usize = 12;

/// Who answers.
#[derive(Clone)]
pub enum Server {
    /// A hub in this process.
    Hub(Arc<Api>),
    /// Any API server.
    Real(kube::Client),
}

/// An answer of the hub that is not the real one.
#[derive(Debug)]
pub struct Difference {
    /// `FILE: CASE`.
    pub case: String,
    /// Which step, from 1.
    pub step: usize,
    /// What the real server answered.
    pub expected: Answer,
    /// What the hub answered.
    pub found: Answer,
}

impl Server {
    /// A new hub with an empty store.
    ///
    /// # Errors
    /// The store refuses.
    pub async fn hub(folder: &std::path::Path) -> Result<Server> {
        let (folder, now) = (folder.join("hub"), hub::clock::wall());
        hub::init::init(&folder, &[], SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), now).await?;
        let store = hub::store::Store::open(&folder, now)?;
        let keys = hub::keys::Keys::load(&folder, store.fleet())?;
        let api = Api::new(store, axum::Router::new(), keys.authority()?);
        api.bootstrap().await?;
        // What the hub does by itself stays off: the cases were recorded with the member's controllers stopped.
        Ok(Server::Hub(api))
    }

    async fn send(&self, request: &Request) -> Result<(u16, HeaderMap, Vec<u8>)> {
        let body = match (&request.body, &request.text) {
            (Some(body), _) => body.to_string(),
            (None, Some(text)) => text.clone(),
            (None, None) => String::new(),
        };
        let mut builder = http::Request::builder()
            .method(request.method.as_str())
            .uri(&request.path)
            .header(
                http::header::USER_AGENT,
                request.agent.as_deref().unwrap_or("cases/1"),
            )
            .header(
                http::header::ACCEPT,
                request.accept.as_deref().unwrap_or("application/json"),
            );
        if let Some(user) = &request.user {
            builder = builder.header("Impersonate-User", user);
        }
        if let Some(content_type) = &request.content_type {
            builder = builder.header(http::header::CONTENT_TYPE, content_type);
        } else if request.body.is_some() {
            builder = builder.header(http::header::CONTENT_TYPE, "application/json");
        }
        match self {
            Server::Hub(api) => {
                let admin = Identity {
                    user: "admin".to_owned(),
                    groups: vec!["system:masters".to_owned()],
                    ..Identity::default()
                };
                let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
                let answer = api
                    .answer(builder.body(Body::from(body))?, Some(&admin), peer)
                    .await;
                let (head, body) = answer.into_parts();
                let bytes = body.collect().await.context("the hub's body")?.to_bytes();
                Ok((head.status.as_u16(), head.headers, bytes.to_vec()))
            }
            Server::Real(client) => {
                let request = builder.body(kube::client::Body::from(body.into_bytes()))?;
                let answer = client.send(request).await?;
                let (head, body) = answer.into_parts();
                let bytes = body.collect().await?.to_bytes();
                Ok((head.status.as_u16(), head.headers, bytes.to_vec()))
            }
        }
    }
}

/// Puts namespace and earlier answers into a request.
fn filled(request: &Request, namespace: &str, raw: &[Value]) -> Result<Request> {
    let text = serde_json::to_string(request)?.replace("{ns}", namespace);
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").context("{{ without }}")?;
        let (step, pointer) = name.split_once('.').context("a step and a path")?;
        let step: usize = step.parse()?;
        let value = raw
            .get(step.wrapping_sub(1))
            .and_then(|body| body.pointer(&format!("/{}", pointer.replace('.', "/"))))
            .and_then(Value::as_str)
            .with_context(|| format!("step {step} answered nothing at {pointer}"))?;
        out.push_str(before);
        out.push_str(value);
        rest = after;
    }
    out.push_str(rest);
    Ok(serde_json::from_str(&out)?)
}

fn parsed(is_watch: bool, bytes: &[u8]) -> Value {
    if is_watch {
        let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
        let events = lines.map(|line| serde_json::from_slice(line).unwrap_or(Value::Null));
        return Value::Array(events.collect());
    }
    serde_json::from_slice(bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(bytes)))
}

/// Sends a request, again until its answer is what the case waits for; the last answer counts.
async fn settled(server: &Server, request: &Request) -> Result<(u16, HeaderMap, Value)> {
    let mut tries = TRIES;
    loop {
        let (code, headers, bytes) = server.send(request).await?;
        let is_watch = request.path.contains("watch=true") && code == 200;
        let body = parsed(is_watch, &bytes);
        tries -= 1;
        if tries == 0
            || request
                .until
                .as_ref()
                .is_none_or(|until| until.is_met(code, &body))
        {
            return Ok((code, headers, body));
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
}

/// Plays a case and gives the blanked answers.
///
/// # Errors
/// A server that does not answer, or a case that refers to what was not answered.
pub async fn play(server: &Server, file: &File, case: &Case) -> Result<Vec<Answer>> {
    let namespace = file.namespace(case);
    let made = Request {
        method: "POST".to_owned(),
        path: "/api/v1/namespaces".to_owned(),
        content_type: None,
        accept: None,
        agent: None,
        user: None,
        body: Some(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})),
        text: None,
        until: None,
    };
    let (code, _, body) = server.send(&made).await?;
    if code != 201 {
        bail!("namespace {namespace}: {code} {}", String::from_utf8_lossy(&body));
    }
    let mut raw: Vec<Value> = Vec::new();
    let mut answers = Vec::new();
    let mut revisions = BTreeSet::new();
    for (at, step) in case.steps.iter().enumerate() {
        let request = filled(&step.request, &namespace, &raw)
            .with_context(|| format!("{}: {}: step {}", file.stem, case.name, at + 1))?;
        let (code, headers, mut body) = settled(server, &request).await?;
        raw.push(body.clone());
        blank::revisions(&body, &mut revisions);
        blank::blank(&mut body, &revisions);
        let warnings = headers.get_all("warning").iter();
        answers.push(Answer {
            code,
            body,
            warnings: warnings
                .map(|w| String::from_utf8_lossy(w.as_bytes()).into_owned())
                .collect(),
        });
    }
    Ok(answers)
}

/// Plays all cases of a file and puts the answers into it.
///
/// # Errors
/// As [`play`].
pub async fn record(server: &Server, file: &mut File) -> Result<()> {
    let shared = &*file;
    let all: Vec<Vec<Answer>> = futures::stream::iter(&shared.cases)
        .map(|case| play(server, shared, case))
        .buffered(AT_A_TIME)
        .try_collect()
        .await?;
    for (case, answers) in file.cases.iter_mut().zip(all) {
        for (step, answer) in case.steps.iter_mut().zip(answers) {
            step.answer = Some(answer);
        }
    }
    Ok(())
}

/// Plays all recorded cases of the files against a server: how many cases there were, and every difference. A case that
/// `deviations.json` names must differ.
///
/// # Errors
/// A case without recorded answers, or a deviation that is none any more.
pub async fn replay(server: &Server, files: &[File]) -> Result<(usize, Vec<Difference>)> {
    let cases: Vec<(&File, &Case)> = files
        .iter()
        .flat_map(|f| f.cases.iter().map(move |c| (f, c)))
        .collect();
    let answers: Vec<Result<Vec<Answer>>> = futures::stream::iter(&cases)
        .map(|(file, case)| play(server, file, case))
        .buffered(AT_A_TIME)
        .collect()
        .await;
    let deviations = deviations()?;
    let mut differences = Vec::new();
    for ((file, case), answers) in cases.iter().zip(answers) {
        let name = format!("{}: {}", file.stem, case.name);
        let first = first_difference(&name, &case.steps, answers)?;
        match (first, deviations.contains_key(&name)) {
            (Some(_), true) | (None, false) => {}
            (Some(difference), false) => differences.push(difference),
            (None, true) => bail!("{name} does not differ any more: take it out of deviations.json"),
        }
    }
    Ok((cases.len(), differences))
}

fn first_difference(name: &str, steps: &[Step], answers: Result<Vec<Answer>>) -> Result<Option<Difference>> {
    let answers = match answers {
        Ok(answers) => answers,
        // A later step needed what an earlier one did not answer: a difference of the last step.
        Err(error) => vec![Answer {
            code: 0,
            body: json!(format!("{error:#}")),
            warnings: Vec::new(),
        }],
    };
    for (at, (step, found)) in steps.iter().zip(answers).enumerate() {
        let expected = step
            .answer
            .clone()
            .with_context(|| format!("{name}: step {} is not recorded", at + 1))?;
        if expected != found {
            return Ok(Some(Difference {
                case: name.to_owned(),
                step: at + 1,
                expected,
                found,
            }));
        }
    }
    Ok(None)
}
