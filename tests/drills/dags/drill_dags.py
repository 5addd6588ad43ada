"""DAGs of the drills, from the project's own operators: short ones, ones that pause, one without its safety nets."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, TaskGroup

from include.config.loader import load_folder
from include.config.settings import Settings
from plimsoll import task_ids
from plimsoll.operators.plan_training import PlanTrainingOperator
from plimsoll.operators.provision_gpu import ProvisionGpuOperator, ReleaseGpuOperator
from plimsoll.operators.resumable_training import ResumableTrainingOperator
from plimsoll.operators.run_job import RunJobOperator
from plimsoll.operators.seal import SealOperator
from plimsoll.operators.start_run import StartRunOperator
from plimsoll.operators.wait_for_lease import WaitForLeaseOperator
from plimsoll.run_defaults import default_args
from plimsoll.task_groups.leased_capacity import leased_capacity
from plimsoll.trigger_form import trigger_form
from tests.support.pausing_operators import PausingProvisionOperator, PausingTrainingOperator

WORKLOADS = load_folder(Settings.from_environment().workloads).valid


def drill_dag(dag_id: str, workload: str) -> DAG:
    return DAG(
        dag_id=dag_id,
        schedule=None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        params=trigger_form(WORKLOADS[workload]),
        default_args=default_args("drills"),
        tags=["drill"],
    )


def planned(workload: str) -> tuple[StartRunOperator, PlanTrainingOperator]:
    """Raw data to a plan."""
    start = StartRunOperator(task_id=task_ids.START, workload=WORKLOADS[workload].model_dump(mode="json"))
    prepare = RunJobOperator(task_id=task_ids.PREPARE, kind="prepare", pool="jobs")
    profile = RunJobOperator(task_id=task_ids.PROFILE, kind="profile", pool="measure")
    plan = PlanTrainingOperator(task_id=task_ids.PLAN)
    start >> prepare >> profile >> plan
    return start, plan


def seal(release: ReleaseGpuOperator) -> None:
    last = SealOperator(task_id=task_ids.SEAL, trigger_rule="all_done", retries=0)
    release >> last.as_teardown(on_failure_fail_dagrun=True)


def training_dag(dag_id: str, workload: str, operator: type[ResumableTrainingOperator]) -> DAG:
    """Raw data to trained weights."""
    with drill_dag(dag_id, workload) as dag:
        _, plan = planned(workload)
        with leased_capacity(task_ids.TRAIN_GROUP, group="train", pool="gpu") as training:
            training.ready >> operator(task_id="train", pool="gpu") >> training.release
        plan >> training.provision
        seal(training.release)
    return dag


def unguarded_training_dag(dag_id: str, workload: str) -> DAG:
    """A training whose lease nobody releases."""
    with drill_dag(dag_id, workload) as dag:
        _, plan = planned(workload)
        with TaskGroup(group_id=task_ids.TRAIN_GROUP):
            provision = ProvisionGpuOperator(task_id="provision", group="train", pool="gpu")
            ready = WaitForLeaseOperator(task_id="wait_ready", group="train")
            plan >> provision >> ready >> ResumableTrainingOperator(task_id="train", pool="gpu")
    return dag


def launch_dag(dag_id: str, workload: str, moment: str) -> DAG:
    """A launch that waits for the drill, and one small job on the lease."""
    with drill_dag(dag_id, workload) as dag:
        start = StartRunOperator(task_id=task_ids.START, workload=WORKLOADS[workload].model_dump(mode="json"))
        with TaskGroup(group_id=task_ids.WORK_GROUP):
            launch = PausingProvisionOperator(task_id="provision", group="work", pool="jobs", moment=moment).as_setup()
            ready = WaitForLeaseOperator(task_id="wait_ready", group="work")
            job = RunJobOperator(task_id="prepare", kind="prepare", group="work", pool="jobs")
            release = ReleaseGpuOperator(task_id="release", group="work", trigger_rule="all_done")
            start >> launch >> ready >> job >> release
            release.as_teardown(setups=launch)
        seal(release)
    return dag


short = training_dag("short-drill", "drill", ResumableTrainingOperator)
short_too = training_dag("short-drill-too", "drill-too", ResumableTrainingOperator)
slow_recovery = training_dag("slow-recovery", "drill", PausingTrainingOperator)
unguarded = unguarded_training_dag("unguarded", "drill")
after_intent = launch_dag("after-intent", "drill", "intent")
after_launch = launch_dag("after-launch", "drill", "launch")
