"""Regions that offers and grid intensities are given for; a name that is not among them is a mistake."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# Cloud regions of AWS with where they are.
CLOUD_REGIONS: Mapping[str, str] = MappingProxyType(
    {
        "af-south-1": "South Africa",
        "ap-east-1": "Hong Kong",
        "ap-east-2": "Taiwan",
        "ap-northeast-1": "Japan",
        "ap-northeast-2": "South Korea",
        "ap-northeast-3": "Japan",
        "ap-south-1": "India",
        "ap-south-2": "India",
        "ap-southeast-1": "Singapore",
        "ap-southeast-2": "Australia",
        "ap-southeast-3": "Indonesia",
        "ap-southeast-4": "Australia",
        "ap-southeast-5": "Malaysia",
        "ap-southeast-6": "New Zealand",
        "ap-southeast-7": "Thailand",
        "ca-central-1": "Canada",
        "ca-west-1": "Canada",
        "cn-north-1": "China",
        "cn-northwest-1": "China",
        "eu-central-1": "Germany",
        "eu-central-2": "Switzerland",
        "eu-north-1": "Sweden",
        "eu-south-1": "Italy",
        "eu-south-2": "Spain",
        "eu-west-1": "Ireland",
        "eu-west-2": "United Kingdom",
        "eu-west-3": "France",
        "eusc-de-east-1": "Germany",
        "il-central-1": "Israel",
        "me-central-1": "United Arab Emirates",
        "me-south-1": "Bahrain",
        "mx-central-1": "Mexico",
        "sa-east-1": "Brazil",
        "us-east-1": "United States",
        "us-east-2": "United States",
        "us-gov-east-1": "United States",
        "us-gov-west-1": "United States",
        "us-west-1": "United States",
        "us-west-2": "United States",
    }
)
# What stands for a place that is in none of them, and for the place of this machine.
WORLD = "world"
HERE = "local"
