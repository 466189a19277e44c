"""Drives the Python client once in an empty namespace and prints what each step saw, a line each."""

import sys

from kubernetes import client, config, dynamic, utils, watch


def deployment(image):
    labels = {"app": "web"}
    container = client.V1Container(name="web", image=image)
    return client.V1Deployment(
        metadata=client.V1ObjectMeta(name="web", labels=labels),
        spec=client.V1DeploymentSpec(
            replicas=2,
            selector=client.V1LabelSelector(match_labels=labels),
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels=labels),
                spec=client.V1PodSpec(containers=[container]),
            ),
        ),
    )


def main(namespace):
    api_client = config.new_client_from_config()
    apps, core = client.AppsV1Api(api_client), client.CoreV1Api(api_client)

    made = apps.create_namespaced_deployment(namespace, deployment("example.com/web:1"))
    print(f"typed: {made.spec.replicas} replicas of {made.spec.template.spec.containers[0].image}")
    patched = apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 5}})
    print(f"scale: {patched.spec.replicas}")

    try:
        apps.create_namespaced_deployment(namespace, deployment("example.com/web:1"))
    except client.ApiException as error:
        print(f"again: {error.status} {error.reason}")
    broken = deployment("example.com/web:1")
    broken.metadata.name = "Not_A_Name"
    try:
        apps.create_namespaced_deployment(namespace, broken)
    except client.ApiException as error:
        print(f"bad name: {error.status}, names the field {'metadata.name' in error.body}")

    utils.create_from_dict(
        api_client,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"color": "blue"}},
        namespace=namespace,
    )
    before = core.list_namespaced_config_map(namespace)
    core.patch_namespaced_config_map("settings", namespace, {"data": {"color": "green"}})
    core.delete_namespaced_config_map("settings", namespace)
    events = []
    stream = watch.Watch()
    for event in stream.stream(
        core.list_namespaced_config_map,
        namespace,
        resource_version=before.metadata.resource_version,
        timeout_seconds=60,
    ):
        events.append(f"{event['type']} {event['object'].data['color']}")
        if event["type"] == "DELETED":
            stream.stop()
    print(f"watch: {', '.join(events)}")

    maps = dynamic.DynamicClient(api_client).resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1"}}
    applied = maps.server_side_apply(body=body, name="applied", namespace=namespace, field_manager="python")
    print(f"apply: {[entry.manager for entry in applied.metadata.managedFields]}")
    allowed = client.AuthorizationV1Api(api_client).create_self_subject_access_review(
        client.V1SelfSubjectAccessReview(
            spec=client.V1SelfSubjectAccessReviewSpec(
                resource_attributes=client.V1ResourceAttributes(verb="create", resource="pods", namespace=namespace)
            )
        )
    )
    print(f"review: {allowed.status.allowed}")


main(sys.argv[1])
