"""Reads every setting before anything is done, and tells all mistakes at once, one line each."""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path

from pydantic import ValidationError

from include.config.settings import REPO, Settings
from include.config.settings_mistakes import mistake, mistakes_of, variable_of
from include.core.errors import UserError
from stack import ec2_local
from stack.errors import SettingsError
from stack.installation import StackSettings

# Set by the installation itself, for jobs, workers and machine images.
_NO_SETTINGS = ("ALIVE_FILE", "JOB_DIR", "NODE", "RENDEZVOUS", "TORCH", "KEEP_PICTURES", "EC2_DOUBLE_INSTANCE")
_PREFIX = "PLIMSOLL_"
_NEAR = 0.75


def read_settings(environ: dict[str, str] | None = None) -> StackSettings:
    """Settings of the stack, after those of the engine were looked at too; names that are none are told on stderr.

    Raises:
        SettingsError: One or more of them cannot be used; one line per mistake.
    """
    source = dict(os.environ) if environ is None else environ
    lines = _of_the_stack(source) + _of_the_engine(source)
    if lines:
        raise SettingsError("\n".join(lines))
    for line in unknown_names(source):
        print(line, file=sys.stderr)
    return StackSettings.from_environment(source)


def unknown_names(source: dict[str, str]) -> list[str]:
    """A warning for each variable that looks like a setting and is none, with the names that are near."""
    known = [variable_of(name) for model in (Settings, StackSettings) for name in model.model_fields]
    own = tuple(_PREFIX + name for name in _NO_SETTINGS)
    lines = []
    for name in sorted(source):
        if not name.startswith(_PREFIX) or name in known or name.startswith(own):
            continue
        # What all names begin with would make every one near.
        bare = [each.removeprefix(_PREFIX) for each in known]
        near = difflib.get_close_matches(name.removeprefix(_PREFIX), bare, n=3, cutoff=_NEAR)
        names = f" | near: {', '.join(_PREFIX + each for each in near)}" if near else ""
        lines.append(f"warning: {name} is no setting and has no effect{names}")
    return lines


def refuse_what_a_run_lacks(settings: StackSettings, environ: dict[str, str] | None = None) -> None:
    """Refuse settings with which a run can only fail, before it does any work.

    What ends leases does not ask this: it must work without a quota file and without a worker image.

    Args:
        settings: Settings of the stack that the run is for.
        environ: Variables of this process, for tests.

    Raises:
        SettingsError: One or more of them; one line per mistake.
    """
    source = dict(os.environ) if environ is None else environ
    if settings.ec2_double:
        source = source | ec2_local.settings_variables()
    engine = Settings.from_environment(source)
    lines = []
    if engine.quota_file and not (REPO / engine.quota_file).is_file():
        lines.append(mistake(variable_of("quota_file"), engine.quota_file, _quota_choice(engine.quota_file)))
    if engine.engine == "ec2" and not (engine.ec2_worker_image or engine.ec2_worker_wheel):
        lines.append(
            "PLIMSOLL_ENGINE=ec2 has nothing to start on an instance | "
            "do: set PLIMSOLL_EC2_WORKER_IMAGE or PLIMSOLL_EC2_WORKER_WHEEL, see docs/how-to/rent-on-ec2.md"
        )
    if lines:
        raise SettingsError("\n".join(lines))


def _quota_choice(text: str) -> str:
    home = " ('~' is not written out)" if Path(text).parts[:1] == ("~",) else ""
    return f"a file, by an absolute path or from {REPO}{home}"


def _of_the_stack(source: dict[str, str]) -> list[str]:
    try:
        StackSettings.from_environment(source)
    except ValidationError as error:
        return mistakes_of(error, StackSettings, source)
    return []


def _of_the_engine(source: dict[str, str]) -> list[str]:
    try:
        Settings.from_environment(source)
    except UserError as error:
        return str(error).splitlines()
    return []
