//! Behaviour over a real store: what is planned, adopted, withdrawn, reported and told.

use super::*;

#[tokio::test]
async fn a_join_makes_the_cluster_object_once() {
    let mut hub = Hub::with(&["a"]).await;
    let clusters = ResourceId::new("cluster.karmada.io", "clusters");
    let cluster = hub.store.get(&clusters, "", "a").unwrap().value();
    assert_eq!(cluster["metadata"]["labels"]["site"], "a");
    assert_eq!(cluster["spec"]["syncMode"], "Pull");
    let ready = hub.store.facts(&name("a")).unwrap().unwrap().facts.ready.unwrap();
    assert_eq!(
        (ready.status.as_str(), ready.reason.as_str()),
        ("True", "ClusterReady")
    );
    hub.delete(&clusters, "", "a").await;
    hub.reconciler.clusters.mark([()]);
    hub.reconciler.liveness_turn(&mut hub.look).await.unwrap();
    assert!(
        hub.store.get(&clusters, "", "a").is_none(),
        "what a user deleted is not made again"
    );
}

#[tokio::test]
async fn a_revoked_cluster_is_not_ready_at_once_and_stays_so() {
    let mut hub = Hub::with(&["a", "b"]).await;
    assert!(hub.store.revoke(&name("a")).await.unwrap());
    let mut since = None;
    for _ in 0..2 {
        hub.reconciler.presence.heard(&name("a"), clock::monotonic());
        hub.reconciler.clusters.mark([()]);
        hub.reconciler.liveness_turn(&mut hub.look).await.unwrap();
        let ready = hub.store.facts(&name("a")).unwrap().unwrap().facts.ready.unwrap();
        assert_eq!(
            (ready.status.as_str(), ready.reason.as_str()),
            ("False", "Revoked")
        );
        assert_eq!(*since.get_or_insert(ready.since), ready.since);
    }
    let other = hub.store.facts(&name("b")).unwrap().unwrap().facts.ready.unwrap();
    assert_eq!(other.status, "True");
}

#[tokio::test]
async fn a_policy_places_a_template_and_its_binding_says_so() {
    let hub = two_to_one().await;
    assert_eq!(hub.places("web-deployment"), ["a", "b"]);
    assert_eq!(hub.content("web-deployment", "a")["spec"]["replicas"], 2);
    assert_eq!(hub.content("web-deployment", "b")["spec"]["replicas"], 1);
    let binding = hub
        .store
        .get(&bindings(), "shop", "web-deployment")
        .unwrap()
        .value();
    assert_eq!(
        binding["spec"]["clusters"],
        json!([{"name": "a", "replicas": 2}, {"name": "b", "replicas": 1}])
    );
    assert_eq!(binding["metadata"]["ownerReferences"][0]["uid"], "uid-web");
    assert_eq!(binding["metadata"]["generation"], 1);
    let condition = &binding["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("Scheduled"), &json!("True"))
    );
}

#[tokio::test]
async fn planning_again_changes_nothing() {
    let mut hub = two_to_one().await;
    let revision = hub.store.revision();
    let sequence = hub.store.current_set(&name("a")).unwrap().unwrap().sequence;
    hub.plan().await;
    hub.planner = Planner::default();
    hub.plan().await;
    assert_eq!(hub.store.revision(), revision);
    assert_eq!(
        hub.store.current_set(&name("a")).unwrap().unwrap().sequence,
        sequence
    );
}

#[tokio::test]
async fn a_cluster_taken_out_of_the_policy_is_withdrawn_and_nobody_else_moves() {
    let mut hub = two_to_one().await;
    hub.put(&policies(), policy(&[("a", 2), ("c", 1)])).await;
    hub.plan().await;
    assert_eq!(hub.places("web-deployment"), ["a", "c"]);
    assert_eq!(hub.content("web-deployment", "a")["spec"]["replicas"], 2);
    let b = hub.store.current_set(&name("b")).unwrap().unwrap();
    assert_eq!(b.set.entries().len(), 0);
}

#[tokio::test]
async fn a_deleted_template_is_withdrawn_before_its_binding_goes() {
    let mut hub = two_to_one().await;
    let set = hub.store.current_set(&name("a")).unwrap().unwrap();
    assert!(hub.store.mark_published(&name("a"), set.sequence).await.unwrap());
    hub.delete(&deployments(), "shop", "web").await;
    assert_eq!(hub.plan_only(&deployments(), "shop", "web").await, []);
    assert_eq!(hub.places("web-deployment"), Vec::<String>::new());
    assert!(hub.store.get(&bindings(), "shop", "web-deployment").is_none());
    let key = ObjectKey::new("apps", "Deployment", "shop", "web");
    let tombstones = hub.store.tombstones_on(&name("a")).unwrap();
    assert_eq!(
        tombstones
            .iter()
            .map(|t| t.tombstone.key.clone())
            .collect::<Vec<_>>(),
        [key]
    );
    assert_eq!(
        hub.store.tombstones_on(&name("b")).unwrap(),
        [],
        "b was never sent it"
    );
}

