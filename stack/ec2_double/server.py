"""The double over HTTP on 127.0.0.1: the endpoint of AWS clients in other processes."""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

from stack.ec2_double.control import PREFIX, answer_control
from stack.ec2_double.double import Ec2Double
from stack.ec2_double.errors import Answer, AnswerLostError

_log = logging.getLogger("plimsoll.ec2_double")

LOOPBACK = "127.0.0.1"
_TICK_S = 0.2


class DoubleServer:
    """Serves a double and lets time pass in it, in threads of their own.

    Args:
        double: The double.
        port: Port; 0 takes a free one.
    """

    def __init__(self, double: Ec2Double, *, port: int = 0) -> None:
        self._double = double
        self._server = _Server(double, port)
        self._over = threading.Event()
        self._threads = (
            threading.Thread(target=self._server.serve_forever, args=(0.1,), name="ec2-double", daemon=True),
            threading.Thread(target=self._tick, name="ec2-double-time", daemon=True),
        )

    @property
    def url(self) -> str:
        """Endpoint for AWS clients."""
        return f"http://{LOOPBACK}:{self._server.server_port}"

    def start(self) -> None:
        """Serve."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Serve no more and end what runs on instances."""
        self._over.set()
        self._server.shutdown()
        for thread in self._threads:
            thread.join()
        self._server.server_close()
        self._double.close()

    def _tick(self) -> None:
        while not self._over.wait(_TICK_S):
            try:
                self._double.tick()
            except Exception:  # noqa: BLE001 - time has to go on: what one instance does must not stop the others
                _log.exception("an event of the double failed")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, double: Ec2Double, port: int) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.double = double


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Clients keep connections; one that is gone must not hold a thread for ever.
    timeout = 60
    # An answer leaves in one piece: else each waits for the client's delayed acknowledgement, 40 ms.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        double = cast("_Server", self.server).double
        body = self._body()
        try:
            if self.path.startswith(PREFIX):
                answer = answer_control(double, method=self.command, path=self.path, body=body)
            else:
                answer = double.handle(self.command, self.path, dict(self.headers), body)
        except AnswerLostError:
            self._cut()
            return
        except Exception:  # noqa: BLE001 - the caller gets a 500, the log the reason
            _log.exception("%s %s", self.command, self.path)
            answer = 500, {"Content-Type": "text/plain"}, b"the double failed, see its log"
        self._answer(answer)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = _serve  # noqa: N815 - names of http.server

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _answer(self, answer: Answer) -> None:
        status, headers, body = answer
        self.send_response(status)
        for name, value in headers.items():
            # The length of the body that a HEAD request would bring is moto's to know.
            if name.lower() != "content-length" or self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _cut(self) -> None:
        """End the connection without a byte of an answer."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the signature of http.server
        """One line per request at level debug."""
        _log.debug(format, *args)
