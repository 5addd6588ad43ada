"""Pins: what is resolved from what, and what is left out."""

import re

from stack.installation import REPO
from stack.pins import TARGETS, compile_command, without_cuda


def test_packages_of_one_build_of_torch_are_left_out():
    text = (
        "triton==3.0\nnvidia-cublas-cu12==1\nnvidia-nccl-cu12==2\nnvidia-ml-py==13\ncuda-bindings==1\ntorch==2.13.0\n"
    )
    assert without_cuda(text) == "nvidia-ml-py==13\ntorch==2.13.0\n"


def test_all_files_take_their_pins_from_the_first(tmp_path):
    first, *others = TARGETS
    assert "--constraint" not in compile_command(first, tmp_path)
    for target in others:
        command = compile_command(target, tmp_path)
        assert command[command.index("--constraint") + 1] == str(tmp_path / first)


def pinned(path):
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.match(r"^[a-z0-9._-]+(\[[a-z0-9,-]+\])?==\S+$", line) for line in lines), path
    return dict(line.split("==", 1) for line in lines)


def test_the_pinned_files_agree_with_each_other():
    everything = pinned(REPO / "requirements/dev.txt")
    for target in TARGETS:
        # Peers of benches are in no other file; what they share with the project is the same.
        own = pinned(REPO / target)
        assert {name: version for name, version in own.items() if everything.get(name, version) != version} == {}, (
            target
        )
        assert target == "requirements/bench.txt" or own.keys() <= everything.keys(), target


def test_what_the_inputs_name_is_pinned():
    for target, inputs in TARGETS.items():
        names = {re.split(r"[=<>\[]", name)[0] for name in pinned(REPO / target)}
        for part in inputs:
            lines = (REPO / "requirements" / f"{part}.in").read_text().splitlines()
            wanted = {re.split(r"[=<>\[ ]", line)[0].lower() for line in lines if line and not line.startswith("#")}
            assert wanted <= names, (target, part)
