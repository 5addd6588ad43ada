"""The one file that Airflow's plugin loader scans: dashboard pages and links."""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from plimsoll.dashboard.web_app import app
from plimsoll.links.instance_links import InstanceLink, InstanceLogLink
from plimsoll.links.run_links import CostAndCarbonLink, DataDocsLink


class PlimsollPlugin(AirflowPlugin):
    """Registers the dashboard: a page in the menu and a tab on each run."""

    name = "plimsoll"
    fastapi_apps: ClassVar[list[Any]] = [{"app": app, "url_prefix": "/plimsoll", "name": "Plimsoll"}]
    operator_extra_links: ClassVar[list[Any]] = [
        CostAndCarbonLink(),
        DataDocsLink(),
        InstanceLink(),
        InstanceLogLink(),
    ]
    external_views: ClassVar[list[Any]] = [
        {
            "name": "Plimsoll",
            "href": "plimsoll/",
            "destination": "nav",
            "category": "browse",
            "url_route": "plimsoll",
        },
        {
            "name": "Cost & carbon",
            "href": "plimsoll/?dag_id={DAG_ID}&run_id={RUN_ID}",
            "destination": "dag_run",
            "url_route": "plimsoll-run",
        },
    ]
