"""Fixtures of the stack's tests: an installation in a temporary folder, a fake HTTP server, processes to end."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from include.core.process import identify
from stack.installation import Installation
from stack.record import Process


@pytest.fixture
def installation(tmp_path):
    """An empty installation with its folders."""
    made = Installation(repo=tmp_path / "repo", var=tmp_path / "var")
    made.create()
    return made


class FakeServer:
    """Answers what a test laid down: (method, path) -> (status, JSON value or text), or a list of them in turn."""

    def __init__(self):
        self.answers = {}
        self.requests = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                entry = (self.command, self.path, json.loads(body) if body else None, self.headers.get("Authorization"))
                outer.requests.append(entry)
                found = outer.answers.get((self.command, self.path), (404, {"detail": "Not Found"}))
                if isinstance(found, list):
                    found = found.pop(0) if len(found) > 1 else found[0]
                status, value = found
                data = (value if isinstance(value, str) else json.dumps(value)).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_PUT = _answer  # noqa: N815 - names of the standard library

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server():
    fake = FakeServer()
    fake.answers[("POST", "/auth/token")] = (201, {"access_token": "t1"})
    yield fake
    fake.close()


@pytest.fixture
def sleeper():
    """``sleeper(ignore_term=False, **popen)``: a process that sleeps, as recorded; all are ended after the test."""
    started = []

    def start(*, ignore_term=False, **options):
        code = "import signal, sys, time\n"
        code += "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if ignore_term else ""
        code += "print('up', flush=True)\ntime.sleep(300)\n"
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, **options)
        started.append(process)
        assert process.stdout.readline() == "up\n"
        return process, Process(**identify(process.pid).to_json())

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()
