"""What an installation has on EC2 is found by its tags alone, and each kind of it can be ended."""

import uuid

import pytest

from include.compute.ec2 import tags as tag
from include.compute.ec2.leftovers import UnlistedError, remove, take_inventory
from include.compute.ec2.resource import Kind
from include.compute.reaper import in_order
from tests.support.ec2_leftovers import Shop, client_of, tags_of

pytestmark = pytest.mark.integration


@pytest.fixture
def installation():
    return uuid.uuid4().hex[:12]


@pytest.fixture
def shop(moto_endpoint):
    return Shop(client_of(moto_endpoint))


def kinds(found):
    return sorted({item.kind for item in found})


def test_one_of_each_kind_is_found_with_what_its_tags_say(shop, installation):
    shop.one_of_each(tags_of("train-a-g1", installation=installation, expires_at=123.0), name=f"of-{installation}")
    found = take_inventory(shop.ec2, installation=installation)
    assert kinds(found) == sorted(Kind)
    assert {item.resource_id for item in found} >= set(shop.made)
    assert {(item.lease_id, item.expires_at) for item in found} == {("train-a-g1", 123.0)}
    (instance,) = [item for item in found if item.kind is Kind.INSTANCE]
    assert instance.lives
    # The root volume hangs on the instance, the other on nothing.
    attached = sorted(item.attached_to for item in found if item.kind is Kind.VOLUME)
    assert attached == ["", instance.resource_id]


def test_each_kind_can_be_ended_and_ended_again(shop, installation):
    shop.one_of_each(tags_of("train-a-g1", installation=installation), name=f"of-{installation}")
    for _ in range(2):
        found = take_inventory(shop.ec2, installation=installation)
        for item in in_order(found):
            remove(shop.ec2, item)
            if item.kind not in (Kind.FLEET, Kind.SPOT_REQUEST):  # moto fails where EC2 does not mind
                remove(shop.ec2, item)
    left = take_inventory(shop.ec2, installation=installation)
    # moto keeps a fleet that is being deleted for ever.
    assert [(item.kind, item.state) for item in left] == [(Kind.FLEET, "deleted_terminating")]


def test_nothing_of_another_installation_and_nothing_without_tags_is_seen(shop, installation):
    theirs = tags_of("train-a-g1", installation="another")
    shop.one_of_each(theirs, name=f"theirs-{installation}")
    shop.instance({"Name": "somebody's"})
    shop.volume({"Name": "somebody's"})
    shop.address({tag.LEASE: "train-a-g1"})
    assert take_inventory(shop.ec2, installation=installation) == ()


def test_the_shared_launch_template_and_instant_fleets_are_no_leftovers(shop, installation):
    shared = shop.launch_template({tag.INSTALLATION: installation}, name=f"shared-{installation}")
    shop.fleet(tags_of("train-a-g1", installation=installation), template=shared, kind="instant")
    assert Kind.FLEET not in kinds(take_inventory(shop.ec2, installation=installation))
    assert Kind.LAUNCH_TEMPLATE not in kinds(take_inventory(shop.ec2, installation=installation))


class Denying:
    """A client that is denied some operations."""

    def __init__(self, client, *denied):
        self._client, self._denied = client, denied

    def can_paginate(self, operation):
        return False

    def __getattr__(self, name):
        if name in self._denied:
            raise PermissionError(f"UnauthorizedOperation: {name}")
        return getattr(self._client, name)


def test_a_kind_that_cannot_be_listed_is_told_and_the_others_are_listed(shop, installation):
    shop.instance(tags_of("train-a-g1", installation=installation))
    with pytest.raises(UnlistedError, match="no address can be listed: Unauthorized") as told:
        take_inventory(Denying(shop.ec2, "describe_addresses", "describe_fleets"), installation=installation)
    assert set(told.value.problems) == {Kind.ADDRESS, Kind.FLEET}
    assert Kind.INSTANCE in kinds(told.value.found)


def test_a_refusal_is_an_error(shop, installation):
    instance = shop.instance(tags_of("train-a-g1", installation=installation))
    shop.ec2.modify_instance_attribute(InstanceId=instance, DisableApiTermination={"Value": True})
    (item,) = [one for one in take_inventory(shop.ec2, installation=installation) if one.kind is Kind.INSTANCE]
    with pytest.raises(Exception, match="OperationNotPermitted"):
        remove(shop.ec2, item)
    shop.ec2.modify_instance_attribute(InstanceId=instance, DisableApiTermination={"Value": False})
    remove(shop.ec2, item)
