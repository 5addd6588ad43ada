"""The quota file: whole ones are read, and each mistake in another is told in a line."""

import os
from decimal import Decimal

import pytest

from include.config.quota_file import Limits, TeamQuota, load_quotas
from include.config.settings import Settings
from include.core.contracts.plan import Criticality
from include.core.errors import UserError

WHOLE = """
total: {gpus: 16, usd_per_month: 9000}
default: {gpus: 1, usd_per_h: 0.1}
teams:
  vision: {gpus: 8, usd_per_h: 12.5, usd_per_month: 3000.10, priority: 10}
  speech: {}
"""


@pytest.fixture
def quotas_of(tmp_path):
    def load(text):
        path = tmp_path / "quotas.yaml"
        path.write_text(text)
        return load_quotas(Settings(quota_file=str(path)))

    return load


def test_each_team_has_its_quota_and_the_others_the_default(quotas_of):
    quotas = quotas_of(WHOLE)
    assert quotas["vision"] == TeamQuota(
        gpus=8, usd_per_h=Decimal("12.5"), usd_per_month=Decimal("3000.1"), priority=10
    )
    assert quotas["speech"] == TeamQuota()
    assert quotas.get("somebody") == TeamQuota(gpus=1, usd_per_h=Decimal("0.1"))
    assert quotas.total == Limits(gpus=16, usd_per_month=9000)
    assert list(quotas) == ["vision", "speech"]


def test_without_a_file_or_a_default_there_is_no_quota(quotas_of):
    for quotas in (load_quotas(Settings()), quotas_of("teams: {vision: {gpus: 3}}")):
        assert quotas.get("somebody") is None
        assert quotas.total is None
        assert quotas.priority("somebody") == 1


def test_the_priority_of_the_team_counts_before_the_criticality_of_its_workload(quotas_of):
    quotas = quotas_of("teams: {a: {priority: 1}, b: {}, c: {priority: -1}}")
    ranks = [quotas.priority(team, kind) for team in "cba" for kind in Criticality]
    assert sorted(ranks) == ranks
    assert len(set(ranks)) == 9


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("teams: {a: {gpus: yes}}", "teams.a.gpus: found 'true' | allowed: Input should be a valid integer"),
        ("teams: {a: {gpus: 1.5}}", "teams.a.gpus: found 1.5"),
        ("teams: {a: {gpus: -1}}", "teams.a.gpus: found -1 | allowed: Input should be greater than or equal to 0"),
        ("teams: {a: {usd_per_h: true}}", "teams.a.usd_per_h: found 'true' | allowed: Input should be a valid decimal"),
        ("teams: {a: {usd_per_h: cheap}}", "teams.a.usd_per_h: found 'cheap'"),
        ("default: {usd_per_month: -0.5}", "default.usd_per_month: found -0.5"),
        ("default: {priority: 9999}", "default.priority: found 9999"),
        ("total: {priority: 1}", "total.priority: unknown key, found 1 | allowed: gpus, usd_per_h, usd_per_month"),
        ("teams: {a: {gpu: 3}}", "teams.a.gpu: unknown key, found 3"),
        ("team: {a: {}}", "team: unknown key, found {'a': {}} | allowed: default, total, teams"),
        ("teams: {default: {gpus: 1}}", "'default' is no team"),
        ("teams: {'': {}}", "found ''"),
        ("teams: [a]", "teams: found ['a']"),
        ("teams: {a: {gpus: 1}, a: {gpus: 2}}", "key 'a' stands twice"),
        ("- a", "a quota file is a mapping"),
        ("teams: {a: {gpus: .inf}}", "not a finite number"),
        ("teams: {", "cannot read the quota file"),
        ("# " + "x" * 300_000, "too long"),
    ],
)
def test_each_mistake_is_told(quotas_of, text, told):
    with pytest.raises(UserError) as refusal:
        quotas_of(text)
    assert told in str(refusal.value)
    assert "quotas.yaml" in str(refusal.value)
    assert "do: " in str(refusal.value)


def test_several_mistakes_are_a_line_each(quotas_of):
    with pytest.raises(UserError, match=r"quotas.yaml: 2 mistakes\n  .*gpus.*\n  .*usd_per_h"):
        quotas_of("teams: {a: {gpus: x}, b: {usd_per_h: y}}")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=r"cannot read the quota file .*nowhere\.yaml"):
        load_quotas(Settings(quota_file=str(tmp_path / "nowhere.yaml")))


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match=r"cannot read the quota file .*no plain file"):
        load_quotas(Settings(quota_file=str(tmp_path / "pipe")))


def test_teams_whose_names_differ_by_case_alone_are_refused(quotas_of):
    with pytest.raises(UserError, match="'vision' and 'Vision' differ by case alone"):
        quotas_of("teams: {vision: {gpus: 1}, Vision: {gpus: 2}}")
