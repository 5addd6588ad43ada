"""The grid table: every figure has a year and a source, and the catalog's regions are in it."""

from __future__ import annotations

import pytest

from include.carbon.intensity import intensity_of, load_intensities
from include.catalog.loader import load_catalog
from include.core.errors import UserError
from include.core.regions import CLOUD_REGIONS, WORLD


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
    for region, country in (("eu-central-1", "DEU"), ("eu-north-1", "SWE"), ("ap-east-2", "TWN")):
        assert intensity_of(region).gco2e_per_kwh == mix[country]["carbon_intensity"]
        assert intensity_of(region).year == mix[country]["year"]


def test_figures_of_the_united_states_are_those_of_the_state():
    from codecarbon.input import DataSource

    states = DataSource().get_country_emissions_data("usa")
    for region, state in (("us-east-1", "virginia"), ("us-west-2", "oregon")):
        pounds_per_mwh = states[state]["emissions"]
        assert intensity_of(region).gco2e_per_kwh == pytest.approx(pounds_per_mwh * 0.45359237, abs=0.001)


def test_every_region_is_in_the_table_and_nothing_else():
    assert load_intensities().keys() == {*CLOUD_REGIONS, WORLD}
