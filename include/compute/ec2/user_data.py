"""The script that an EC2 instance runs at its first boot: dead man first, then the agent, then the end.

Its first line arms a shutdown, and a shutdown terminates the instance. A watchdog puts it off as long as the agent
touches a file; when the agent ends, for whatever reason, the machine is shut down at once. Nothing is fetched but from
the object store and the image registry, and nothing in here is secret: credentials come from the instance profile.
"""

from __future__ import annotations

import base64
import json
import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from include.config.settings import Settings
from include.core.errors import UserError
from include.core.json_codec import from_json

LONGEST_BYTES = 16 * 1024
WORK_ROOT = "/var/lib/plimsoll"
_MARK = "# plimsoll-agent: "
# What of the settings an agent and its jobs need on a machine without a ledger, an MLflow and an Airflow.
_SETTINGS = (
    "store", "energy_meter", "torch_threads", "loader_workers", "shard_cache_bytes", "stream_above_bytes",
    "skip_bad_shards", "dcgm_url", "lost_after_s",
)  # fmt: skip
_CREDENTIALS_IN_URL = re.compile(r"://[^/\s]*@")

_SCRIPT = """\
#!/bin/bash
shutdown -h +{minutes}
{configuration}
set -u
trap 'shutdown -h now' EXIT
export PATH="${{PATH}}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export HOME="${{HOME:-/root}}"
{exports}
root="${{PLIMSOLL_WORK_ROOT}}"
mkdir -p "${{root}}"
touch "${{PLIMSOLL_ALIVE_FILE}}"
exec > >(tee -a "${{root}}/boot.log") 2>&1

watchdog() {{
  while sleep {look_s}; do
    if [ -n "$(find "${{PLIMSOLL_ALIVE_FILE}}" -mmin -{silence_minutes} 2>/dev/null)" ]; then
      shutdown -h +{minutes}
    fi
  done
}}
watchdog &
watchdog_pid=$!

retry() {{
  for pause in 5 20 60; do
    "$@" && return 0
    sleep "${{pause}}"
  done
  "$@"
}}

run_agent() {{
{run}
}}

run_agent
status=$?
kill "${{watchdog_pid}}" 2>/dev/null
echo "the agent ended with status ${{status}}"
if [ "${{status}}" -ne 0 ]; then
{report}
fi
"""

_RUN_IMAGE = """\
  local image={image}
  local gpus=()
  if command -v nvidia-smi >/dev/null 2>&1; then gpus=(--gpus all); fi
  systemctl start docker || true
{login}  retry docker pull "${{image}}" || return 1
  docker run --rm --init --network host --ipc host --user 0 ${{gpus[@]+"${{gpus[@]}}"}} \\
    --volume "${{root}}:${{root}}" {variables} \\
    "${{image}}" python -m include.compute.agent {lease}"""

_LOGIN = """\
  retry ecr_login || return 1
"""

_ECR = """
ecr_login() {{
  aws ecr get-login-password --region {region} | docker login --username AWS --password-stdin {host}
}}
"""

