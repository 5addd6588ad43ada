"""The refresh operator: writes the catalog, is skipped without credentials, fails without retries on nonsense."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from botocore.exceptions import NoCredentialsError

from include.catalog.refreshed_file import KEY, read_refreshed
from plimsoll.hooks.installation import Installation
from plimsoll.operators import price_refresh
from plimsoll.operators.price_refresh import PriceRefreshOperator
from tests.support.aws_answers import FakeClients, good_answers
from tests.support.task_context import FakeTaskInstance, context


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch):
    """``answers(ec2, pricing)``: what AWS says; its prices are of the canned day."""
    from include.core.clock import SystemClock
    from tests.support.aws_answers import NOW

    monkeypatch.setattr(SystemClock, "now", lambda self: NOW)

    def say(ec2, pricing):
        clients = FakeClients(ec2, pricing)
        monkeypatch.setattr(price_refresh, "Boto3Clients", lambda: clients)
        return clients

    return say


def execute(**kwargs) -> dict:
    return PriceRefreshOperator(task_id="refresh", **kwargs).execute(context(FakeTaskInstance()))


def test_it_writes_the_catalog_and_reports(place: Installation, answers) -> None:
    answers(*good_answers())
    report = execute(regions="us-east-1")
    assert (report["types"], report["spot_prices"]) == (2, 2)
    assert read_refreshed(place.store)[0].regions == ("us-east-1",)


def test_without_regions_it_asks_for_those_of_the_settings(place: Installation, answers) -> None:
    clients = answers(*good_answers())
    execute()
    asked = {filters["Value"] for _, how in clients.pricing_client.asked for filters in how["Filters"]}
    assert set(place.settings.catalog_regions) <= asked


def test_an_unknown_region_is_told(place: Installation, answers) -> None:
    answers(*good_answers())
    with pytest.raises(AirflowFailException, match="unknown regions: moon-1; allowed: af-south-1"):
        execute(regions="us-east-1, moon-1")
    assert not place.store.exists(KEY)


def test_without_credentials_it_is_skipped(place: Installation, answers) -> None:
    ec2, pricing = good_answers()
    ec2["describe_instance_type_offerings"] = NoCredentialsError()
    answers(ec2, pricing)
    with pytest.raises(AirflowSkipException, match="no AWS credentials"):
        execute(regions="us-east-1")


def test_nonsense_fails_at_once_and_keeps_the_last_good_catalog(place: Installation, answers) -> None:
    answers(*good_answers())
    execute(regions="us-east-1")
    good = place.store.get(KEY)
    ec2, pricing = good_answers()
    pricing["get_products"] = {"PriceList": []}
    answers(ec2, pricing)
    with pytest.raises(AirflowFailException, match="the last good catalog stays: Pricing GetProducts: no price at all"):
        execute(regions="us-east-1")
    assert place.store.get(KEY) == good


def test_clients_are_of_the_region_and_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from plimsoll.hooks.aws_clients import Boto3Clients

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    clients = Boto3Clients()
    stockholm = clients.ec2("eu-north-1")
    assert stockholm.meta.region_name == "eu-north-1"
    assert clients.ec2("eu-north-1") is stockholm
    # the Pricing service has no endpoint in most regions
    assert clients.pricing().meta.endpoint_url == "https://api.pricing.us-east-1.amazonaws.com"
