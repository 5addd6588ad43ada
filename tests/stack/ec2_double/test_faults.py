import pytest
from botocore.exceptions import ConnectionClosedError

CODES = [
    ("InsufficientInstanceCapacity", 500),
    ("SpotMaxPriceTooLow", 400),
    ("MaxSpotInstanceCountExceeded", 400),
    ("VcpuLimitExceeded", 400),
    ("Unsupported", 400),
    ("RequestLimitExceeded", 503),
    ("UnauthorizedOperation", 403),
    ("InternalError", 500),
    ("Unavailable", 503),
    ("SomethingNobodyKnows", 400),
]


@pytest.mark.parametrize(("code", "status"), CODES)
def test_an_error_has_ec2s_code_and_status_and_no_effect(world, code, status):
    world.double.faults.add(action="RunInstances", code=code, message="no <more> & no less")
    asked = {"ImageId": "ami-12345678", "InstanceType": "g5.xlarge", "MinCount": 1, "MaxCount": 1}
    with pytest.raises(world.ec2.exceptions.ClientError, match="no <more> & no less"):
        world.ec2.run_instances(**asked)
    assert world.double.instances() == ()
    world.double.faults.add(action="RunInstances", code=code)
    assert world.refusal(world.ec2.run_instances, **asked) == (code, status)
    world.run()


def test_a_rule_matches_parameters_and_ends_after_its_times(world):
    faults = world.double.faults
    faults.add(action="RunInstances", match={"InstanceType": r"p\d.*"}, code="Unsupported", times=None)
    faults.add(action="*", match={"TagSpecification.*.Tag.*.Value": "bad"}, code="InternalError", times=2)
    tagged = {"TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "k", "Value": "bad"}]}]}
    seen = []
    for parameters in ({}, {"InstanceType": "p5.48xlarge"}, tagged, tagged, tagged, {"InstanceType": "p5.48xlarge"}):
        try:
            world.run(**parameters)
            seen.append("ok")
        except world.ec2.exceptions.ClientError as error:
            seen.append(error.response["Error"]["Code"])
    assert seen == ["ok", "Unsupported", "InternalError", "InternalError", "ok", "Unsupported"]
    assert [rule.code for rule in faults.applied] == ["Unsupported", "InternalError", "InternalError", "Unsupported"]


def test_a_rule_may_let_calls_pass_first(world):
    world.double.faults.add(action="DescribeInstances", code="Unavailable", skip=2)
    world.ec2.describe_instances()
    world.ec2.describe_instances()
    assert world.refusal(world.ec2.describe_instances) == ("Unavailable", 503)
    world.ec2.describe_instances()


def test_a_lost_request_has_no_effect_and_a_lost_answer_has_one(world):
    world.double.faults.add(action="RunInstances", lost=True)
    with pytest.raises(ConnectionClosedError):
        world.run()
    assert world.double.instances() == ()
    world.double.faults.add(action="RunInstances", after=True)
    with pytest.raises(ConnectionClosedError):
        world.run()
    assert len(world.double.instances()) == 1


def test_an_effect_with_an_error_instead_of_its_answer(world):
    (instance,) = world.run()
    world.double.faults.add(action="TerminateInstances", after=True, code="InternalError")
    assert world.refusal(world.ec2.terminate_instances, InstanceIds=[instance]) == ("InternalError", 500)
    assert world.state(instance) == "shutting-down"


def test_a_delay_lets_time_pass_before_the_call_takes_effect(world):
    world.double.faults.add(action="RunInstances", delay_s=45.0)
    began = world.clock.now()
    world.run()
    (instance,) = world.double.instances()
    assert (instance.launched_at - began).total_seconds() == 45


def test_an_answer_can_be_given_word_by_word(world):
    body = "<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>"
    world.run()
    world.double.faults.add(action="DescribeInstances", raw=body)
    assert world.ec2.describe_instances()["Reservations"] == []
    assert len(world.ec2.describe_instances()["Reservations"]) == 1


def test_the_sdk_retries_what_it_would_retry(world):
    from botocore.config import Config

    client = world.double.client(config=Config(retries={"mode": "standard", "max_attempts": 3}))
    world.double.faults.add(action="DescribeInstances", code="RequestLimitExceeded", times=1)
    assert client.describe_instances()["ResponseMetadata"]["RetryAttempts"] == 1
    assert world.double.counters["ec2:DescribeInstances"] == 2


def test_other_services_fail_in_their_own_format(world):
    world.double.faults.add(service="servicequotas", action="*", code="AccessDeniedException", status=400)
    world.double.faults.add(service="sts", action="GetCallerIdentity", code="ExpiredToken", status=403)
    quotas, sts = world.double.client("service-quotas"), world.double.client("sts")
    asked = {"ServiceCode": "ec2", "QuotaCode": "L-DB2E81BA"}
    assert world.refusal(quotas.get_service_quota, **asked) == ("AccessDeniedException", 400)
    assert world.refusal(sts.get_caller_identity) == ("ExpiredToken", 403)


def test_a_rule_that_does_nothing_is_refused(world):
    with pytest.raises(ValueError, match="needs one of"):
        world.double.faults.add(action="RunInstances")