#[tokio::test]
async fn what_a_crash_left_behind_is_found_by_the_next_start() {
    let mut hub = two_to_one().await;
    hub.delete(&deployments(), "shop", "web").await;
    // A new life: nothing in memory, and no object of the kind is stored any more.
    let presence = Arc::new(Presence::new(clock::monotonic(), Thresholds::default()));
    hub.reconciler = Reconciler::new(hub.store.clone(), rules(), presence, Settings::default());
    hub.planner = Planner::default();
    hub.plan().await;
    assert_eq!(hub.places("web-deployment"), Vec::<String>::new());
    assert!(hub.store.get(&bindings(), "shop", "web-deployment").is_none());
}

#[tokio::test]
async fn a_lost_policy_leaves_everything_running() {
    let mut hub = two_to_one().await;
    hub.delete(&policies(), "shop", "web").await;
    hub.plan().await;
    assert_eq!(hub.places("web-deployment"), ["a", "b"]);
}

#[tokio::test]
async fn incremental_equals_full() {
    let mut hub = two_to_one().await;
    hub.put(&deployments(), deployment(2, 6, "web:2")).await;
    assert_eq!(hub.plan_only(&deployments(), "shop", "web").await, []);
    let digests = |hub: &Hub| -> Vec<Digest> {
        hub.targets("web-deployment")
            .iter()
            .map(|target| target.entry.digest)
            .collect()
    };
    let incremental = digests(&hub);
    hub.planner = Planner::default();
    hub.plan().await;
    assert_eq!(digests(&hub), incremental);
    assert_eq!(hub.content("web-deployment", "a")["spec"]["replicas"], 4);
}

#[tokio::test]
async fn one_bad_policy_or_object_blocks_no_other() {
    let mut hub = Hub::with(&["a"]).await;
    hub.put(
        &policies(),
        json!({
            "metadata": {"name": "bad", "namespace": "shop", "uid": "x"}, "spec": {"placement": "nonsense"}
        }),
    )
    .await;
    hub.put(
        &deployments(),
        json!({"metadata": {"name": "odd", "namespace": "shop", "uid": "y"}}),
    )
    .await;
    hub.put(&policies(), policy(&[("a", 1)])).await;
    hub.put(&deployments(), deployment(1, 3, "web:1")).await;
    hub.plan().await;
    assert_eq!(hub.places("web-deployment"), ["a"]);
}

#[tokio::test]
async fn a_cluster_that_joins_later_gets_what_goes_everywhere_and_no_share_unasked() {
    let mut hub = Hub::with(&["a"]).await;
    hub.put(&policies(), policy(&[("a", 1), ("late", 1)])).await;
    hub.put(&deployments(), deployment(1, 4, "web:1")).await;
    hub.plan().await;
    assert_eq!(hub.places("web-deployment"), ["a"]);
    hub.join("late").await;
    hub.plan().await;
    // What is divided moves only for a changed placement, changed replicas or a new start (the reference's scheduler).
    assert_eq!(hub.places("web-deployment"), ["a"]);
    hub.put(&deployments(), deployment(2, 6, "web:1")).await;
    hub.plan().await;
    assert_eq!(hub.places("web-deployment"), ["a", "late"]);

    let mut hub = Hub::with(&["a"]).await;
    let mut everywhere = policy(&[("a", 1), ("late", 1)]);
    everywhere["spec"]["placement"]["replicaScheduling"] = json!({"replicaSchedulingType": "Duplicated"});
    hub.put(&policies(), everywhere).await;
    hub.put(&deployments(), deployment(1, 4, "web:1")).await;
    hub.plan().await;
    hub.join("late").await;
    hub.plan().await;
    assert_eq!(hub.places("web-deployment"), ["a", "late"]);
}

#[tokio::test]
async fn reports_become_the_status_of_the_template_without_a_new_generation() {
    let mut hub = two_to_one().await;
    hub.report("web-deployment", "a", Some(member_status(1, 2))).await;
    hub.aggregate().await;
    let web = || hub.store.get(&deployments(), "shop", "web").unwrap().value();
    assert_eq!(web()["status"]["availableReplicas"], 2);
    assert_eq!(
        web()["status"].get("observedGeneration"),
        None,
        "b has not reported"
    );
    let mut hub = hub;
    hub.report("web-deployment", "b", Some(member_status(1, 1))).await;
    hub.aggregate().await;
    let web = hub.store.get(&deployments(), "shop", "web").unwrap();
    let value = web.value();
    assert_eq!(value["status"]["availableReplicas"], 3);
    assert_eq!(value["status"]["observedGeneration"], 1);
    assert_eq!(value["metadata"]["generation"], 1);
    assert_eq!(value["status"]["conditions"][0]["status"], "True");
    hub.aggregate().await;
    assert_eq!(
        hub.store.get(&deployments(), "shop", "web").unwrap().revision,
        web.revision,
        "nothing differs"
    );
    let sequence = hub.store.current_set(&name("a")).unwrap().unwrap().sequence;
    hub.plan().await;
    assert_eq!(
        hub.store.current_set(&name("a")).unwrap().unwrap().sequence,
        sequence,
        "status plans nothing"
    );
}

