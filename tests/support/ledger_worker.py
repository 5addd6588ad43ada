"""One of several processes that use the same ledger at once: ``python -m tests.support.ledger_worker URL NAME LOOPS``.

Prints one JSON line: leases it created on the shared group and the errors it met.
"""

import json
import sys

from include.ledger.ledger import Ledger
from include.ledger.migrate import migrate


def main(url, name, loops):
    migrate(url)
    ledger = Ledger(url)
    created, attempts, errors = [], [], []
    run = {"dag_id": "crowd", "run_id": name}
    for loop in range(loops):
        try:
            shared = ledger.intent(group_id="train-shared", **run)
            own = ledger.intent(group_id=f"work-{name}", **run)
            ledger.ended(group_id=f"work-{name}", lease_id=own.lease_id, reason=f"loop {loop}")
            if shared.created:
                created.append(shared.lease_id)
                ledger.ended(group_id="train-shared", lease_id=shared.lease_id, reason=f"loop {loop}")
            if loop % 5:
                continue
            common = {"dag_id": "crowd", "run_id": "all", "job": "train"}
            attempts.append(ledger.begin_attempt(group_id="train-shared", lease_id=shared.lease_id, **common))
            ledger.end_attempt(attempt=attempts[-1], reason="done", **common)
        except Exception as error:  # noqa: BLE001 - the test wants to see every kind
            errors.append(f"{type(error).__name__}: {error}")
    print(json.dumps({"created": created, "attempts": attempts, "errors": errors}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
