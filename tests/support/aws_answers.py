"""Answers of AWS as the catalog's refresh gets them, and clients that give them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

NOW = datetime(2026, 11, 30, 6, 0, tzinfo=UTC)
REGION = "us-east-1"


def record(name, **changes):
    """``InstanceTypes`` entry of DescribeInstanceTypes, of a CPU type unless changed."""
    return {
        "InstanceType": name,
        "SupportedUsageClasses": ["on-demand", "spot"],
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "VCpuInfo": {"DefaultVCpus": 8},
        "MemoryInfo": {"SizeInMiB": 32768},
        "NetworkInfo": {
            "NetworkPerformance": "Up to 10 Gigabit",
            "NetworkCards": [{"BaselineBandwidthInGbps": 2.5}],
        },
        **changes,
    }


def gpu(name, *, count, memory_mib, manufacturer="NVIDIA", **changes):
    entry = {"Name": name, "Manufacturer": manufacturer, "Count": count, "MemoryInfo": {"SizeInMiB": memory_mib}}
    return {"GpuInfo": {"Gpus": [{**entry, **changes}]}}


def spot(name, zone, usd, *, age=timedelta(hours=3), product="Linux/UNIX"):
    return {
        "InstanceType": name,
        "AvailabilityZone": zone,
        "ProductDescription": product,
        "SpotPrice": usd,
        "Timestamp": NOW - age,
    }


def product(name, usd, *, unit="Hrs"):
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}}
    return json.dumps(
        {
            "product": {"attributes": {"instanceType": name}},
            "terms": {"OnDemand": {"SKU.TERM": {"priceDimensions": {"SKU.TERM.RATE": dimension}}}},
        }
    )


class FakeClient:
    """Pages of canned answers; an answer that is an exception is raised."""

    def __init__(self, answers):
        self.answers = answers
        self.asked = []

    def get_paginator(self, operation):
        client = self

        class Paginator:
            def paginate(self, **arguments):
                client.asked.append((operation, arguments))
                answer = client.answers[operation]
                if isinstance(answer, Exception):
                    raise answer
                # one page per item: whoever reads the first page alone is found out
                yield from ({key: [item]} for key, items in answer.items() for item in items)

        return Paginator()


class FakeClients:
    """The two clients of a refresh."""

    def __init__(self, ec2, pricing):
        self.ec2_client, self.pricing_client = FakeClient(ec2), FakeClient(pricing)

    def ec2(self, region):
        return self.ec2_client

    def pricing(self):
        return self.pricing_client


def good_answers():
    """What EC2 and Pricing say of two types in one region."""
    ec2 = {
        "describe_instance_type_offerings": {
            "InstanceTypeOfferings": [{"InstanceType": n} for n in ("g5.xlarge", "c7i.xlarge", "t3.nano")]
        },
        "describe_instance_types": {
            "InstanceTypes": [
                record("g5.xlarge", **gpu("A10G", count=1, memory_mib=22888)),
                record("c7i.xlarge"),
            ]
        },
        "describe_spot_price_history": {
            "SpotPriceHistory": [
                spot("g5.xlarge", "us-east-1a", "0.402"),
                spot("g5.xlarge", "us-east-1a", "0.398", age=timedelta(hours=30)),
                spot("g5.xlarge", "us-east-1b", "0.4500"),
                spot("c7i.xlarge", "us-east-1a", "0.07", product="Windows"),
            ]
        },
    }
    pricing = {
        "get_products": {
            "PriceList": [
                product("g5.xlarge", "1.0060000000"),
                product("c7i.xlarge", "0.1785"),
                product("t3.nano", "1"),
            ]
        }
    }
    return ec2, pricing
