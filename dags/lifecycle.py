"""One lifecycle DAG per valid workload file: raw data to a served, compressed, accounted model."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG

from include.config.loader import load_folder
from include.config.settings import Settings
from include.config.workload import Workload
from plimsoll import task_ids
from plimsoll.operators.carbon_log import CarbonLogOperator
from plimsoll.operators.checks import ApproveSpendingOperator, CheckInputsOperator
from plimsoll.operators.plan_training import PlanTrainingOperator
from plimsoll.operators.resumable_training import ResumableTrainingOperator
from plimsoll.operators.run_job import RunJobOperator
from plimsoll.operators.seal import SealOperator
from plimsoll.operators.start_run import StartRunOperator
from plimsoll.operators.storage_lifecycle import StorageLifecycleOperator
from plimsoll.run_defaults import default_args
from plimsoll.task_groups.leased_capacity import leased_capacity
from plimsoll.trigger_form import trigger_form
from plimsoll.workload_assets import dataset_asset, model_asset, schedule_of

DOC = """
### {name}

{description}

Takes this workload from raw data to a served model: prepare, validate, size, train on leased capacity with exact
resume, compress, evaluate, choose, register, load-test, deploy, account, clean up. Open *Trigger* for the form; the
plan, cost, carbon and the Pareto picture of a run are on its **Cost & carbon** tab.
"""


def lifecycle(workload: Workload) -> DAG:
    """Compose the DAG of one workload."""
    with DAG(
        dag_id=workload.name,
        description=workload.description,
        doc_md=DOC.format(name=workload.name, description=workload.description),
        schedule=schedule_of(workload),
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=trigger_form(workload),
        tags=["plimsoll", "lifecycle", *workload.tags],
        default_args=default_args(workload.owner),
    ) as dag:
        start = StartRunOperator(task_id=task_ids.START, workload=workload.model_dump(mode="json"))
        prepare = RunJobOperator(
            task_id=task_ids.PREPARE, kind="prepare", pool="jobs", outlets=[dataset_asset(workload)]
        )
        check = CheckInputsOperator(task_id=task_ids.CHECK_INPUTS)
        validate = RunJobOperator(task_id=task_ids.VALIDATE, kind="validate", pool="jobs")
        profile = RunJobOperator(task_id=task_ids.PROFILE, kind="profile", pool="measure")
        plan = PlanTrainingOperator(task_id=task_ids.PLAN)
        approve = ApproveSpendingOperator(task_id=task_ids.APPROVE)
        start >> prepare >> check >> validate >> profile >> plan >> approve

        with leased_capacity(task_ids.TRAIN_GROUP, group="train", pool="gpu") as training:
            train = ResumableTrainingOperator(task_id="train", pool="gpu")
            training.ready >> train >> training.release
        approve >> training.provision

        with leased_capacity(task_ids.WORK_GROUP, group="work", pool="jobs") as compression:
            compress = RunJobOperator.partial(
                task_id="compress", kind="compress", group="work", pool="jobs", map_index_template="{{ task.item }}"
            ).expand(item=start.output)
            evaluate = RunJobOperator.partial(
                task_id="evaluate", kind="evaluate", group="work", pool="measure", map_index_template="{{ task.item }}"
            ).expand(item=start.output)
            compression.ready >> compress >> evaluate >> compression.release
        train >> compression.provision

        select = RunJobOperator(task_id=task_ids.SELECT, kind="select", pool="jobs")
        register = RunJobOperator(
            task_id=task_ids.REGISTER, kind="register", pool="jobs", outlets=[model_asset(workload)]
        )
        size = RunJobOperator(task_id=task_ids.SIZE_SERVING, kind="loadtest", pool="measure")
        deploy = RunJobOperator(task_id=task_ids.DEPLOY, kind="deploy", pool="jobs")
        report = CarbonLogOperator(task_id=task_ids.REPORT, pool="jobs", trigger_rule="none_failed_min_one_success")
        clean_up = StorageLifecycleOperator(task_id=task_ids.CLEAN_UP, scope="run", apply=True, max_share=1.0)
        seal = SealOperator(task_id=task_ids.SEAL, done_task=task_ids.REPORT, trigger_rule="all_done", retries=0)
        evaluate >> select >> register >> size >> deploy >> report >> clean_up
        [training.release, compression.release, clean_up] >> seal.as_teardown(on_failure_fail_dagrun=True)
    return dag


for _workload in load_folder(Settings.from_environment().workloads).valid.values():
    # The prefix keeps a workload from taking the place of a name of this module.
    globals()[f"dag:{_workload.name}"] = lifecycle(_workload)
