"""The double: EC2 with capacity, prices, faults and a bill, in one object."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from include.core.clock import Clock, SystemClock
from stack.ec2_double.account import Account, Timing
from stack.ec2_double.actions import LEFT_TO_MOTO, OWN
from stack.ec2_double.billing import BilledInstance, bill_of
from stack.ec2_double.client import in_process_client
from stack.ec2_double.direct_client import DirectClient
from stack.ec2_double.ec2_xml import known_actions, read_parameters, write_result
from stack.ec2_double.errors import Answer, AnswerLostError, AwsError, RawAnswerError, error_answer
from stack.ec2_double.faults import Fault, Faults
from stack.ec2_double.json_services import json_result, write_json
from stack.ec2_double.lifecycle import Lifecycle
from stack.ec2_double.machines import Machines, VirtualMachines
from stack.ec2_double.market import Market
from stack.ec2_double.moto_behind import ask_moto
from stack.ec2_double.records import Instance
from stack.ec2_double.tokens import once
from stack.ec2_double.wire import DEFAULT_REGION, Call, HttpRequest, read_call

_ACCOUNT_DIGITS = 12


class Ec2Double:
    """EC2 as an installation sees it. Several may live in one process; each has an account of its own.

    Args:
        clock: Time; None is the machine's. With a clock that is moved by hand nothing happens by itself.
        market: What can be had, at what price; None is everything at catalog prices.
        faults: What goes wrong; None is nothing.
        agents: What runs on instances; None is `VirtualMachines`, without processes.
        boot_s: Seconds that an instance is pending.
        shutdown_s: Seconds that it is shutting down.
        visible_after_s: Seconds after a launch for which descriptions do not show an instance.
        seed: Seed of ids; None takes a fresh one.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        market: Market | None = None,
        faults: Faults | None = None,
        agents: Machines | None = None,
        *,
        boot_s: float = 2.0,
        shutdown_s: float = 2.0,
        visible_after_s: float = 0.0,
        seed: int | None = None,
    ) -> None:
        clock = clock or SystemClock()
        randomness = random.Random(seed)  # noqa: S311 - ids, not secrets
        self.faults = faults or Faults()
        self.market = market or Market()
        self.machines: Machines = agents or VirtualMachines()
        self._account = Account(
            account_id=f"{randomness.randrange(10 ** (_ACCOUNT_DIGITS - 1), 10**_ACCOUNT_DIGITS)}",
            clock=clock,
            market=self.market,
            faults=self.faults,
            timing=Timing(boot_s=boot_s, shutdown_s=shutdown_s, visible_after_s=visible_after_s),
            opened_at=clock.now(),
            randomness=randomness,
        )
        self._lifecycle = Lifecycle(self._account, self.machines)
        self._lock = threading.RLock()
        self._requests = itertools.count(1)

    @property
    def account_id(self) -> str:
        """Twelve digits."""
        return self._account.account_id

    @property
    def counters(self) -> Mapping[str, int]:
        """Calls by action (``ec2:RunInstances``), and ``instances_started`` and ``instances_ended``."""
        with self._lock:
            return MappingProxyType(dict(self._account.counts))

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer one request.

        Returns:
            Status, headers, body.

        Raises:
            AnswerLostError: A fault cuts the connection.
        """
        call = read_call(HttpRequest(method=method, path=path, headers=headers, body=body))
        request_id = f"{next(self._requests):032x}"
        try:
            result = self.perform(call)
        except RawAnswerError as raw:
            return raw.answer
        except AwsError as error:
            return error_answer(error, protocol=call.protocol, request_id=request_id)
        if isinstance(result, tuple):
            return result
        write = write_result if call.protocol == "ec2" else write_json
        return write(call.action, result, request_id=request_id)

    def perform(self, call: Call) -> dict[str, Any] | Answer:
        """Do what a call asks, with the faults that apply to it.

        Returns:
            The result in boto3's form, or moto's whole answer.

        Raises:
            AwsError: The call is refused.
            AnswerLostError: A fault cuts the connection.
            RawAnswerError: A fault gives an answer word by word.
        """
        fault = self.faults.next(service=call.service, action=call.action, parameters=call.parameters)
        if fault is not None and fault.delay_s:
            self._account.clock.sleep(fault.delay_s)
        with self._lock:
            self._account.counts[f"{call.service}:{call.action}"] += 1
            self._lifecycle.advance()
            try:
                if fault is not None and not fault.after:
                    _fail(fault, call)
                result = self._result(call)
                if fault is not None and fault.after:
                    _fail(fault, call)
            finally:
                self._lifecycle.advance()
        return result

    def _result(self, call: Call) -> dict[str, Any] | Answer:
        result = None
        if call.protocol == "ec2":
            result = self._ec2_result(call)
        elif call.protocol == "json":
            result = json_result(self._account, call)
        if result is not None:
            return result
        if call.request is None:
            raise AwsError("UnsupportedOperation", f"{call.action} is left to moto: use a client that sends requests")
        return ask_moto(call.request, account_id=self.account_id)

    def _ec2_result(self, call: Call) -> dict[str, Any] | None:
        """The result, None for what is left to moto."""
        action = call.action
        if action not in OWN and action not in LEFT_TO_MOTO and action in known_actions():
            raise AwsError("UnsupportedOperation", f"the double does not have the action {action}")
        parameters = read_parameters(action, call.parameters)
        if self.faults.forbids(action):
            raise AwsError("UnauthorizedOperation", "You are not authorized to perform this operation.")
        if parameters.pop("DryRun", False):
            raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
        if action in LEFT_TO_MOTO:
            return None
        return once(self._account, call.region, action, flat=call.parameters, parameters=parameters, run=OWN[action])

    def client(self, service: str = "ec2", region: str = DEFAULT_REGION, *, config: Any = None) -> Any:  # noqa: ANN401
        """A boto3 client that asks this double in the process, without sockets, and retries nothing.

        Args:
            service: Service; what the double does not have is answered by moto.
            region: Region.
            config: ``botocore.config.Config`` to use instead.
        """
        return in_process_client(self.handle, service=service, region=region, config=config)

    def direct_client(self, service: str = "ec2", region: str = DEFAULT_REGION) -> DirectClient:
        """What can be called like a boto3 client but skips requests and XML: for very many calls.

        Args:
            service: ``ec2``, ``pricing`` or ``service-quotas``.
            region: Region.
        """
        return DirectClient(self.perform, service=service, region=region)

    def tick(self) -> None:
        """Let happen what is due by the clock. Every call does so too."""
        with self._lock:
            self._lifecycle.advance()

    def interrupt(self, instance_id: str, notice_s: float | None = None) -> None:
        """Give a spot instance notice: it is taken away when that is over.

        Args:
            instance_id: Instance.
            notice_s: Length; None takes that of the market, 120 s unless it says otherwise.

        Raises:
            KeyError: There is no such instance.
        """
        with self._lock:
            self._lifecycle.advance()
            self._lifecycle.give_notice(
                self._account.instances[instance_id], at=self._account.clock.now(), notice_s=notice_s
            )
            self._lifecycle.advance()

    def recommend_rebalance(self, instance_id: str) -> None:
        """Recommend to leave an instance, which may or may not be taken away later.

        Raises:
            KeyError: There is no such instance.
        """
        with self._lock:
            self._lifecycle.advise(self._account.instances[instance_id], at=self._account.clock.now())

    def instances(self) -> tuple[Instance, ...]:
        """All instances that ever were, oldest first, as they are now."""
        with self._lock:
            self._lifecycle.advance()
            return tuple(self._account.instances.values())

    def bill(self) -> tuple[BilledInstance, ...]:
        """What each instance costs until now."""
        now = self._account.clock.now()
        return tuple(bill_of(instance, now=now) for instance in self.instances())

    def close(self) -> None:
        """End everything that runs on instances."""
        self.machines.close()


def _fail(fault: Fault, call: Call) -> None:
    """What a fault makes of an answer; nothing where it only takes time."""
    if fault.raw is not None:
        raise RawAnswerError((fault.status or 200, {"Content-Type": fault.content_type}, fault.raw.encode()))
    if fault.code:
        raise AwsError(fault.code, fault.message, status=fault.status)
    if fault.lost or fault.after:
        raise AnswerLostError(f"the answer to {call.action} is lost")