_RUN_WHEEL = """\
  mkdir -p "${{root}}/wheels"
  retry aws s3 cp{recursive} {wheel} "${{root}}/wheels/" || return 1
  python3 -m venv --system-site-packages "${{root}}/venv" || return 1
  "${{root}}/venv/bin/python" -m pip install --no-index --find-links "${{root}}/wheels" {package} || return 1
  "${{root}}/venv/bin/python" -m include.compute.agent {lease}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfiguration:
    """What the user data tells the agent.

    Attributes:
        lease_id: Lease that the agent owns.
        environment: Variables of the agent.
        dead_man_s: Seconds until the machine shuts down unless it is put off.
    """

    lease_id: str
    environment: dict[str, str]
    dead_man_s: float


def agent_environment(settings: Settings, *, work_root: str = WORK_ROOT) -> dict[str, str]:
    """Variables of an agent on EC2.

    Raises:
        UserError: A value carries credentials; user data can be read by whoever may describe the instance.
    """
    own = settings.to_environment()
    environment = {name: own[name] for name in (f"PLIMSOLL_{field.upper()}" for field in _SETTINGS)}
    environment |= {
        "PLIMSOLL_WORK_ROOT": work_root,
        "PLIMSOLL_ALIVE_FILE": f"{work_root}/alive",
        "PLIMSOLL_REGION": settings.ec2_region,
        "AWS_REGION": settings.ec2_region,
        "AWS_DEFAULT_REGION": settings.ec2_region,
        "PYTHONUNBUFFERED": "1",
    }
    for name, value in environment.items():
        if _CREDENTIALS_IN_URL.search(value):
            raise UserError(
                "a URL with credentials cannot go to an instance", where=name, todo="give the instance profile access"
            )
    return environment


def render(*, lease_id: str, settings: Settings, work_root: str = WORK_ROOT) -> str:
    """User data of a lease's instances.

    Args:
        lease_id: The lease.
        settings: Settings of the installation; only what an agent needs is written.
        work_root: Folder on the instance.

    Raises:
        UserError: Neither an image nor a wheel is set, a value carries credentials, or the script is too long for EC2.
    """
    environment = agent_environment(settings, work_root=work_root)
    configuration = AgentConfiguration(lease_id=lease_id, environment=environment, dead_man_s=settings.ec2_dead_man_s)
    minutes = math.ceil(settings.ec2_dead_man_s / 60)
    helpers, run = _agent_command(lease_id=lease_id, settings=settings, environment=environment)
    script = _SCRIPT.format(
        minutes=minutes,
        configuration=_MARK + _encoded(configuration),
        exports="\n".join(f"export {name}={shlex.quote(value)}" for name, value in environment.items()) + helpers,
        # Looks often enough to see the file at least twice before the shutdown is due.
        look_s=max(10, min(60, int(settings.ec2_dead_man_s / 8))),
        silence_minutes=max(2, minutes // 3),
        run=run,
        report=_report(lease_id, settings),
    )
    if len(script.encode()) > LONGEST_BYTES:
        raise UserError("the user data is too long for EC2", found=f"{len(script.encode())} bytes")
    return script


def agent_configuration(user_data: str) -> AgentConfiguration:
    """What a rendered script tells its agent.

    Raises:
        ValueError: It is not a script of `render`.
    """
    for line in user_data.splitlines():
        if line.startswith(_MARK):
            return from_json(AgentConfiguration, json.loads(base64.b64decode(line.removeprefix(_MARK))))
    raise ValueError("the user data names no agent")


def _encoded(configuration: AgentConfiguration) -> str:
    document = {
        "lease_id": configuration.lease_id,
        "environment": configuration.environment,
        "dead_man_s": configuration.dead_man_s,
    }
    return base64.b64encode(json.dumps(document, separators=(",", ":")).encode()).decode()


def _agent_command(*, lease_id: str, settings: Settings, environment: Mapping[str, str]) -> tuple[str, str]:
    """Functions that the command needs, and the body of the function that runs it."""
    lease = shlex.quote(lease_id)
    if settings.ec2_worker_image:
        image = settings.ec2_worker_image
        host = image.partition("/")[0]
        is_ecr = ".dkr.ecr." in host
        helpers = _ECR.format(region=shlex.quote(settings.ec2_region), host=shlex.quote(host)) if is_ecr else ""
        variables = " ".join(f"--env {name}" for name in environment)
        run = _RUN_IMAGE.format(
            image=shlex.quote(image), login=_LOGIN if is_ecr else "", variables=variables, lease=lease
        )
        return helpers, run
    wheel = settings.ec2_worker_wheel
    if not wheel:
        raise UserError(
            "there is nothing to start on an instance",
            where="PLIMSOLL_EC2_WORKER_IMAGE, PLIMSOLL_EC2_WORKER_WHEEL",
            todo="set one of them",
        )
    folder = wheel.endswith("/")
    # A folder holds the wheel and those of its dependencies that the machine image lacks.
    package = "plimsoll-worker" if folder else f'"${{root}}/wheels/"{shlex.quote(wheel.rpartition("/")[2])}'
    run = _RUN_WHEEL.format(
        recursive=" --recursive" if folder else "", wheel=shlex.quote(wheel), package=package, lease=lease
    )
    return "", run


def _report(lease_id: str, settings: Settings) -> str:
    """Leave the end of the boot log in the store: without it nobody learns why an agent never came up."""
    if not settings.store.startswith("s3://"):
        return '  echo "see ${root}/boot.log"'
    target = shlex.quote(f"{settings.store}/leases/{lease_id}/boot.log")
    return f'  tail -c 20000 "${{root}}/boot.log" | aws s3 cp - {target} || true'
