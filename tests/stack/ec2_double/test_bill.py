from decimal import Decimal


def test_the_bill_is_per_second_from_running_to_shutting_down(world):
    (instance,) = world.run()
    world.clock.sleep(10 + 3600)
    world.ec2.terminate_instances(InstanceIds=[instance])
    world.clock.sleep(500)
    (line,) = world.double.bill()
    assert (line.type, line.purchase, line.zone) == ("g5.xlarge", "on-demand", "us-east-1a")
    assert (line.seconds, line.usd) == (3600, Decimal("1.006"))
    assert (line.shutting_at - line.running_at).total_seconds() == 3600


def test_an_instance_costs_at_least_a_minute_and_nothing_before_it_runs(world):
    (short,) = world.run()
    (never,) = world.run()
    world.clock.sleep(5)
    world.ec2.terminate_instances(InstanceIds=[never])
    world.clock.sleep(5 + 7)
    world.ec2.terminate_instances(InstanceIds=[short])
    lines = {line.instance_id: line for line in world.double.bill()}
    assert (lines[short].seconds, lines[short].usd) == (60, Decimal("1.006") / 60)
    assert (lines[never].seconds, lines[never].usd, lines[never].running_at) == (0, 0, None)


def test_what_runs_is_billed_until_now_and_a_stopped_instance_is_not(world):
    (runs,) = world.run()
    (stops,) = world.run()
    world.clock.sleep(110)
    world.ec2.stop_instances(InstanceIds=[stops])
    world.clock.sleep(1000)
    seconds = {line.instance_id: line.seconds for line in world.double.bill()}
    assert seconds == {runs: 1100, stops: 100}
    world.ec2.terminate_instances(InstanceIds=[stops])
    world.clock.sleep(60)
    assert {line.instance_id: line.seconds for line in world.double.bill()}[stops] == 100


def test_spot_is_billed_at_its_price_and_a_type_without_a_price_at_none(world):
    spot = world.run_spot()
    (unpriced,) = world.run(InstanceType="m7i.large")
    world.clock.sleep(10 + 3600)
    lines = {line.instance_id: line for line in world.double.bill()}
    assert lines[spot].usd == Decimal("0.3521")
    assert (lines[unpriced].usd_per_h, lines[unpriced].usd) == (None, None)


def test_a_reclaimed_instance_is_billed_to_the_end_of_its_notice(world_of):
    world = world_of(reclaims=[{"nth": 1, "after_s": 100, "notice_s": 120}])
    world.run_spot()
    world.clock.sleep(3000)
    (line,) = world.double.bill()
    assert line.seconds == 220
