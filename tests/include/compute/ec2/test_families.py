"""Which quota a type counts against."""

from __future__ import annotations

import pytest

from include.compute.ec2.families import quota_of


@pytest.mark.parametrize(
    ("kind", "on_demand", "spot"),
    [
        ("m7i.large", "L-1216C47A", "L-34B43A08"),
        ("c7i-flex.large", "L-1216C47A", "L-34B43A08"),
        ("im4gn.large", "L-1216C47A", "L-34B43A08"),
        ("t3.micro", "L-1216C47A", "L-34B43A08"),
        ("g5.xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("gr6.4xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("vt1.3xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("p4d.24xlarge", "L-417A185B", "L-7212CCBC"),
        ("p5en.48xlarge", "L-417A185B", "L-C4BD4855"),
        ("p6-b200.48xlarge", "L-417A185B", "L-7212CCBC"),
        ("trn1.32xlarge", "L-2C3B7624", "L-6B0D517C"),
        ("inf2.xlarge", "L-1945791B", "L-B5D1601B"),
    ],
)
def test_types_count_against_the_quota_of_their_family(kind: str, on_demand: str, spot: str):
    found = quota_of(kind, "on-demand"), quota_of(kind, "spot")
    assert [each.code for each in found if each] == [on_demand, spot]


@pytest.mark.parametrize("kind", ["hpc7a.96xlarge", "mac2.metal", "u-6tb1.metal", "nonsense"])
def test_families_with_quotas_of_another_kind_have_none(kind: str):
    assert quota_of(kind, "on-demand") is None
