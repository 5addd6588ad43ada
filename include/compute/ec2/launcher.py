"""Launches the instances of a lease on EC2: at most one launching call is ever open, and none is ever forgotten.

Order of a launch: replay the call that has no answer yet, look by tag for what nobody wrote down, and only then go
through the rounds of the candidates. Whatever came with a call and is not wanted is terminated before the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from include.compute.ec2.clients import Ec2Clients
from include.compute.ec2.errors import Action, Kind, code_of, message_of, verdict_of
from include.compute.ec2.fleet import FleetAnswer, FleetError, market_of, read_answer
from include.compute.ec2.inventory import Instance, describe
from include.compute.ec2.launch_log import LaunchAnswer, LaunchIntent, LaunchLog
from include.compute.ec2.launch_plan import LaunchPlanner, candidates_of
from include.compute.ec2.launch_refusals import Refusals
from include.compute.ec2.permissions import check_changes, check_looks
from include.compute.lease_keys import LeaseKeys
from include.config.settings import Settings
from include.core.clock import Clock, iso
from include.core.contracts.lease import LaunchRequest
from include.core.errors import GroupClosedError, LaunchRefusedError, NoCapacityError, PlimsollError
from include.core.json_codec import to_json
from include.core.store import ObjectStore

_log = logging.getLogger("plimsoll.compute")

# Pauses before the same call is made again with the same token, in seconds.
PAUSES_S = (1.0, 3.0, 8.0)
# After how long a refused or unanswered launch may be tried again, in seconds.
RETRY_AFTER_S = 60.0


class Launcher:
    """Launches leases.

    Args:
        store: The object store.
        settings: Settings of the installation.
        clients: AWS clients.
        clock: Source of time.
        installation: Digest of the installation.
    """

    def __init__(
        self, *, store: ObjectStore, settings: Settings, clients: Ec2Clients, clock: Clock, installation: str
    ) -> None:
        self._store = store
        self._clients = clients
        self._clock = clock
        self._installation = installation
        self._template = settings.ec2_launch_template
        self._planner = LaunchPlanner(settings=settings, clients=clients, clock=clock, installation=installation)

    def launch(self, request: LaunchRequest) -> None:
        """See to it that the lease has its instances.

        Raises:
            GroupClosedError: The lease was told to stop.
            NoCapacityError: Nothing can be had now, or EC2 gives no clear answer; the same request may come again.
            LaunchRefusedError: A quota, a permission or a parameter forbids it.
        """
        keys = LeaseKeys(request.lease_id)
        self._refuse_if_stopped(keys)
        self._store.create_json(keys.spec, to_json(request))
        log = self.log_of(request.lease_id)
        intent, answer = log.last()
        if intent is not None and answer is None:
            answer = self._carry_out(log, intent, again=True)
        if answer is not None and answer.instances:
            return
        self._rounds(log, request, last=answer)

    def undo(self, lease_id: str) -> None:
        """End what a launch has brought, without looking at it; the lease is not launched again.

        Raises:
            botocore.exceptions.ClientError: EC2 refuses that too; the agent leaves by the mark all the same.
        """
        mark = {"reason": "cannot be looked at", "at": iso(self._clock.now())}
        self._store.create_json(LeaseKeys(lease_id).stop, mark)
        _, answer = self.log_of(lease_id).last()
        self._terminate(answer.instances if answer else ())

    def log_of(self, lease_id: str) -> LaunchLog:
        """The launch log of a lease."""
        return LaunchLog(store=self._store, lease_id=lease_id, installation=self._installation, clock=self._clock)

    def _refuse_if_stopped(self, keys: LeaseKeys) -> None:
        if self._store.exists(keys.stop):
            raise GroupClosedError(f"lease {keys.lease_id} was told to stop and is not launched again")

    def _adopt(self, log: LaunchLog, request: LaunchRequest, last: LaunchAnswer | None) -> bool:
        """Take over instances that carry the lease's tags but stand in no answer, as after the loss of a log."""
        known = set() if last is None else {*last.discarded}
        found = [each for each in self._tagged(request.lease_id) if each.works and each.instance_id not in known]
        if not found:
            return False
        ids = tuple(sorted(each.instance_id for each in found))
        if len(ids) != request.instances:
            self._terminate(ids)
            return False
        number = 1 if last is None else last.number + 1
        intent = log.begin(number=number, parameters={}, request=request)
        kept = log.close(intent, instances=ids)
        _log.warning("lease %s already had instances that no launch wrote down: %s", request.lease_id, ", ".join(ids))
        return bool(kept.instances)

    def _rounds(self, log: LaunchLog, request: LaunchRequest, *, last: LaunchAnswer | None) -> None:
        """Go through the candidates until a round brings instances."""
        refusals = Refusals(request.lease_id)
        first = number = 1 if last is None else last.number + 1
        if number == 1:
            self._check_looks(request)
        with prepared():
            site = self._planner.site(request)
        rounds = self._planner.rounds(request, site, refusals)
        while True:
            with prepared():
                pools = next(rounds, None)
            if pools is None:
                raise refusals.error(retry_after_s=RETRY_AFTER_S)
            parameters = self._planner.parameters(request, pools, site, number=number)
            if number == 1:
                check_changes(self._clients.launching(), fleet=parameters, installation=self._installation)
            if number == first:
                with prepared():
                    if self._adopt(log, request, last):
                        return
            intent = log.begin(number=number, parameters=parameters, request=request)
            answer = self._carry_out(log, intent)
            if answer.instances:
                return
            refusals.note(answer.errors, market=market_of(pools[0].candidate))
            number += 1

    def _check_looks(self, request: LaunchRequest) -> None:
        check_looks(
            self._clients.reading(),
            self._clients.launching(),
            template=self._template,
            instance_type=candidates_of(request, region="")[0].instance_type,
            installation=self._installation,
        )

    def _carry_out(self, log: LaunchLog, intent: LaunchIntent, *, again: bool = False) -> LaunchAnswer:
        """Make the call of an intent, or make it again, and write down what came of it.

        Raises:
            NoCapacityError: EC2 gives no clear answer; without a definite one the intent stays open.
        """
        keys = LeaseKeys(intent.request.lease_id)
        # The agent finds its price among the candidates of the launch that really happens.
        self._store.put_json(keys.spec, to_json(intent.request))
        brought = self._call(log, intent, keys, again=again)
        wanted = intent.request.instances
        ids, errors = brought.instances, _as_errors(brought.errors)
        whole = len(ids) == wanted
        if ids and not whole:
            _log.warning("lease %s: %s of %s instances came, all are ended", keys.lease_id, len(ids), wanted)
            self._terminate(ids)
            errors = (*errors, {"code": "InsufficientInstanceCapacity", "message": f"{len(ids)} of {wanted} came"})
        answer = log.close(
            intent,
            instances=ids if whole else (),
            discarded=() if whole else ids,
            errors=errors,
            fleet_id=brought.fleet_id,
        )
        # A slower process may bring what another one has already judged, or what was stopped meanwhile.
        strays = set(ids) - {*answer.instances, *answer.discarded}
        stopped = self._store.exists(keys.stop)
        self._terminate(sorted({*ids} if stopped else strays))
        if stopped:
            self._refuse_if_stopped(keys)
        return answer

    def _call(self, log: LaunchLog, intent: LaunchIntent, keys: LeaseKeys, *, again: bool) -> FleetAnswer:
        """The call, with pauses and the same token while EC2 gives no clear answer."""
        unclear = again
        for pause in (*PAUSES_S, None):
            self._refuse_if_stopped(keys)
            try:
                return read_answer(
                    self._clients.launching().create_fleet(**intent.parameters, ClientToken=intent.token)
                )
            except Exception as error:  # noqa: BLE001 - `code_of` raises what did not come of the call
                verdict, message = verdict_of(code_of(error)), message_of(error)
            _log.warning("lease %s, launch %s: %s: %s", keys.lease_id, intent.number, verdict.code, message)
            unclear = unclear or not verdict.definite
            if not verdict.definite and (found := self._made_by(intent)):
                return found
            if verdict.action is not Action.SAME_TOKEN:
                return FleetAnswer(fleet_id="", instances=(), errors=(FleetError(code=verdict.code, message=message),))
            if pause is not None:
                self._clock.sleep(pause)
        if not unclear:
            log.close(intent, errors=({"code": verdict.code, "message": message, "instance_type": ""},))
        # Where it is unclear no answer is written: whoever comes next makes the same call again.
        raise NoCapacityError(
            f"EC2 gives no clear answer to a launch ({verdict.code}: {message}); it is tried again",
            retry_after_s=RETRY_AFTER_S,
        )

    def _made_by(self, intent: LaunchIntent) -> FleetAnswer | None:
        """What a call without a clear answer has made after all, in whatever state it is now."""
        try:
            found = [each for each in self._tagged(intent.request.lease_id) if each.launch == intent.number]
        except Exception as error:  # noqa: BLE001 - the lookup only saves a replay
            _log.info("lease %s cannot be looked up: %s", intent.request.lease_id, code_of(error))
            return None
        if len(found) < intent.request.instances:
            return None
        return FleetAnswer(fleet_id="", instances=tuple(sorted(each.instance_id for each in found)), errors=())

    def _tagged(self, lease_id: str) -> tuple[Instance, ...]:
        return describe(self._clients.reading(), installation=self._installation, lease_id=lease_id)

    def _terminate(self, ids: Iterable[str]) -> None:
        """End what is not wanted; what cannot be ended is named, and the dead man and the reaper remain.

        Raises:
            botocore.exceptions.ClientError: EC2 refuses, also after pauses.
        """
        wanted = list(ids)
        for pause in (*PAUSES_S, None) if wanted else ():
            try:
                self._clients.launching().terminate_instances(InstanceIds=wanted)
            except Exception as error:
                code = code_of(error)
                # What was launched a moment ago may not be known yet where it is to be ended.
                passing = code == "InvalidInstanceID.NotFound" or verdict_of(code).action is Action.SAME_TOKEN
                if passing and pause is not None:
                    self._clock.sleep(pause)
                    continue
                _log.exception("instances %s could not be ended", ", ".join(wanted))
                raise
            return


def _as_errors(errors: Iterable[FleetError]) -> tuple[dict[str, str], ...]:
    return tuple({"code": each.code, "message": each.message, "instance_type": each.instance_type} for each in errors)


@contextmanager
def prepared() -> Iterator[None]:
    """Errors of EC2 before anything is launched, as what a caller of a launch can act on."""
    try:
        yield
    except PlimsollError:
        raise
    except Exception as error:
        verdict = verdict_of(code_of(error))
        text = f"{getattr(error, 'operation_name', 'EC2')}: {verdict.code}: {message_of(error)}"
        if verdict.action in {Action.SAME_TOKEN, Action.NEW_TOKEN}:
            raise NoCapacityError(f"EC2 does not answer: {text}", retry_after_s=RETRY_AFTER_S) from error
        todo = "allow it, see docs/how-to/rent-on-ec2.md" if verdict.kind is Kind.AUTH else ""
        raise LaunchRefusedError("a launch cannot be prepared; nothing was launched", found=text, todo=todo) from error
