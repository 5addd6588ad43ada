"""What a URL in a setting may hold, and how it is shown: credentials in it are told nobody."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_USER_INFO = re.compile(r"://[^\s]*@")
_QUERY = re.compile(r"(://[^\s?]*)\?[^\s]*")
_DATABASE = re.compile(r"(sqlite(\+[a-z0-9_]+)?:///[^?]|postgres(ql)?(\+[a-z0-9_]+)?://)")
_LOCAL = "file://"


def has_credentials(url: str) -> bool:
    """Whether the URL of a store names a user, a password or a key: none of these belongs to a bucket or a folder."""
    if url.startswith(_LOCAL):
        return False
    rest = url.partition("://")[2]
    bucket = rest.partition("/")[0]
    return "@" in bucket or ":" in bucket or "?" in rest


def without_credentials(text: str) -> str:
    """The text with all that stands where a URL has its user, password and query replaced; a folder is as it was."""
    if text.startswith(_LOCAL):
        return text
    return _QUERY.sub(r"\1?***", _USER_INFO.sub("://***@", text))


def is_database_url(url: str) -> bool:
    """Whether it has the form of a ledger's URL: SQLite on a file, or PostgreSQL; a port is a number."""
    if not _DATABASE.match(url):
        return False
    try:
        # Read for its check alone.
        _ = urlsplit(url).port
    except ValueError:
        return False
    return True
