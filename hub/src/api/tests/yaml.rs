//! YAML in bodies and answers, and the parameters that every request may carry.

use super::*;

async fn text(hub: &Hub, path: &str, accept: &str) -> (String, String) {
    let request = Request::get(path)
        .header(ACCEPT, accept)
        .body(Body::empty())
        .expect("a request");
    let answer = hub.api.answer(request, Some(&admin()), peer()).await;
    let (head, body) = answer.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    let kind = head.headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    (
        kind.unwrap_or_default().to_owned(),
        String::from_utf8_lossy(&bytes).into_owned(),
    )
}

#[tokio::test]
async fn answers_are_yaml_for_those_who_ask_for_it() {
    let hub = Hub::new().await;
    hub.config("a", &json!({"tier": "on"})).await;
    for (path, part) in [
        (format!("{CONFIGS}/a"), "\n    tier: \"on\"\n"),
        (CONFIGS.to_owned(), "\nitems:\n- "),
        (format!("{CONFIGS}/nobody"), "\nreason: NotFound\n"),
        ("/api/v1".to_owned(), "\nkind: APIResourceList\n"),
    ] {
        let (kind, text) = text(&hub, &path, "application/yaml").await;
        assert_eq!(kind, "application/yaml", "{path}");
        assert!(format!("\n{text}").contains(part), "{path}: {text}");
    }
    let (kind, _) = text(&hub, CONFIGS, "application/json, application/yaml").await;
    assert_eq!(kind, "application/json");
    // There is no stream of it.
    let (kind, refusal) = text(&hub, &format!("{CONFIGS}?watch=true"), "application/yaml").await;
    assert_eq!(kind, "application/yaml");
    assert!(refusal.contains("reason: NotAcceptable\n"), "{refusal}");
}

#[tokio::test]
async fn an_apply_is_yaml_with_commas_and_keys_as_they_come() {
    let hub = Hub::new().await;
    let apply = |query: &'static str, body: &'static str| {
        let request = Request::patch(format!("{CONFIGS}/a?fieldManager=m{query}"))
            .header(CONTENT_TYPE, "application/apply-patch+yaml")
            .body(Body::from(body))
            .expect("a request");
        let hub = &hub;
        async move { hub.raw(request, Some(&admin())).await }
    };
    let made = apply(
        "",
        "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"ConfigMap\",\n\t\"metadata\": {\"name\": \"a\",},\n\t\"data\": {\"a\": \"1\",}\n}",
    )
    .await;
    assert_eq!(
        (made.code, &made.body["data"]),
        (201, &json!({"a": "1"})),
        "{}",
        made.body
    );
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  b: x\n  b: z\n";
    let refused = apply("&fieldValidation=Strict", twice).await;
    assert_eq!(
        (refused.code, &refused.body["message"]),
        (
            400,
            &json!(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 7: key \"b\" \
                 already set in map"
            )
        )
    );
    let warned = apply("", twice).await;
    assert_eq!(
        (warned.code, &warned.body["data"]),
        (200, &json!({"b": "z"})),
        "{}",
        warned.body
    );
    let warning = warned.headers["warning"].to_str().expect("a text");
    assert!(
        warning.contains("line 7: key \\\"b\\\" already set in map"),
        "{warning}"
    );
}

#[tokio::test]
async fn a_timeout_is_read_though_nothing_takes_so_long() {
    let hub = Hub::new().await;
    assert_eq!(hub.get(&format!("{CONFIGS}?timeout=3m")).await.code, 200);
    for path in [CONFIGS, "/version"] {
        let refused = hub.get(&format!("{path}?timeout=invalid")).await;
        assert_eq!(
            (refused.code, &refused.body["message"]),
            (
                400,
                &json!("invalid timeout specified in the request URL - time: invalid duration \"invalid\"")
            )
        );
    }
}
