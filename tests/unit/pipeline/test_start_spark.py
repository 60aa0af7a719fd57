from __future__ import annotations

from milepost.pipeline.start_spark import settings


def test_a_local_session_needs_no_host_name() -> None:
    chosen = settings(None, {})
    assert chosen["spark.master"] == "local[*]"
    assert chosen["spark.driver.host"] == "localhost"


def test_a_cluster_must_reach_the_driver() -> None:
    assert "spark.driver.host" not in settings("spark://there:7077", {})


def test_what_the_user_sets_wins() -> None:
    config = {"spark.master": "local[1]", "spark.driver.host": "here", "spark.ui.enabled": "true"}
    chosen = settings(None, config)
    assert config.items() <= chosen.items()
    assert settings("local[2]", config)["spark.master"] == "local[2]"


def test_quiet_keeps_the_users_own_java_options_last() -> None:
    options = settings(None, {"spark.driver.extraJavaOptions": "-Xss4m"})
    assert options["spark.driver.extraJavaOptions"].endswith(" -Xss4m")
    assert "log4j2" in options["spark.driver.extraJavaOptions"]
    assert "spark.driver.extraJavaOptions" not in settings(None, {}, is_quiet=False)


def test_filters_are_pushed_down() -> None:
    assert settings(None, {})["spark.sql.python.filterPushdown.enabled"] == "true"


def test_what_spark_submit_has_started_keeps_its_master() -> None:
    chosen = settings(None, {}, is_submitted=True)
    assert "spark.master" not in chosen
    assert "spark.driver.host" not in chosen
    assert settings("local[2]", {}, is_submitted=True)["spark.master"] == "local[2]"