#[tokio::test]
async fn an_edit_waits_for_the_members_before_it_counts_as_observed() {
    let mut hub = two_to_one().await;
    hub.report("web-deployment", "a", Some(member_status(1, 2))).await;
    hub.report("web-deployment", "b", Some(member_status(1, 1))).await;
    hub.aggregate().await;
    let mut edited = deployment(2, 3, "web:2");
    edited["status"] = hub.store.get(&deployments(), "shop", "web").unwrap().value()["status"].clone();
    hub.put(&deployments(), edited).await;
    hub.plan().await;
    hub.report("web-deployment", "a", Some(member_status(2, 2))).await;
    hub.aggregate().await;
    let observed = |hub: &Hub| {
        hub.store.get(&deployments(), "shop", "web").unwrap().value()["status"]["observedGeneration"].clone()
    };
    assert_eq!(observed(&hub), 1);
    hub.report("web-deployment", "b", Some(member_status(2, 1))).await;
    hub.aggregate().await;
    assert_eq!(observed(&hub), 2);
}

#[tokio::test]
async fn the_same_content_speaks_for_a_newer_generation_once_reported() {
    let mut hub = two_to_one().await;
    let mut same = deployment(2, 3, "web:1");
    same["status"] = json!({"observedGeneration": 1});
    hub.put(&deployments(), same).await;
    hub.plan().await;
    // The member's objects were not written again, so they still name the first generation.
    hub.report("web-deployment", "a", Some(member_status(1, 2))).await;
    hub.report("web-deployment", "b", Some(member_status(1, 1))).await;
    hub.aggregate().await;
    let web = hub.store.get(&deployments(), "shop", "web").unwrap().value();
    assert_eq!(web["status"]["observedGeneration"], 2);
}

#[tokio::test]
async fn why_names_policy_cluster_and_state() {
    let mut hub = two_to_one().await;
    hub.report("web-deployment", "a", Some(member_status(1, 2))).await;
    let explained = explain(&hub.reconciler, &deployments(), "shop", "web").unwrap();
    let told = format!("{explained:?}");
    assert!(told.contains("PropagationPolicy shop/web"), "{told}");
    assert_eq!(explained.placement.len(), 3, "every cluster was judged");
    let state = |cluster: &str| {
        explained
            .clusters
            .iter()
            .find(|state| state.cluster == cluster)
            .unwrap()
    };
    assert_eq!(state("a").reason.known(), Some(Reason::Applied));
    assert_eq!(state("b").reason.known(), Some(Reason::AwaitingCluster));
    assert!(explain(&hub.reconciler, &deployments(), "shop", "nothing").is_err());
    let wire = crate::fleet::wire::Explanation::from(explained);
    assert_eq!(wire.object, "Deployment.apps shop/web");
    assert_eq!(
        wire.clusters.iter().find(|c| c.cluster == "a").unwrap().state,
        "Applied"
    );
}

#[tokio::test]
async fn scheduling_is_told_once_on_template_and_binding() {
    let mut hub = two_to_one().await;
    hub.plan().await;
    let events = hub.store.list(&ResourceId::new("", "events"), Some("shop")).items;
    let told: Vec<Value> = events.iter().map(|event| event.value()).collect();
    let kinds: Vec<&Value> = told
        .iter()
        .map(|event| &event["involvedObject"]["kind"])
        .collect();
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(kinds.contains(&&json!("Deployment")) && kinds.contains(&&json!("ResourceBinding")));
    assert!(
        told.iter()
            .all(|event| event["reason"] == "ScheduleBindingSucceed" && event["count"] == 1)
    );
}

#[tokio::test]
async fn the_tasks_do_all_of_it_by_themselves() {
    let mut hub = Hub::with(&["a", "b"]).await;
    hub.put(&policies(), policy(&[("a", 2), ("b", 1)])).await;
    let store = hub.store.clone();
    let presence = hub.reconciler.presence.clone();
    let reconciler = Arc::new(Reconciler::new(
        store.clone(),
        rules(),
        presence,
        Settings::default(),
    ));
    let running = tokio::spawn({
        let reconciler = reconciler.clone();
        async move { reconciler.run().await }
    });
    hub.put(&deployments(), deployment(1, 3, "web:1")).await;
    until(&store, || hub.places("web-deployment").len() == 2).await;
    hub.report("web-deployment", "a", Some(member_status(1, 2))).await;
    hub.report("web-deployment", "b", Some(member_status(1, 1))).await;
    let observed = || {
        let web = store.get(&deployments(), "shop", "web").unwrap().value();
        web["status"]["observedGeneration"] == 1
    };
    until(&store, observed).await;
    hub.delete(&deployments(), "shop", "web").await;
    until(&store, || hub.places("web-deployment").is_empty()).await;
    until(&store, || {
        store.get(&bindings(), "shop", "web-deployment").is_none()
    })
    .await;
    running.abort();
}
