"""Passwords and keys of one installation: made once, kept in files of mode 600, never printed."""

from __future__ import annotations

import base64
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from stack.installation import Installation

_PRIVATE_FILE = 0o600
USERS = {"admin": "admin", "viewer": "viewer"}  # user name -> role of Airflow's simple auth manager


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Secrets of one installation.

    Attributes:
        passwords_file: Passwords by user name, the file that Airflow reads.
        jwt_secret: Signs the tokens of Airflow's API; the same for all components.
        api_secret: Signs Airflow's sessions and file tokens.
        fernet_key: Encrypts connections in Airflow's database.
    """

    passwords_file: Path
    jwt_secret: str
    api_secret: str
    fernet_key: str

    def password(self, user: str) -> str:
        """Password of one user."""
        return str(json.loads(self.passwords_file.read_text())[user])

    def __repr__(self) -> str:
        """Nothing secret, since a repr ends up in logs."""
        return f"Credentials({self.passwords_file.parent})"


def load_or_create(installation: Installation) -> Credentials:
    """Read the secrets of an installation; what is missing is made."""
    folder = installation.secrets
    passwords = folder / "passwords.json"
    _create(passwords, json.dumps({user: secrets.token_urlsafe(12) for user in USERS}, indent=2))
    return Credentials(
        passwords_file=passwords,
        jwt_secret=_create(folder / "jwt_secret", secrets.token_urlsafe(64)),
        api_secret=_create(folder / "api_secret", secrets.token_urlsafe(32)),
        fernet_key=_create(folder / "fernet_key", base64.urlsafe_b64encode(os.urandom(32)).decode()),
    )


def _create(path: Path, text: str) -> str:
    """Write a new private file whole or not at all; an existing one is only read."""
    if not path.exists():
        part = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)
        with os.fdopen(descriptor, "w") as out:
            out.write(text)
        part.replace(path)
    path.chmod(_PRIVATE_FILE)
    return path.read_text()
