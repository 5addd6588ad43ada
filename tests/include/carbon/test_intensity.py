"""The grid table: every figure has a year and a source, and the catalog's regions are in it."""

from __future__ import annotations

import pytest

from include.carbon.intensity import intensity_of, load_intensities
from include.catalog.loader import load_catalog
from include.core.errors import UserError


def test_every_figure_is_dated_and_sourced():
    for entry in load_intensities().values():
        if entry.gco2e_per_kwh is None:
            assert entry.year is None
            continue
        assert 1 < entry.gco2e_per_kwh < 1200, entry
        assert 2015 <= entry.year <= 2026, entry
        assert entry.source, entry
        assert entry.scope, entry


def test_the_world_is_known():
    assert intensity_of("world").gco2e_per_kwh == 475.0


def test_regions_of_the_catalog_are_in_the_table():
    assert {offer.region for offer in load_catalog()} <= load_intensities().keys()


def test_low_carbon_grids_are_low():
    assert intensity_of("eu-north-1").gco2e_per_kwh < 100 < intensity_of("us-east-1").gco2e_per_kwh


def test_a_region_without_a_source_is_unknown_not_zero():
    assert intensity_of("cn-north-1").gco2e_per_kwh is None


def test_an_unknown_region_is_a_users_mistake():
    with pytest.raises(UserError, match=r"found: moon-1 \| allowed: .*eu-north-1"):
        intensity_of("moon-1")


def test_country_figures_are_codecarbons():
    from codecarbon.input import DataSource

    mix = DataSource().get_global_energy_mix_data()
    for region, country in (("eu-central-1", "DEU"), ("eu-north-1", "SWE"), ("us-east-1", "USA")):
        assert intensity_of(region).gco2e_per_kwh == mix[country]["carbon_intensity"]
        assert intensity_of(region).year == mix[country]["year"]
