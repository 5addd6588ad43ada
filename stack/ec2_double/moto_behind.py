"""Moto's application, called in this process: it answers for what the double does not hold itself."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from stack.ec2_double.errors import Answer, AwsError
from stack.ec2_double.wire import HttpRequest

_ACCOUNT = "x-moto-account-id"
_NOT_HOP = frozenset({"connection", "transfer-encoding", "content-length", "host"})
# Moto's application takes requests one at a time here: its models are shared by the whole process.
_LOCK = threading.RLock()


@cache
def _client() -> Any:  # noqa: ANN401 - werkzeug is a dev extra
    try:
        from moto.moto_server.werkzeug_app import (  # noqa: PLC0415 - moto is a dev extra and slow to import
            DomainDispatcherApplication,
            create_backend_app,
        )
        from werkzeug.test import Client  # noqa: PLC0415 - comes with moto
    except ImportError as error:
        raise AwsError(
            "Unavailable", "this call is answered by moto, which is not installed: pip install -r requirements/dev.in"
        ) from error
    return Client(DomainDispatcherApplication(create_backend_app), use_cookies=False)


def ask_moto(request: HttpRequest, *, account_id: str) -> Answer:
    """Moto's answer for an account of its own, so that doubles and other users of moto do not meet.

    Raises:
        AwsError: Moto is not installed, or does not know the action.
    """
    host = next((value for name, value in request.headers.items() if name.lower() == "host"), "localhost")
    passed = {name: value for name, value in request.headers.items() if name.lower() not in _NOT_HOP}
    try:
        with _LOCK:
            answer = _client().open(
                request.path,
                method=request.method,
                headers={**passed, _ACCOUNT: account_id},
                data=request.body,
                base_url=f"http://{host}",
            )
            content = answer.get_data()
    except NotImplementedError as error:
        # Served by moto's own server this would be a page of HTML, which no client can read.
        raise AwsError("UnsupportedOperation", f"neither the double nor moto has this: {error}") from error
    kept = {name: value for name, value in answer.headers.items() if name.lower() not in _NOT_HOP - {"content-length"}}
    return answer.status_code, kept, content
