"""Cases of the diagnosis bench as series. They were written down from descriptions before any rule was.

The first half is for working on the rules, the second is held out: its levels, periods and lengths are others.
"""

from __future__ import annotations

from include.training.telemetry.facts import MachineFacts, RankTelemetry
from tests.support.diagnosis_series import (
    GIB,
    SECONDS,
    Case,
    device_series,
    gpu,
    irregular,
    late_start,
    ramp,
    square,
    step_facts,
)

GEN3_X16, GEN4_X16 = 15.76e9, 31.5e9
HEALTHY_STEP = {"data_wait": 0.02, "h2d": 0.01, "compute": 0.95}


def one(name: str, expected: str, *, steps=None, machine=None, **shapes) -> Case:
    seed = sum(map(ord, name))
    rank = RankTelemetry(steps=steps, machine=machine or gpu(), series=device_series(seed=seed, **shapes))
    return Case(name=name, expected=expected, ranks=(rank,))


def several(name: str, expected: str, ranks) -> Case:
    world = len(ranks)
    telemetry = tuple(
        RankTelemetry(
            rank=rank,
            world=world,
            machine=gpu(),
            steps=step_facts(rank=rank, world=world, **steps),
            series=device_series(
                seed=rank, gpu_busy=0.96, sm_active=0.8, tensor_active=0.4, gpu_memory_used_bytes=56 * GIB
            ),
        )
        for rank, steps in enumerate(ranks)
    )
    return Case(name=name, expected=expected, ranks=telemetry)


def first_half() -> list[Case]:
    wave = square(0.95, 0.04, period_s=8, low_s=4)
    return [
        one(
            "a square wave of 8 s in utilisation and power, from a loop without a step timer",
            "scalloped",
            gpu_busy=wave,
            gpu_power_w=square(310, 85, period_s=8, low_s=4),
            gpu_memory_used_bytes=52 * GIB,
        ),
        one(
            "the loop waits for data 40 % of the time",
            "data-bound",
            steps=step_facts(step_s=0.3, data_wait=0.4, h2d=0.01, compute=0.58),
            gpu_busy=square(0.9, 0.1, period_s=10, low_s=4),
            gpu_power_w=square(280, 90, period_s=10, low_s=4),
            gpu_memory_used_bytes=50 * GIB,
            host_cpu=0.96,
        ),
        one(
            "fp32 matrix products: the SMs are full, the tensor cores rest",
            "tensor cores idle",
            steps=step_facts(step_s=0.4, **HEALTHY_STEP),
            machine=gpu(peak=0.7),
            gpu_busy=0.98,
            sm_active=0.86,
            tensor_active=0.004,
            dram_active=0.35,
            gpu_memory_used_bytes=57 * GIB,
        ),
        one(
            "97 % of the device's memory taken by tensors",
            "near out of memory",
            steps=step_facts(step_s=0.4, **HEALTHY_STEP),
            machine=gpu(peak=0.97),
            gpu_busy=0.95,
            sm_active=0.82,
            tensor_active=0.41,
            dram_active=0.4,
            gpu_memory_used_bytes=78.5 * GIB,
        ),
        one(
            "15 % memory at 30 % compute",
            "oversized",
            steps=step_facts(step_s=0.12, **HEALTHY_STEP),
            machine=gpu(peak=0.15),
            gpu_busy=0.31,
            sm_active=0.3,
            tensor_active=0.12,
            dram_active=0.14,
            gpu_memory_used_bytes=13 * GIB,
        ),
        one(
            "100 % busy while the throughput falls by a third",
            "batch too large",
            steps=step_facts(step_s=0.9, rate=[1000 - 330 * place / 29 for place in range(30)], **HEALTHY_STEP),
            machine=gpu(peak=0.91),
            gpu_busy=1.0,
            sm_active=0.8,
            tensor_active=0.3,
            dram_active=0.5,
            gpu_memory_used_bytes=74 * GIB,
        ),
        one(
            "35 % of the step goes into copies, the link is full",
            "copy-bound",
            steps=step_facts(step_s=0.2, data_wait=0.02, h2d=0.35, compute=0.6),
            machine=gpu(peak=0.6, pcie=GEN3_X16),
            gpu_busy=0.6,
            sm_active=0.45,
            tensor_active=0.2,
            gpu_memory_busy=0.7,
            pcie_to_device_bytes_per_s=11.5e9,
            gpu_memory_used_bytes=49 * GIB,
        ),
        one(
            "hundreds of small kernels: always one running, the device hardly filled",
            "launch-bound",
            steps=step_facts(step_s=0.004, **HEALTHY_STEP),
            machine=gpu(peak=0.55),
            gpu_busy=0.88,
            sm_active=0.1,
            tensor_active=0.02,
            dram_active=0.05,
            gpu_memory_used_bytes=45 * GIB,
        ),
        one(
            "elementwise kernels that saturate the device's memory",
            "bandwidth-bound",
            steps=step_facts(step_s=0.25, **HEALTHY_STEP),
            machine=gpu(peak=0.6),
            gpu_busy=0.99,
            sm_active=0.92,
            tensor_active=0.08,
            dram_active=0.74,
            gpu_memory_used_bytes=50 * GIB,
        ),
        several(
            "rank 2 of 4 computes half as long again, the others wait for it",
            "straggler",
            [
                {"step_s": 0.3, "data_wait": 0.01, "forward": 0.2, "compute": 0.65, "sync": 0.33},
                {"step_s": 0.3, "data_wait": 0.01, "forward": 0.21, "compute": 0.65, "sync": 0.33},
                {"step_s": 0.3, "data_wait": 0.01, "forward": 0.31, "compute": 0.97, "sync": 0.01},
                {"step_s": 0.3, "data_wait": 0.01, "forward": 0.2, "compute": 0.65, "sync": 0.33},
            ],
        ),
        one(
            "healthy, with a short dip at each checkpoint of a minute",
            "ok",
            steps=step_facts(step_s=0.3, save=0.012, **HEALTHY_STEP),
            machine=gpu(peak=0.72, checkpoint_every_s=60),
            gpu_busy=square(0.97, 0.1, period_s=60, low_s=2),
            gpu_power_w=square(330, 120, period_s=60, low_s=2),
            sm_active=square(0.82, 0.05, period_s=60, low_s=2),
            tensor_active=square(0.45, 0.02, period_s=60, low_s=2),
            dram_active=0.4,
            gpu_memory_used_bytes=60 * GIB,
        ),
        one(
            "healthy at a steady 60 %",
            "ok",
            steps=step_facts(step_s=0.3, data_wait=0.03, h2d=0.02, compute=0.93),
            machine=gpu(peak=0.63),
            gpu_busy=0.6,
            gpu_power_w=250,
            sm_active=0.56,
            tensor_active=0.25,
            dram_active=0.3,
            gpu_memory_used_bytes=52 * GIB,
        ),
        one(
            "healthy and full",
            "ok",
            steps=step_facts(step_s=0.5, **HEALTHY_STEP),
            machine=gpu(peak=0.86),
            gpu_busy=0.99,
            gpu_power_w=380,
            sm_active=0.91,
            tensor_active=0.58,
            dram_active=0.47,
            gpu_memory_used_bytes=71 * GIB,
        ),
    ]


