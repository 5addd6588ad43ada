"""Secrets: made once per installation, private, never shown."""

import json
import stat

from stack.credentials import load_or_create
from stack.installation import Installation


def test_files_are_private_and_the_second_call_changes_nothing(installation):
    first = load_or_create(installation)
    assert {stat.S_IMODE(path.stat().st_mode) for path in installation.secrets.iterdir()} == {0o600}
    assert load_or_create(installation) == first
    assert len(list(installation.secrets.iterdir())) == 4


def test_two_installations_share_no_secret(tmp_path):
    found = []
    for name in ("a", "b"):
        made = Installation(repo=tmp_path, var=tmp_path / name)
        made.create()
        secrets = load_or_create(made)
        found += [secrets.jwt_secret, secrets.api_secret, secrets.fernet_key, secrets.password("admin")]
        assert secrets.password("admin") != secrets.password("viewer")
    assert len(set(found)) == 8


def test_a_file_that_was_opened_up_is_closed_again(installation):
    load_or_create(installation)
    (installation.secrets / "jwt_secret").chmod(0o644)
    load_or_create(installation)
    assert stat.S_IMODE((installation.secrets / "jwt_secret").stat().st_mode) == 0o600


def test_the_repr_shows_no_secret(installation):
    secrets = load_or_create(installation)
    shown = repr(secrets)
    assert secrets.jwt_secret not in shown
    assert json.loads(secrets.passwords_file.read_text())["admin"] not in shown
