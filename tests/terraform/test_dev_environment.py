"""terraform/environments/dev: parses, is formatted, and keeps its promises. Validated by Terraform where it can run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import hcl2
import pytest

ROOT = Path(__file__).resolve().parents[2] / "terraform"
FILES = sorted(ROOT.rglob("*.tf"))


def plain(value: Any) -> Any:
    """Parsed HCL without the quotes and markers that the parser keeps."""
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items() if not str(key).startswith("__")}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.strip('"') if isinstance(value, str) else value


def parse(*parts: str) -> dict[str, Any]:
    with ROOT.joinpath(*parts).open() as source:
        return plain(hcl2.load(source))


def resource(document: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    return next(r[kind][name] for r in document["resource"] if kind in r and name in r[kind])


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_parses(path: Path) -> None:
    with path.open() as source:
        assert hcl2.load(source)


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=lambda path: path.name)
def test_every_variable_and_output_is_described(folder: Path) -> None:
    for name, kind in (("variables.tf", "variable"), ("outputs.tf", "output")):
        for entry in parse(str(folder.relative_to(ROOT)), name)[kind]:
            for key, body in entry.items():
                assert body.get("description"), f"{folder.name}/{name}: {key}"
                assert kind == "output" or body.get("type"), f"{folder.name}/{name}: {key}"


def test_the_lifecycle_rule_never_expires_live_objects() -> None:
    document = parse("modules", "artifact_bucket", "main.tf")
    rules = resource(document, "aws_s3_bucket_lifecycle_configuration", "this")["rule"]
    expiring = [rule for rule in rules if "expiration" in rule]
    assert [rule["filter"][0]["prefix"] for rule in expiring] == ["quarantine/"]
    assert any("abort_incomplete_multipart_upload" in rule for rule in rules)


def test_machines_end_themselves_and_guard_their_metadata() -> None:
    template = resource(parse("modules", "gpu_worker", "main.tf"), "aws_launch_template", "worker")
    assert template["instance_initiated_shutdown_behavior"] == "terminate"
    assert template["metadata_options"][0]["http_tokens"] == "required"
    assert template["block_device_mappings"][0]["ebs"][0]["delete_on_termination"] is True
    text = (ROOT / "modules" / "gpu_worker" / "main.tf").read_text()
    assert "shutdown -h +${var.max_lifetime_minutes}" in text
    assert 'spot_instance_type             = "one-time"' in text


def test_the_worker_role_can_start_nothing() -> None:
    policy = (ROOT / "modules" / "gpu_worker" / "policy.tf").read_text()
    assert "ec2:" not in policy
    assert "iam:" not in policy.replace("aws_iam", "")
    assert '"*"' not in policy


def test_dev_has_a_bucket_and_both_launch_templates() -> None:
    modules = {
        name: body for entry in parse("environments", "dev", "main.tf")["module"] for name, body in entry.items()
    }
    assert modules["artifacts"]["source"] == "../../modules/artifact_bucket"
    assert modules["worker"]["source"] == "../../modules/gpu_worker"
    text = (ROOT / "modules" / "gpu_worker" / "main.tf").read_text()
    assert "spot      = var.instance_types.spot" in text
    assert "on-demand = var.instance_types.on_demand" in text


def test_terraform_finds_the_files_formatted() -> None:
    terraform = shutil.which("terraform")
    if terraform is None:
        pytest.skip("SKIPPED: no terraform on PATH, formatting was not checked")
    answer = subprocess.run(
        [terraform, "fmt", "-check", "-recursive", "-diff", str(ROOT)], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout
