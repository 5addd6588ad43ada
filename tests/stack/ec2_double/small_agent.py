"""An agent for tests of its host: writes what it was given, keeps the file touched, ends by ``$AGENT_ENDS``."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

folder = Path.cwd()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
if os.environ.get("AGENT_IGNORES_TERM"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
given = {"lease": sys.argv[1], "environment": dict(os.environ), "child": child.pid}
(folder / "given.part").write_text(json.dumps(given))
(folder / "given.part").rename(folder / "given.json")


def metadata(path):
    base = os.environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"]
    ask = urllib.request.Request(
        f"{base}/latest/api/token", method="PUT", headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    )
    token = urllib.request.urlopen(ask).read().decode()
    ask = urllib.request.Request(f"{base}/latest/{path}", headers={"X-aws-ec2-metadata-token": token})
    try:
        return urllib.request.urlopen(ask).read().decode()
    except urllib.error.HTTPError as error:
        return str(error.code)


paths = ("meta-data/instance-type", "meta-data/instance-life-cycle", "meta-data/placement/availability-zone",
         "meta-data/spot/instance-action", "meta-data/events/recommendations/rebalance")  # fmt: skip
while not os.environ.get("AGENT_ENDS"):
    (folder / "metadata.part").write_text(json.dumps({path: metadata(path) for path in paths}))
    (folder / "metadata.part").rename(folder / "metadata.json")
    if not os.environ.get("AGENT_IS_SILENT"):
        Path(os.environ["PLIMSOLL_ALIVE_FILE"]).touch()
    time.sleep(0.05)
