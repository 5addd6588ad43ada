import pytest

from include.core.clock import FakeClock
from stack.ec2_double import Ec2Double


def test_moto_answers_what_the_double_does_not_hold(world):
    assert "us-east-1" in {region["RegionName"] for region in world.ec2.describe_regions()["Regions"]}
    assert world.double.client("sts").get_caller_identity()["Account"] == world.double.account_id


def test_accounts_of_doubles_and_of_other_users_of_moto_are_apart(world, moto_endpoint):
    import boto3

    iam = world.double.client("iam")
    iam.create_role(RoleName="worker", AssumeRolePolicyDocument="{}")
    other = Ec2Double(FakeClock()).client("iam")
    outside = boto3.client(
        "iam", endpoint_url=moto_endpoint, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    names = [[role["RoleName"] for role in client.list_roles()["Roles"]] for client in (iam, other, outside)]
    assert names == [["worker"], [], []]


def test_a_bucket_works_through_the_double(world):
    s3 = world.double.client("s3")
    s3.create_bucket(Bucket=f"double-{world.double.account_id}")
    s3.put_object(Bucket=f"double-{world.double.account_id}", Key="a/b", Body=b"x" * 100_000)
    assert len(s3.get_object(Bucket=f"double-{world.double.account_id}", Key="a/b")["Body"].read()) == 100_000
    s3.delete_object(Bucket=f"double-{world.double.account_id}", Key="a/b")
    s3.delete_bucket(Bucket=f"double-{world.double.account_id}")


@pytest.mark.parametrize(
    ("service", "call", "parameters"),
    [
        ("ec2", "describe_hosts", {}),
        ("ec2", "create_placement_group", {"GroupName": "g", "Strategy": "cluster"}),
        (
            "iam",
            "simulate_principal_policy",
            {"PolicySourceArn": "arn:aws:iam::1:user/someone", "ActionNames": ["ec2:X"]},
        ),
        ("budgets", "describe_budget_actions_for_account", {"AccountId": "123456789012"}),
    ],
)
def test_what_nobody_has_is_refused_in_words(world, service, call, parameters):
    client = world.double.client(service)
    with pytest.raises(client.exceptions.ClientError, match="double") as caught:
        getattr(client, call)(**parameters)
    assert caught.value.response["Error"]["Code"] == "UnsupportedOperation"
