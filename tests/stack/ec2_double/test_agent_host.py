import base64
import json
import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from stack.ec2_double import Ec2Double, Market
from stack.ec2_double.agent_host import AgentHost
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration
AGENT = (sys.executable, str(Path(__file__).with_name("small_agent.py")))
BASE = {"ImageId": "ami-12345678", "InstanceType": "g5.xlarge", "MinCount": 1, "MaxCount": 1}


def user_data(dead_man_s=300.0, **environment):
    document = {"lease_id": "train-1-g1", "environment": environment, "dead_man_s": dead_man_s}
    line = base64.b64encode(json.dumps(document).encode()).decode()
    return f"#!/bin/bash\nshutdown -h +5\n# plimsoll-agent: {line}\nexit 1\n"


class Site:
    """A double with agents as processes."""

    def __init__(self, root, **host):
        self.root = root
        self.host = AgentHost(root, command=AGENT, **host)
        market = Market.of(notice_s=1.0)
        self.double = Ec2Double(market=market, agents=self.host, boot_s=0.0, shutdown_s=0.3)
        self.ec2 = self.double.client()

    def launch(self, *, spot=True, **options):
        market = {"InstanceMarketOptions": {"MarketType": "spot"}} if spot else {}
        shutdown = {"InstanceInitiatedShutdownBehavior": "terminate"}
        answer = self.ec2.run_instances(**BASE, **market, **shutdown, UserData=user_data(**options))
        return answer["Instances"][0]["InstanceId"]

    def read(self, instance, name):
        path = self.root / instance / name
        return json.loads(path.read_text()) if path.exists() else None

    def given(self, instance):
        return self.wait(lambda: self.read(instance, "given.json"))

    def metadata(self, instance):
        return self.read(instance, "metadata.json") or {}

    def state(self, instance):
        (found,) = (each for each in self.double.instances() if each.instance_id == instance)
        return found.state.value, found.reason.code if found.reason else None

    def wait(self, condition):
        return eventually(lambda: self.double.tick() or condition(), within_s=30)

    def ended(self, instance):
        return self.wait(lambda: self.state(instance)[0] == "terminated" and self.state(instance))


@pytest.fixture
def site_of(tmp_path):
    sites = []

    def build(**host):
        sites.append(Site(tmp_path, **host))
        return sites[-1]

    yield build
    for site in sites:
        site.double.close()


def gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_an_agent_gets_its_configuration_and_no_credentials_of_ours(site_of, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "ours")
    monkeypatch.setenv("PLIMSOLL_LEDGER", "postgresql://ours")
    site = site_of(environment={"AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    instance = site.launch(PLIMSOLL_STORE="file:///s", PLIMSOLL_WORK_ROOT="/var/lib/plimsoll", AWS_REGION="us-east-1")
    given = site.given(instance)
    environment = given["environment"]
    assert given["lease"] == "train-1-g1"
    assert "AWS_SECRET_ACCESS_KEY" not in environment
    assert "PLIMSOLL_LEDGER" not in environment
    assert environment["PLIMSOLL_STORE"] == "file:///s"
    assert environment["AWS_REGION"] == "us-east-1"
    assert environment["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert environment["PLIMSOLL_WORK_ROOT"] == str(site.root / instance)
    assert environment["PLIMSOLL_ALIVE_FILE"] == str(site.root / instance / "alive")
    seen = site.wait(lambda: site.metadata(instance))
    assert seen["meta-data/instance-type"] == "g5.xlarge"
    assert seen["meta-data/instance-life-cycle"] == "spot"
    assert seen["meta-data/placement/availability-zone"] == "us-east-1a"
    assert seen["meta-data/spot/instance-action"] == "404"
    assert os.getsid(site.host.pids[instance]) == site.host.pids[instance]


def test_termination_is_a_signal_and_at_the_end_everything_is_gone(site_of):
    site = site_of()
    instance = site.launch(spot=False, AGENT_IGNORES_TERM="1")
    child, agent = site.given(instance)["child"], site.host.pids[instance]
    site.ec2.terminate_instances(InstanceIds=[instance])
    assert site.state(instance)[0] == "shutting-down"
    assert not gone(agent)
    assert site.ended(instance) == ("terminated", "Client.UserInitiatedShutdown")
    assert gone(agent)
    assert gone(child)


def test_an_agent_that_ends_shuts_its_instance_down_and_its_strays_end(site_of):
    site = site_of()
    instance = site.launch(AGENT_ENDS="1")
    child = site.given(instance)["child"]
    assert site.ended(instance) == ("terminated", "Client.InstanceInitiatedShutdown")
    assert gone(child)


def test_the_dead_man_ends_a_hung_agent(site_of):
    site = site_of()
    hung = site.launch(dead_man_s=1.0, AGENT_IS_SILENT="1", AGENT_IGNORES_TERM="1")
    lively = site.launch(dead_man_s=1.0)
    agent = site.given(hung) and site.host.pids[hung]
    assert site.ended(hung) == ("terminated", "Client.InstanceInitiatedShutdown")
    assert gone(agent)
    assert site.state(lively) == ("running", None)


def test_a_reclaim_shows_its_notice_and_then_kills(site_of):
    site = site_of()
    instance = site.launch()
    site.given(instance)
    site.double.recommend_rebalance(instance)
    advice, notice = "meta-data/events/recommendations/rebalance", "meta-data/spot/instance-action"
    site.wait(lambda: site.metadata(instance).get(advice, "404") != "404")
    assert site.metadata(instance)[notice] == "404"
    agent = site.host.pids[instance]
    site.double.interrupt(instance)
    shown = site.wait(lambda: (found := site.metadata(instance)[notice]) != "404" and json.loads(found))
    assert shown["action"] == "terminate"
    assert not gone(agent)
    assert site.ended(instance) == ("terminated", "Server.SpotInstanceTermination")
    assert gone(agent)


def test_an_instance_without_an_agent_idles(site_of):
    site = site_of()
    instance = site.ec2.run_instances(**BASE)["Instances"][0]["InstanceId"]
    time.sleep(0.1)
    assert site.state(instance) == ("running", None)
    assert site.host.pids == {}


def test_agents_of_a_double_that_was_killed_are_ended_by_the_next_one(site_of):
    killed, ended = site_of(), site_of()
    instance = killed.launch()
    child, agent = killed.given(instance)["child"], killed.host.pids[instance]
    own = ended.launch()
    ended.given(own)
    assert ended.host.end_leftovers() == 1
    assert eventually(lambda: gone(agent) and gone(child))
    assert not gone(ended.host.pids[own])
    assert ended.host.end_leftovers() == 0


def test_closing_ends_every_agent(site_of):
    site = site_of()
    instances = [site.launch(), site.launch()]
    pids = [site.given(each)["child"] for each in instances] + list(site.host.pids.values())
    site.double.close()
    assert all(gone(pid) for pid in pids)
