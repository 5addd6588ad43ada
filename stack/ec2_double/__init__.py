"""A test double of EC2: what `include.compute.engines.ec2` rents from when there is no account.

A layer of its own for instances, fleets, launch templates, volumes, tags, capacity, prices and faults; moto answers the
rest in the same process.
"""

from stack.ec2_double.account import Timing
from stack.ec2_double.billing import BilledInstance
from stack.ec2_double.double import Ec2Double
from stack.ec2_double.errors import AnswerLostError
from stack.ec2_double.faults import FLEET_LAUNCH, Fault, Faults
from stack.ec2_double.machines import Machines, VirtualMachines
from stack.ec2_double.market import Market
from stack.ec2_double.market_file import MarketFile
from stack.ec2_double.records import Instance, InstanceState

__all__ = [
    "FLEET_LAUNCH",
    "AnswerLostError",
    "BilledInstance",
    "Ec2Double",
    "Fault",
    "Faults",
    "Instance",
    "InstanceState",
    "Machines",
    "Market",
    "MarketFile",
    "Timing",
    "VirtualMachines",
]
