"""Daily: ask AWS for instance types and prices, so that plans do not rest on old ones."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, Param

from plimsoll.operators.price_refresh import PriceRefreshOperator
from plimsoll.run_defaults import default_args

DOC = """
### Price refresh

Reads instance types, where they are offered, on-demand and spot prices from AWS and writes `catalog/aws.json` in the
object store, which every later plan uses. Nothing is written when an answer is empty or makes no sense: the last good
catalog stays, and its prices are flagged as stale when they grow old. Needs read access (`ec2:DescribeInstanceTypes`,
`ec2:DescribeInstanceTypeOfferings`, `ec2:DescribeSpotPriceHistory`, `pricing:GetProducts`); without credentials it is
skipped. Switch it on to have it run.
"""

with DAG(
    dag_id="price_refresh",
    description="Refreshes the catalog of instance types and prices.",
    doc_md=DOC,
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["plimsoll", "operations"],
    default_args=default_args("platform"),
    params={
        "regions": Param(
            default="",
            type="string",
            title="Regions",
            description="Regions to ask for, separated by commas; empty takes those of the settings.",
        )
    },
):
    PriceRefreshOperator(task_id="refresh", regions="{{ params.regions }}")