def second_half() -> list[Case]:
    dips = irregular(0.93, 0.02, seed=5, every_s=(7, 15), low_s=(3, 6))
    power_dips = irregular(420, 110, seed=5, every_s=(7, 15), low_s=(3, 6))
    sm_dips = irregular(0.8, 0.01, seed=5, every_s=(7, 15), low_s=(3, 6))
    return [
        one(
            "dips of 3 to 6 s at random distances, in all series alike",
            "scalloped",
            gpu_busy=dips,
            sm_active=sm_dips,
            gpu_power_w=power_dips,
            gpu_memory_used_bytes=60 * GIB,
        ),
        one(
            "a fifth of the time is spent waiting for data, evenly",
            "data-bound",
            steps=step_facts(step_s=0.05, data_wait=0.21, h2d=0.02, compute=0.75),
            gpu_busy=0.74,
            gpu_power_w=240,
            gpu_memory_used_bytes=61 * GIB,
            host_cpu=0.3,
            network_received_bytes_per_s=1.1e9,
        ),
        one(
            "convolutions in fp32",
            "tensor cores idle",
            steps=step_facts(step_s=0.6, **HEALTHY_STEP),
            machine=gpu(24, peak=0.8),
            gpu_busy=1.0,
            sm_active=0.94,
            tensor_active=0.0,
            dram_active=0.46,
            gpu_memory_used_bytes=20 * GIB,
        ),
        one(
            "memory that grows from 80 to 97 %",
            "near out of memory",
            steps=step_facts(step_s=0.4, **HEALTHY_STEP),
            machine=gpu(24),
            gpu_busy=0.9,
            sm_active=0.75,
            tensor_active=0.3,
            dram_active=0.4,
            gpu_memory_used_bytes=ramp(19.2 * GIB, 23.3 * GIB),
        ),
        one(
            "9 % memory at a third of the SMs",
            "oversized",
            steps=step_facts(step_s=0.08, data_wait=0.03, h2d=0.02, compute=0.92),
            machine=gpu(141, peak=0.09),
            gpu_busy=0.45,
            sm_active=0.34,
            tensor_active=0.15,
            dram_active=0.12,
            gpu_memory_used_bytes=14 * GIB,
        ),
        one(
            "100 % busy, throughput falls by a fifth in two stages",
            "batch too large",
            steps=step_facts(step_s=1.4, rate=[820.0] * 8 + [730.0] * 8 + [655.0] * 8, **HEALTHY_STEP),
            machine=gpu(40, peak=0.88),
            gpu_busy=0.995,
            sm_active=0.84,
            tensor_active=0.35,
            dram_active=0.5,
            gpu_memory_used_bytes=36.5 * GIB,
        ),
        one(
            "copies that do not block the loop: only the link shows them",
            "copy-bound",
            steps=step_facts(step_s=0.1, data_wait=0.01, compute=0.97),
            machine=gpu(peak=0.66, pcie=GEN4_X16),
            gpu_busy=0.52,
            sm_active=0.28,
            tensor_active=0.1,
            dram_active=0.3,
            gpu_memory_busy=0.8,
            pcie_to_device_bytes_per_s=24e9,
            gpu_memory_used_bytes=55 * GIB,
        ),
        one(
            "device memory 75 % busy, next to no PCIe traffic",
            "ok",
            steps=step_facts(step_s=0.3, **HEALTHY_STEP),
            machine=gpu(peak=0.7, pcie=GEN4_X16),
            gpu_busy=0.97,
            sm_active=0.85,
            tensor_active=0.42,
            dram_active=0.5,
            gpu_memory_busy=0.75,
            pcie_to_device_bytes_per_s=0.4e9,
            gpu_memory_used_bytes=58 * GIB,
        ),
        one(
            "steps of 6 ms on a device that rests most of the time",
            "launch-bound",
            steps=step_facts(step_s=0.006, data_wait=0.01, h2d=0.02, compute=0.94),
            machine=gpu(peak=0.6),
            gpu_busy=0.38,
            sm_active=0.07,
            tensor_active=0.01,
            dram_active=0.03,
            gpu_memory_used_bytes=50 * GIB,
        ),
        one(
            "a bf16 model of normalisations and activations",
            "bandwidth-bound",
            steps=step_facts(step_s=0.18, **HEALTHY_STEP),
            machine=gpu(peak=0.8),
            gpu_busy=1.0,
            sm_active=0.8,
            tensor_active=0.2,
            dram_active=0.67,
            gpu_memory_used_bytes=66 * GIB,
        ),
        several(
            "one rank of two waits for its data",
            "straggler",
            [
                {"step_s": 0.2, "data_wait": 0.01, "forward": 0.25, "compute": 0.94, "sync": 0.02},
                {"step_s": 0.2, "data_wait": 0.3, "forward": 0.25, "compute": 0.66, "sync": 0.01},
            ],
        ),
        one(
            "an eighth of the time goes into saves",
            "save stall",
            steps=step_facts(step_s=0.3, save=0.12, data_wait=0.01, h2d=0.01, compute=0.84),
            machine=gpu(peak=0.7, checkpoint_every_s=40),
            gpu_busy=square(0.97, 0.03, period_s=40, low_s=5),
            gpu_power_w=square(330, 100, period_s=40, low_s=5),
            sm_active=square(0.8, 0.03, period_s=40, low_s=5),
            gpu_memory_used_bytes=59 * GIB,
        ),
        one(
            "healthy, with a validation every 90 s",
            "ok",
            steps=step_facts(step_s=0.35, **HEALTHY_STEP),
            machine=gpu(peak=0.75),
            gpu_busy=square(0.96, 0.3, period_s=90, low_s=6),
            gpu_power_w=square(320, 160, period_s=90, low_s=6),
            sm_active=square(0.8, 0.25, period_s=90, low_s=6),
            tensor_active=square(0.4, 0.1, period_s=90, low_s=6),
            gpu_memory_used_bytes=62 * GIB,
        ),
        one(
            "healthy after 20 s of compilation",
            "ok",
            steps=step_facts(step_s=0.3, **HEALTHY_STEP),
            machine=gpu(peak=0.7),
            gpu_busy=late_start(0.95, after_s=20),
            gpu_power_w=lambda t: 90 if t < 20 else 330,
            sm_active=late_start(0.82, after_s=20),
            tensor_active=late_start(0.4, after_s=20),
            gpu_memory_used_bytes=58 * GIB,
        ),
        one(
            "healthy and noisy",
            "ok",
            steps=step_facts(step_s=0.3, data_wait=0.05, h2d=0.02, compute=0.9, p95_factor=1.6),
            machine=gpu(peak=0.66),
            noise=0.15,
            gpu_busy=0.8,
            gpu_power_w=290,
            sm_active=0.68,
            tensor_active=0.3,
            dram_active=0.35,
            gpu_memory_used_bytes=55 * GIB,
        ),
        one(
            "healthy on a CPU: nothing but the step timer and the host answers",
            "ok",
            steps=step_facts(step_s=0.02, data_wait=0.03, compute=0.94, save=0.005),
            machine=MachineFacts(),
            host_cpu=0.55,
            process_rss_bytes=0.6 * GIB,
        ),
        several(
            "healthy: four ranks within 5 %",
            "ok",
            [
                {"step_s": 0.3, "data_wait": 0.02, "forward": 0.3 + spread, "compute": 0.9, "sync": 0.06}
                for spread in (0.0, 0.006, 0.012, 0.015)
            ],
        ),
        one(
            "utilisation of 20 % and nothing else known",
            "unknown",
            gpu_busy=0.2,
            machine=MachineFacts(),
        ),
    ]


assert SECONDS >= 240, "rules of trends need minutes"
