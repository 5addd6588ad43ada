"""The boot script, run with a stub PATH: what it arms, what it starts, and that it always ends the machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from include.compute.ec2.user_data import LONGEST_BYTES, agent_configuration, render
from include.config.settings import Settings
from include.core.errors import UserError
from tests.support.waiting import eventually

WHEEL = "plimsoll_worker-0.1.0-py3-none-any.whl"
# What the script needs of a machine besides the stubs.
TOOLS = ("mkdir", "touch", "tee", "find", "tail", "cat", "sleep")
STUBBED = ("shutdown", "aws", "docker", "python3", "systemctl")
STUB = """\
#!/bin/bash
echo "{name} $*" >>"{calls}"
{body}
"""


class Machine:
    """A folder that stands for the instance, and commands that only write down that they were called."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.bin = folder / "bin"
        self.calls = folder / "calls"
        self.bin.mkdir(parents=True)
        self.root.mkdir()
        self.calls.write_text("")
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None
            (self.bin / tool).symlink_to(found)
        for name in STUBBED:
            self.stub(name)

    def stub(self, name: str, body: str = "exit 0") -> None:
        path = self.bin / name
        # Most of them are links to the tools of this host: writing through one would replace the tool itself.
        path.unlink(missing_ok=True)
        path.write_text(STUB.format(name=name, calls=self.calls, body=body))
        path.chmod(0o755)

    def start(self, script: str) -> subprocess.Popen[bytes]:
        # The script adds the usual folders behind PATH; here nothing but the stubs may be found.
        only_stubs = "\n".join(
            f'export PATH="{self.bin}"' if line.startswith("export PATH=") else line for line in script.splitlines()
        )
        assert f'export PATH="{self.bin}"' in only_stubs
        path = self.root.parent / "user-data"
        path.write_text(only_stubs)
        return subprocess.Popen(
            ["/bin/bash", str(path)], env={"PATH": str(self.bin)}, start_new_session=True, cwd=self.root
        )

    def run(self, script: str) -> list[str]:
        process = self.start(script)
        try:
            process.wait(20)
        finally:
            end(process)
        return self.said()

    def said(self) -> list[str]:
        return self.calls.read_text().splitlines()


