"""A stack that rents from the EC2 double: its environment, its programs, its interruptions."""

import json

import pytest

from include.config.settings import Settings
from include.core.store import ObjectStore
from stack import child_environment, credentials, ec2_local, ports, record, start
from stack.errors import StackError
from stack.installation import StackSettings
from stack.ports import Ports
from stack.programs import programs
from stack.run_order import parse

DOUBLE = Ports(airflow=8091, mlflow=5051, serving=8651, ec2=8701)
PLAIN = Ports(airflow=8091, mlflow=5051, serving=8651)
RUN = "runs/digits/r"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ("local", True)),
        (["--engine", "ec2-local"], ("ec2-local", True)),
        (["--engine", "ec2-local", "--workload", "titanic"], ("ec2-local", True)),
        (["--engine", "ec2-local", "--drill", "0"], ("ec2-local", False)),
        (["--engine", "", "--workload", "titanic"], ("local", False)),
    ],
)
def test_a_run_on_the_double_is_interrupted_unless_a_person_says_no(arguments, expected):
    order = parse(arguments)
    assert (order.engine, order.drill) == expected
    assert order.on(StackSettings()).ec2_double is (expected[0] == "ec2-local")


def test_an_unknown_engine_is_refused(capsys):
    with pytest.raises(SystemExit):
        parse(["--engine", "gcp"])
    assert "ec2-local" in capsys.readouterr().err


def test_only_a_stack_with_the_double_has_its_program_and_its_port(installation):
    assert "ec2-double" not in [program.name for program in programs(installation, PLAIN)]
    (double,) = [program for program in programs(installation, DOUBLE) if program.name == "ec2-double"]
    assert double.command[-2:] == ("--port", "8701")
    assert double.at_once
    taken = ports.choose(StackSettings(ec2_double=True, var=installation.var), lambda _: None, lambda _: True)
    assert taken.ec2 == 8700
    assert ports.choose(StackSettings(var=installation.var), lambda _: None, lambda _: True).ec2 is None


def test_clients_are_pointed_to_the_double_and_trainings_to_ec2(installation):
    secrets = credentials.load_or_create(installation)
    environment = child_environment.build(installation, DOUBLE, secrets, {"AWS_ACCESS_KEY_ID": "a person's own"})
    assert environment["AWS_ENDPOINT_URL_EC2"] == "http://127.0.0.1:8701"
    assert environment["AWS_ACCESS_KEY_ID"] == "ec2-double"
    assert Settings.from_environment(environment).engine == "ec2"
    plain = child_environment.build(installation, PLAIN, secrets, {"AWS_ACCESS_KEY_ID": "a person's own"})
    assert plain["AWS_ACCESS_KEY_ID"] == "a person's own"
    assert Settings.from_environment(plain).engine == "local"


def test_a_bucket_is_refused_because_the_doubles_credentials_would_hide_its_own():
    with pytest.raises(StackError, match="PLIMSOLL_STORE=s3://bucket"):
        ec2_local.refuse_buckets(Settings(store="s3://bucket"))


@pytest.mark.parametrize("asked", [True, False])
def test_a_running_stack_of_the_other_kind_is_not_used(installation, sleeper, asked):
    _, supervisor = sleeper()
    found = (PLAIN if asked else DOUBLE).by_server
    state = record.new(supervisor_pid=supervisor.pid, ports=found, started_at="2026-11-30T00:00:00Z")
    record.write(installation, state.model_copy(update={"healthy": True}))
    with pytest.raises(StackError, match="`make stop`, then again"):
        start.start(StackSettings(var=installation.var, ec2_double=asked), lambda _: None)


@pytest.fixture
def rented(server, tmp_path):
    """Interruptions of a run whose double is a fake server; ``rented.beat(attempt, fraction)`` writes a heartbeat."""
    store = ObjectStore(f"file://{tmp_path}/store")
    found = ec2_local.Interruptions(
        ports=Ports(airflow=1, mlflow=1, serving=1, ec2=server.port), store=store, prefix=RUN, at=(0.3, 0.6)
    )
    server.answers["POST", "/_double/interrupt"] = (200, {})
    return found


def beat(found, attempt, fraction, state="running"):
    key = f"{RUN}/jobs/train-{attempt}/heartbeat.json"
    found.store.put_json(key, {"state": state, "progress": {"fraction": fraction}})


def lives(server, *leases, state="running"):
    listed = [{"state": state, "tags": {"plimsoll:lease": lease}} for lease in leases]
    server.answers["GET", "/_double/instances"] = (200, json.dumps(listed))


def test_each_attempt_is_interrupted_once_and_only_when_it_is_far_enough(rented, server):
    lives(server, "work-x-g1", "train-x-g1")
    rented.look()
    beat(rented, 1, 0.29)
    rented.look()
    assert rented.done == []
    beat(rented, 1, 0.31)
    for _ in range(3):
        rented.look()
    assert rented.done == ["train-x-g1"]
    beat(rented, 2, 0.7)
    rented.look()
    assert rented.done == ["train-x-g1"]  # the double still lists the first instance alone
    lives(server, "train-x-g1", "train-x-g2")
    rented.look()
    beat(rented, 3, 0.9)
    rented.look()
    assert rented.done == ["train-x-g1", "train-x-g2"]
    posted = [body["lease"] for method, _, body, _ in server.requests if method == "POST"]
    assert posted == ["train-x-g1", "train-x-g2"]


def test_a_double_that_does_not_answer_is_asked_again(rented, server):
    beat(rented, 1, 0.5)
    rented.look()
    assert rented.done == []
    lives(server, "train-x-g1")
    rented.look()
    assert rented.done == ["train-x-g1"]
