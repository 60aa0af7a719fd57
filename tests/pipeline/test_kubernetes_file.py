"""deploy/kubernetes.yaml, read by the Kubernetes client that Spark carries: it knows all fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.java_collections import JavaMap  # type: ignore[import-untyped]  # it has none
from pyspark.sql import SparkSession

from milepost.cli.listen_address import listen_address
from milepost.observe.probes import ProbeLimits, Standing, _behind

FILE = Path(__file__).parents[2] / "deploy" / "kubernetes.yaml"
MODELS = {
    "Job": "io.fabric8.kubernetes.api.model.batch.v1.Job",
    "CronJob": "io.fabric8.kubernetes.api.model.batch.v1.CronJob",
    "Deployment": "io.fabric8.kubernetes.api.model.apps.Deployment",
    "PodDisruptionBudget": "io.fabric8.kubernetes.api.model.policy.v1.PodDisruptionBudget",
}
NAMES = {
    "milepost-migrate Job",
    "milepost Deployment",
    "milepost PodDisruptionBudget",
    "milepost-exporter Deployment",
    "milepost-doctor CronJob",
}


@pytest.fixture(scope="module")
def documents(spark: SparkSession) -> dict[str, Any]:
    return {name: parsed(spark, text) for name, text in texts().items()}


def texts() -> dict[str, str]:
    """By name and kind."""
    parts = [part for part in FILE.read_text().split("\n---\n") if "kind:" in part]
    return {f"{name_of(part)} {kind_of(part)}": part for part in parts}


def parsed(spark: SparkSession, text: str) -> Any:
    """As plain values, of which the client knows every name."""
    jvm: Any = spark._jvm
    model = jvm.java.lang.Class.forName(MODELS[kind_of(text)])
    codec = jvm.io.fabric8.kubernetes.client.utils.KubernetesSerialization()
    bean = codec.unmarshal(text, model)
    values = json.loads(codec.asJson(bean))
    assert list(unknown_names(bean, values)) == []
    return values


def kind_of(text: str) -> str:
    kinds: list[str] = re.findall(r"^kind: (\w+)$", text, re.MULTILINE)
    return kinds[0]


def name_of(text: str) -> str:
    names: list[str] = re.findall(r"^  name: (\S+)$", text, re.MULTILINE)
    return names[0]


def unknown_names(bean: Any, values: Any) -> Iterator[str]:
    """Names that the model has no place for; it keeps them aside."""
    if isinstance(values, list):
        for number, each in enumerate(values):
            yield from unknown_names(bean[number], each)
    elif isinstance(values, dict) and not isinstance(bean, JavaMap):
        unknown = set(bean.getAdditionalProperties())
        yield from unknown
        for name in values.keys() - unknown:
            get = getattr(bean, f"get{name[0].upper()}{name[1:]}")
            yield from unknown_names(get(), values[name])


def pod_of(document: Any) -> Any:
    return document["spec"].get("jobTemplate", document)["spec"]["template"]["spec"]


def containers_of(document: Any) -> list[Any]:
    pod = pod_of(document)
    return [*pod.get("initContainers", []), *pod["containers"]]


@pytest.fixture
def pods(documents: dict[str, Any]) -> list[Any]:
    return [document for document in documents.values() if "Pod" not in document["kind"]]


@pytest.fixture
def application(documents: dict[str, Any]) -> Any:
    return documents["milepost Deployment"]


def test_the_client_knows_every_name(documents: dict[str, Any]) -> None:
    assert documents.keys() == NAMES


def test_a_misspelt_name_is_noticed(spark: SparkSession) -> None:
    """Or the test above would be true of any file."""
    text = texts()["milepost Deployment"].replace("periodSeconds", "periodSecond")
    with pytest.raises(AssertionError, match="periodSecond"):
        parsed(spark, text)


def test_nothing_is_restarted_for_what_the_doctor_finds(pods: list[Any], application: Any) -> None:
    """Only for a loop that hangs."""
    (container,) = containers_of(application)
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    for each in (each for document in pods for each in containers_of(document)):
        probes = [each[name] for name in ("livenessProbe", "startupProbe") if name in each]
        assert [probe for probe in probes if "exec" in probe] == []


def test_the_probes_ask_where_the_process_listens(application: Any) -> None:
    (container,) = containers_of(application)
    (port,) = container["ports"]
    command = container["command"]
    host, listens_on = listen_address(command[command.index("--health") + 1])
    assert (host, listens_on) == ("0.0.0.0", port["containerPort"])  # noqa: S104 - not its own loopback
    asked = {name: container[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")}
    assert {get["port"] for get in asked.values()} == {port["name"]}
    assert asked["readinessProbe"]["path"] == "/readyz"


def test_a_lag_does_not_stop_the_rollout_that_reduces_it(application: Any) -> None:
    command = containers_of(application)[0]["command"]
    limit = float(command[command.index("--ready-lag-seconds") + 1])
    assert _behind(Standing(lag_seconds=1e9, is_paused=False), ProbeLimits(limit)) is None


def test_a_pod_is_given_longer_than_a_batch_may_take_to_end(application: Any) -> None:
    command = containers_of(application)[0]["command"]
    stop_seconds = int(command[command.index("--stop-seconds") + 1])
    assert pod_of(application)["terminationGracePeriodSeconds"] > stop_seconds


def test_every_container_is_limited_and_has_no_privileges(pods: list[Any]) -> None:
    for document in pods:
        context = pod_of(document)["securityContext"]
        assert context["runAsNonRoot"]
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in containers_of(document):
            assert container["image"] == "my-app:1", "named without a registry"
            assert container["resources"].keys() == {"requests", "limits"}
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_what_ends_is_removed_and_a_drain_leaves_an_instance(documents: dict[str, Any]) -> None:
    for name in ("milepost-migrate Job", "milepost-doctor CronJob"):
        spec = documents[name]["spec"]
        assert spec.get("jobTemplate", {"spec": spec})["spec"]["ttlSecondsAfterFinished"] > 0
    budget = documents["milepost PodDisruptionBudget"]["spec"]
    application = documents["milepost Deployment"]["spec"]
    assert budget["selector"] == application["selector"]
    assert budget["maxUnavailable"] < application["replicas"]