def end(process: subprocess.Popen[bytes]) -> None:
    """The whole session of the script, its watchdog included."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(5)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def settings(**over: Any) -> Settings:
    values = {"store": "s3://bucket/store", "ec2_worker_image": "registry.example/plimsoll:1", **over}
    return Settings.model_validate(values)


def script(machine: Machine, **over: Any) -> str:
    return render(lease_id="train-abc-g1", settings=settings(**over), work_root=str(machine.root))


def test_the_first_line_arms_the_shutdown_and_the_last_call_makes_it(machine: Machine):
    text = script(machine, ec2_dead_man_s=900.0)
    assert text.splitlines()[:2] == ["#!/bin/bash", "shutdown -h +15"]
    said = machine.run(text)
    assert said[0] == "shutdown -h +15"
    assert said[-1] == "shutdown -h now"


def test_the_image_is_pulled_and_its_agent_started_for_the_lease(machine: Machine):
    said = machine.run(script(machine))
    pull, run = (line for line in said if line.startswith("docker"))
    assert pull == "docker pull registry.example/plimsoll:1"
    assert run.endswith("registry.example/plimsoll:1 python -m include.compute.agent train-abc-g1")
    assert f"--volume {machine.root}:{machine.root}" in run
    assert "--env PLIMSOLL_STORE" in run
    assert "--network host" in run
    assert "--gpus" not in run


def test_a_machine_with_gpus_hands_them_to_the_container(machine: Machine):
    machine.stub("nvidia-smi")
    assert any("--gpus all" in line for line in machine.run(script(machine)))


def test_a_private_registry_is_logged_into(machine: Machine):
    image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/plimsoll:1"
    said = machine.run(script(machine, ec2_worker_image=image))
    assert "aws ecr get-login-password --region us-east-1" in said
    assert f"docker login --username AWS --password-stdin {image.partition('/')[0]}" in said


def test_the_wheel_comes_from_the_store_and_nothing_from_an_index(machine: Machine):
    machine.stub("venv-python")
    (machine.bin / "cp").symlink_to(str(shutil.which("cp")))
    machine.stub("python3", f'mkdir -p "{machine.root}/venv/bin"; cp {machine.bin}/venv-python "$4/bin/python"')
    said = machine.run(script(machine, ec2_worker_image="", ec2_worker_wheel=f"s3://bucket/wheels/{WHEEL}"))
    assert f"aws s3 cp s3://bucket/wheels/{WHEEL} {machine.root}/wheels/" in said
    install, run = (line for line in said if line.startswith("venv-python"))
    assert (
        install
        == f"venv-python -m pip install --no-index --find-links {machine.root}/wheels {machine.root}/wheels/{WHEEL}"
    )
    assert run == "venv-python -m include.compute.agent train-abc-g1"


def test_a_folder_of_wheels_is_fetched_whole(machine: Machine):
    text = script(machine, ec2_worker_image="", ec2_worker_wheel="s3://bucket/wheels/")
    assert "aws s3 cp --recursive s3://bucket/wheels/" in text
    assert "plimsoll-worker" in text


@pytest.mark.parametrize("failing", ["docker", "systemctl"])
def test_whatever_fails_the_machine_goes_down(machine: Machine, failing: str):
    machine.stub(failing, "exit 1")
    machine.stub("sleep", "[ $1 -ge 30 ] && exit 1; exit 0")
    said = machine.run(script(machine))
    assert said[-1] == "shutdown -h now"


def test_an_agent_that_fails_leaves_the_boot_log_in_the_store(machine: Machine):
    machine.stub("docker", 'if [ "$1" = run ]; then echo boom; exit 3; fi')
    said = machine.run(script(machine))
    assert said[-2:] == ["aws s3 cp - s3://bucket/store/leases/train-abc-g1/boot.log", "shutdown -h now"]
    assert "boom" in (machine.root / "boot.log").read_text()
    assert "status 3" in (machine.root / "boot.log").read_text()


def test_a_script_that_is_killed_goes_down_too(machine: Machine):
    machine.stub("docker", 'if [ "$1" = run ]; then sleep 30; fi')
    process = machine.start(script(machine))
    try:
        eventually(lambda: any(line.startswith("docker run") for line in machine.said()), what="the agent runs")
        (agent,) = (line for line in machine.said() if line.startswith("docker run"))
        assert agent
        process.send_signal(signal.SIGTERM)
        # Bash answers when its child is over, as after the SIGTERM that every process gets in a shutdown.
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)
    finally:
        end(process)
    assert machine.said()[-1] == "shutdown -h now"


def test_the_watchdog_puts_the_shutdown_off_only_while_the_file_is_touched(machine: Machine):
    machine.stub("docker", 'if [ "$1" = run ]; then while [ -e running ]; do sleep 0.05; done; fi')
    (machine.root / "running").touch()
    text = script(machine).replace("while sleep 60", "while sleep 0.05")
    process = machine.start(text)
    try:
        eventually(lambda: machine.said().count("shutdown -h +30") >= 3, what="the shutdown is put off")
        long_ago = time.time() - 3600
        os.utime(machine.root / "alive", (long_ago, long_ago))
        time.sleep(0.3)
        before = machine.said().count("shutdown -h +30")
        time.sleep(0.5)
        assert machine.said().count("shutdown -h +30") == before
        (machine.root / "running").unlink()
        process.wait(10)
    finally:
        end(process)
    assert machine.said()[-1] == "shutdown -h now"


def test_the_configuration_is_what_the_script_exports(machine: Machine):
    text = script(machine, ec2_dead_man_s=600.0, energy_meter="estimate")
    told = agent_configuration(text)
    assert (told.lease_id, told.dead_man_s) == ("train-abc-g1", 600.0)
    assert told.environment["PLIMSOLL_STORE"] == "s3://bucket/store"
    assert told.environment["PLIMSOLL_ENERGY_METER"] == "estimate"
    assert told.environment["PLIMSOLL_ALIVE_FILE"] == f"{machine.root}/alive"
    assert told.environment["AWS_REGION"] == "us-east-1"
    for name, value in told.environment.items():
        assert f"export {name}={value}" in text
    assert Settings.from_environment(told.environment).store == "s3://bucket/store"


def test_other_user_data_names_no_agent():
    with pytest.raises(ValueError, match="no agent"):
        agent_configuration("#!/bin/bash\necho hello\n")


def test_no_secret_of_the_settings_is_written(machine: Machine):
    text = script(
        machine,
        ledger="postgresql://plimsoll:s3cr3t@db/ledger",
        mlflow_uri="http://user:s3cr3t@mlflow:5000",
        notify_connections="slack_hook",
    )
    environment = str(agent_configuration(text).environment)
    for secret in ("s3cr3t", "postgresql", "mlflow", "slack_hook"):
        assert secret not in text
        assert secret not in environment


def test_a_url_with_credentials_is_refused(machine: Machine):
    with pytest.raises(UserError, match="PLIMSOLL_DCGM_URL"):
        script(machine, dcgm_url="http://user:s3cr3t@127.0.0.1:9400/metrics")


def test_values_are_quoted(machine: Machine):
    text = script(machine, store="s3://bucket/$(touch pwned);x")
    machine.run(text)
    assert not (machine.root / "pwned").exists()


def test_nothing_to_start_is_a_clear_error(machine: Machine):
    with pytest.raises(UserError, match="PLIMSOLL_EC2_WORKER_IMAGE"):
        script(machine, ec2_worker_image="")


def test_it_fits_into_what_ec2_takes(machine: Machine):
    assert len(script(machine).encode()) < LONGEST_BYTES / 3
    with pytest.raises(UserError, match="too long"):
        script(machine, store=f"s3://bucket/{'x' * 6000}")
