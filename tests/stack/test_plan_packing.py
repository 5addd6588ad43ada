"""``make plan PACKING=``: what is printed, the JSON, and the exit status."""

import json

from stack.installation import REPO
from stack.plan_packing import main

EXAMPLE = REPO / "include/packing/ten_models.yaml"
TOO_LARGE = """name: x
isolation: process
devices: [{name: g, count: 1, accelerator: T4, memory_gib: 16}]
models: [{name: m, memory_gib: 20, compute: 0.1}]
"""


def test_the_example_is_printed_with_its_configuration(capsys):
    assert main([str(EXAMPLE)]) == 0
    text = capsys.readouterr().out
    for expected in ("ten-models: 3 devices, mig", "3g.40gb", "Before         11 devices", "mig-configs:", "Does not"):
        assert expected in text


def test_json_is_one_document(capsys):
    assert main([str(EXAMPLE), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["devices"] == 3
    assert {place["isolation"] for place in found["placements"]} == {"mig"}
    assert found["configurations"][0]["text"].startswith("version: v1")


def test_what_is_left_out_is_said_and_the_status_is_not_0(tmp_path, capsys):
    path = tmp_path / "p.yaml"
    path.write_text(TOO_LARGE)
    assert main([str(path)]) == 1
    assert (
        "LEFT OUT       m/0: needs 20.0 GiB, the largest device within its margins has 14.7" in capsys.readouterr().out
    )


def test_device_with_more_memory_than_its_accelerator_has_is_refused(tmp_path, capsys):
    path = tmp_path / "p.yaml"
    path.write_text(TOO_LARGE.replace("memory_gib: 16}", "memory_gib: 160}"))
    assert main([str(path)]) == 64
    assert "no T4 has so much memory" in capsys.readouterr().err


def test_accelerator_that_nobody_knows_is_said(tmp_path, capsys):
    path = tmp_path / "p.yaml"
    path.write_text(TOO_LARGE.replace("T4", "Z9").replace("memory_gib: 20", "memory_gib: 2"))
    assert main([str(path)]) == 0
    assert "Z9: not in the catalog" in capsys.readouterr().out


def test_one_mistake_of_a_model_is_one_line(tmp_path, capsys):
    path = tmp_path / "p.yaml"
    path.write_text(TOO_LARGE.replace("memory_gib: 20", "memory_gib: -2"))
    assert main([str(path)]) == 64
    told = capsys.readouterr().err
    assert "p.yaml: 1 mistake" in told
    assert "models.0.memory_gib: found -2" in told


def test_a_mistake_is_a_line_and_status_64(tmp_path, capsys):
    path = tmp_path / "p.yaml"
    path.write_text("name: x\ndevices: []\nmodels: []\nextra: 1\n")
    assert main([str(path)]) == 64
    told = capsys.readouterr()
    assert "extra: unknown key" in told.err
    assert told.out == ""
