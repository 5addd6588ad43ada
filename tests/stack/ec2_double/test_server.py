import base64
import json
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import boto3
import psutil
import pytest
from botocore.config import Config

from stack.ec2_double import Ec2Double
from stack.ec2_double.server import DoubleServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration
RUN = {"ImageId": "ami-12345678", "InstanceType": "g5.xlarge", "MinCount": 1, "MaxCount": 1}
LEASE = [{"ResourceType": "instance", "Tags": [{"Key": "plimsoll:lease", "Value": "train-1-g1"}]}]


def client_of(url, service="ec2", **config):
    return boto3.client(
        service,
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="ec2-double",
        aws_secret_access_key="ec2-double",
        config=Config(**config),
    )


def ask(url, route, document=None, method=None):
    body = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(f"{url}/_double/{route}", data=body, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.fixture
def url():
    server = DoubleServer(Ec2Double(boot_s=0.0, shutdown_s=0.0))
    server.start()
    yield server.url
    server.stop()


def test_boto3_launches_finds_and_terminates_over_http(url):
    ec2 = client_of(url)
    instance = ec2.run_instances(**RUN, TagSpecifications=LEASE)["Instances"][0]["InstanceId"]
    ec2.get_waiter("instance_running").wait(InstanceIds=[instance], WaiterConfig={"Delay": 1, "MaxAttempts": 5})
    ec2.terminate_instances(InstanceIds=[instance])
    eventually(lambda: ask(url, "instances")[1][0]["state"] == "terminated", within_s=10)
    _, bill = ask(url, "bill")
    assert (bill["instances"][0]["lease"], bill["instances"][0]["seconds"]) == ("train-1-g1", 60)
    assert float(bill["usd"]) == pytest.approx(1.006 / 60)


def test_a_lost_answer_over_http_is_retried_by_the_sdk_with_its_token(url):
    ask(url, "faults", {"rules": [{"action": "RunInstances", "after": True}]})
    answer = client_of(url, retries={"mode": "standard", "max_attempts": 2}).run_instances(**RUN)
    assert answer["ResponseMetadata"]["RetryAttempts"] == 1
    _, instances = ask(url, "instances")
    assert [each["instance_id"] for each in instances] == [answer["Instances"][0]["InstanceId"]]
    _, faults = ask(url, "faults")
    assert [rule["action"] for rule in faults["applied"]] == ["RunInstances"]


def test_permissions_and_faults_are_set_and_cleared(url):
    ec2 = client_of(url)
    ask(url, "faults", {"forbidden": ["RunInstances"]})
    with pytest.raises(ec2.exceptions.ClientError, match="UnauthorizedOperation"):
        ec2.run_instances(**RUN)
    assert ask(url, "faults", method="DELETE")[1]["forbidden"] == []
    ec2.run_instances(**RUN)


def test_interrupting_by_lease_or_instance(url):
    ec2 = client_of(url)
    spot = {"InstanceMarketOptions": {"MarketType": "spot"}}
    instance = ec2.run_instances(**RUN, **spot, TagSpecifications=LEASE)["Instances"][0]["InstanceId"]
    lasting = ec2.run_instances(**RUN)["Instances"][0]["InstanceId"]
    assert ask(url, "rebalance", {"lease": "train-1-g1"}) == (200, {"advised": [instance]})
    assert ask(url, "interrupt", {"lease": "train-1-g1", "notice_s": 0.1}) == (200, {"interrupted": [instance]})
    eventually(lambda: ask(url, "instances")[1][0]["reason"] == "Server.SpotInstanceTermination", within_s=10)
    assert ask(url, "interrupt", {"lease": "train-1-g1"})[0] == 404
    assert ask(url, "interrupt", {"instance": lasting})[0] == 409
    assert ask(url, "interrupt", {})[0] == 400
    assert ask(url, "nothing")[0] == 404
    assert ask(url, "faults", {"rules": [{"action": "X", "colour": 1}]})[0] == 400


def test_a_bucket_works_over_http(url):
    s3 = client_of(url, "s3")
    s3.create_bucket(Bucket="double-over-http")
    s3.put_object(Bucket="double-over-http", Key="k", Body=b"y" * 300_000)
    assert s3.head_object(Bucket="double-over-http", Key="k")["ContentLength"] == 300_000
    assert s3.get_object(Bucket="double-over-http", Key="k")["Body"].read() == b"y" * 300_000
    s3.delete_object(Bucket="double-over-http", Key="k")
    s3.delete_bucket(Bucket="double-over-http")


def agents_of(program):
    found = []
    for child in psutil.Process(program.pid).children():
        with suppress(psutil.Error):
            if "include.compute.agent" in child.cmdline():
                found.append(child)
    return found


def test_the_program_ends_its_agents_when_it_is_told_to_end(tmp_path):
    log = tmp_path / "double.log"
    (tmp_path / "market.json").write_text(json.dumps({"spot_ratio": "0.5"}))
    work, market = str(tmp_path / "work"), str(tmp_path / "market.json")
    command = [sys.executable, "-m", "stack.ec2_double", "--port", "0", "--work-root", work, "--market", market]
    with log.open("w") as output:
        program = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=Path(__file__).parents[3])
    try:
        line = eventually(
            lambda: next((text for text in log.read_text().split() if "http://" in text), None), within_s=60
        )
        url = line.rstrip(",")
        assert ask(url, "health")[1]["status"] == "healthy"
        # There is no such lease: what counts is that the program of the agent was started.
        document = {"lease_id": "none-g1", "environment": {"PLIMSOLL_STORE": f"file://{tmp_path}"}, "dead_man_s": 300}
        configuration = base64.b64encode(json.dumps(document).encode()).decode()
        ec2 = client_of(url)
        ec2.run_instances(**RUN, UserData=f"# plimsoll-agent: {configuration}\n")
        agents = eventually(lambda: agents_of(program), within_s=30)
    finally:
        program.terminate()
    assert program.wait(30) == 0
    assert not any(agent.is_running() and agent.status() != psutil.STATUS_ZOMBIE for agent in agents)
    assert "instances_started" in log.read_text()
