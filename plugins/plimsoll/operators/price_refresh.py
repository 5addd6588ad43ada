"""Refresh the catalog of types and prices; the last good one stays when anything is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from include.core.clock import SystemClock
from include.core.errors import CatalogRefreshError
from include.core.regions import CLOUD_REGIONS
from plimsoll.hooks.aws_clients import Boto3Clients
from plimsoll.hooks.installation import connect
from plimsoll.hooks.run_context import small_json


class PriceRefreshOperator(BaseOperator):
    """Asks AWS for instance types, offerings, on-demand and spot prices, and replaces the refreshed catalog.

    Without credentials it is skipped: an installation without a cloud plans with the bundled list and its own machines.

    Args:
        regions: Regions to ask for, separated by commas; empty takes those of the settings.
    """

    template_fields: ClassVar[Sequence[str]] = ("regions",)

    def __init__(self, *, regions: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.regions = regions

    def execute(self, context: Any) -> dict[str, Any]:
        """Refresh.

        Returns:
            How many types and prices there are now, and which were left out.

        Raises:
            AirflowFailException: An answer is empty or implausible; asking again at once would not help.
        """
        # Needed when the task runs, not when its DAG file is parsed.
        from botocore.exceptions import NoCredentialsError

        from include.catalog.refresh import refresh_catalog
        from include.core.json_codec import to_json

        installation = connect()
        regions = self._asked() or installation.settings.catalog_regions
        try:
            report = refresh_catalog(
                store=installation.store, clients=Boto3Clients(), regions=regions, now=SystemClock().now()
            )
        except NoCredentialsError as error:
            raise AirflowSkipException(f"no AWS credentials, the catalog stays as it is: {error}") from error
        except CatalogRefreshError as error:
            raise AirflowFailException(f"run={context['ti'].run_id} the last good catalog stays: {error}") from error
        for reason in report.refused_examples:
            self.log.warning("left out: %s", reason)
        return dict(small_json(to_json(report), what="price refresh"))

    def _asked(self) -> tuple[str, ...]:
        asked = tuple(part.strip() for part in str(self.regions).split(",") if part.strip())
        if unknown := [region for region in asked if region not in CLOUD_REGIONS]:
            raise AirflowFailException(f"unknown regions: {', '.join(unknown)}; allowed: {', '.join(CLOUD_REGIONS)}")
        return asked
