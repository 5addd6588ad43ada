"""Where one installation keeps its things, and the settings of the stack itself (``PLIMSOLL_VAR``, ports)."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from include.config.schedule import Edge
from stack.errors import SettingsError

REPO = Path(__file__).resolve().parents[1]
# sun_path holds 108 bytes including the closing zero, and supervisor binds a longer temporary name first.
_LONGEST_SOCKET_PATH = 80
_PRIVATE = 0o700


class StackSettings(Edge):
    """Settings of the stack itself. Every field is set by ``PLIMSOLL_<NAME>``."""

    var: Path = Field(default=REPO / "var", description="Folder of everything the installation writes.")
    port_airflow: int | None = Field(
        default=None, ge=1, le=65535, description="Port of Airflow. Not set: 8080 or the next free one."
    )
    port_mlflow: int | None = Field(
        default=None, ge=1, le=65535, description="Port of MLflow. Not set: 5000 or the next free one."
    )
    port_serving: int | None = Field(
        default=None, ge=1, le=65535, description="Port of the model server. Not set: 8600 or the next free one."
    )
    port_ec2: int | None = Field(
        default=None, ge=1, le=65535, description="Port of the EC2 double. Not set: 8700 or the next free one."
    )
    ec2_double: bool = Field(
        default=False, description="Rent from an EC2 double on this machine; `make run ENGINE=ec2-local` sets it."
    )
    start_timeout_s: float = Field(
        default=240.0, gt=0, allow_inf_nan=False, description="How long a start may take until all is healthy."
    )

    @classmethod
    def from_environment(cls, environ: dict[str, str] | None = None) -> StackSettings:
        """Read ``PLIMSOLL_<NAME>`` variables; what is not set or empty keeps its default."""
        source = dict(os.environ) if environ is None else environ
        found = {name: source.get(f"PLIMSOLL_{name.upper()}") for name in cls.model_fields}
        return cls.model_validate({name: text for name, text in found.items() if text})


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The folders of one installation; several can live side by side.

    Attributes:
        repo: Root of the source tree.
        var: Root of everything that is written while running.
    """

    repo: Path
    var: Path

    @classmethod
    def of(cls, settings: StackSettings) -> Installation:
        """The installation that the settings point to.

        Raises:
            SettingsError: Its folder cannot be found out.
        """
        try:
            return cls(repo=REPO, var=settings.var.expanduser().resolve())
        except (OSError, RuntimeError) as error:  # an unknown ~user, a circle of links
            raise unusable(settings.var, error) from error

    @property
    def bin(self) -> Path:
        """Programs of the Python environment."""
        return self.repo / ".venv" / "bin"

    @property
    def run(self) -> Path:
        """State of the running stack: configuration, process records, sockets."""
        return self.var / "run"

    @property
    def logs(self) -> Path:
        """One log file per program."""
        return self.var / "logs"

    @property
    def secrets(self) -> Path:
        """Passwords and keys, each in a file of mode 600."""
        return self.var / "secrets"

    @property
    def airflow_home(self) -> Path:
        """Airflow's own folder, with its database and task logs."""
        return self.var / "airflow"

    @property
    def mlflow(self) -> Path:
        """MLflow's database and artefacts."""
        return self.var / "mlflow"

    @property
    def last_run(self) -> Path:
        """Summary of the last ``make run``."""
        return self.var / "last_run.json"

    @property
    def supervisor_config(self) -> Path:
        """Generated configuration of the process supervisor."""
        return self.run / "supervisord.conf"

    @property
    def supervisor_socket(self) -> Path:
        """Control socket of the process supervisor; kept short, since the kernel limits its path to 108 bytes."""
        path = self.run / "supervisor.sock"
        if len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH:
            return path
        name = hashlib.sha256(os.fsencode(self.var)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"plimsoll-{os.getuid()}-{name}" / "s.sock"

    def create(self) -> None:
        """Make the folders, readable by their owner only.

        Raises:
            SettingsError: They cannot be made or written to.
        """
        folders = (self.run, self.logs, self.secrets, self.airflow_home, self.mlflow, self.supervisor_socket.parent)
        try:
            self.var.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
            for folder in (self.var, *folders):
                folder.mkdir(exist_ok=True, mode=_PRIVATE)
                folder.chmod(_PRIVATE)
        except OSError as error:
            raise unusable(self.var, error) from error


def unusable(var: Path, error: Exception) -> SettingsError:
    """Why the folder of an installation cannot be used, in one line."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return SettingsError(
        f"PLIMSOLL_VAR cannot be used | found: {str(var)!r} ({reason}) | "
        "allowed: a folder of your own that can be made and written to"
    )
