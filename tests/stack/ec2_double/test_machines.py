def test_the_dead_man_ends_an_instance_whose_agent_is_silent(world_of):
    world = world_of(dead_man_s=300)
    world.template()
    silent, lively = world.fleet(("g5.xlarge", "us-east-1a"), count=2)["Instances"][0]["InstanceIds"]
    world.clock.sleep(10)
    world.double.tick()
    for _ in range(4):
        world.clock.sleep(100)
        world.machines.touch(lively, at=world.clock.now())
        world.double.tick()
    assert (world.state(silent), world.state(lively)) == ("terminated", "running")
    known = {each.instance_id: each for each in world.double.instances()}
    assert (known[silent].ending_at - known[silent].running_at).total_seconds() == 300
    assert world.shown(silent)["StateReason"]["Code"] == "Client.InstanceInitiatedShutdown"
    assert world.shown(silent)["StateTransitionReason"] == ""


def test_an_agent_that_ends_shuts_its_instance_down(world):
    (instance,) = world.run(InstanceInitiatedShutdownBehavior="terminate")
    world.clock.sleep(50)
    world.double.tick()
    world.machines.exit(instance, at=world.clock.now())
    world.clock.sleep(5)
    assert world.state(instance) == "shutting-down"
    world.clock.sleep(15)
    assert world.state(instance) == "terminated"
    assert world.machines.running == ()


def test_a_spot_instance_never_stops(world):
    spot = world.run_spot()
    world.clock.sleep(50)
    world.double.tick()
    world.machines.exit(spot, at=world.clock.now())
    world.clock.sleep(50)
    assert world.state(spot) == "terminated"
