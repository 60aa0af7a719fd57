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

FILE = Path(__file__).parents[2] / "deploy" / "kubernetes.yaml"
MODELS = {
    "Job": "io.fabric8.kubernetes.api.model.batch.v1.Job",
    "CronJob": "io.fabric8.kubernetes.api.model.batch.v1.CronJob",
    "Deployment": "io.fabric8.kubernetes.api.model.apps.Deployment",
}


@pytest.fixture(scope="module")
def documents(spark: SparkSession) -> dict[str, Any]:
    return {kind: parsed(spark, text) for kind, text in texts().items()}


def texts() -> dict[str, str]:
    """By kind, of which there is one each."""
    parts = [part for part in FILE.read_text().split("\n---\n") if "kind:" in part]
    return {kind_of(part): part for part in parts}


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


def container_of(document: Any) -> Any:
    template = document["spec"].get("jobTemplate", document)["spec"]["template"]
    (container,) = template["spec"]["containers"]
    return container


def test_the_client_knows_every_name(documents: dict[str, Any]) -> None:
    assert documents.keys() == MODELS.keys()


def test_a_misspelt_name_is_noticed(spark: SparkSession) -> None:
    """Or the test above would be true of any file."""
    text = texts()["Deployment"].replace("periodSeconds", "periodSecond")
    with pytest.raises(AssertionError, match="periodSecond"):
        parsed(spark, text)


def test_nothing_is_restarted_for_what_the_doctor_finds(documents: dict[str, Any]) -> None:
    """Only for a loop that hangs."""
    assert container_of(documents["Deployment"])["livenessProbe"]["httpGet"]["path"] == "/livez"
    for document in documents.values():
        container = container_of(document)
        probes = [
            container[name] for name in ("livenessProbe", "startupProbe") if name in container
        ]
        assert [probe for probe in probes if "exec" in probe] == []


def test_the_probes_ask_where_the_process_listens(documents: dict[str, Any]) -> None:
    container = container_of(documents["Deployment"])
    (port,) = container["ports"]
    command = container["command"]
    host, listens_on = listen_address(command[command.index("--health") + 1])
    assert (host, listens_on) == ("0.0.0.0", port["containerPort"])  # noqa: S104 - not its own loopback
    asked = {name: container[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")}
    assert {get["port"] for get in asked.values()} == {port["name"]}
    assert asked["readinessProbe"]["path"] == "/readyz"


def test_a_pod_is_given_longer_than_a_batch_may_take_to_end(documents: dict[str, Any]) -> None:
    spec = documents["Deployment"]["spec"]["template"]["spec"]
    command = container_of(documents["Deployment"])["command"]
    stop_seconds = int(command[command.index("--stop-seconds") + 1])
    assert spec["terminationGracePeriodSeconds"] > stop_seconds


def test_images_are_named_without_a_registry(documents: dict[str, Any]) -> None:
    assert {container_of(document)["image"] for document in documents.values()} == {"my-app:1"}
