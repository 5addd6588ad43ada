"""One of several processes that want leases: ``python -m tests.support.quota_worker URL NAME LEASES SEED``.

Threads of it share the ledger object. Each takes its leases one after the other: it asks until it has one, holds it for
a moment, and ends it; now and then it gives up and closes its group while it waits. Prints one JSON line.
"""

import json
import random
import sys
import threading
import time
from decimal import Decimal

from include.config.quota_file import Limits, TeamQuota
from include.core.errors import QueuedError
from include.ledger.ledger import IntentLimits, Ledger

QUOTAS = {"vision": TeamQuota(gpus=5, usd_per_h=Decimal("3.5")), "speech": TeamQuota(gpus=3)}
TOTAL = Limits(gpus=6)
THREADS = 3


def take_one(ledger, group, rng):
    team = rng.choice(list(QUOTAS))
    gpus = rng.randint(0, 3)
    limits = IntentLimits(
        team=team, gpus=gpus, usd_per_h=Decimal(gpus) / 2, quota=QUOTAS[team], total=TOTAL, priority=rng.randint(0, 1)
    )
    run = {"dag_id": "crowd", "run_id": group}
    while True:
        try:
            lease = ledger.intent(group_id=group, limits=limits, **run).lease_id
        except QueuedError:
            if rng.random() < 0.02:
                ledger.close(group, **run)
                return "gave up"
            time.sleep(rng.random() * 0.01)
            continue
        time.sleep(rng.random() * 0.01)
        ledger.ended(group_id=group, lease_id=lease, reason="released")
        ledger.close(group, **run)
        return "had one"


def main(url, name, leases, seed):
    ledger, told, errors = Ledger(url), [], []

    def work(thread):
        rng = random.Random(f"{seed} {name} {thread}")
        for number in range(leases):
            try:
                told.append(take_one(ledger, f"train-{name}-{thread}-{number}", rng))
            except Exception as error:  # noqa: BLE001 - the test wants to see every kind
                errors.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"told": told, "errors": errors}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
