"""Where a terminal command has looked for what is rented, in words: a proof covers that, and nothing else."""

from __future__ import annotations

from sqlalchemy.engine import make_url

from stack.rented import Rented


def looked_at(rented: Rented) -> tuple[str, ...]:
    """Store, ledger, engine with its region, Airflow; without the password of any."""
    settings = rented.settings
    scheme, _, rest = settings.store.partition("://")
    bucket, slash, path = rest.partition("/")
    ec2 = (
        f"EC2 in {settings.ec2_region}, installation {rented.holdings.installation}"
        if rented.holdings.ec2 is not None
        else f"EC2 was not asked: PLIMSOLL_ENGINE={settings.engine}"
    )
    return (
        f"store {scheme}://{bucket.rpartition('@')[2]}{slash}{path}",
        f"ledger {make_url(settings.ledger).render_as_string(hide_password=True)}",
        ec2,
        "this machine's processes",
        "Airflow" if rented.airflow is not None else "Airflow was not asked: no stack runs",
    )
